//! D2, patch 1 of the series: the heads of a group on all nodes lie together, so that one array is enough.
//!
//! ```text
//!   list_lru ─ array[memcg_nr_cache_ids] ─┬─► [head of node 0, head of node 1, …] of id 0
//!                                         └─► […] of id 1
//! ```
//! Follows `mm/list_lru.c` at commit 6a6b7b77cc0f: `memcg_init_list_lru()`. All arrays but one are saved, and for some
//! numbers of nodes a part of the heads, because `kmalloc` rounds them together: 4 × 24 = 96 instead of 4 × 32. On two
//! nodes it is 64 either way.

use super::Generation;
use super::arena::Arena;
use super::arrays::Arrays;
use super::ledger::Ledger;
use super::link::One;
use crate::Error;
use crate::kernel::list_lru::ONE;
use crate::lists::{LruKey, Parts, What};

/// A row of pointers for each list_lru.
pub(crate) struct Transposed {
    nodes: u64,
    arrays: Arrays,
    heads: Arena<One>, // a run for all nodes
}

impl Transposed {
    /// For a machine of `nodes` nodes.
    pub(crate) fn new(nodes: u8) -> Self {
        Self { nodes: nodes.into(), arrays: Arrays::default(), heads: Arena::new(nodes.into()) }
    }
}

impl Generation for Transposed {
    fn summary(&self) -> &'static str {
        "The lists of a group on all nodes lie together; one array instead of one a node."
    }

    fn take_id(&mut self, ledger: &mut Ledger) -> Result<u32, Error> {
        let (id, made) = self.arrays.take_id(ledger, || self.heads.alloc())?;
        ledger.made(What::Heads, ONE * self.nodes, made);
        Ok(id)
    }

    fn put_id(&mut self, id: u32) {
        self.arrays.put_id(id);
    }

    fn add_lru(&mut self, ledger: &mut Ledger) {
        let made = self.arrays.add(ledger, || self.heads.alloc());
        ledger.made(What::Heads, ONE * self.nodes, made);
    }

    fn remove_lru(&mut self, lru: LruKey, ledger: &mut Ledger) {
        let array = self.arrays.remove(lru.0 as usize, ledger);
        ledger.freed(What::Heads, ONE * self.nodes, array.len() as u64);
        array.into_iter().for_each(|run| self.heads.free(run));
    }

    fn prepare(&mut self, _: LruKey, _: u32, _: &mut Ledger) {} // all is there

    fn head(&self, lru: LruKey, id: u32, node: u8) -> Option<&One> {
        self.heads.get(self.arrays.get(lru.0 as usize, id))?.get(usize::from(node))
    }

    fn head_mut(&mut self, lru: LruKey, id: u32, node: u8) -> Option<&mut One> {
        self.heads.get_mut(self.arrays.get(lru.0 as usize, id))?.get_mut(usize::from(node))
    }

    fn retire(&mut self, _: LruKey, _: u32, _: &mut Ledger) {} // the heads wait for the next group of this id

    fn heads(&self) -> u64 {
        self.heads.values()
    }

    fn here(&self) -> Parts {
        Parts { heads: self.heads.bytes(), index: self.arrays.here(), ..Parts::default() }
    }
}
