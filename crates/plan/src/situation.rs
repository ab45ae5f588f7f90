//! The numbers that the formulas ask for, each with its limits and where it came from.
//!
//! Apart from [`host`](crate::host), which knows where a number stands in `/proc`, and from the command line, which knows
//! how it is written: both end here, and here alone is decided what is possible.

use serde::Serialize;
use tenalloc_designs::kernel::{Kmalloc, Version};

use crate::vectors::SlabTable;

/// A machine, its groups and its mounts, as the formulas see them.
#[derive(Clone, Debug, PartialEq)]
pub struct Situation {
    /// The kernel that runs, or would.
    pub kernel: Version,
    /// Bytes of a page.
    pub page_size: u64,
    /// Possible NUMA nodes, N.
    pub nodes: u64,
    /// Possible CPUs, P.
    pub cpus: u64,
    /// Memory groups below the root, dying ones too, M.
    pub groups: u64,
    /// The most groups there ever were at one time: what arrays of Linux ≤ 5.17 are long enough for. At least `groups`.
    pub peak_groups: u64,
    /// Mounted file systems (superblocks), each with its own lists.
    pub mounts: u64,
    /// list_lrus of a mount, A: 2, dentries and inodes.
    pub lists_per_mount: u64,
    /// Mounts that one group uses; `None`: every mount is used by one group.
    pub used_per_group: Option<f64>,
    /// Shrinkers that know groups, beside one for each mount.
    pub extra_shrinkers: u64,
    /// Booted with `cgroup.memory=nokmem`.
    pub nokmem: bool,
    /// Slabs of the caches whose objects have owners; `None`: not known.
    pub slabs: Option<SlabTable>,
}

/// What is possible, for each input: name, least, most.
const LIMITS: [(&str, u64, u64); 8] = [
    ("nodes", 1, 1024),
    ("cpus", 1, 65_536),
    ("groups", 0, 10_000_000),
    ("peak-groups", 0, 10_000_000),
    ("mounts", 0, 10_000_000),
    ("lists-per-mount", 1, 64),
    ("extra-shrinkers", 0, 1_000_000),
    ("page-size", 4096, 65_536),
];

/// Groups beyond which Linux has no more ids: `MEM_CGROUP_ID_MAX`.
pub const MOST_GROUPS: u64 = 65_535;

impl Situation {
    /// Checks every number.
    ///
    /// # Errors
    /// [`Error::Impossible`] names the first that cannot be.
    pub fn check(&self) -> Result<(), Error> {
        let values = [
            self.nodes,
            self.cpus,
            self.groups,
            self.peak_groups,
            self.mounts,
            self.lists_per_mount,
            self.extra_shrinkers,
            self.page_size,
        ];
        for ((name, least, most), value) in LIMITS.into_iter().zip(values) {
            if !(least..=most).contains(&value) {
                return Err(Error::Impossible { name, value: value.to_string(), why: limits(least, most) });
            }
        }
        let impossible =
            |name, value: String, why: &str| Err(Error::Impossible { name, value, why: why.into() });
        if Kmalloc::with_pages(self.page_size).is_none() {
            return impossible("page-size", self.page_size.to_string(), "a power of two from 4096 to 65536");
        }
        if self.peak_groups < self.groups {
            return impossible(
                "peak-groups",
                self.peak_groups.to_string(),
                &format!("at least the {} groups there are", self.groups),
            );
        }
        match self.used_per_group {
            Some(used) if !used.is_finite() || used < 0.0 => {
                impossible("used-per-group", used.to_string(), "0 or more")
            }
            Some(used) if used > self.mounts as f64 => impossible(
                "used-per-group",
                used.to_string(),
                &format!("at most the {} mounts there are", self.mounts),
            ),
            _ => Ok(()),
        }
    }

    /// The rounding rules of its page size. 4 KiB where that is impossible; [`check`](Self::check) refuses it.
    pub fn kmalloc(&self) -> Kmalloc {
        Kmalloc::with_pages(self.page_size).unwrap_or(Kmalloc::X86)
    }

    /// list_lrus in all, L.
    pub fn lists(&self) -> u64 {
        self.mounts.saturating_mul(self.lists_per_mount)
    }

    /// Shrinkers that know groups, S.
    pub fn shrinkers(&self) -> u64 {
        self.mounts.saturating_add(self.extra_shrinkers)
    }

