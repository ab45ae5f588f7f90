//! Bytes of each generation in a situation: the formulas, applied.
//!
//! One [`Row`] for each generation of `tenalloc_designs::kernel` and one for tenalloc. The lists of a mount are used by
//! [`Situation::users_per_list`] groups; where that is no whole number, some lists have one user more than others.

use serde::Serialize;
use tenalloc_designs::kernel::generation::{Generation, Version};
use tenalloc_designs::kernel::list_lru::{self, Population};
use tenalloc_designs::kernel::owners::Vectors;
use tenalloc_designs::kernel::{groups, ids, xarray};

use crate::ours;
use crate::situation::{MOST_GROUPS, Situation};

/// What a design spends, by cause. All in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// Lists of the root group, which every mount has.
    pub root: u64,
    /// Lists of groups.
    pub heads: u64,
    /// Arrays of pointers by group.
    pub arrays: u64,
    /// Sparse indexes: XArray nodes, or tenalloc's hashes.
    pub index: u64,
    /// Shrinker state.
    pub shrinkers: u64,
    /// Handles between objects and groups.
    pub handles: u64,
    /// Owner vectors outside of slabs, at most; `null`: the slabs are not known.
    pub vectors: Option<u64>,
}

/// The causes by name, in the order of the table.
pub const CAUSES: [&str; 7] =
    ["root lists", "list heads", "list arrays", "list index", "shrinker state", "handles", "owner vectors"];

impl Bytes {
    /// In the order of [`CAUSES`]; vectors that are not known are 0.
    pub const fn parts(self) -> [u64; 7] {
        let vectors = match self.vectors {
            Some(vectors) => vectors,
            None => 0,
        };
        [self.root, self.heads, self.arrays, self.index, self.shrinkers, self.handles, vectors]
    }

    /// Their sum.
    pub const fn total(self) -> u64 {
        let parts = self.parts();
        let (mut sum, mut at) = (0_u64, 0);
        while at < parts.len() {
            sum = sum.saturating_add(parts[at]);
            at += 1;
        }
        sum
    }

    /// Root lists, heads, arrays and index.
    pub const fn lists(self) -> u64 {
        self.root.saturating_add(self.heads).saturating_add(self.arrays).saturating_add(self.index)
    }

    /// The largest cause and its bytes.
    pub fn largest(self) -> (&'static str, u64) {
        let parts = CAUSES.into_iter().zip(self.parts());
        parts.max_by_key(|(_, bytes)| *bytes).unwrap_or(("root lists", 0))
    }

    /// Each part times `number`.
    const fn times(self, number: u64) -> Self {
        Self {
            root: self.root.saturating_mul(number),
            heads: self.heads.saturating_mul(number),
            arrays: self.arrays.saturating_mul(number),
            index: self.index.saturating_mul(number),
            shrinkers: self.shrinkers.saturating_mul(number),
            handles: self.handles.saturating_mul(number),
            vectors: None,
        }
    }

    const fn plus(self, other: Self) -> Self {
        Self {
            root: self.root.saturating_add(other.root),
            heads: self.heads.saturating_add(other.heads),
            arrays: self.arrays.saturating_add(other.arrays),
            index: self.index.saturating_add(other.index),
            shrinkers: self.shrinkers.saturating_add(other.shrinkers),
            handles: self.handles.saturating_add(other.handles),
            vectors: None,
        }
    }
}

/// One design in the situation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// `linux-5.18`, `+lazy`, `tenalloc`.
    pub design: &'static str,
    /// The first release of it.
    pub since: Option<String>,
    /// What it changed.
    pub change: &'static str,
    /// The kernel of the situation belongs to it.
    pub running: bool,
    /// What it spends; `null`: it cannot have so many groups.
    pub bytes: Option<Bytes>,
    /// Sum of what it spends.
    pub total: Option<u64>,
}

/// One row for each generation, oldest first, and tenalloc's.
pub fn rows(at: &Situation) -> Vec<Row> {
    let running = Generation::of(at.kernel);
    let linux = Generation::ALL.iter().map(|generation| {
        let is_running = generation == running;
        let vectors = if is_running { Vectors::of(at.kernel) } else { generation.vectors };
        let bytes = linux(generation, vectors, at);
        Row {
            design: generation.name,
            since: generation.since.map(|v: Version| v.to_string()),
            change: generation.change,
            running: is_running,
            total: bytes.map(Bytes::total),
            bytes,
        }
    });
    let ours = tenalloc(at);
    let tenalloc = Row {
        design: "tenalloc",
        since: None,
        change: "a list where an object was, shrinker state in the list, small owners",
        running: false,
        bytes: Some(ours),
        total: Some(ours.total()),
    };
    linux.chain([tenalloc]).collect()
}

/// What the kernel of the situation spends.
pub fn running(at: &Situation) -> Option<Bytes> {
    linux(Generation::of(at.kernel), Vectors::of(at.kernel), at)
}

