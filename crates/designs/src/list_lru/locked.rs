//! D5, Linux 6.13 on: a lock in each list instead of one a node, and a mark that says "dead, look at the parent".
//!
//! ```text
//!   list_lru ─ tree(id) ─► [RCU head, (lock, head) of node 0, (lock, head) of node 1, …]
//! ```
//! Follows `mm/list_lru.c` of 7.1: `lock_list_lru_of_memcg()`, `memcg_reparent_list_lru_one()`. Groups no longer wait
//! for each other, at 8 bytes a head: 96 bytes for two nodes where D4 took 64. Since one node lock no longer covers child
//! and parent, a removed group's list must say so itself: it is drained, then marked dead, then taken out of the tree. (6.13
//! to 7.1 took it out first, and a concurrent delete unlinked an item under the wrong lock.) There is one caller at a
//! time here, so the lock is 8 bytes that nobody waits for; order and mark are the kernel's. All but the head is D4's.

use super::arena::Value;
use super::indexed::Head;
use super::link::{Link, One};
use crate::kernel::list_lru::ONE_LOCKED;

/// What `nr_items` of a dead list is: `LONG_MIN`.
const DEAD: i64 = i64::MIN;

/// `struct list_lru_one` since 6.13.
#[derive(Clone)]
pub(crate) struct Locked {
    one: One,
    _lock: u64, // spinlock_t and what aligns the next field
}

const _: () = assert!(size_of::<Locked>() as u64 == ONE_LOCKED);

impl Value for Locked {
    const NEW: Self = Self { one: One::EMPTY, _lock: 0 };

    fn free_link(&mut self) -> &mut Link {
        self.one.free_link()
    }
}

impl Head for Locked {
    const BYTES: u64 = ONE_LOCKED;
    const SUMMARY: &'static str =
        "As in 5.18, with a lock in each list: groups no longer wait for each other.";

    fn one(&self) -> Option<&One> {
        Some(&self.one).filter(|one| one.number != DEAD)
    }

    fn one_mut(&mut self) -> Option<&mut One> {
        Some(&mut self.one).filter(|one| one.number != DEAD)
    }

    fn drain(&mut self) -> Option<One> {
        let one = self.one_mut()?;
        let drained = one.take();
        one.number = DEAD;
        Some(drained)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_dead_once_it_was_drained() {
        let mut head = Locked::NEW;
        head.one_mut().expect("it lives").number = 3;
        assert_eq!(head.drain().map(|one| one.number), Some(3));
        assert!(head.one().is_none() && head.one_mut().is_none() && head.drain().is_none());
        // One of before 6.13 is only empty.
        let mut one = One::EMPTY;
        one.number = 3;
        assert_eq!(Head::drain(&mut one).map(|one| one.number), Some(3));
        assert_eq!(one.one().map(|one| one.number), Some(0));
    }
}