    /// Groups that use one list, on average.
    pub fn users_per_list(&self) -> f64 {
        if self.mounts == 0 || self.groups == 0 {
            return 0.0;
        }
        let groups = self.groups as f64;
        self.used_per_group.map_or(1.0, |used| groups * used / self.mounts as f64).min(groups)
    }
}

fn limits(least: u64, most: u64) -> String {
    use tenalloc_replay::report::units::count;
    format!("{} to {}", count(least), count(most))
}

/// A number that cannot be used, or a file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Outside of what is possible.
    #[error("--{name} {value} is not possible: {why}")]
    Impossible {
        /// The option's name.
        name: &'static str,
        /// As given.
        value: String,
        /// What is possible.
        why: String,
    },
    /// A range that cannot be walked.
    #[error("--{name} {text:?} is not a number or a range such as 100..100000{why}")]
    Range {
        /// The option's name.
        name: &'static str,
        /// As given.
        text: String,
        /// More, or nothing.
        why: String,
    },
    /// Two ranges at once.
    #[error("only one of --groups and --mounts can be a range: give the other as one number")]
    TwoRanges,
    /// A slabinfo file that cannot be used.
    #[error("{path}: {why}")]
    Slabinfo {
        /// Which file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// A root folder without any file of a machine in it.
    #[error(
        "{0}: no /proc of a Linux machine in there: name a folder with proc and sys in it, or give every number"
    )]
    Root(String),
}

/// Where a number came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Read from the host.
    Host,
    /// Given by the user.
    Given,
    /// Neither could be had: a usual value.
    Assumed,
}

/// One number that went in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Input {
    /// `nodes`, `groups`: as the option is called.
    pub name: &'static str,
    /// The letter in the formulas.
    pub symbol: &'static str,
    /// As a number or a word.
    pub value: serde_json::Value,
    /// Read, given or assumed.
    pub origin: Origin,
    /// The file it was read from, or why it was assumed.
    pub from: String,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// 10,000 groups and mounts on 2 nodes.
    pub(crate) fn ten_thousand(kernel: &str) -> Situation {
        Situation {
            kernel: kernel.parse().unwrap(),
            page_size: 4096,
            nodes: 2,
            cpus: 4,
            groups: 10_000,
            peak_groups: 10_000,
            mounts: 10_000,
            lists_per_mount: 2,
            used_per_group: None,
            extra_shrinkers: 0,
            nokmem: false,
            slabs: None,
        }
    }

    #[test]
    fn impossible_numbers_are_told_in_one_line() {
        let good = ten_thousand("6.12");
        good.check().unwrap();
        let cases: [(Situation, &str); 9] = [
            (Situation { nodes: 0, ..good.clone() }, "--nodes 0 is not possible: 1 to 1,024"),
            (Situation { cpus: 0, ..good.clone() }, "--cpus 0 is not possible: 1 to 65,536"),
            (
                Situation { groups: 1 << 40, ..good.clone() },
                "--groups 1099511627776 is not possible: 0 to 10,000,000",
            ),
            (
                Situation { lists_per_mount: 65, ..good.clone() },
                "--lists-per-mount 65 is not possible: 1 to 64",
            ),
            (
                Situation { page_size: 5000, ..good.clone() },
                "--page-size 5000 is not possible: a power of two from 4096 to 65536",
            ),
            (
                Situation { peak_groups: 9, ..good.clone() },
                "--peak-groups 9 is not possible: at least the 10000 groups there are",
            ),
            (
                Situation { used_per_group: Some(-1.0), ..good.clone() },
                "--used-per-group -1 is not possible: 0 or more",
            ),
            (
                Situation { used_per_group: Some(f64::NAN), ..good.clone() },
                "--used-per-group NaN is not possible: 0 or more",
            ),
            (
                Situation { used_per_group: Some(20_000.0), ..good.clone() },
                "--used-per-group 20000 is not possible: at most the 10000 mounts there are",
            ),
        ];
        for (situation, text) in cases {
            assert_eq!(situation.check().unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn users_of_a_list() {
        let used = |used_per_group, mounts, groups| {
            Situation { used_per_group, mounts, groups, ..ten_thousand("6.12") }.users_per_list()
        };
        assert_eq!(
            [used(None, 7, 3), used(Some(7.0), 70_000, 10_000), used(Some(2.0), 4, 10)],
            [1.0, 1.0, 5.0]
        );
        assert_eq!([used(None, 0, 9), used(None, 9, 0), used(Some(9.0), 9, 3)], [0.0, 0.0, 3.0]);
    }
}
