//! tenalloc's own list_lru behind the calls of the historic ones.
//!
//! The lists, their index and what shrinkers need are those of the crate `tenalloc`; here are only keys, and objects for
//! items to lie in. What a list costs is read off the library ([`ListLru::bytes`]) and divided into parts by what an empty
//! list_lru and one with one user have taken here. Shrinker state is the 8 bytes of carried pressure in each list.

use crate::list_lru::groups::Groups;
use crate::lists::{ItemKey, ListDesign, ListError, ListUsage, LruKey, Made, Parts, ShrinkerKey};
use crate::{Error, GroupKey, Machine};
use core::ptr::NonNull;
use std::collections::HashMap;
use tenalloc::{
    Cache, CacheConfig, Config, Controller, Group, ListLru, LruItem, LruStatus, Scanned, Shrinker, Topology,
};

/// Bytes of carried pressure in a list.
const CARRIED: u64 = 8;

/// Gives nothing back: bound because users bind one.
struct Bound;

impl Shrinker for Bound {
    fn scan(&self, _: &ListLru, _: &Group, _: u8, number: u64) -> Scanned {
        Scanned { looked_at: number, stop: true, ..Scanned::default() }
    }
}

/// The design.
pub(crate) struct Ours {
    nodes: u8,
    keys: Groups,
    lrus: Vec<Option<Lru>>,      // none: removed
    shrinkers: Vec<Option<u32>>, // list_lrus that each serves; none: removed
    items: Vec<Option<Item>>,    // none: free
    free: Vec<u32>,              // of those
    groups: Vec<Option<Group>>,  // none: removed
    cache: Cache,                // of objects that are nothing but an item
    empty: u64,                  // bytes of a list_lru without users
    user: u64,                   // bytes that one user adds
    ctl: Controller,
}

struct Lru {
    lru: ListLru,
    shrinker: ShrinkerKey,
    items: u64,
}

struct Item {
    object: NonNull<u8>,
    lru: LruKey,
}

impl Ours {
    /// A machine without groups and mounts.
    ///
    /// # Errors
    /// The machine cannot be run on, or there is no memory.
    pub(crate) fn new(machine: &Machine) -> Result<Self, ListError> {
        machine.check()?;
        let topology = Topology::simulated(machine.nodes, machine.nodes.into());
        let config = Config::new().hardened(false).topology(topology);
        let ctl = Controller::new(config).map_err(Error::from)?;
        let cache = ctl.cache(&CacheConfig::new("item", size_of::<LruItem>())).map_err(Error::from)?;
        let (empty, user) = Self::probe(&ctl).map_err(Error::from)?;
        Ok(Self {
            nodes: machine.nodes,
            keys: Groups::default(),
            lrus: Vec::new(),
            shrinkers: Vec::new(),
            items: Vec::new(),
            free: Vec::new(),
            groups: Vec::new(),
            cache,
            empty,
            user,
            ctl,
        })
    }

    /// Bytes of a list_lru without users, and what the first user adds.
    fn probe(ctl: &Controller) -> tenalloc::Result<(u64, u64)> {
        let lru = ListLru::new(ctl, 0)?;
        let empty = lru.bytes();
        let group = ctl.root().create("probe")?;
        lru.prepare(&group)?;
        let used = lru.bytes();
        group.remove()?;
        Ok((empty, used - empty))
    }

    fn lru(&self, key: LruKey) -> Result<&Lru, ListError> {
        self.lrus.get(key.0 as usize).and_then(Option::as_ref).ok_or(ListError::UnknownLru(key))
    }

    /// The group itself if it lives, else its nearest living ancestor; `None`: the root.
    fn living(&self, group: Option<GroupKey>) -> Result<Option<&Group>, Error> {
        let living = group.map(|key| self.keys.living(key)).transpose()?.flatten();
        Ok(living.and_then(|key| self.alive(key)))
    }

    fn alive(&self, key: GroupKey) -> Option<&Group> {
        self.groups.get(key.0 as usize)?.as_ref()
    }

    /// The list_lru and the group of a list, if both are there.
    fn list(&self, lru: LruKey, group: Option<GroupKey>) -> Option<(&ListLru, Group)> {
        let group = match group {
            None => self.ctl.root(),
            Some(key) => self.alive(key)?.clone(),
        };
        Some((&self.lru(lru).ok()?.lru, group))
    }
}

