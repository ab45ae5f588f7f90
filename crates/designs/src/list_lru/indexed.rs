//! D4, Linux 5.18 to 6.12: the array gives way to a sparse tree, and groups are found by the id that they have anyway.
//!
//! ```text
//!   list_lru ─ tree(id) ─► [RCU head, head of node 0, head of node 1, …]       nothing at all while nobody uses it
//! ```
//! Follows `mm/list_lru.c` at commits bbca91cca9a9 and f9c69d6346bc (patches 12 to 16): `memcg_list_lru_alloc()`,
//! `memcg_reparent_list_lrus()`. No bulk growth and no `memcg_nr_cache_ids`. One user among many groups costs three tree
//! nodes, 1,728 bytes, for 64 bytes of heads.
//!
//! 6.13 changed the head and nothing else, so what a head is stands apart: [`Head`], here that of D4.

use super::Generation;
use super::arena::{Arena, Value};
use super::ledger::Ledger;
use super::link::{Link, One};
use super::trees::Trees;
use crate::Error;
use crate::kernel::list_lru::{ONE, RCU};
use crate::lists::{LruKey, Parts, What};

/// What a release makes of `struct list_lru_one`.
pub(crate) trait Head: Value {
    /// What the kernel takes for one, bytes.
    const BYTES: u64;

    /// One sentence on how lists of such heads work.
    const SUMMARY: &'static str;

    /// The list, if it lives.
    fn one(&self) -> Option<&One>;

    /// The same, to change it.
    fn one_mut(&mut self) -> Option<&mut One>;

    /// Empties the list, whose group goes; what was on it.
    fn drain(&mut self) -> Option<One>;
}

impl Head for One {
    const BYTES: u64 = ONE;
    const SUMMARY: &'static str =
        "Lists are made with a group's first object and found through a tree of 64-way nodes.";

    fn one(&self) -> Option<&One> {
        Some(self)
    }

    fn one_mut(&mut self) -> Option<&mut One> {
        Some(self)
    }

    fn drain(&mut self) -> Option<One> {
        Some(self.take())
    }
}

/// A tree for each list_lru.
pub(crate) struct Indexed<H> {
    bytes: u64, // of a group's heads
    trees: Trees,
    heads: Arena<H>, // a run for all nodes
}

impl<H: Head> Indexed<H> {
    /// For a machine of `nodes` nodes.
    pub(crate) fn new(nodes: u8) -> Self {
        let bytes = RCU + H::BYTES * u64::from(nodes);
        Self { bytes, trees: Trees::new(), heads: Arena::new(nodes.into()) }
    }

    fn at(&mut self, lru: LruKey, id: u32, node: u8) -> Option<&mut H> {
        self.heads.get_mut(self.trees.get(lru.0 as usize, id))?.get_mut(usize::from(node))
    }

    fn free(&mut self, run: Link, ledger: &mut Ledger) {
        if run != Link::NONE {
            ledger.freed(What::Heads, self.bytes, 1);
            self.heads.free(run);
        }
    }
}

impl<H: Head> Generation for Indexed<H> {
    fn summary(&self) -> &'static str {
        H::SUMMARY
    }

    fn take_id(&mut self, _: &mut Ledger) -> Result<u32, Error> {
        self.trees.take_id()
    }

    fn put_id(&mut self, id: u32) {
        self.trees.put_id(id);
    }

    fn add_lru(&mut self, _: &mut Ledger) {
        self.trees.add();
    }

    fn remove_lru(&mut self, lru: LruKey, ledger: &mut Ledger) {
        for run in self.trees.remove(lru.0 as usize, ledger) {
            self.free(run, ledger);
        }
    }

    fn prepare(&mut self, lru: LruKey, id: u32, ledger: &mut Ledger) {
        if self.trees.get(lru.0 as usize, id) == Link::NONE {
            ledger.made(What::Heads, self.bytes, 1);
            self.trees.insert(lru.0 as usize, id, self.heads.alloc(), ledger);
        }
    }

    fn head(&self, lru: LruKey, id: u32, node: u8) -> Option<&One> {
        self.heads.get(self.trees.get(lru.0 as usize, id))?.get(usize::from(node))?.one()
    }

    fn head_mut(&mut self, lru: LruKey, id: u32, node: u8) -> Option<&mut One> {
        self.at(lru, id, node)?.one_mut()
    }

    fn drain(&mut self, lru: LruKey, id: u32, node: u8) -> Option<One> {
        self.at(lru, id, node)?.drain()
    }

    fn retire(&mut self, lru: LruKey, id: u32, ledger: &mut Ledger) {
        let run = self.trees.erase(lru.0 as usize, id, ledger);
        self.free(run, ledger);
    }

    fn heads(&self) -> u64 {
        self.heads.values()
    }

    fn here(&self) -> Parts {
        Parts { heads: self.heads.bytes(), index: self.trees.here(), ..Parts::default() }
    }
}