/// What a generation spends. `None`: more groups than it has ids for.
pub fn linux(generation: &Generation, vectors: Vectors, at: &Situation) -> Option<Bytes> {
    if at.groups > MOST_GROUPS {
        return None;
    }
    let kmalloc = at.kmalloc();
    let ids = if generation.lists.has_arrays() && !at.nokmem { ids::array_length(at.peak_groups) } else { 0 };
    let list = |users: u64| {
        let users = if at.nokmem { 0 } else { users };
        let index_nodes = xarray::spread(users, at.groups);
        let list = generation.lists.bytes(Population { nodes: at.nodes, ids, users, index_nodes }, kmalloc);
        let list_lru::Bytes { root, arrays, heads, index } = list;
        Bytes { root, heads, arrays, index, ..Bytes::default() }
    };
    let lists = each_list(at, list);
    // The root is a group too: it has shrinker state, though nobody reads it.
    let groups = at.groups.saturating_add(1);
    let handle = groups::handle(at.cpus, kmalloc).saturating_mul(generation.handles.count(at.nodes));
    let kmem = if at.nokmem { 0 } else { u64::MAX };
    Some(Bytes {
        shrinkers: generation.shrinkers.total(groups, at.nodes, at.shrinkers(), kmalloc),
        handles: handle.saturating_mul(at.groups).min(kmem),
        vectors: at.slabs.as_ref().map(|slabs| slabs.vectors(vectors, kmalloc).min(kmem)),
        ..lists
    })
}

/// What tenalloc would take for as many lists and groups.
pub fn tenalloc(at: &Situation) -> Bytes {
    let lists = each_list(at, |users| ours::family(users, at.nodes));
    Bytes {
        handles: ours::OWNER.saturating_mul(at.groups),
        vectors: at.slabs.as_ref().map(crate::vectors::SlabTable::our_vectors),
        ..lists
    }
}

/// The sum over all lists of `list(users)`: as many lists with one user more as make the average right.
fn each_list(at: &Situation, list: impl Fn(u64) -> Bytes) -> Bytes {
    let users = at.users_per_list();
    let few = users.floor();
    let lists = at.lists();
    let with_more = (((users - few) * lists as f64).round() as u64).min(lists);
    let few = few as u64;
    list(few).times(lists - with_more).plus(list(few.saturating_add(1)).times(with_more))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::situation::tests::ten_thousand;

    fn bytes(at: &Situation, name: &str) -> Bytes {
        rows(at).into_iter().find(|row| row.design == name).and_then(|row| row.bytes).unwrap()
    }

    /// The headline: 16 bytes for a group, mount and node on 6.12, and what else there is at 10,000 × 10,000 × 2.
    #[test]
    fn ten_thousand_groups_and_mounts() {
        let at = ten_thousand("6.12");
        let of = |name| bytes(&at, name);
        assert_eq!(of("linux-5.8").lists(), 20_000 * 1_048_576);
        assert_eq!(of("+transposed").lists(), 20_000 * 917_504);
        assert_eq!(of("+lazy").lists(), 20_000 * 131_264);
        assert_eq!(of("linux-5.18").lists(), 20_000 * 1_920);
        assert_eq!(of("linux-6.13").lists(), 20_000 * 1_952);
        assert_eq!(of("linux-5.18").shrinkers, 10_001 * 2 * 131_072);
        assert_eq!(of("linux-6.7").shrinkers, 10_001 * 2 * (157 * 1024 + 2048));
        assert_eq!(of("linux-6.7").largest().0, "shrinker state");
        assert_eq!(of("linux-5.9").largest().0, "list heads");
        // As `tenalloc scenario mounts` measures: 625 KiB, and 6.1 MiB with it.
        assert_eq!((of("tenalloc").shrinkers, of("tenalloc").lists()), (640_000, 6_400_000 - 640_000));
        assert_eq!((of("linux-5.8").handles, of("linux-5.9").handles), (0, 10_000 * (128 + 32)));
        assert_eq!(of("linux-7.1").handles, 20_000 * (128 + 32));
        assert_eq!(
            rows(&at).iter().filter(|row| row.running).map(|row| row.design).collect::<Vec<_>>(),
            ["linux-6.7"]
        );
    }

    #[test]
    fn without_kmem_the_shrinker_stays() {
        let at = Situation { nokmem: true, ..ten_thousand("5.10") };
        for row in rows(&at).into_iter().filter(|row| row.design != "tenalloc") {
            let bytes = row.bytes.unwrap();
            assert_eq!(
                (bytes.heads, bytes.arrays, bytes.index, bytes.handles),
                (0, 0, 0, 0),
                "{}",
                row.design
            );
            assert!(bytes.shrinkers > 0 && bytes.root == 20_000 * 128, "{}", row.design);
        }
    }

    #[test]
    fn the_arrays_remember_the_most_groups_there_were() {
        let at =
            Situation { groups: 500, peak_groups: 12_287, nodes: 4, mounts: 952, ..ten_thousand("5.10") };
        assert_eq!(bytes(&at, "linux-5.9").heads, 5_988_978_688, "the crash dump of the 5.18 series");
        assert_eq!(bytes(&at, "linux-5.18").heads, 952 * 2 * 128);
    }

    #[test]
    fn no_more_groups_than_ids() {
        let at = Situation { groups: 65_536, peak_groups: 65_536, ..ten_thousand("6.12") };
        assert!(rows(&at).iter().all(|row| row.bytes.is_some() == (row.design == "tenalloc")));
        assert_eq!(running(&at), None);
    }

    #[test]
    fn users_between_two_whole_numbers_are_shared_out() {
        let at = Situation {
            groups: 10,
            peak_groups: 10,
            mounts: 4,
            used_per_group: Some(1.0),
            ..ten_thousand("6.12")
        };
        // 2.5 users a mount: of 8 lists 4 have 2 and 4 have 3; one node of index each.
        assert_eq!(bytes(&at, "linux-5.18").heads, (4 * 2 + 4 * 3) * 64);
        assert_eq!(bytes(&at, "linux-5.18").index, 8 * 576);
        let none = Situation { mounts: 0, used_per_group: None, ..at };
        assert_eq!((bytes(&none, "linux-5.18").lists(), bytes(&none, "tenalloc").lists()), (0, 0));
    }
}
