//! The first screen: what was recorded, and one bar a design of what it needs at the peak.

use serde::Serialize;

use super::super::units::{bytes, count, counted, round_percent, seconds};
use super::super::{Report, Trace};
use super::{HUES, largest, place, printable, share};

/// The recording in words.
#[derive(Serialize)]
pub(super) struct Facts {
    length: String,
    kernel: Option<String>,
    cpus: String,
    nodes: Option<String>,
    allocations: String,
    frees: String,
    groups: String,
    lost: Option<String>,
}

/// What one design needs at the peak.
#[derive(Serialize)]
pub(super) struct Bar {
    name: String,
    hue: usize,
    /// Utilisation of the slab pages.
    used: String,
    total: String,
    exact: String,
    parts: Vec<Part>,
    /// For whoever cannot see the bar.
    told: String,
}

/// A piece of a bar, placed in percent of the largest bar.
#[derive(Serialize)]
struct Part {
    class: &'static str,
    x: String,
    width: String,
    title: String,
}

pub(super) fn facts(trace: &Trace) -> Facts {
    Facts {
        length: seconds(trace.seconds),
        kernel: trace.kernel.as_deref().map(printable),
        cpus: counted(trace.cpus.into(), "CPU", "CPUs"),
        nodes: (trace.nodes > 1).then(|| format!("{} memory nodes", trace.nodes)),
        allocations: count(trace.allocations),
        frees: count(trace.matched_frees),
        groups: counted(trace.groups, "group", "groups"),
        lost: (trace.lost > 0).then(|| count(trace.lost)),
    }
}

/// A bar for each design; its colour is that of its slabs in `slim`.
pub(super) fn bars(report: &Report, slim: &Report) -> Vec<Bar> {
    let whole = largest(report, |u| u.total().max(u.live));
    let bar = |design: &super::super::Design| {
        let i = slim.designs.iter().position(|d| d.slabs() == design.slabs()).unwrap_or(0);
        let usage = design.at_peak.usage;
        let book = usage.owners.saturating_add(usage.metadata);
        let lists = usage.lists.saturating_add(usage.shrinkers);
        let pieces = [
            ("live", usage.live.min(usage.slab), "objects in use"),
            ("free", usage.wasted(), "empty slots in slabs"),
            ("book", book, "bookkeeping"),
            ("lists", lists, "list_lrus and shrinker state"),
        ];
        let mut x = 0.0;
        let mut parts = Vec::new();
        for (class, size, what) in pieces {
            let width = share(size, whole);
            let title = format!("{}: {what}, {} ({} bytes)", design.name, bytes(size), count(size));
            parts.push(Part { class, x: place(x), width: place(width), title: printable(&title) });
            x += width;
        }
        Bar {
            name: printable(&design.name),
            hue: i % HUES,
            used: round_percent(usage.utilisation()),
            total: bytes(usage.total()),
            exact: count(usage.total()),
            parts,
            told: format!(
                "{} in all: {} of objects in use, {} of empty slots, {} of bookkeeping, {} of list_lrus and shrinker state; {} of the slab pages in use.",
                bytes(usage.total()),
                bytes(usage.live),
                bytes(usage.wasted()),
                bytes(book),
                bytes(lists),
                round_percent(usage.utilisation()),
            ),
        }
    };
    report.designs.iter().map(bar).collect()
}
