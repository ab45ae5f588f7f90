//! Bytes of one list_lru in each generation: heads, arrays, index.
//!
//! Source: `mm/list_lru.c`, `include/linux/list_lru.h`. A list_lru is the family of LRU lists of one object kind, say the
//! dentries of one mount; every mount has two. What it costs follows from five numbers, [`Population`], and from who gets
//! a head:
//!
//! | | releases | a head for | found through |
//! |---|---|---|---|
//! | D1 [`eager`] | 4.0 – 5.17 | every id and node, alone | an array a node |
//! | D2 [`transposed`] | patch 1 of the series of 5.18 | every id, all nodes together | one array |
//! | D3 [`lazy`] | patches 2–10 | every group with an object in it, and its ancestors | one array |
//! | D4 [`sparse`] | 5.18 – 6.12 | 〃 | 64-way nodes |
//! | D5 [`locked`] | 6.13 on | 〃, with a lock in each list | 64-way nodes |

use super::Kmalloc;
use super::xarray::NODE;

/// `struct list_lru_one` until 6.12: list, count.
pub const ONE: u64 = 24;
/// `struct list_lru_one` since 6.13: and a lock.
pub const ONE_LOCKED: u64 = 32;
/// `struct rcu_head`, with which an array or a head begins.
pub const RCU: u64 = 16;
/// `struct list_lru_node`: the lists of the root group on one node.
pub const ROOT_NODE: u64 = 64;
/// A pointer.
pub const POINTER: u64 = 8;

/// What one list_lru is made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Population {
    /// Possible NUMA nodes, N.
    pub nodes: u64,
    /// Entries of the arrays, C(n): [`ids::array_length`](super::ids::array_length). Only D1 to D3 ask.
    pub ids: u64,
    /// Groups that ever had an object in it, and their ancestors without the root, u. From D3 on.
    pub users: u64,
    /// Nodes of the index, X: from [`xarray`](super::xarray). From D4 on.
    pub index_nodes: u64,
}

/// What one list_lru takes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// The lists of the root group. Every design has them.
    pub root: u64,
    /// Arrays of pointers by id, rounded by kmalloc to a power of two of pages when they are long.
    pub arrays: u64,
    /// Lists of groups.
    pub heads: u64,
    /// Nodes of the sparse index.
    pub index: u64,
}

impl Bytes {
    /// Their sum.
    pub const fn total(self) -> u64 {
        self.root.saturating_add(self.arrays).saturating_add(self.heads).saturating_add(self.index)
    }
}

/// D1: `N·K(64)` + N·(K(16 + 8·C) + C·K(24)): on each node an array, and a head for every id.
pub const fn eager(at: Population, kmalloc: Kmalloc) -> Bytes {
    Bytes {
        root: root(at, kmalloc),
        arrays: array(at.ids, kmalloc).saturating_mul(at.nodes),
        heads: kmalloc.times(at.ids.saturating_mul(at.nodes), ONE),
        index: 0,
    }
}

/// D2: one array, K(16 + 8·C), and for every id K(24·N).
pub const fn transposed(at: Population, kmalloc: Kmalloc) -> Bytes {
    let heads = kmalloc.times(at.ids, ONE.saturating_mul(at.nodes));
    Bytes { root: root(at, kmalloc), arrays: array(at.ids, kmalloc), heads, index: 0 }
}

/// D3: one array, and for every user K(24·N).
pub const fn lazy(at: Population, kmalloc: Kmalloc) -> Bytes {
    let heads = kmalloc.times(at.users, ONE.saturating_mul(at.nodes));
    Bytes { root: root(at, kmalloc), arrays: array(at.ids, kmalloc), heads, index: 0 }
}

/// D4: 576·X of index, and for every user K(16 + 24·N).
pub const fn sparse(at: Population, kmalloc: Kmalloc) -> Bytes {
    indexed(at, kmalloc, ONE)
}

/// D5: 576·X of index, and for every user K(16 + 32·N).
pub const fn locked(at: Population, kmalloc: Kmalloc) -> Bytes {
    indexed(at, kmalloc, ONE_LOCKED)
}

/// What one user of a list takes under D4 or D5: its lists on all nodes, `one` bytes each.
pub const fn user_head(nodes: u64, one: u64, kmalloc: Kmalloc) -> u64 {
    kmalloc.round(RCU.saturating_add(one.saturating_mul(nodes)))
}

/// An array of pointers by id: K(16 + 8·C), none before the first group.
pub const fn array(ids: u64, kmalloc: Kmalloc) -> u64 {
    if ids == 0 {
        return 0;
    }
    kmalloc.kvmalloc(RCU.saturating_add(POINTER.saturating_mul(ids)))
}

const fn root(at: Population, kmalloc: Kmalloc) -> u64 {
    kmalloc.times(at.nodes, ROOT_NODE)
}

