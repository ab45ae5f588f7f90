//! What a replay found: plain data, and by its serde form the JSON schema (`docs/report.md`).
//!
//! Nothing here computes more than a ratio. The views stand beside it and only read it: [`table`] for a
//! terminal, [`json`] and [`csv`] for programs, [`html`] for people, [`check`] for CI. What several of them
//! need (the one-sentence result, rows joined over designs) is in [`compare`].
//!
//! Fields are written in the order of declaration; new ones go to the end of their struct.

use serde::{Deserialize, Serialize};

pub mod atomic;
pub mod check;
pub mod compare;
pub mod csv;
pub mod html;
pub mod json;
pub mod table;
pub mod truth;
pub mod units;

mod grid;

/// [`Report::schema`] of every report.
pub const SCHEMA: &str = "tenalloc.replay";
/// [`Report::version`] of the reports written here.
pub const VERSION: u32 = 2;

/// A whole report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// `tenalloc.replay`.
    pub schema: String,
    /// Raised when a field changes its meaning or goes; new fields do not raise it.
    pub version: u32,
    /// Version of tenalloc that wrote this.
    pub tenalloc: String,
    /// What was replayed.
    pub trace: Trace,
    /// One entry a design, in the order asked for.
    pub designs: Vec<Design>,
    /// The replay's bytes per group against the kernel's, where the trace holds them.
    pub truth: Vec<Truth>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// The recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// As given on the command line.
    pub path: String,
    /// `uname` text, where known.
    pub kernel: Option<String>,
    /// CPUs of the recorded machine.
    pub cpus: u16,
    /// NUMA nodes of the recorded machine.
    pub nodes: u8,
    /// Seconds from the first to the last event.
    pub seconds: f64,
    /// Samples by event name.
    pub samples: Vec<(String, u64)>,
    /// All samples.
    pub events: u64,
    /// See `tenalloc_trace::program::Counts` for these.
    pub allocations: u64,
    /// Accounted allocations.
    pub accounted: u64,
    /// Frees of objects seen allocated.
    pub matched_frees: u64,
    /// Frees of pointers never seen allocated: skipped.
    pub unseen_frees: u64,
    /// Frees without an event, inferred from reuse of the address.
    pub hidden_frees: u64,
    /// Events that perf lost.
    pub lost: u64,
    /// Objects live after the last event.
    pub live_at_end: u64,
    /// cgroups that were charged at least once.
    pub groups: u64,
    /// Largest sum of live bytes of accounted and unaccounted objects, the recorded kernel's own among them.
    pub peak_live_bytes: u64,
    /// ns spent reading and resolving.
    pub read_ns: u64,
    /// Objects of the recorded kernel's own list_lrus and shrinker state: not replayed, each design has its own.
    pub own: u64,
    /// Superblocks seen made.
    pub supers: u64,
}

/// Sizes at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Live objects: Σ slot size.
    pub live: u64,
    /// Pages held by slabs.
    pub slab: u64,
    /// Owner vectors outside the slabs' own pages.
    pub owners: u64,
    /// All other bookkeeping: cache, slab and group descriptors, per-CPU areas.
    pub metadata: u64,
    /// Free objects held near CPUs (part of `slab`).
    pub cached: u64,
    /// list_lrus: as that kernel would spend for what was built; for tenalloc, which is no kernel, as allocated here.
    pub lists: u64,
    /// Shrinker state of groups, in the same way.
    pub shrinkers: u64,
}

impl Usage {
    /// Everything: slab pages and what is needed to run them, list_lrus and shrinker state.
    pub fn total(&self) -> u64 {
        [self.owners, self.metadata, self.lists, self.shrinkers]
            .iter()
            .fold(self.slab, |sum, n| sum.saturating_add(*n))
    }
    /// Live bytes / slab bytes, 0..=1; 1 when there is no slab.
    pub fn utilisation(&self) -> f64 {
        if self.slab == 0 { 1.0 } else { self.live as f64 / self.slab as f64 }
    }
    /// Live bytes / all bytes.
    pub fn utilisation_of_total(&self) -> f64 {
        if self.total() == 0 { 1.0 } else { self.live as f64 / self.total() as f64 }
    }
    /// Bytes of slab pages that hold no live object.
    pub fn wasted(&self) -> u64 {
        self.slab.saturating_sub(self.live)
    }
}

/// [`Usage`] at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the first event.
    pub t: f64,
    /// Sizes then.
    #[serde(flatten)]
    pub usage: Usage,
}

