//! Linux 4.19 to 5.12: `struct memcg_shrinker_map`, a bit for each id.
//!
//! Follows `mm/memcontrol.c` of 5.10, `memcg_expand_one_shrinker_map()`: growing makes a new map with all old bits set,
//! because a bit could be set in the old one meanwhile; reclaim clears those that it finds empty.

use super::Form;
use crate::list_lru::ledger::Ledger;
use crate::lists::What;

/// The map.
pub(super) struct Bitmap {
    map: Box<[u64]>,
}

/// An RCU head and the bits.
fn bytes(ids: usize) -> u64 {
    16 + ids.div_ceil(64) as u64 * 8
}

impl Form for Bitmap {
    fn new(ids: usize, ledger: &mut Ledger) -> Self {
        ledger.made(What::Shrinker, bytes(ids), 1);
        Self { map: vec![0; ids.div_ceil(64)].into() }
    }

    fn expand(&mut self, ids: usize, ledger: &mut Ledger) {
        let old = self.map.len();
        ledger.freed(What::Shrinker, bytes(old * 64), 1);
        ledger.made(What::Shrinker, bytes(ids), 1);
        let mut map = vec![0; ids.div_ceil(64)];
        map[..old].fill(u64::MAX);
        self.map = map.into();
    }

    fn free(self, ledger: &mut Ledger) {
        ledger.freed(What::Shrinker, bytes(self.map.len() * 64), 1);
    }

    fn set(&mut self, id: usize) {
        self.map[id / 64] |= 1 << (id % 64);
    }

    #[cfg(test)]
    fn is_set(&self, id: usize) -> bool {
        self.map[id / 64] & 1 << (id % 64) != 0
    }

    fn deferred(&mut self, _: usize) -> Option<&mut i64> {
        None
    }

    fn here(&self) -> u64 {
        size_of_val(&*self.map) as u64
    }
}
