//! Bytes by which each group knows which of its lists have anything to give, in each generation.
//!
//! Source: `mm/vmscan.c` up to 6.6, `mm/shrinker.c` since. Every mount registers a shrinker with a small id. For every
//! group and node the kernel keeps, for all ids there are, whether the group has an object there (a bit), and since 5.13
//! how much work was put off (`nr_deferred`, 8 bytes). All of it is made when the group or the mount is made, used or not:
//! the shape that list_lru had until 5.17. Measured on real kernels: with `cgroup.memory=nokmem` the lists go, this stays.
//!
//! | | releases | for every group and node |
//! |---|---|---|
//! | [`Bitmap`](Shrinkers::Bitmap) | 4.19 – 5.12 | K(16 + 8·⌈S/64⌉) |
//! | [`Flat`](Shrinkers::Flat) | 5.13 – 6.6 | K(32 + 8·S' + S'/8), S' = S rounded up to 64 |
//! | [`Units`](Shrinkers::Units) | 6.7 on | K(24 + 8·U) + U·K(520), U = ⌈S/64⌉ |

use super::Kmalloc;

/// Shrinkers of one word of bits, and of one unit: `SHRINKER_UNIT_BITS`.
pub const UNIT: u64 = 64;
/// `struct shrinker_info_unit`: 64 counts of 8 bytes and 64 bits. kmalloc takes 1,024 for it and 504 are lost.
pub const UNIT_BYTES: u64 = 8 * UNIT + UNIT / 8;

/// How a generation keeps shrinker state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shrinkers {
    /// A bit for each shrinker: `memcg_shrinker_map`.
    Bitmap,
    /// A bit and 8 bytes for each shrinker in one array, made anew every 64 shrinkers.
    Flat,
    /// Pointers to units of 64 shrinkers; all units are made at once.
    Units,
}

impl Shrinkers {
    /// Bytes for one group on one node, once `shrinkers` have been alive at the same time. At least one word.
    pub const fn bytes(self, shrinkers: u64, kmalloc: Kmalloc) -> u64 {
        let units = units(shrinkers);
        match self {
            Self::Bitmap => kmalloc.kvmalloc(16_u64.saturating_add(units.saturating_mul(8))),
            Self::Flat => kmalloc.kvmalloc(32_u64.saturating_add(units.saturating_mul(UNIT_BYTES))),
            Self::Units => {
                let pointers = kmalloc.kvmalloc(24_u64.saturating_add(units.saturating_mul(8)));
                pointers.saturating_add(kmalloc.times(units, UNIT_BYTES))
            }
        }
    }

    /// Bytes for all `groups` on all `nodes`.
    pub const fn total(self, groups: u64, nodes: u64, shrinkers: u64, kmalloc: Kmalloc) -> u64 {
        self.bytes(shrinkers, kmalloc).saturating_mul(groups).saturating_mul(nodes)
    }
}

/// U: words, or units, that `shrinkers` ids take. The kernel has a few from boot on, so that one there always is.
pub const fn units(shrinkers: u64) -> u64 {
    if shrinkers == 0 { 1 } else { shrinkers.div_ceil(UNIT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: Kmalloc = Kmalloc::X86;
    const MIB: u64 = 1 << 20;

    /// 10,000 groups, 10,000 shrinkers, 2 nodes: 3,105 MiB, of which 1,582 are asked for; 70,000 shrinkers: 21.2 GiB.
    #[test]
    fn units_of_todays_kernels() {
        assert_eq!((UNIT_BYTES, K.round(UNIT_BYTES)), (520, 1024));
        let total = |shrinkers| Shrinkers::Units.total(10_000, 2, shrinkers, K);
        assert_eq!(total(10_000), 20_000 * (2048 + 157 * 1024));
        assert_eq!(total(10_000) / MIB, 3_105);
        let asked = 20_000 * (24 + 8 * 157 + 157 * 520) as u64;
        assert_eq!((asked + MIB / 2) / MIB, 1_582);
        assert_eq!(total(70_000), 20_000 * (16_384 + 1_094 * 1_024), "21.2 GiB");
        // The measured growth of kmalloc-1k on 6.12 was 3,120,632 objects: 156 units more for 10,001 groups on 2 nodes.
        assert_eq!((units(10_030) - units(30)) * 20_002, 3_120_312);
    }

    /// The flat form at Song's 10,000 groups and mounts: 2,500 MiB of the 4,367 MB that were left after the series.
    #[test]
    fn the_flat_array() {
        assert_eq!(Shrinkers::Flat.bytes(10_000, K), 128 << 10);
        assert_eq!(Shrinkers::Flat.total(10_000, 2, 10_000, K), 2_500 * MIB);
        // 8.3 KiB asked for at 1,000 mounts, 16 KiB taken (6.1, kernel-runs).
        assert_eq!((32 + units(1_000) * UNIT_BYTES, Shrinkers::Flat.bytes(1_000, K)), (8_352, 16_384));
    }

    #[test]
    fn the_bitmap_before_deferred_work_was_counted_by_group() {
        assert_eq!(
            [1, 64, 65, 1_030, 10_030].map(|s| Shrinkers::Bitmap.bytes(s, K)),
            [32, 32, 32, 192, 2048]
        );
    }

    #[test]
    fn one_word_at_least_and_no_overflow() {
        assert_eq!([0, 1, 64, 65, 128, 129].map(units), [1, 1, 1, 2, 2, 3]);
        for design in [Shrinkers::Bitmap, Shrinkers::Flat, Shrinkers::Units] {
            assert_eq!(design.bytes(0, K), design.bytes(64, K));
            assert_eq!(design.total(u64::MAX, u64::MAX, u64::MAX, K), u64::MAX);
        }
        // Beyond 4 MiB the flat array is mapped page by page: 1,000,000 shrinkers.
        assert_eq!(Shrinkers::Flat.bytes(1_000_000, K), 8_126_464);
    }
}
