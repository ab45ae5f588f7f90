//! The tree of groups under the keys of [`Design`](crate::Design), each living one standing for a group of the engine.
//!
//! What every design needs and none changes: keys are checked, removed groups stand for their nearest living ancestor.

use crate::engine::{Engine, Group, Owner};
use crate::{Error, GroupKey};

/// Every group there ever was.
pub(crate) struct Groups {
    root: Group,
    entries: Vec<Entry>,
}

struct Entry {
    parent: Option<GroupKey>,
    alive: Option<Alive>, // none once removed
}

struct Alive {
    group: Group,
    owner: Owner,
    children: Vec<GroupKey>, // living ones
}

impl Groups {
    /// Nothing but the root, which has no key.
    pub(crate) fn new(engine: &Engine) -> Self {
        Self { root: engine.root(), entries: Vec::new() }
    }

    /// The key that [`add`](Self::add) would give next.
    pub(crate) fn next_key(&self) -> Result<GroupKey, Error> {
        u32::try_from(self.entries.len()).map(GroupKey).map_err(|_| Error::TooMany("groups"))
    }

    /// A new group below `parent`, or below the root.
    pub(crate) fn add(&mut self, parent: Option<GroupKey>, name: &str) -> Result<GroupKey, Error> {
        let key = self.next_key()?;
        let group = match parent {
            None => self.root.create(name)?,
            Some(parent) => {
                let above = self.alive_mut(parent)?;
                let group = above.group.create(name)?;
                above.children.push(key);
                group
            }
        };
        let owner = group.owner();
        self.entries.push(Entry { parent, alive: Some(Alive { group, owner, children: Vec::new() }) });
        Ok(key)
    }

    /// Checks that the group can be removed, and tells its parent.
    fn removable(&self, key: GroupKey) -> Result<Option<GroupKey>, Error> {
        match self.entries.get(key.0 as usize) {
            None => Err(Error::UnknownGroup(key)),
            Some(Entry { alive: None, .. }) => Err(Error::RemovedGroup(key)),
            Some(Entry { alive: Some(alive), .. }) if !alive.children.is_empty() => {
                Err(Error::GroupHasChildren(key))
            }
            Some(entry) => Ok(entry.parent),
        }
    }

    /// The same, and tells who inherits: the nearest ancestor that lives; `None`: the root.
    pub(crate) fn heir(&self, key: GroupKey) -> Result<Option<GroupKey>, Error> {
        Ok(self.removable(key)?.map(|parent| self.living(parent)).transpose()?.flatten())
    }

    /// Removes a group: from now on it stands for its parent.
    pub(crate) fn remove(&mut self, key: GroupKey) -> Result<(), Error> {
        let parent = self.removable(key)?;
        self.alive_mut(key)?.group.remove()?;
        self.entries[key.0 as usize].alive = None;
        if let Some(parent) = parent {
            self.alive_mut(parent)?.children.retain(|&child| child != key);
        }
        Ok(())
    }

    /// The group itself if it lives, else its nearest living ancestor; `None`: the root.
    #[inline]
    pub(crate) fn living(&self, key: GroupKey) -> Result<Option<GroupKey>, Error> {
        let mut at = key;
        loop {
            let entry = self.entries.get(at.0 as usize).ok_or(Error::UnknownGroup(at))?;
            if entry.alive.is_some() {
                return Ok(Some(at));
            }
            match entry.parent {
                Some(parent) => at = parent,
                None => return Ok(None),
            }
        }
    }

    /// The handle through which a living group is charged.
    pub(crate) fn owner(&self, key: GroupKey) -> Result<Owner, Error> {
        match self.entries.get(key.0 as usize) {
            None => Err(Error::UnknownGroup(key)),
            Some(Entry { alive: None, .. }) => Err(Error::RemovedGroup(key)),
            Some(Entry { alive: Some(alive), .. }) => Ok(alive.owner.clone()),
        }
    }

    /// Bytes that the engine holds charged to the group and its descendants; 0 if it does not live.
    pub(crate) fn exact(&self, key: GroupKey) -> u64 {
        self.alive(key).map_or(0, |alive| alive.group.exact())
    }

    /// Σ `own` over the group and its descendants; 0 if it does not live.
    pub(crate) fn sum(&self, key: GroupKey, own: &impl Fn(GroupKey) -> u64) -> u64 {
        let (mut sum, mut left) = (0, vec![key]);
        while let Some(key) = left.pop() {
            if let Some(alive) = self.alive(key) {
                sum += own(key);
                left.extend_from_slice(&alive.children);
            }
        }
        sum
    }

    fn alive(&self, key: GroupKey) -> Option<&Alive> {
        self.entries.get(key.0 as usize)?.alive.as_ref()
    }

    fn alive_mut(&mut self, key: GroupKey) -> Result<&mut Alive, Error> {
        match self.entries.get_mut(key.0 as usize) {
            None => Err(Error::UnknownGroup(key)),
            Some(entry) => entry.alive.as_mut().ok_or(Error::RemovedGroup(key)),
        }
    }
}
