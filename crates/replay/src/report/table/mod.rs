//! The report on a terminal: the result in a sentence, then the figures behind it.
//!
//! [`write()`] lays out the whole; `designs` has all designs in one line each, `figures` has the per-design block, `tops` the lists of caches and groups.
//! The kernel comparison is its own command's output, see [`super::truth`].

use std::io::{self, Write};

use super::compare::{self, Saving, headline};
use super::grid::{Cell, Cut, Grid, Ink, wrap};
use super::units::{bytes, count, counted, percent, seconds};
use super::{Report, Trace};

mod designs;
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
    designs::write(report, style, out)?;
    let slabs = compare::by_slabs(report);
    figures::write(&slabs, style, out)?;
    sharing(&slabs, style, out)?;
    tops::caches(&slabs, style, out)?;
    tops::groups(&slabs, style, out)?;
    if !(report.truth.is_empty() && report.notes.is_empty()) {
        writeln!(out)?;
    }
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
        format!("{} allocations ({} accounted)", count(trace.allocations), count(trace.accounted)),
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

/// One line a design: which part of its slabs holds objects of how many groups.
fn sharing(report: &Report, style: Style, out: &mut impl Write) -> io::Result<()> {
    let classes = report.designs.iter().map(|d| d.sharing.by_owners.len()).max().unwrap_or(0);
    if report.designs.iter().all(|d| d.sharing.slabs() == 0) {
        return Ok(());
    }
    // `n` and `more` as in the model: its last class holds all above, too.
    let last = classes.saturating_sub(1).max(2);
    let ranges = [(0..1, "none".into()), (1..2, "1 group".into()), (2..last, "several".into())];
    let ranges: Vec<(std::ops::Range<usize>, String)> = ranges
        .into_iter()
        .chain([(last..classes, format!("{last} or more"))])
        .filter(|r| !r.0.is_empty())
        .collect();
    let mut grid = Grid::new(Cut::End);
    let mut head = vec![Cell::from("slabs by groups served"), Cell::from("slabs").ink(Ink::Dim)];
    head.extend(ranges.iter().map(|r| Cell::from(r.1.as_str()).ink(Ink::Dim)));
    grid.row(head);
    for design in &report.designs {
        let slabs = design.sharing.slabs();
        let mut row = vec![Cell::from(format!("  {}", design.name)), count(slabs).into()];
        for (range, _) in &ranges {
            let owners = design.sharing.by_owners.iter().take(range.end).skip(range.start);
            let n = owners.fold(0u64, |sum, n| sum.saturating_add(*n));
            row.push(if slabs == 0 { "–".into() } else { percent(n as f64 / slabs as f64).into() });
        }
        grid.row(row);
    }
    writeln!(out)?;
    grid.print(out, style.width, style.colour)
}

/// `1.50 MiB (1,572,864)` where there is room for exact bytes.
fn exact(n: u64, wide: bool) -> String {
    if wide && n >= 1024 { format!("{} ({})", bytes(n), count(n)) } else { bytes(n) }
}
