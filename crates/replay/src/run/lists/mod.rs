//! The list_lrus and the shrinker state of one design over one program.
//!
//! Apart from the slabs' own run: few of a trace's steps touch lists, and designs with the same slabs have different
//! lists. What the recording tells of lists is made a [`Plan`] once; each design then follows it.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use tenalloc_designs::lists::{ItemKey, ListDesign, ListError, ListUsage, LruKey, Mount, Parts};
use tenalloc_designs::{GroupKey, Machine};
use tenalloc_trace::Program;
use tenalloc_trace::program::GroupId;

pub(in crate::run) use self::plan::Plan;
use self::plan::{Event, List};
use super::error::Error;
use super::sample::times;
use crate::report;

/// What a design's lists came to.
pub(super) struct Found {
    /// Bytes at the times of [`times`].
    pub(super) series: Vec<ListUsage>,
    pub(super) at_peak: ListUsage,
    pub(super) at_end: ListUsage,
    pub(super) made: Vec<report::Made>,
    pub(super) used: u64,
    /// One sentence on how they work.
    pub(super) summary: &'static str,
}

struct Run<'a> {
    program: &'a Program,
    design: Box<dyn ListDesign>,
    keys: HashMap<GroupId, GroupKey>,
    older: Vec<LruKey>,
    mounts: HashMap<u32, (Mount, Vec<ItemKey>)>,
    used: u64,
}

/// Runs the design called `name` along the plan.
pub(super) fn drive(program: &Program, plan: &Plan, name: &str, machine: &Machine) -> Result<Found, Error> {
    let refused = |op: usize, what: &'static str| {
        let design = name.to_owned();
        move |source| Error::Lists { design, step: op, what, source }
    };
    let design = tenalloc_designs::lists::by_name(name, machine)
        .ok_or_else(|| Error::UnknownDesign(name.to_owned()))?
        .map_err(refused(0, "start"))?;
    let (keys, mounts) = (HashMap::new(), HashMap::new());
    let mut run = Run { program, design, keys, older: Vec::new(), mounts, used: 0 };
    run.stand(plan.older).map_err(refused(0, "an older list_lru"))?;
    let mut times = times(program.length_ns).into_iter().peekable();
    let (mut series, mut at_peak) = (Vec::new(), None);
    for step in &plan.steps {
        while times.next_if(|time| *time < step.time.min(program.length_ns)).is_some() {
            series.push(run.design.usage());
        }
        if step.op > program.peak_op && at_peak.is_none() {
            at_peak = Some(run.design.usage());
        }
        run.step(step.event).map_err(refused(step.op, step.event.told()))?;
    }
    let at_end = run.design.usage();
    series.extend(times.map(|_| at_end));
    let made = run.design.made().into_iter().map(|m| report::Made {
        what: format!("{:?}", m.what).to_lowercase(),
        asked: m.asked,
        taken: m.taken,
        made: m.made,
        live: m.live,
    });
    let (used, summary) = (run.used, run.design.summary());
    Ok(Found { series, at_peak: at_peak.unwrap_or(at_end), at_end, made: made.collect(), used, summary })
}

impl Run<'_> {
    /// Lists that stand before the recording: two a mount, and one of another kind.
    fn stand(&mut self, lists: u32) -> Result<(), ListError> {
        for n in 0..lists.div_ceil(2) {
            let shrinker = self.design.add_shrinker()?;
            for _ in 0..(lists - 2 * n).min(2) {
                self.older.push(self.design.add_lru(shrinker)?);
            }
        }
        Ok(())
    }

    /// The key of a group, or of the nearest above it that lives; none: the root, to which the kernel charges nothing.
    fn living(&self, group: GroupId) -> Option<GroupKey> {
        std::iter::successors(Some(group), |g| self.parent(*g)).find_map(|g| self.keys.get(&g).copied())
    }

    fn parent(&self, group: GroupId) -> Option<GroupId> {
        self.program.groups.get(group.0 as usize)?.parent
    }

    fn step(&mut self, event: Event) -> Result<(), ListError> {
        match event {
            Event::Create(group) => {
                if self.program.groups.get(group.0 as usize).is_some_and(|g| g.charged) {
                    let above = self.parent(group).and_then(|g| self.living(g));
                    let key = self.design.add_group(above)?;
                    self.keys.insert(group, key);
                }
            }
            Event::Remove(group) => self.remove(group)?,
            Event::Mount(n) => {
                let mount = Mount::new(self.design.as_mut())?;
                self.mounts.insert(n, (mount, Vec::new()));
            }
            Event::Unmount(n) => {
                if let Some((mount, items)) = self.mounts.remove(&n) {
                    items.into_iter().try_for_each(|item| self.design.del(item))?;
                    mount.remove(self.design.as_mut())?;
                }
            }
            Event::Use(group, list, cpu) => {
                let group = self.living(group);
                let lru = match list {
                    List::Older(n) => self.older.get(n as usize).copied(),
                    List::Of(n, inodes) => {
                        self.mounts.get(&n).map(|(m, _)| if inodes { m.inodes } else { m.dentries })
                    }
                };
                let Some(lru) = lru else { return Ok(()) };
                let node = self.program.cpu_node.get(usize::from(cpu)).copied().unwrap_or(0);
                self.design.prepare(lru, group)?;
                let item = self.design.add(lru, group, node)?;
                if let List::Of(n, _) = list
                    && let Some((_, items)) = self.mounts.get_mut(&n)
                {
                    items.push(item);
                }
                self.used += 1;
            }
        }
        Ok(())
    }

    /// Removes a group, and first those below it whose removals were lost.
    fn remove(&mut self, group: GroupId) -> Result<(), ListError> {
        let Some(key) = self.keys.remove(&group) else { return Ok(()) };
        let mut below: Vec<GroupId> =
            self.keys.keys().copied().filter(|g| *g > group && self.is_below(*g, group)).collect();
        // Numbers grow downwards: the lowest first.
        below.sort_unstable_by(|a, b| b.cmp(a));
        for child in below {
            if let Some(key) = self.keys.remove(&child) {
                self.design.remove_group(key)?;
            }
        }
        self.design.remove_group(key)
    }

    fn is_below(&self, group: GroupId, above: GroupId) -> bool {
        std::iter::successors(self.parent(group), |g| self.parent(*g)).any(|g| g == above)
    }
}

impl Event {
    fn told(self) -> &'static str {
        match self {
            Self::Create(_) => "a new group",
            Self::Remove(_) => "the removal of a group",
            Self::Mount(_) => "a mount",
            Self::Unmount(_) => "an unmount",
            Self::Use(..) => "the first use of a list",
        }
    }
}

/// The same for a report.
pub(super) fn parts(parts: &Parts) -> report::Lists {
    let Parts { heads, index, lrus, shrinkers } = *parts;
    report::Lists { heads, index, lrus, shrinkers }
}