impl ListDesign for Ours {
    fn name(&self) -> &'static str {
        "tenalloc"
    }

    fn summary(&self) -> &'static str {
        "Lists are made with a group's first object; two users need no index, more a small hash."
    }

    fn add_group(&mut self, parent: Option<GroupKey>) -> Result<GroupKey, ListError> {
        self.keys.check_parent(parent)?;
        let name = format!("g{}", self.groups.len());
        let above = parent.and_then(|key| self.alive(key)).cloned().unwrap_or_else(|| self.ctl.root());
        let group = above.create(&name).map_err(Error::from)?;
        let key = self.keys.add(parent, 0)?;
        self.groups.push(Some(group));
        Ok(key)
    }

    fn remove_group(&mut self, group: GroupKey) -> Result<(), ListError> {
        self.keys.removable(group)?;
        if let Some(alive) = self.alive(group) {
            alive.remove().map_err(Error::from)?;
        }
        self.groups[group.0 as usize] = None;
        self.keys.remove(group);
        Ok(())
    }

    fn add_shrinker(&mut self) -> Result<ShrinkerKey, ListError> {
        let key = u32::try_from(self.shrinkers.len()).map_err(|_| Error::TooMany("shrinkers"))?;
        self.shrinkers.push(Some(0));
        Ok(ShrinkerKey(key))
    }

    fn remove_shrinker(&mut self, shrinker: ShrinkerKey) -> Result<(), ListError> {
        match self.shrinkers.get_mut(shrinker.0 as usize) {
            None | Some(None) => Err(ListError::UnknownShrinker(shrinker)),
            Some(Some(lrus)) if *lrus > 0 => Err(ListError::ShrinkerInUse { shrinker, lrus: *lrus }),
            Some(slot) => {
                *slot = None;
                Ok(())
            }
        }
    }

    fn add_lru(&mut self, shrinker: ShrinkerKey) -> Result<LruKey, ListError> {
        let key = LruKey(u32::try_from(self.lrus.len()).map_err(|_| Error::TooMany("list_lrus"))?);
        let serves = self.shrinkers.get_mut(shrinker.0 as usize).and_then(Option::as_mut);
        let serves = serves.ok_or(ListError::UnknownShrinker(shrinker))?;
        let lru = ListLru::new(&self.ctl, 0).map_err(Error::from)?;
        lru.set_shrinker(&Bound);
        *serves += 1;
        self.lrus.push(Some(Lru { lru, shrinker, items: 0 }));
        Ok(key)
    }

    fn remove_lru(&mut self, lru: LruKey) -> Result<(), ListError> {
        let Lru { items, shrinker, .. } = *self.lru(lru)?;
        if items > 0 {
            return Err(ListError::LruInUse { lru, items });
        }
        self.lrus[lru.0 as usize] = None;
        if let Some(Some(lrus)) = self.shrinkers.get_mut(shrinker.0 as usize) {
            *lrus -= 1;
        }
        Ok(())
    }

    fn prepare(&mut self, lru: LruKey, group: Option<GroupKey>) -> Result<(), ListError> {
        let lru = &self.lru(lru)?.lru;
        match self.living(group)? {
            Some(group) => Ok(lru.prepare(group).map_err(Error::from)?),
            None => Ok(()),
        }
    }

    fn add(&mut self, lru: LruKey, group: Option<GroupKey>, node: u8) -> Result<ItemKey, ListError> {
        self.lru(lru)?;
        if node >= self.nodes {
            return Err(Error::UnknownNode { node, nodes: self.nodes }.into());
        }
        let object = match self.living(group)? {
            Some(group) => self.cache.alloc_on(group, node),
            None => self.cache.alloc_unowned(Some(node)),
        };
        let object = object.map_err(Error::from)?;
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.items.push(None);
                u32::try_from(self.items.len() - 1).map_err(|_| Error::TooMany("items"))?
            }
        };
        // SAFETY: a fresh object of an item's size and alignment, which is on no list.
        unsafe { object.cast::<LruItem>().write(LruItem::new()) };
        let Some(entry) = &mut self.lrus[lru.0 as usize] else { return Err(ListError::UnknownLru(lru)) };
        // SAFETY: the object is live with an item at its start; `del` takes it off before it is freed.
        unsafe { entry.lru.add(object) };
        entry.items += 1;
        self.items[at as usize] = Some(Item { object, lru });
        Ok(ItemKey(at))
    }

    fn del(&mut self, item: ItemKey) -> Result<(), ListError> {
        let slot = self.items.get_mut(item.0 as usize).ok_or(ListError::UnknownItem(item))?;
        let Item { object, lru } = slot.take().ok_or(ListError::UnknownItem(item))?;
        self.free.push(item.0);
        if let Some(Some(entry)) = self.lrus.get_mut(lru.0 as usize) {
            entry.items -= 1;
            // SAFETY: the object is live, and on a list of this list_lru.
            unsafe { entry.lru.del(object) };
        }
        // SAFETY: it is on no list any more, and its key was just given up.
        Ok(unsafe { self.cache.free(object) }.map_err(Error::from)?)
    }

    fn count(&self, lru: LruKey, group: Option<GroupKey>, node: u8) -> u64 {
        self.list(lru, group).map_or(0, |(lru, group)| lru.count(&group, node))
    }

    fn walk(&self, lru: LruKey, group: Option<GroupKey>, node: u8, show: &mut dyn FnMut(ItemKey)) {
        let Some((lru, group)) = self.list(lru, group) else { return };
        let place = |(at, item): (usize, &Option<Item>)| Some((item.as_ref()?.object, ItemKey(at as u32)));
        let keys: HashMap<_, _> = self.items.iter().enumerate().filter_map(place).collect();
        let mut order = Vec::new();
        let look = |object| {
            order.extend(keys.get(&object));
            LruStatus::Skip
        };
        let mut budget = u64::MAX;
        lru.walk(&group, node, &mut budget, look, |_| {});
        order.into_iter().for_each(show);
    }

    fn heads(&self) -> u64 {
        let users = self.lrus.iter().flatten().map(|entry| entry.lru.groups());
        users.sum::<u64>() * u64::from(self.nodes)
    }

    fn usage(&self) -> ListUsage {
        let mut parts = Parts::default();
        let carried = CARRIED * u64::from(self.nodes);
        for Lru { lru, .. } in self.lrus.iter().flatten() {
            let users = lru.groups();
            parts.heads += users * (self.user - carried);
            parts.index += lru.bytes() - self.empty - users * self.user;
            parts.lrus += self.empty - carried;
            parts.shrinkers += (users + 1) * carried;
        }
        ListUsage { kernel: parts, here: parts }
    }

    fn made(&self) -> Vec<Made> {
        Vec::new()
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        for at in 0..self.items.len() {
            // An item that is on a list is deletable, and one that is not has no place here.
            let _ = self.del(ItemKey(at as u32));
        }
    }
}
