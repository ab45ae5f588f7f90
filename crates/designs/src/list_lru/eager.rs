//! D1, Linux 4.0 to 5.17: a list for every group that there could be, on every node, made with the list_lru.
//!
//! ```text
//!   list_lru ─ node 0 ─ array[memcg_nr_cache_ids] ─┬─► head of id 0
//!              node 1 ─ array[…]                   ├─► head of id 1
//!                                                  └─► …          each an allocation of its own
//! ```
//! Follows `mm/list_lru.c` of 5.10: `memcg_init_list_lru_node()`, `memcg_update_list_lru_node()`. Whoever mounts pays
//! for all groups; the group that grows `memcg_nr_cache_ids` pays for all mounts; nothing is freed before the umount.

use super::Generation;
use super::arena::Arena;
use super::ledger::Ledger;
use super::link::{Link, One};
use crate::Error;
use crate::linux_5_8::ids::KmemIds;
use crate::lists::{LruKey, Parts, What};

/// Bytes of `struct list_lru_one`.
const HEAD: u64 = size_of::<One>() as u64;

/// `struct list_lru_memcg` up to 5.17: an RCU head, then a pointer for each id. No ids, no array.
pub(super) fn array(ids: usize) -> u64 {
    if ids == 0 { 0 } else { 16 + 8 * ids as u64 }
}

/// Arrays of pointers to heads.
pub(crate) struct Eager {
    nodes: usize,
    ids: KmemIds,
    lrus: Vec<Option<Box<[Vec<Link>]>>>, // an array a node; none: removed
    heads: Arena<One>,
    pointers: u64, // in all arrays
}

impl Eager {
    /// For a machine of `nodes` nodes.
    pub(crate) fn new(nodes: u8) -> Self {
        Self {
            nodes: nodes.into(),
            ids: KmemIds::default(),
            lrus: Vec::new(),
            heads: Arena::new(1),
            pointers: 0,
        }
    }

    /// `memcg_update_list_lru_node()` for each node: a larger array, and the heads that are missing.
    fn grow(&mut self, lru: usize, ledger: &mut Ledger) {
        let size = self.ids.size() as usize;
        let Some(nodes) = &mut self.lrus[lru] else { return };
        for old in nodes {
            ledger.freed(What::Index, array(old.len()), 1);
            ledger.made(What::Index, array(size), 1);
            ledger.made(What::Heads, HEAD, (size - old.len()) as u64);
            self.pointers += (size - old.len()) as u64;
            old.reserve_exact(size - old.len());
            old.resize_with(size, || self.heads.alloc());
        }
    }

    fn slot(&self, lru: LruKey, id: u32, node: u8) -> Option<Link> {
        let nodes = self.lrus.get(lru.0 as usize)?.as_ref()?;
        nodes.get(usize::from(node))?.get(id as usize).copied()
    }
}

impl Generation for Eager {
    fn summary(&self) -> &'static str {
        "A list for each group there could be, on each node, in each list_lru, made in advance."
    }

    fn take_id(&mut self, ledger: &mut Ledger) -> Result<u32, Error> {
        let size = self.ids.size();
        let id = self.ids.take()?;
        if self.ids.size() > size {
            (0..self.lrus.len()).for_each(|lru| self.grow(lru, ledger));
        }
        Ok(id)
    }

    fn put_id(&mut self, id: u32) {
        self.ids.put(id);
    }

    fn add_lru(&mut self, ledger: &mut Ledger) {
        self.lrus.push(Some(vec![Vec::new(); self.nodes].into()));
        self.grow(self.lrus.len() - 1, ledger);
    }

    fn remove_lru(&mut self, lru: LruKey, ledger: &mut Ledger) {
        for array_of in self.lrus[lru.0 as usize].take().into_iter().flatten() {
            ledger.freed(What::Index, array(array_of.len()), 1);
            ledger.freed(What::Heads, HEAD, array_of.len() as u64);
            self.pointers -= array_of.len() as u64;
            array_of.into_iter().for_each(|head| self.heads.free(head));
        }
    }

    fn prepare(&mut self, _: LruKey, _: u32, _: &mut Ledger) {} // all is there

    fn head(&self, lru: LruKey, id: u32, node: u8) -> Option<&One> {
        self.heads.get(self.slot(lru, id, node)?)?.first()
    }

    fn head_mut(&mut self, lru: LruKey, id: u32, node: u8) -> Option<&mut One> {
        self.heads.get_mut(self.slot(lru, id, node)?)?.first_mut()
    }

    fn retire(&mut self, _: LruKey, _: u32, _: &mut Ledger) {} // the head waits for the next group with this id

    fn here(&self) -> Parts {
        Parts { heads: self.heads.bytes(), index: 8 * self.pointers, ..Parts::default() }
    }
}
