//! Which release does what: the one table that says which formulas hold for which kernel.
//!
//! A [`Generation`] begins where a release changed what a group, a mount or an object costs. Two of them, `+transposed` and
//! `+lazy`, were never released: they are the state after patch 1 and after patch 10 of the series that 5.18 took whole.

use core::fmt;
use core::str::FromStr;

use super::Kmalloc;
use super::list_lru::{self, Bytes, Population};
use super::owners::Vectors;
use super::shrinker::Shrinkers;

/// A kernel release, 6.12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 6 of 6.12.
    pub major: u16,
    /// 12 of 6.12.
    pub minor: u16,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Reads `6.12`, `6.12.30-amd64`, `v5.10`; what follows the second number is not looked at.
impl FromStr for Version {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let mut parts = text.trim().trim_start_matches('v').splitn(3, '.');
        let number = |part: Option<&str>| {
            let digits = part?.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse::<u16>().ok()
        };
        match (number(parts.next()), number(parts.next())) {
            (Some(major @ 1..), Some(minor)) => Ok(Self { major, minor }),
            _ => Err(NoVersion(text.trim().chars().take(40).collect())),
        }
    }
}

/// Not the name of a release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a kernel release: write it as 6.12")]
pub struct NoVersion(pub String);

/// How a generation keeps the lists of groups; see [`list_lru`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// D1.
    Eager,
    /// D2.
    Transposed,
    /// D3.
    Lazy,
    /// D4.
    Sparse,
    /// D5.
    Locked,
}

impl Lists {
    /// Bytes of one list_lru.
    pub const fn bytes(self, at: Population, kmalloc: Kmalloc) -> Bytes {
        match self {
            Self::Eager => list_lru::eager(at, kmalloc),
            Self::Transposed => list_lru::transposed(at, kmalloc),
            Self::Lazy => list_lru::lazy(at, kmalloc),
            Self::Sparse => list_lru::sparse(at, kmalloc),
            Self::Locked => list_lru::locked(at, kmalloc),
        }
    }

    /// Whether arrays are as long as `memcg_nr_cache_ids`; else groups are found by memory group id.
    pub const fn has_arrays(self) -> bool {
        matches!(self, Self::Eager | Self::Transposed | Self::Lazy)
    }
}

/// One generation of the memory controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// `linux-5.18`, `+lazy`.
    pub name: &'static str,
    /// The first release of it; `None`: it was never released.
    pub since: Option<Version>,
    /// What it changed, in a few words.
    pub change: &'static str,
    /// Lists of groups.
    pub lists: Lists,
    /// Shrinker state of groups.
    pub shrinkers: Shrinkers,
    /// Owner vectors; [`Vectors::None`]: a set of caches for each group.
    pub vectors: Vectors,
    /// Handles (`obj_cgroup`) of a group: none, one, or one a node.
    pub handles: Handles,
}

/// How many `obj_cgroup` a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handles {
    /// None (≤ 5.8).
    None,
    /// One (5.9 – 7.0).
    One,
    /// One a node (7.1 on).
    EachNode,
}

impl Handles {
    /// Handles of one group on `nodes` nodes.
    pub const fn count(self, nodes: u64) -> u64 {
        match self {
            Self::None => 0,
            Self::One => 1,
            Self::EachNode => nodes,
        }
    }
}

const fn release(major: u16, minor: u16) -> Option<Version> {
    Some(Version { major, minor })
}