const fn indexed(at: Population, kmalloc: Kmalloc, one: u64) -> Bytes {
    Bytes {
        root: root(at, kmalloc),
        arrays: 0,
        heads: user_head(at.nodes, one, kmalloc).saturating_mul(at.users),
        index: NODE.saturating_mul(at.index_nodes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{ids, xarray};

    const K: Kmalloc = Kmalloc::X86;
    const MIB: u64 = 1 << 20;

    fn at(nodes: u64, groups: u64, users: u64) -> Population {
        let index_nodes = xarray::spread(users, groups);
        Population { nodes, ids: ids::array_length(groups), users, index_nodes }
    }

    /// 10,000 groups, 2 nodes, 20,000 list_lrus with one user each: bytes for one, MiB for all.
    #[test]
    fn each_generation_at_ten_thousand_groups() {
        let at = at(2, 10_000, 1);
        let per = [eager, transposed, lazy, sparse, locked].map(|design| design(at, K).total());
        assert_eq!(per, [1_048_576, 917_504, 131_264, 1_920, 1_952]);
        assert_eq!(per.map(|b| (10 * b * 20_000 + MIB / 2) / MIB), [200_000, 175_000, 25_037, 366, 372]);
    }

    /// 24,464 → 21,957 → 6,895 → 4,367 MB (Song): what each step of the series saves, for 20,000 list_lrus without users.
    #[test]
    fn the_steps_of_the_series() {
        let at = at(2, 10_000, 0);
        let all = [eager, transposed, lazy, sparse].map(|design| 20_000 * design(at, K).total());
        let saved: Vec<u64> = all.windows(2).map(|pair| pair[0] - pair[1]).collect();
        assert_eq!(saved, [20_000 * 131_072, 20_000 * 64 * 12_286, 20_000 * 131_072]);
        assert_eq!(saved.iter().map(|b| (b + MIB / 2) / MIB).collect::<Vec<_>>(), [2_500, 14_998, 2_500]);
    }

    /// 10,000 containers of 7 mounts on 2 nodes with pages of 64 KiB (Rao): 102 GB of kmalloc-32 and 34.2 GiB of arrays.
    #[test]
    fn ten_thousand_containers() {
        let power = Kmalloc::with_pages(65536).unwrap();
        let list = eager(at(2, 10_000, 0), power);
        assert_eq!(2 * list.heads, 1_572_608, "A·B·C·D a mount");
        assert_eq!((2 * list.heads * 70_000 * 10) >> 30, 1025);
        assert_eq!((list.arrays, (2 * list.arrays * 70_000 * 10) >> 30), (2 * 131_072, 341));
        assert_eq!(
            2 * list.heads / 32 * 70_000,
            3_440_080_000,
            "published: 3,442,409,472 objects of kmalloc-32"
        );
    }

    /// 24,574 ids, 4 nodes, 952 mounts (Song): about 3 MB a list_lru, 5.6 GB in all.
    #[test]
    fn the_crash_dump() {
        let heads = eager(at(4, 24_574, 0), K).heads;
        assert_eq!((heads, heads * 952 * 2), (3_145_472, 5_988_978_688));
        assert_eq!(array(24_574, K), 262_144, "beside the heads, which is all the post counts");
    }

    /// Real 5.10 kernels (kernel-runs): a mount of two list_lrus, without its other structures of about 5.5 KB.
    #[test]
    fn a_mount_of_real_kernels() {
        let mount = |nodes, groups| 2 * eager(at(nodes, groups, 0), K).total() - 2 * 64 * nodes;
        assert_eq!([mount(1, 1_001), mount(2, 1_001), mount(2, 10_001)], [130_944, 261_888, 2_096_896]);
        // A pair in use on 6.1 and 6.12: two heads of 64 bytes.
        assert_eq!([1, 2, 4, 8].map(|n| user_head(n, ONE, K)), [64, 64, 128, 256]);
        assert_eq!([1, 2, 4, 8].map(|n| user_head(n, ONE_LOCKED, K)), [64, 96, 192, 512]);
    }

    #[test]
    fn heads_of_all_nodes_together_round_otherwise() {
        let heads = |nodes| (eager(at(nodes, 1, 0), K).heads / 4, transposed(at(nodes, 1, 0), K).heads / 4);
        assert_eq!([1, 2, 4, 8].map(heads), [(32, 32), (64, 64), (128, 96), (256, 192)]);
    }

    #[test]
    fn no_group_no_array_and_no_number_overflows() {
        let none = Population { nodes: 2, ..Population::default() };
        for design in [eager, transposed, lazy, sparse, locked] {
            assert_eq!(design(none, K), Bytes { root: 128, ..Bytes::default() });
            let most = Population { nodes: u64::MAX, ids: u64::MAX, users: u64::MAX, index_nodes: u64::MAX };
            assert_eq!(design(most, K).total(), u64::MAX);
        }
    }
}
