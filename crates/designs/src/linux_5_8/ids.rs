//! kmem ids: the small numbers under which the groups of Linux ≤ 5.17 index arrays.
//!
//! Follows `mm/memcontrol.c` `memcg_alloc_cache_id()`, `memcg_free_cache_id()`: the lowest free number; when it does not
//! fit the arrays, all of them grow to twice of it, and they never shrink again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Error;

/// `MEMCG_CACHES_MIN_SIZE`.
const MIN_IDS: u32 = 4;
/// `MEMCG_CACHES_MAX_SIZE`, one less than the ids of memory groups.
const MAX_IDS: u32 = 65535;

/// Which kmem ids are taken.
#[derive(Default)]
pub(crate) struct KmemIds {
    free: BinaryHeap<Reverse<u32>>,
    next: u32, // ids from here on were never taken
    size: u32, // memcg_nr_cache_ids
}

impl KmemIds {
    /// The lowest free id; afterwards [`size`](Self::size) covers it.
    pub(crate) fn take(&mut self) -> Result<u32, Error> {
        let id = match self.free.pop() {
            Some(Reverse(id)) => id,
            None if self.next < MAX_IDS => {
                self.next += 1;
                self.next - 1
            }
            None => return Err(Error::TooMany("living groups: Linux 5.8 has 65,535 kmem ids")),
        };
        if id >= self.size {
            self.size = (2 * (id + 1)).clamp(MIN_IDS, MAX_IDS);
        }
        Ok(id)
    }

    /// Gives an id back.
    pub(crate) fn put(&mut self, id: u32) {
        self.free.push(Reverse(id));
    }

    /// Entries of each array: `memcg_nr_cache_ids`.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_grow_in_leaps_and_stay() {
        let mut ids = KmemIds::default();
        let mut sizes = Vec::new();
        for want in 0..MAX_IDS {
            assert_eq!(ids.take().unwrap(), want);
            if sizes.last() != Some(&ids.size()) {
                sizes.push(ids.size());
            }
        }
        let expected = [4, 10, 22, 46, 94, 190, 382, 766, 1534, 3070, 6142, 12286, 24574, 49150, 65535];
        assert_eq!(sizes, expected);
        assert!(matches!(ids.take(), Err(Error::TooMany(_))));
        for id in [9, 3, 70] {
            ids.put(id);
        }
        assert_eq!([3, 9, 70].map(|_| ids.take().unwrap()), [3, 9, 70]);
        assert_eq!(ids.size(), MAX_IDS);
    }
}