/// What one design did with the trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// `linux-5.8`, `tenalloc` …
    pub name: String,
    /// One sentence on how it works.
    pub summary: String,
    /// ≤ 400 samples, evenly spaced in time, the first at 0 and the last at the end.
    pub series: Vec<Sample>,
    /// At the moment most bytes were live (the same for every design).
    pub at_peak: Sample,
    /// At the end.
    pub at_end: Sample,
    /// Largest slab bytes, whenever.
    pub max_slab: u64,
    /// Averages over time.
    pub average: Usage,
    /// Live bytes over slab bytes, both averaged over time.
    pub average_utilisation: f64,
    /// By cache at the peak, most free bytes first.
    pub caches: Vec<Cache>,
    /// By group at the peak, most bytes first.
    pub groups: Vec<Group>,
    /// Who shares slabs with whom at the peak.
    pub sharing: Sharing,
    /// Groups made.
    pub groups_created: u64,
    /// Groups removed.
    pub groups_removed: u64,
    /// Handles of removed groups that live objects still hold, at the end.
    pub orphans: u64,
    /// ns that the design took for all ops.
    pub run_ns: u64,
    /// Allocations, frees, group and mount steps run.
    pub ops: u64,
    /// What was verified after the run.
    pub checks: Checks,
    /// The design whose slabs these are: several designs differ in their lists alone. Everything but the three fields
    /// below and the two of [`Usage`] is then the same.
    pub slabs_of: String,
    /// list_lrus and shrinker state at the peak.
    pub lists_at_peak: ListUsage,
    /// The same after the last event.
    pub lists_at_end: ListUsage,
    /// What was ever allocated for them; empty for tenalloc.
    pub lists_made: Vec<Made>,
    /// (list_lru, group) pairs that were used.
    pub lists_used: u64,
}

/// list_lrus and shrinker state by what they are for, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lists {
    /// List heads.
    pub heads: u64,
    /// What leads from a group to its heads.
    pub index: u64,
    /// The list_lrus themselves, with their lists for objects of nobody.
    pub lrus: u64,
    /// What shrinkers keep for each group and node.
    pub shrinkers: u64,
}

impl Lists {
    /// All that list_lru takes.
    pub fn lists(&self) -> u64 {
        self.heads.saturating_add(self.index).saturating_add(self.lrus)
    }
}

/// [`Lists`] in two ways that must not be mixed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListUsage {
    /// As that kernel would spend for exactly what was built. For tenalloc the same as `here`.
    pub kernel: Lists,
    /// As allocated in this process for it.
    pub here: Lists,
}

/// Allocations of one kind and size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// `heads`, `index`, `lru`, `shrinker`.
    pub what: String,
    /// Bytes that the kernel asks for.
    pub asked: u64,
    /// Bytes that `kmalloc` takes for it.
    pub taken: u64,
    /// How many were made.
    pub made: u64,
    /// How many of them there are at the end.
    pub live: u64,
}

impl Design {
    /// The design whose slabs these are; its own name where a report does not tell.
    pub fn slabs(&self) -> &str {
        if self.slabs_of.is_empty() { &self.name } else { &self.slabs_of }
    }
    /// Ops a second; 0 when the run took no measurable time.
    pub fn ops_per_second(&self) -> f64 {
        if self.run_ns == 0 { 0.0 } else { self.ops as f64 / (self.run_ns as f64 / 1e9) }
    }
}

/// One cache at the peak.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// Kernel's name.
    pub name: String,
    /// Bytes from one object to the next.
    pub slot_size: u32,
    /// Live objects.
    pub objects: u64,
    /// Bytes of live objects.
    pub live: u64,
    /// Bytes of slab pages.
    pub slab: u64,
    /// Slabs.
    pub slabs: u64,
}

impl Cache {
    /// Bytes of slab pages that hold no live object.
    pub fn wasted(&self) -> u64 {
        self.slab.saturating_sub(self.live)
    }
    /// Live bytes / slab bytes, 0..=1; 1 when there is no slab.
    pub fn utilisation(&self) -> f64 {
        if self.slab == 0 { 1.0 } else { self.live as f64 / self.slab as f64 }
    }
}

/// One group at the peak.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Path, or the row in brackets for what is not known.
    pub path: String,
    /// Whether the group was already removed.
    pub removed: bool,
    /// Live objects it owns itself.
    pub objects: u64,
    /// Bytes it is charged by object, as the kernel would: Σ (slot + 8).
    pub used: u64,
    /// Bytes of pages charged to it under this design.
    pub charged: u64,
}

/// How groups share slabs at the peak.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sharing {
    /// `slabs[i]` = slabs with objects of `i` groups, the last entry: that many or more. Length ≤ 9.
    pub by_owners: Vec<u64>,
    /// The groups of the matrix: the ones with most slabs, at most 16.
    pub groups: Vec<String>,
    /// `matrix[a][b]` = slabs with objects of both; the diagonal: slabs with objects of `a`.
    pub matrix: Vec<Vec<u64>>,
}

impl Sharing {
    /// All slabs.
    pub fn slabs(&self) -> u64 {
        self.by_owners.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }
    /// Slabs with objects of two groups or more.
    pub fn shared(&self) -> u64 {
        self.by_owners.iter().skip(2).fold(0, |sum, n| sum.saturating_add(*n))
    }
}

/// What was verified.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checks {
    /// Groups whose exact charge equals Σ of their live objects.
    pub groups: u64,
    /// Times the plain model was compared in full.
    pub model: u64,
}

/// One group against the kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TruthRow {
    /// cgroup path.
    pub path: String,
    /// `memory.stat` slab, bytes.
    pub kernel: u64,
    /// The design's exact charge, bytes, in the order of `Report::designs`.
    pub designs: Vec<u64>,
    /// It stood before the recording and holds objects that no event tells of: it is not compared.
    pub older: bool,
}

/// One stamp against the kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// The stamp's name.
    pub label: String,
    /// Seconds since the first event.
    pub t: f64,
    /// Groups compared.
    pub groups: u64,
    /// Groups equal to the byte, under every design.
    pub equal: u64,
    /// Every group.
    pub rows: Vec<TruthRow>,
    /// Groups older than the recording, which are not compared.
    pub older: u64,
}
