//! The cgroups of a trace: what stood at its start, what was made and removed in it.

use crate::program::{Group, GroupId};
use hashbrown::{HashMap, HashSet};

/// The kernel's tracepoints cut paths at 1,024 bytes; these bounds only keep a damaged file from filling memory.
const LONGEST_PATH: usize = 4096;
const DEEPEST: usize = 128;

/// The tree.
pub(crate) struct Groups {
    list: Vec<Group>,
    /// The group that has this path now, or had it last.
    by_path: HashMap<String, GroupId>,
    /// Groups that stood before the recording, parents first.
    initial: Vec<GroupId>,
    late: Vec<GroupId>,
    /// Made with the group above them; their own mkdir is still to come.
    awaited: HashSet<GroupId>,
}

/// What a `cgroup_mkdir` meant.
pub(crate) struct Made {
    /// The new group.
    pub(crate) group: GroupId,
    /// Its parent.
    pub(crate) parent: GroupId,
    /// A group of the same path whose removal was not seen.
    pub(crate) replaced: Option<GroupId>,
    /// It was made before, or is among [`Groups::late`].
    pub(crate) known: bool,
}

impl Default for Groups {
    fn default() -> Self {
        let row = |path: &str| Group {
            path: path.into(),
            parent: None,
            charged: false,
            created: None,
            removed: None,
        };
        // UNKNOWN is charged in the kernel, we only do not know to whom.
        let unknown = Group { charged: true, ..row("(unknown)") };
        Self {
            list: vec![row("/"), unknown, row("(interrupt)"), row("(exited)")],
            by_path: HashMap::from([("/".to_owned(), GroupId::ROOT)]),
            initial: Vec::new(),
            late: Vec::new(),
            awaited: HashSet::new(),
        }
    }
}

impl Groups {
    /// The group with this path. One not seen before stood before the recording, unless a group above it was made in
    /// it: then its own mkdir was lost, and it is made now ([`Groups::late`]). Nothing for what is no path.
    pub(crate) fn named(&mut self, path: &str, time: u64) -> Option<GroupId> {
        if let Some(&g) = self.by_path.get(path) {
            return Some(g);
        }
        let parts = split(path)?;
        let (mut at, mut parent) = (String::new(), GroupId::ROOT);
        for part in parts {
            at.push('/');
            at.push_str(part);
            parent = match self.by_path.get(&at) {
                Some(&g) => g,
                None if self.stood_before(parent) => {
                    let g = self.push(&at, parent, None);
                    self.initial.push(g);
                    g
                }
                None => {
                    let g = self.push(&at, self.living(parent), Some(time));
                    self.late.push(g);
                    g
                }
            };
        }
        Some(parent)
    }

    /// Groups that [`Groups::named`] made in the midst of the recording, parents first.
    pub(crate) fn late(&mut self) -> Vec<GroupId> {
        std::mem::take(&mut self.late)
    }

    fn stood_before(&self, group: GroupId) -> bool {
        self.list.get(group.0 as usize).is_some_and(|g| g.created.is_none() && g.removed.is_none())
    }

    /// A group was made at `time`.
    pub(crate) fn mkdir(&mut self, path: &str, time: u64) -> Option<Made> {
        let parts = split(path)?;
        let (_, above) = parts.split_last()?;
        let parent_path = if above.is_empty() { "/".to_owned() } else { format!("/{}", above.join("/")) };
        let path = format!("/{}", parts.join("/"));
        let parent = self.named(&parent_path, time)?;
        if let Some(&group) = self.by_path.get(&path)
            && self.awaited.remove(&group)
        {
            return Some(Made { group, parent, replaced: None, known: true });
        }
        let replaced = self.by_path.get(&path).copied().filter(|&g| self.alive(g));
        if let Some(old) = replaced {
            self.remove(old, time);
        }
        // A parent that was removed cannot get children: its own mkdir was lost with other events.
        let parent = self.living(parent);
        Some(Made { group: self.push(&path, parent, Some(time)), parent, replaced, known: false })
    }

