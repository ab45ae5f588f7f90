//! How long the arrays are that Linux ≤ 5.17 indexes by group: `memcg_nr_cache_ids`, C(n).
//!
//! Source: `mm/memcontrol.c` `memcg_alloc_cache_id()` of 5.8. A group takes the lowest free id; an id that does not fit
//! makes all arrays twice as long as it needs, and no array ever shrinks. So C(n) follows from the largest number n of
//! ids that were ever taken at once. Apart from `linux_5_8/ids.rs`, which hands ids out one by one: this is only how
//! far that goes. Both are compared in the tests.

/// `MEMCG_CACHES_MIN_SIZE`: the first array.
pub const LEAST: u64 = 4;
/// `MEMCG_CACHES_MAX_SIZE`, the last, and the most ids: one less than 16 bits hold.
pub const MOST: u64 = 65535;

/// C(n): entries of each array once `taken` ids were taken at the same time. 0 before the first; 65,535 from there on.
///
/// Each step takes n from C to C + 1, which makes C' = 2·(C + 1): 4, 10, 22, … 6,142, 12,286, 24,574.
pub const fn array_length(taken: u64) -> u64 {
    if taken == 0 {
        return 0;
    }
    let mut length = LEAST;
    while length < taken && length < MOST {
        length = 2 * (length + 1);
    }
    if length > MOST { MOST } else { length }
}

/// How many times arrays were made longer (or made) on the way to `taken` ids.
pub const fn growth_steps(taken: u64) -> u64 {
    let (mut at, mut steps) = (0, 0);
    while at < taken && at < MOST {
        at = array_length(at + 1);
        steps += 1;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux_5_8::ids::KmemIds;

    #[test]
    fn as_the_ids_are_handed_out() {
        let mut ids = KmemIds::default();
        assert_eq!(array_length(0), 0);
        for taken in 1..=MOST {
            ids.take().unwrap();
            assert_eq!(array_length(taken), u64::from(ids.size()), "{taken}");
        }
        assert_eq!([MOST + 1, u64::MAX].map(array_length), [MOST; 2]);
    }

    /// 12,286 at 10,000 containers (Rao); 24,574 on a host of 500 (Song: more than 12,286 once); both thread posts.
    #[test]
    fn the_published_lengths() {
        assert_eq!([10_000, 10_001, 12_286, 12_287].map(array_length), [12_286, 12_286, 12_286, 24_574]);
        assert_eq!([1_001, 1_535].map(array_length), [1_534, 3_070]);
        assert_eq!([0, 1, 4, 5, 10_000, 65_535].map(growth_steps), [0, 1, 1, 2, 12, 15]);
    }
}
