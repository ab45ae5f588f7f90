//! The figures that a condition can name. One table, from which parsing, help and errors all read.

use super::super::{Design, Report};

/// What a limit is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes, with or without a unit.
    Bytes,
    /// A ratio: `20%` or `0.2`.
    Ratio,
    /// A plain number.
    Count,
}

/// A figure of a design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// 1 − utilisation at the peak.
    Waste,
    /// Live bytes over slab bytes at the peak.
    Utilisation,
    /// The same averaged over time.
    AverageUtilisation,
    /// Slab bytes at the peak.
    Slab,
    /// Largest slab bytes, whenever.
    MaxSlab,
    /// Slab pages, owners, metadata, lists and shrinker state at the peak.
    Total,
    /// Bytes of owner vectors outside the slabs at the peak.
    Owners,
    /// Bytes of all other bookkeeping at the peak.
    Metadata,
    /// list_lrus at the peak.
    Lists,
    /// Shrinker state at the peak.
    Shrinkers,
    /// Handles of removed groups at the end.
    Orphans,
    /// Groups whose bytes are not the kernel's, over all stamps.
    Truth,
    /// What the design saves of the first design's total at the peak.
    Saved,
}

impl Metric {
    /// Every metric with its name, kind and meaning.
    pub const ALL: [(Self, &'static str, Kind, &'static str); 13] = [
        (Self::Waste, "waste", Kind::Ratio, "1 - utilisation at the peak"),
        (Self::Utilisation, "utilisation", Kind::Ratio, "live bytes / slab bytes at the peak"),
        (Self::AverageUtilisation, "average_utilisation", Kind::Ratio, "the same averaged over time"),
        (Self::Slab, "slab", Kind::Bytes, "slab pages at the peak"),
        (Self::MaxSlab, "max_slab", Kind::Bytes, "slab pages at their most"),
        (Self::Total, "total", Kind::Bytes, "slab pages, all bookkeeping, lists at the peak"),
        (Self::Owners, "owners", Kind::Bytes, "owner vectors outside the slabs at the peak"),
        (Self::Metadata, "metadata", Kind::Bytes, "all other bookkeeping at the peak"),
        (Self::Lists, "lists", Kind::Bytes, "list_lrus at the peak"),
        (Self::Shrinkers, "shrinkers", Kind::Bytes, "shrinker state at the peak"),
        (Self::Orphans, "orphans", Kind::Count, "handles of removed groups left at the end"),
        (Self::Truth, "truth", Kind::Count, "groups whose bytes are not the kernel's"),
        (Self::Saved, "saved", Kind::Ratio, "saved of the first design's total at the peak"),
    ];

    fn entry(self) -> (&'static str, Kind) {
        Self::ALL.iter().find(|e| e.0 == self).map_or(("?", Kind::Count), |e| (e.1, e.2))
    }
    /// As conditions name it.
    pub fn name(self) -> &'static str {
        self.entry().0
    }
    /// What its limit is written in.
    pub fn kind(self) -> Kind {
        self.entry().1
    }
    /// The metric called `name`.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|e| e.1 == name).map(|e| e.0)
    }

    /// The figure of `design`, the `index`-th of `report`; or what is missing.
    pub(super) fn of(self, report: &Report, index: usize, design: &Design) -> Result<f64, &'static str> {
        let peak = &design.at_peak.usage;
        let value = match self {
            Self::Waste => 1.0 - peak.utilisation(),
            Self::Utilisation => peak.utilisation(),
            Self::AverageUtilisation => design.average_utilisation,
            Self::Slab => peak.slab as f64,
            Self::MaxSlab => design.max_slab as f64,
            Self::Total => peak.total() as f64,
            Self::Owners => peak.owners as f64,
            Self::Metadata => peak.metadata as f64,
            Self::Lists => peak.lists as f64,
            Self::Shrinkers => peak.shrinkers as f64,
            Self::Orphans => design.orphans as f64,
            Self::Truth => return unequal(report, index),
            Self::Saved => {
                let first = report.designs.first().map_or(0, |d| d.at_peak.usage.total());
                if report.designs.len() < 2 {
                    return Err("there is no other design to save against: replay two (--design)");
                }
                if first == 0 { 0.0 } else { 1.0 - peak.total() as f64 / first as f64 }
            }
        };
        if value.is_finite() { Ok(value) } else { Err("the report holds no number for it") }
    }
}

fn unequal(report: &Report, index: usize) -> Result<f64, &'static str> {
    if report.truth.is_empty() {
        return Err("the recording holds none of the kernel's own figures; record with `tenalloc record`");
    }
    let mut rows = report.truth.iter().flat_map(|t| &t.rows).filter(|r| !r.older).peekable();
    if rows.peek().is_none() {
        return Err(
            "all groups with figures of the kernel are older than the recording: record one that is made in it",
        );
    }
    Ok(rows.filter(|r| r.designs.get(index) != Some(&r.kernel)).count() as f64)
}
