//! The two tables of the traces' README, line by line.

/// A comparison with the kernel: label, cgroups, of these equal to the byte, and by how many bytes each of the others
/// is off; those that stood before the recording are among the others.
pub(crate) struct Stamp {
    pub(crate) label: &'static str,
    pub(crate) groups: u64,
    pub(crate) equal: u64,
    pub(crate) ours: u64,
    pub(crate) kernel: u64,
    pub(crate) differ: &'static [(&'static str, i64)],
    pub(crate) older: &'static [&'static str],
}

/// A recording.
pub(crate) struct Expected {
    pub(crate) name: &'static str,
    pub(crate) nodes: u8,
    pub(crate) cpus: u16,
    pub(crate) samples: u64,
    pub(crate) seconds: f64,
    pub(crate) allocations: u64,
    /// Per cent, where the kernel tells it.
    pub(crate) accounted: Option<f64>,
    pub(crate) matched_frees: u64,
    pub(crate) unseen_frees: u64,
    pub(crate) hidden_frees: u64,
    pub(crate) live_at_end: u64,
    pub(crate) peak_live_bytes: u64,
    pub(crate) stamps: &'static [Stamp],
}

const fn stamp(
    label: &'static str,
    (groups, equal): (u64, u64),
    (ours, kernel): (u64, u64),
    differ: &'static [(&'static str, i64)],
) -> Stamp {
    Stamp { label, groups, equal, ours, kernel, differ, older: &[] }
}

/// The machine's own reader of the counters, which began before perf.
const fn with_reader(stamp: Stamp) -> Stamp {
    Stamp { older: &["/g/mgr"], ..stamp }
}

pub(crate) const SMALL: Expected = Expected {
    name: "small",
    nodes: 4,
    cpus: 4,
    samples: 529_874,
    seconds: 15.54,
    allocations: 240_430,
    accounted: Some(41.1),
    matched_frees: 228_370,
    unseen_frees: 623,
    hidden_frees: 33,
    live_at_end: 12_027,
    peak_live_bytes: 14_520_104,
    stamps: &[with_reader(stamp("steady", (41, 40), (8_105_696, 8_107_368), &[("/g/mgr", -1_672)]))],
};

pub(crate) const CHURN300: Expected = Expected {
    name: "churn300",
    nodes: 2,
    cpus: 2,
    samples: 3_570_515,
    seconds: 65.18,
    allocations: 1_630_520,
    accounted: Some(40.2),
    matched_frees: 1_537_824,
    unseen_frees: 635,
    hidden_frees: 4_827,
    live_at_end: 87_869,
    peak_live_bytes: 125_425_664,
    stamps: &[with_reader(stamp("steady", (301, 300), (62_507_064, 62_504_304), &[("/g/mgr", 2_760)]))],
};

pub(crate) const MARIADB_RW: Expected = Expected {
    name: "mariadb_rw",
    nodes: 1,
    cpus: 2,
    samples: 1_226_302,
    seconds: 79.66,
    allocations: 613_639,
    accounted: Some(87.0),
    matched_frees: 605_571,
    unseen_frees: 1_548,
    hidden_frees: 39,
    live_at_end: 8_029,
    peak_live_bytes: 1_976_088,
    stamps: &[
        stamp("steady", (2, 1), (860_272, 908_848), &[("/g/mysqld", -48_576)]),
        stamp("steady2", (2, 1), (678_296, 726_872), &[("/g/mysqld", -48_576)]),
    ],
};

pub(crate) const KBUILD_TINY: Expected = Expected {
    name: "kbuild_tiny",
    nodes: 2,
    cpus: 2,
    samples: 2_362_198,
    seconds: 243.69,
    allocations: 1_059_445,
    accounted: Some(44.8),
    matched_frees: 1_025_051,
    unseen_frees: 26_031,
    hidden_frees: 3_379,
    live_at_end: 31_015,
    peak_live_bytes: 10_533_544,
    stamps: &[
        stamp("steady1", (1, 1), (8_478_688, 8_478_688), &[]),
        stamp("steady2", (1, 1), (8_810_648, 8_810_648), &[]),
        stamp("steady3", (1, 1), (9_148_728, 9_148_728), &[]),
        stamp("steady4", (1, 1), (9_177_344, 9_177_344), &[]),
    ],
};

pub(crate) const NUMA4_CHURN_612: Expected = Expected {
    name: "numa4_churn_612",
    nodes: 4,
    cpus: 4,
    samples: 1_427_941,
    seconds: 31.81,
    allocations: 669_576,
    accounted: Some(49.0),
    matched_frees: 654_834,
    unseen_frees: 571,
    hidden_frees: 3_723,
    live_at_end: 11_019,
    peak_live_bytes: 37_215_360,
    stamps: &[stamp("steady", (150, 149), (10_207_080, 10_204_248), &[("/g/c0219", 2_832)])],
};

/// The kernel of this one does not tell what is accounted: its stamp is in the file and cannot be met.
pub(crate) const NUMA4_CHURN_510: Expected = Expected {
    name: "numa4_churn_510",
    nodes: 4,
    cpus: 4,
    samples: 1_151_223,
    seconds: 13.23,
    allocations: 578_286,
    accounted: None,
    matched_frees: 547_044,
    unseen_frees: 737,
    hidden_frees: 41,
    live_at_end: 31_201,
    peak_live_bytes: 20_663_328,
    stamps: &[],
};
