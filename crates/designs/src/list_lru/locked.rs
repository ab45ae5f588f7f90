//! D5, Linux 6.13 on: a lock in each list instead of one a node, and a mark that says "dead, look at the parent".
//!
//! ```text
//!   list_lru ─ tree(id) ─► [RCU head, (lock, head) of node 0, (lock, head) of node 1, …]
//! ```
//! Follows `mm/list_lru.c` of 7.1: `lock_list_lru_of_memcg()`, `memcg_reparent_list_lru_one()`. Groups no longer wait
//! for each other, at 8 bytes a head: 96 bytes for two nodes where D4 took 64. Since one node lock no longer covers child
//! and parent, a removed group's list must say so itself: it is drained, then marked dead, then taken out of the tree. (6.13
//! to 7.1 took it out first, and a concurrent delete unlinked an item under the wrong lock.) There is one caller at a
//! time here, so the lock is 8 bytes that nobody waits for; order and mark are the kernel's.

use super::Generation;
use super::arena::{Arena, Value};
use super::ledger::Ledger;
use super::link::{Link, One};
use super::trees::Trees;
use crate::Error;
use crate::kernel::list_lru::{ONE_LOCKED, RCU};
use crate::lists::{LruKey, Parts, What};

/// What `nr_items` of a dead list is: `LONG_MIN`.
const DEAD: i64 = i64::MIN;

/// `struct list_lru_one` since 6.13.
#[derive(Clone)]
struct Head {
    one: One,
    _lock: u64, // spinlock_t and what aligns the next field
}

const _: () = assert!(size_of::<Head>() as u64 == ONE_LOCKED);

impl Value for Head {
    const NEW: Self = Self { one: One::EMPTY, _lock: 0 };

    fn free_link(&mut self) -> &mut Link {
        self.one.free_link()
    }
}

/// A tree for each list_lru.
pub(crate) struct Locked {
    bytes: u64, // of a group's heads
    trees: Trees,
    heads: Arena<Head>, // a run for all nodes
}

impl Locked {
    /// For a machine of `nodes` nodes.
    pub(crate) fn new(nodes: u8) -> Self {
        let bytes = RCU + ONE_LOCKED * u64::from(nodes);
        Self { bytes, trees: Trees::new(), heads: Arena::new(nodes.into()) }
    }

    fn free(&mut self, run: Link, ledger: &mut Ledger) {
        if run != Link::NONE {
            ledger.freed(What::Heads, self.bytes, 1);
            self.heads.free(run);
        }
    }
}

impl Generation for Locked {
    fn summary(&self) -> &'static str {
        "As in 5.18, with a lock in each list: groups no longer wait for each other."
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
        let head = self.heads.get(self.trees.get(lru.0 as usize, id))?.get(usize::from(node))?;
        Some(&head.one).filter(|one| one.number != DEAD)
    }

    fn head_mut(&mut self, lru: LruKey, id: u32, node: u8) -> Option<&mut One> {
        let head = self.heads.get_mut(self.trees.get(lru.0 as usize, id))?.get_mut(usize::from(node))?;
        Some(&mut head.one).filter(|one| one.number != DEAD)
    }

    fn drain(&mut self, lru: LruKey, id: u32, node: u8) -> Option<One> {
        let one = self.head_mut(lru, id, node)?;
        let drained = one.take();
        one.number = DEAD;
        Some(drained)
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
