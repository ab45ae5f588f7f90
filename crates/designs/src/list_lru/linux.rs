//! What no generation of Linux's list_lru changed: groups, items, the lists for objects of nobody, and that a removed
//! group's lists pass to its parent.
//!
//! Follows `mm/list_lru.c`: `list_lru_add()`, `list_lru_del()`, `memcg_reparent_list_lrus()`
//! (`memcg_drain_all_list_lrus()` until 5.17). There is one caller at a time, so locks and grace periods of the kernel
//! are not here; the order of steps is.

use super::Generation;
use super::groups::Groups;
use super::ledger::Ledger;
use super::link::{Items, One};
use crate::kernel::Kmalloc;
use crate::kernel::list_lru::ROOT_NODE;
use crate::lists::{ItemKey, ListDesign, ListError, ListUsage, LruKey, Made, Parts, ShrinkerKey, What};
use crate::shrinker::Registry;
use crate::{Error, GroupKey};

/// `struct list_lru_node`: the list for objects of nobody on one node. Aligned to a cache line, as the kernel's.
#[repr(align(64))]
#[derive(Clone)]
struct Node {
    one: One,
    number: u64, // nr_items, over all groups
}

const _: () = assert!(size_of::<Node>() as u64 == ROOT_NODE);

struct Lru {
    shrinker: ShrinkerKey,
    nodes: Box<[Node]>,
}

/// One release of Linux: a generation of list_lru and one of shrinker state.
pub(crate) struct Linux {
    name: &'static str,
    nodes: u8,
    lists: Box<dyn Generation>,
    shrinkers: Registry,
    groups: Groups,
    items: Items,
    lrus: Vec<Option<Lru>>, // none: removed
    ledger: Ledger,
}

impl Linux {
    /// A machine of `nodes` nodes without groups and mounts.
    pub(crate) fn new(
        name: &'static str,
        lists: Box<dyn Generation>,
        shrinkers: Registry,
        nodes: u8,
        kmalloc: Kmalloc,
    ) -> Self {
        Self {
            name,
            nodes,
            lists,
            shrinkers,
            groups: Groups::default(),
            items: Items::new(),
            lrus: Vec::new(),
            ledger: Ledger::new(kmalloc),
        }
    }

    /// What a list_lru itself takes: a `list_lru_node` for each node.
    fn lru_bytes(&self) -> u64 {
        u64::from(self.nodes) * size_of::<Node>() as u64
    }

    fn lru(&self, key: LruKey) -> Result<&Lru, ListError> {
        self.lrus.get(key.0 as usize).and_then(Option::as_ref).ok_or(ListError::UnknownLru(key))
    }

    /// The id of the nearest living ancestor; `None`: the root.
    fn living_id(&self, group: Option<GroupKey>) -> Result<Option<u32>, Error> {
        let living = group.map(|key| self.groups.living(key)).transpose()?.flatten();
        living.map(|key| self.groups.id(key)).transpose()
    }

    /// The list of a group itself.
    fn one(&self, lru: LruKey, group: Option<GroupKey>, node: u8) -> Option<&One> {
        let root = self.lru(lru).ok()?.nodes.get(usize::from(node))?;
        match group {
            None => Some(&root.one),
            Some(key) => self.lists.head(lru, self.groups.id(key).ok()?, node),
        }
    }

    /// Moves everything of one list to the parent's, and tells the parent's shrinker state: the parent now has something
    /// to give even if it had before, because its bit may just be going.
    fn reparent(&mut self, lru: LruKey, id: u32, parent: Option<GroupKey>, node: u8) -> Result<(), Error> {
        // `id` has a head here or had nothing to move; drained before its head goes anywhere.
        let Some(child) = self.lists.drain(lru, id, node).filter(|child| child.number > 0) else {
            return Ok(());
        };
        let parent_id = self.living_id(parent)?;
        let Some(entry) = &mut self.lrus[lru.0 as usize] else { return Ok(()) };
        let root = &mut entry.nodes[usize::from(node)].one;
        let heir = match parent_id {
            None => root,
            // Prepared with the child's; were it not, the root's list is where the items stay reachable.
            Some(id) => self.lists.head_mut(lru, id, node).unwrap_or(root),
        };
        self.items.splice(child, heir);
        if let Some(parent) = parent {
            self.shrinkers.set_bit(parent, node, entry.shrinker);
        }
        Ok(())
    }
}

