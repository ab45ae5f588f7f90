//! Linux 5.13 to 6.6: `struct shrinker_info`, a bit and 8 bytes of deferred work for each id, in one allocation.
//!
//! Follows `mm/vmscan.c` of 6.1, `expand_one_shrinker_info()`: growing copies the numbers, sets all old bits, and gives the
//! old array back after a grace period. With 10,000 groups on 2 nodes each 64th mount copies 20,000 arrays.

use super::Form;
use crate::kernel::shrinker::{UNIT, UNIT_BYTES};
use crate::list_lru::ledger::Ledger;
use crate::lists::What;

/// The two arrays, which the kernel has behind one head.
pub(super) struct Flat {
    deferred: Box<[i64]>,
    map: Box<[u64]>,
}

/// An RCU head, two pointers, the arrays.
fn bytes(ids: usize) -> u64 {
    32 + (ids as u64).div_ceil(UNIT) * UNIT_BYTES
}

impl Form for Flat {
    fn new(ids: usize, ledger: &mut Ledger) -> Self {
        ledger.made(What::Shrinker, bytes(ids), 1);
        Self { deferred: vec![0; ids].into(), map: vec![0; ids.div_ceil(64)].into() }
    }

    fn expand(&mut self, ids: usize, ledger: &mut Ledger) {
        let old = core::mem::replace(self, Self::new(ids, ledger));
        self.deferred[..old.deferred.len()].copy_from_slice(&old.deferred);
        self.map[..old.map.len()].fill(u64::MAX);
        old.free(ledger);
    }

    fn free(self, ledger: &mut Ledger) {
        ledger.freed(What::Shrinker, bytes(self.deferred.len()), 1);
    }

    fn set(&mut self, id: usize) {
        self.map[id / 64] |= 1 << (id % 64);
    }

    #[cfg(test)]
    fn is_set(&self, id: usize) -> bool {
        self.map[id / 64] & 1 << (id % 64) != 0
    }

    fn deferred(&mut self, id: usize) -> Option<&mut i64> {
        self.deferred.get_mut(id)
    }

    fn here(&self) -> u64 {
        (size_of_val(&*self.deferred) + size_of_val(&*self.map)) as u64
    }
}
