//! Keys of groups, their parents, and the id under which a generation knows each living one.

use crate::{Error, GroupKey};

/// Every group there ever was.
#[derive(Default)]
pub(crate) struct Groups {
    entries: Vec<Entry>,
}

struct Entry {
    parent: Option<GroupKey>,
    children: u32,   // living ones
    id: Option<u32>, // none once removed
}

impl Groups {
    /// Checks that a group can be made below `parent`.
    pub(crate) fn check_parent(&self, parent: Option<GroupKey>) -> Result<(), Error> {
        parent.map_or(Ok(()), |p| self.id(p).map(|_| ()))
    }

    /// A new group below a parent that was checked.
    pub(crate) fn add(&mut self, parent: Option<GroupKey>, id: u32) -> Result<GroupKey, Error> {
        let key = GroupKey(u32::try_from(self.entries.len()).map_err(|_| Error::TooMany("groups"))?);
        if let Some(parent) = parent {
            self.entries[parent.0 as usize].children += 1;
        }
        self.entries.push(Entry { parent, children: 0, id: Some(id) });
        Ok(key)
    }

    /// The id of a living group.
    pub(crate) fn id(&self, key: GroupKey) -> Result<u32, Error> {
        let entry = self.entries.get(key.0 as usize).ok_or(Error::UnknownGroup(key))?;
        entry.id.ok_or(Error::RemovedGroup(key))
    }

    /// Its parent's key; `None`: the root.
    pub(crate) fn parent(&self, key: GroupKey) -> Option<GroupKey> {
        self.entries.get(key.0 as usize)?.parent
    }

    /// Checks that the group can be removed; its id.
    pub(crate) fn removable(&self, key: GroupKey) -> Result<u32, Error> {
        let id = self.id(key)?;
        if self.entries[key.0 as usize].children > 0 {
            return Err(Error::GroupHasChildren(key));
        }
        Ok(id)
    }

    /// Removes a group that was checked: from now on it stands for its parent.
    pub(crate) fn remove(&mut self, key: GroupKey) {
        self.entries[key.0 as usize].id = None;
        if let Some(parent) = self.parent(key) {
            self.entries[parent.0 as usize].children -= 1;
        }
    }

    /// The group itself if it lives, else its nearest living ancestor; `None`: the root.
    pub(crate) fn living(&self, key: GroupKey) -> Result<Option<GroupKey>, Error> {
        let mut at = Some(key);
        while let Some(key) = at {
            let entry = self.entries.get(key.0 as usize).ok_or(Error::UnknownGroup(key))?;
            if entry.id.is_some() {
                break;
            }
            at = entry.parent;
        }
        Ok(at)
    }
}