impl Generation {
    /// All of them, oldest first.
    pub const ALL: [Self; 10] = {
        let old = Self {
            name: "linux-5.8",
            since: release(4, 19),
            change: "a set of caches for each group; a list for every group in every mount",
            lists: Lists::Eager,
            shrinkers: Shrinkers::Bitmap,
            vectors: Vectors::None,
            handles: Handles::None,
        };
        let shared = Self {
            name: "linux-5.9",
            since: release(5, 9),
            change: "slabs shared by all groups, an owner of 8 bytes for each object",
            vectors: Vectors::Beside,
            handles: Handles::One,
            ..old
        };
        let flat = Self {
            name: "linux-5.13",
            since: release(5, 13),
            change: "8 bytes of deferred work for every shrinker in every group",
            shrinkers: Shrinkers::Flat,
            ..shared
        };
        let transposed = Self {
            name: "+transposed",
            since: None,
            change: "one array for all nodes (patch 1 of the series)",
            lists: Lists::Transposed,
            ..flat
        };
        let lazy = Self {
            name: "+lazy",
            since: None,
            change: "lists on first use (patches 2 to 10)",
            lists: Lists::Lazy,
            ..flat
        };
        let sparse = Self {
            name: "linux-5.18",
            since: release(5, 18),
            change: "a sparse index instead of arrays (the whole series)",
            lists: Lists::Sparse,
            ..flat
        };
        let units = Self {
            name: "linux-6.7",
            since: release(6, 7),
            change: "shrinker state in units of 64",
            shrinkers: Shrinkers::Units,
            ..sparse
        };
        let locked = Self {
            name: "linux-6.13",
            since: release(6, 13),
            change: "a lock in every list",
            lists: Lists::Locked,
            ..units
        };
        let slack = Self {
            name: "linux-6.18",
            since: release(6, 18),
            change: "sheaves; owner vectors in slack (finished in 7.0)",
            vectors: Vectors::InSlack,
            ..locked
        };
        let handles = Self {
            name: "linux-7.1",
            since: release(7, 1),
            change: "a handle for each group and node",
            handles: Handles::EachNode,
            ..slack
        };
        [old, shared, flat, transposed, lazy, sparse, units, locked, slack, handles]
    };

    /// The one called `name`.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        const ALL: &[Generation] = &Generation::ALL;
        ALL.iter().find(|g| g.name == name)
    }

    /// The one that a kernel release belongs to. Older than all: the oldest; newer: the newest.
    pub fn of(version: Version) -> &'static Self {
        const ALL: &[Generation] = &Generation::ALL;
        ALL.iter().rev().find(|g| g.since.is_some_and(|since| since <= version)).unwrap_or(&ALL[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn releases_are_read_as_uname_writes_them() {
        for text in ["6.12", "6.12.30", " 6.12.30-amd64\n", "v6.12-rc3", "6.12+"] {
            assert_eq!(version(text), Version { major: 6, minor: 12 }, "{text}");
        }
        for text in ["", "6", "six.12", "6.", ".12", "0.99", "70000.1", "6,12", "-6.12"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
        assert_eq!(NoVersion("six".into()).to_string(), "\"six\" is not a kernel release: write it as 6.12");
    }

    #[test]
    fn every_release_has_its_generation() {
        let of = |text| Generation::of(version(text)).name;
        let releases =
            ["2.6", "4.19", "5.8", "5.9", "5.10", "5.12", "5.13", "5.17", "5.18", "6.1", "6.6", "6.7"];
        assert_eq!(
            releases.map(of),
            [
                "linux-5.8",
                "linux-5.8",
                "linux-5.8",
                "linux-5.9",
                "linux-5.9",
                "linux-5.9",
                "linux-5.13",
                "linux-5.13",
                "linux-5.18",
                "linux-5.18",
                "linux-5.18",
                "linux-6.7"
            ]
        );
        let releases = ["6.12", "6.13", "6.17", "6.18", "7.0", "7.1", "9.9"];
        assert_eq!(
            releases.map(of),
            ["linux-6.7", "linux-6.13", "linux-6.13", "linux-6.18", "linux-6.18", "linux-7.1", "linux-7.1"]
        );
    }

    #[test]
    fn names_find_their_generation_and_releases_rise() {
        for generation in &Generation::ALL {
            assert_eq!(Generation::by_name(generation.name), Some(generation));
            assert_eq!(generation.since.map_or(generation, |since| Generation::of(since)), generation);
        }
        assert_eq!(Generation::by_name("tenalloc"), None);
        let since: Vec<_> = Generation::ALL.iter().filter_map(|g| g.since).collect();
        assert!(since.is_sorted());
    }

    #[test]
    fn handles_of_a_group() {
        assert_eq!([Handles::None, Handles::One, Handles::EachNode].map(|h| h.count(4)), [0, 1, 4]);
    }
}
