//! The report on a terminal: the result in a sentence, then the figures behind it.
//!
//! [`write`] lays out the whole; `figures` has the per-design block, `tops` the lists of caches and groups.
//! The kernel comparison is its own command's output, see [`super::truth`].

use std::io::{self, Write};

use super::compare::{Saving, headline};
use super::grid::{Ink, wrap};
use super::units::{bytes, count, counted, percent, seconds};
use super::{Design, Report, Trace};

pub(super) mod figures;
mod tops;

/// How to print; the caller finds out (terminal, `NO_COLOR`, columns).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Use ANSI colours.
    pub colour: bool,
    /// Cells in a line. Less than 80 still prints everything, in longer lines if need be.
    pub width: usize,
}

impl Default for Style {
    /// 80 columns, no colour.
    fn default() -> Self {
        Self { colour: false, width: 80 }
    }
}

/// Writes the table.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, style: Style, mut out: impl Write) -> io::Result<()> {
    let out = &mut out;
    let ink = match Saving::of(report).map(|s| s.bytes()) {
        Some(saved) if saved > 0 => Ink::Good,
        Some(saved) if saved < 0 => Ink::Bad,
        _ => Ink::Bold,
    };
    inked(out, ink, "", &headline(report), style)?;
    writeln!(out)?;
    trace(&report.trace, style, out)?;
    figures::write(report, style, out)?;
    sharing(report, style, out)?;
    tops::caches(report, style, out)?;
    tops::groups(report, style, out)?;
    super::truth::summary(report, style, out)?;
    for note in &report.notes {
        inked(out, Ink::Warn, "note      ", note, style)?;
    }
    Ok(())
}

/// [`wrap`] with every line in `ink`.
fn inked(out: &mut impl Write, ink: Ink, lead: &str, text: &str, style: Style) -> io::Result<()> {
    let mut lines = Vec::new();
    wrap(&mut lines, lead, text, style.width)?;
    for line in String::from_utf8_lossy(&lines).lines() {
        writeln!(out, "{}", ink.paint(line, style.colour))?;
    }
    Ok(())
}

fn trace(trace: &Trace, style: Style, out: &mut impl Write) -> io::Result<()> {
    let mut machine = vec![trace.path.clone()];
    machine.extend(trace.kernel.clone());
    machine.push(counted(trace.cpus.into(), "CPU", "CPUs"));
    machine.push(counted(trace.nodes.into(), "node", "nodes"));
    machine.push(seconds(trace.seconds));
    wrap(out, "trace     ", &machine.join(" · "), style.width)?;
    let events = [
        format!("{} samples", count(trace.events)),
        format!("{} allocations ({} charged to a group)", count(trace.allocations), count(trace.accounted)),
        format!("{} frees", count(trace.matched_frees)),
        counted(trace.groups, "group", "groups"),
        format!("{} live at the end", count(trace.live_at_end)),
        format!("read in {}", seconds(trace.read_ns as f64 / 1e9)),
    ];
    wrap(out, "events    ", &events.join(" · "), style.width)?;
    let mut odd = Vec::new();
    for (n, what) in [
        (trace.lost, "lost by perf"),
        (trace.unseen_frees, "frees of objects never seen allocated"),
        (trace.hidden_frees, "frees without an event"),
    ] {
        if n > 0 {
            odd.push(format!("{} {what}", count(n)));
        }
    }
    if !odd.is_empty() {
        wrap(out, "          ", &odd.join(" · "), style.width)?;
    }
    Ok(())
}

/// One line a design: how many slabs hold objects of how many groups.
fn sharing(report: &Report, style: Style, out: &mut impl Write) -> io::Result<()> {
    for design in report.designs.iter().filter(|d| d.sharing.slabs() > 0) {
        wrap(out, "sharing   ", &format!("{}: {}", design.name, sharing_line(design)), style.width)?;
    }
    Ok(())
}

fn sharing_line(design: &Design) -> String {
    let slabs = design.sharing.slabs();
    let at = |range: std::ops::Range<usize>| -> u64 {
        design.sharing.by_owners.iter().take(range.end).skip(range.start).sum()
    };
    let mut parts = vec![counted(slabs, "slab", "slabs")];
    let last = design.sharing.by_owners.len().saturating_sub(1);
    for (n, what) in [
        (at(0..1), "hold no group's objects".to_string()),
        (at(1..2), "one group's".into()),
        (at(2..last.max(2)), "those of several groups".into()),
        (at(last.max(2)..usize::MAX), format!("those of {last} groups or more")),
    ] {
        if n > 0 {
            parts.push(format!("{} {what}", percent(n as f64 / slabs as f64)));
        }
    }
    parts.join(", ")
}

/// `1.50 MiB (1,572,864)` where there is room for exact bytes.
fn exact(n: u64, wide: bool) -> String {
    if wide && n >= 1024 { format!("{} ({})", bytes(n), count(n)) } else { bytes(n) }
}
