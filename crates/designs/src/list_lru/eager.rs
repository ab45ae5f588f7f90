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
use super::arrays::Arrays;
use super::ledger::Ledger;
use super::link::One;
use crate::Error;
use crate::kernel::list_lru::ONE;
use crate::lists::{LruKey, Parts, What};

/// A row of pointers for each list_lru and node.
pub(crate) struct Eager {
    nodes: usize,
    arrays: Arrays,
    heads: Arena<One>,
}

impl Eager {
    /// For a machine of `nodes` nodes.
    pub(crate) fn new(nodes: u8) -> Self {
        Self { nodes: nodes.into(), arrays: Arrays::default(), heads: Arena::new(1) }
    }

    fn row(&self, lru: LruKey, node: u8) -> usize {
        lru.0 as usize * self.nodes + usize::from(node)
    }
}

impl Generation for Eager {
    fn summary(&self) -> &'static str {
        "A list for every group that there could be, on every node, made with the list_lru."
    }

    fn take_id(&mut self, ledger: &mut Ledger) -> Result<u32, Error> {
        let (id, made) = self.arrays.take_id(ledger, || self.heads.alloc())?;
        ledger.made(What::Heads, ONE, made);
        Ok(id)
    }

    fn put_id(&mut self, id: u32) {
        self.arrays.put_id(id);
    }

    fn add_lru(&mut self, ledger: &mut Ledger) {
        for _ in 0..self.nodes {
            let made = self.arrays.add(ledger, || self.heads.alloc());
            ledger.made(What::Heads, ONE, made);
        }
    }

    fn remove_lru(&mut self, lru: LruKey, ledger: &mut Ledger) {
        for node in 0..self.nodes {
            let array = self.arrays.remove(self.row(lru, node as u8), ledger);
            ledger.freed(What::Heads, ONE, array.len() as u64);
            array.into_iter().for_each(|head| self.heads.free(head));
        }
    }

    fn prepare(&mut self, _: LruKey, _: u32, _: &mut Ledger) {} // all is there

    fn head(&self, lru: LruKey, id: u32, node: u8) -> Option<&One> {
        self.heads.get(self.arrays.get(self.row(lru, node), id))?.first()
    }

    fn head_mut(&mut self, lru: LruKey, id: u32, node: u8) -> Option<&mut One> {
        self.heads.get_mut(self.arrays.get(self.row(lru, node), id))?.first_mut()
    }

    fn retire(&mut self, _: LruKey, _: u32, _: &mut Ledger) {} // the heads wait for the next group of this id

    fn heads(&self) -> u64 {
        self.heads.values()
    }

    fn here(&self) -> Parts {
        Parts { heads: self.heads.bytes(), index: self.arrays.here(), ..Parts::default() }
    }
}