impl ListDesign for Linux {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.lists.summary()
    }

    fn add_group(&mut self, parent: Option<GroupKey>) -> Result<GroupKey, ListError> {
        self.groups.check_parent(parent)?;
        let id = self.lists.take_id(&mut self.ledger)?;
        let key = self.groups.add(parent, id)?;
        self.shrinkers.add_group(key, &mut self.ledger);
        Ok(key)
    }

    fn remove_group(&mut self, group: GroupKey) -> Result<(), ListError> {
        let id = self.groups.removable(group)?;
        let parent = self.groups.parent(group);
        for lru in 0..self.lrus.len() {
            if self.lrus[lru].is_none() {
                continue;
            }
            let lru = LruKey(lru as u32);
            for node in 0..self.nodes {
                self.reparent(lru, id, parent, node)?;
            }
            self.lists.retire(lru, id, &mut self.ledger);
        }
        self.groups.remove(group);
        self.shrinkers.remove_group(group, parent, &mut self.ledger);
        self.lists.put_id(id);
        Ok(())
    }

    fn add_shrinker(&mut self) -> Result<ShrinkerKey, ListError> {
        Ok(self.shrinkers.add(&mut self.ledger)?)
    }

    fn remove_shrinker(&mut self, shrinker: ShrinkerKey) -> Result<(), ListError> {
        self.shrinkers.remove(shrinker)
    }

    fn add_lru(&mut self, shrinker: ShrinkerKey) -> Result<LruKey, ListError> {
        let key = LruKey(u32::try_from(self.lrus.len()).map_err(|_| Error::TooMany("list_lrus"))?);
        self.shrinkers.serve(shrinker)?;
        let nodes = vec![Node { one: One::EMPTY, number: 0 }; self.nodes.into()].into();
        self.lrus.push(Some(Lru { shrinker, nodes }));
        self.ledger.made(What::Lru, self.lru_bytes(), 1);
        self.lists.add_lru(&mut self.ledger);
        Ok(key)
    }

    fn remove_lru(&mut self, lru: LruKey) -> Result<(), ListError> {
        let Lru { shrinker, nodes } = self.lru(lru)?;
        let shrinker = *shrinker;
        let items = nodes.iter().map(|node| node.number).sum();
        if items > 0 {
            return Err(ListError::LruInUse { lru, items });
        }
        self.lists.remove_lru(lru, &mut self.ledger);
        self.ledger.freed(What::Lru, self.lru_bytes(), 1);
        self.lrus[lru.0 as usize] = None;
        self.shrinkers.release(shrinker);
        Ok(())
    }

    fn prepare(&mut self, lru: LruKey, group: Option<GroupKey>) -> Result<(), ListError> {
        self.lru(lru)?;
        let living = group.map(|key| self.groups.living(key)).transpose()?.flatten();
        // The ancestors' first: a group that goes must find its parent's lists. Their number is the depth of the tree.
        let (mut path, mut at) = (Vec::new(), living);
        while let Some(key) = at {
            let id = self.groups.id(key)?;
            if self.lists.head(lru, id, 0).is_some() {
                break;
            }
            path.push(id);
            at = self.groups.parent(key);
        }
        while let Some(id) = path.pop() {
            self.lists.prepare(lru, id, &mut self.ledger);
        }
        Ok(())
    }

    fn add(&mut self, lru: LruKey, group: Option<GroupKey>, node: u8) -> Result<ItemKey, ListError> {
        let living = group.map(|key| self.groups.living(key)).transpose()?.flatten();
        let id = living.map(|key| self.groups.id(key)).transpose()?;
        let entry = self.lrus.get_mut(lru.0 as usize).and_then(Option::as_mut);
        let entry = entry.ok_or(ListError::UnknownLru(lru))?;
        let root = entry.nodes.get_mut(usize::from(node));
        let root = root.ok_or(Error::UnknownNode { node, nodes: self.nodes })?;
        let one = match id {
            None => &mut root.one,
            Some(id) => self.lists.head_mut(lru, id, node).ok_or(ListError::NotPrepared(lru))?,
        };
        let item = self.items.push(one, lru, group, node)?;
        if let (1, Some(living)) = (one.number, living) {
            self.shrinkers.set_bit(living, node, entry.shrinker);
        }
        root.number += 1;
        Ok(item)
    }

    fn del(&mut self, item: ItemKey) -> Result<(), ListError> {
        let found = *self.items.get(item).ok_or(ListError::UnknownItem(item))?;
        let id = self.living_id(found.group)?;
        let entry = self.lrus.get_mut(found.lru.0 as usize).and_then(Option::as_mut);
        let root = &mut entry.ok_or(ListError::UnknownLru(found.lru))?.nodes[usize::from(found.node)];
        root.number -= 1;
        let one = match id {
            None => &mut root.one,
            Some(id) => self.lists.head_mut(found.lru, id, found.node).unwrap_or(&mut root.one),
        };
        self.items.remove(one, item);
        Ok(())
    }

    fn count(&self, lru: LruKey, group: Option<GroupKey>, node: u8) -> u64 {
        self.one(lru, group, node).map_or(0, |one| one.number.max(0) as u64)
    }

    fn walk(&self, lru: LruKey, group: Option<GroupKey>, node: u8, show: &mut dyn FnMut(ItemKey)) {
        if let Some(one) = self.one(lru, group, node) {
            self.items.walk(one, show);
        }
    }

    fn heads(&self) -> u64 {
        self.lists.heads()
    }

    fn usage(&self) -> ListUsage {
        let lrus = self.lrus.iter().flatten().count() as u64 * self.lru_bytes();
        let here = Parts { lrus, shrinkers: self.shrinkers.here(), ..self.lists.here() };
        ListUsage { kernel: self.ledger.bytes(), here }
    }

    fn made(&self) -> Vec<Made> {
        self.ledger.rows()
    }
}