    /// Before a `cgroup_mkdir` in the first moments of a recording: if tasks were found in the group a moment later, it
    /// was taken for one that stood before. It did not, nor did any below it; they are made now.
    pub(crate) fn not_before(&mut self, path: &str, time: u64, used: impl Fn(GroupId) -> bool) {
        let Some(top) = self.by_path.get(path).copied().filter(|g| self.initial.contains(g)) else { return };
        let list = &self.list;
        let below = |g: &GroupId| {
            list.get(g.0 as usize)
                .and_then(|group| group.path.strip_prefix(path))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let (young, old): (Vec<GroupId>, Vec<GroupId>) = self.initial.iter().partition(|g| below(g));
        if young.iter().any(|&g| used(g)) {
            return;
        }
        self.initial = old;
        for &group in &young {
            if let Some(g) = self.list.get_mut(group.0 as usize) {
                g.created = Some(time);
            }
        }
        self.awaited.extend(&young);
        debug_assert_eq!(young.first(), Some(&top));
        self.late.extend(young);
    }

    /// A group was removed at `time`. Nothing when it is none or was removed before.
    pub(crate) fn rmdir(&mut self, path: &str, time: u64) -> Option<GroupId> {
        let group = self.named(path, time)?;
        (group >= GroupId::FIRST && self.alive(group)).then(|| {
            self.remove(group, time);
            group
        })
    }

    /// The group itself, or the nearest above it that was not removed: the kernel's owner passes to the parent.
    #[inline]
    pub(crate) fn living(&self, mut group: GroupId) -> GroupId {
        while let Some(g) = self.list.get(group.0 as usize)
            && g.removed.is_some()
        {
            group = g.parent.unwrap_or(GroupId::ROOT);
        }
        group
    }

    /// The group above.
    pub(crate) fn parent(&self, group: GroupId) -> Option<GroupId> {
        self.list.get(group.0 as usize)?.parent
    }

    /// Groups that stood before the recording, parents first.
    pub(crate) fn initial(&self) -> &[GroupId] {
        &self.initial
    }

    /// All groups.
    pub(crate) fn into_list(self) -> Vec<Group> {
        self.list
    }

    fn alive(&self, group: GroupId) -> bool {
        self.list.get(group.0 as usize).is_some_and(|g| g.removed.is_none())
    }

    fn remove(&mut self, group: GroupId, time: u64) {
        if let Some(g) = self.list.get_mut(group.0 as usize) {
            g.removed = Some(time);
        }
    }

    fn push(&mut self, path: &str, parent: GroupId, created: Option<u64>) -> GroupId {
        let id = GroupId(self.list.len() as u32);
        let group =
            Group { path: path.to_owned(), parent: Some(parent), charged: true, created, removed: None };
        self.list.push(group);
        self.by_path.insert(path.to_owned(), id);
        id
    }
}

fn split(path: &str) -> Option<Vec<&str>> {
    if !path.starts_with('/') || path.len() > LONGEST_PATH {
        return None;
    }
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    (parts.len() <= DEEPEST).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_only_named_stood_before_with_all_above_it() {
        let mut g = Groups::default();
        let c = g.named("/a/b/c", 0).unwrap();
        assert_eq!(g.named("/a/b/c", 0), Some(c));
        assert_eq!(g.named("/", 0), Some(GroupId::ROOT));
        let initial = g.initial().to_vec();
        let list = g.into_list();
        let paths: Vec<_> = initial.iter().map(|i| list[i.0 as usize].path.as_str()).collect();
        assert_eq!(paths, ["/a", "/a/b", "/a/b/c"]);
        assert!(list[c.0 as usize].created.is_none() && list[c.0 as usize].charged && !list[0].charged);
    }

    #[test]
    fn a_path_used_again_is_a_new_group() {
        let mut g = Groups::default();
        let first = g.mkdir("/g/x", 5).unwrap();
        assert_eq!(g.rmdir("/g/x", 7), Some(first.group));
        assert_eq!(g.rmdir("/g/x", 8), None);
        let second = g.mkdir("/g/x", 9).unwrap();
        assert_ne!(first.group, second.group);
        assert_eq!((first.parent, second.replaced), (second.parent, None));
        assert_eq!((g.named("/g/x", 0), g.living(first.group)), (Some(second.group), first.parent));
        // Its removal was lost.
        let third = g.mkdir("/g/x", 11).unwrap();
        assert_eq!(third.replaced, Some(second.group));
    }

    #[test]
    fn a_group_below_one_made_in_the_recording_is_made_in_it_too() {
        let mut g = Groups::default();
        let made = g.mkdir("/x", 5).unwrap();
        let below = g.named("/x/y/z", 8).unwrap();
        assert_eq!(g.late().len(), 2);
        g.rmdir("/x", 9);
        let after = g.named("/x/w", 10).unwrap();
        assert_eq!((g.late(), g.initial().len()), (vec![after], 0));
        let list = g.into_list();
        assert_eq!(
            (list[below.0 as usize].created, list[after.0 as usize].parent),
            (Some(8), Some(GroupId::ROOT))
        );
        assert_eq!(list[list[below.0 as usize].parent.unwrap().0 as usize].parent, Some(made.group));
    }

    #[test]
    fn a_group_whose_tasks_were_seen_before_its_mkdir_did_not_stand_before() {
        let mut g = Groups::default();
        let (below, beside) = (g.named("/a/x/y", 0).unwrap(), g.named("/a/xy", 0).unwrap());
        g.not_before("/a/x", 3, |group| group == below);
        assert!(g.late().is_empty() && g.initial().len() == 4, "an object of it is there");
        g.not_before("/a/x", 3, |_| false);
        let late = g.late();
        assert_eq!((late.len(), late[1], g.initial().len()), (2, below, 2));
        assert!(g.initial().contains(&beside));
        let first = g.mkdir("/a/x", 3).unwrap();
        let second = g.mkdir("/a/x/y", 4).unwrap();
        assert_eq!((first.group, first.known, first.replaced), (late[0], true, None));
        assert_eq!((second.group, second.known, second.parent), (below, true, late[0]));
        // Once more is another group.
        assert_eq!(g.mkdir("/a/x/y", 5).unwrap().replaced, Some(below));
        assert_eq!(g.into_list()[below.0 as usize].created, Some(3));
    }

    #[test]
    fn what_is_no_path_makes_no_group() {
        let mut g = Groups::default();
        assert!(g.named("g", 0).is_none() && g.named("", 0).is_none() && g.mkdir("/", 1).is_none());
        assert!(g.named(&"/x".repeat(5000), 0).is_none() && g.named(&"/x".repeat(129), 0).is_none());
        assert!(g.rmdir("/", 1).is_none() && g.into_list().len() == 4);
    }
}
