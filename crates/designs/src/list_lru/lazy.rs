//! D3, patches 2 to 10 of the series: a group's heads are made when its first object for the list_lru is allocated.
//!
//! ```text
//!   list_lru ─ array[memcg_nr_cache_ids] ─┬─► nothing
//!                                         ├─► [head of node 0, head of node 1, …] of a group with objects
//!                                         └─► nothing …
//! ```
//! Follows `mm/list_lru.c` at commit 5abc1e37afa0: `memcg_list_lru_alloc()`, called by `kmem_cache_alloc_lru()` outside
//! all locks. Heads go when their group goes. The array is still there for all groups, in every list_lru: with few
//! users it is nearly all that is left, 128 KiB at 10,000 groups.

use super::Generation;
use super::arena::Arena;
use super::arrays::Arrays;
use super::ledger::Ledger;
use super::link::{Link, One};
use crate::Error;
use crate::kernel::list_lru::ONE;
use crate::lists::{LruKey, Parts, What};

/// A row of pointers for each list_lru, most of them to nothing.
pub(crate) struct Lazy {
    nodes: u64,
    arrays: Arrays,
    heads: Arena<One>, // a run for all nodes
}

impl Lazy {
    /// For a machine of `nodes` nodes.
    pub(crate) fn new(nodes: u8) -> Self {
        Self { nodes: nodes.into(), arrays: Arrays::default(), heads: Arena::new(nodes.into()) }
    }
}

impl Generation for Lazy {
    fn summary(&self) -> &'static str {
        "Lists are made with a group's first object; an array for all groups stays."
    }

    fn take_id(&mut self, ledger: &mut Ledger) -> Result<u32, Error> {
        self.arrays.take_id(ledger, || Link::NONE).map(|(id, _)| id)
    }

    fn put_id(&mut self, id: u32) {
        self.arrays.put_id(id);
    }

    fn add_lru(&mut self, ledger: &mut Ledger) {
        self.arrays.add(ledger, || Link::NONE);
    }

    fn remove_lru(&mut self, lru: LruKey, ledger: &mut Ledger) {
        for run in self.arrays.remove(lru.0 as usize, ledger) {
            if run != Link::NONE {
                ledger.freed(What::Heads, ONE * self.nodes, 1);
                self.heads.free(run);
            }
        }
    }

    fn prepare(&mut self, lru: LruKey, id: u32, ledger: &mut Ledger) {
        let Some(pointer) = self.arrays.get_mut(lru.0 as usize, id) else { return };
        if *pointer == Link::NONE {
            *pointer = self.heads.alloc();
            ledger.made(What::Heads, ONE * self.nodes, 1);
        }
    }

    fn head(&self, lru: LruKey, id: u32, node: u8) -> Option<&One> {
        self.heads.get(self.arrays.get(lru.0 as usize, id))?.get(usize::from(node))
    }

    fn head_mut(&mut self, lru: LruKey, id: u32, node: u8) -> Option<&mut One> {
        self.heads.get_mut(self.arrays.get(lru.0 as usize, id))?.get_mut(usize::from(node))
    }

    fn retire(&mut self, lru: LruKey, id: u32, ledger: &mut Ledger) {
        let Some(pointer) = self.arrays.get_mut(lru.0 as usize, id) else { return };
        let run = core::mem::replace(pointer, Link::NONE);
        if run != Link::NONE {
            ledger.freed(What::Heads, ONE * self.nodes, 1);
            self.heads.free(run);
        }
    }

    fn heads(&self) -> u64 {
        self.heads.values()
    }

    fn here(&self) -> Parts {
        Parts { heads: self.heads.bytes(), index: self.arrays.here(), ..Parts::default() }
    }
}
