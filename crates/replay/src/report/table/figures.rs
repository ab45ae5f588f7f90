//! One column a design, one line a figure, and what the last design saves against the first.

use std::io::{self, Write};

use super::super::grid::{Cell, Cut, Grid, Ink, printable, shorten};
use super::super::units::{bytes, count, percent, rate, seconds, signed_bytes};
use super::super::{Design, Report};
use super::{Style, exact};

/// A line of the block.
struct Line {
    label: &'static str,
    show: fn(&Design, bool) -> String,
    /// Bytes, where less is better and a difference is worth telling.
    size: Option<fn(&Design) -> u64>,
}

const fn size(label: &'static str, size: fn(&Design) -> u64, show: fn(&Design, bool) -> String) -> Line {
    Line { label, show, size: Some(size) }
}
const fn plain(label: &'static str, show: fn(&Design, bool) -> String) -> Line {
    Line { label, show, size: None }
}

const LINES: &[Line] = &[
    size("all memory at peak", |d| d.at_peak.usage.total(), |d, w| exact(d.at_peak.usage.total(), w)),
    size("  slab pages", |d| d.at_peak.usage.slab, |d, w| exact(d.at_peak.usage.slab, w)),
    plain("    live objects", |d, w| exact(d.at_peak.usage.live, w)),
    plain("    free, near CPUs", |d, w| exact(d.at_peak.usage.cached, w)),
    size("  owners", |d| d.at_peak.usage.owners, |d, w| exact(d.at_peak.usage.owners, w)),
    size("  other metadata", |d| d.at_peak.usage.metadata, |d, w| exact(d.at_peak.usage.metadata, w)),
    size("  list_lru", |d| d.at_peak.usage.lists, |d, w| exact(d.at_peak.usage.lists, w)),
    size("  shrinker state", |d| d.at_peak.usage.shrinkers, |d, w| exact(d.at_peak.usage.shrinkers, w)),
    size("slab pages, most ever", |d| d.max_slab, |d, w| exact(d.max_slab, w)),
    size("  average over time", |d| d.average.slab, |d, w| exact(d.average.slab, w)),
    size("  at the end", |d| d.at_end.usage.slab, |d, w| exact(d.at_end.usage.slab, w)),
    plain("utilisation at peak", |d, _| percent(d.at_peak.usage.utilisation())),
    plain("  average over time", |d, _| percent(d.average_utilisation)),
    plain("  at the end", |d, _| percent(d.at_end.usage.utilisation())),
    plain("  at peak, of all", |d, _| percent(d.at_peak.usage.utilisation_of_total())),
    plain("groups made, removed", |d, _| format!("{}, {}", count(d.groups_created), count(d.groups_removed))),
    plain("  handles left over", |d, _| count(d.orphans)),
    plain("sums checked", |d, _| count(d.checks.groups)),
    plain("operations run", |d, _| count(d.ops)),
    plain("  in", |d, _| seconds(d.run_ns as f64 / 1e9)),
    plain("  a second", |d, _| if d.run_ns == 0 { "–".into() } else { rate(d.ops_per_second()) }),
];

/// Cells that the labels and the two columns of the difference need.
const LABELS: usize = 22;
const DIFFERENCE: usize = 24;

pub(super) fn write(report: &Report, style: Style, out: &mut impl Write) -> io::Result<()> {
    let (Some(first), Some(last)) = (report.designs.first(), report.designs.last()) else { return Ok(()) };
    let several = report.designs.len() > 1;
    let wide = style.width >= LABELS + DIFFERENCE + 26 * report.designs.len();
    let column = if wide { 26 } else { 12 };
    let fit = |cells: usize| (style.width.saturating_sub(cells) / column).max(1);
    let blocks = blocks(&report.designs, fit(LABELS), fit(LABELS + DIFFERENCE));
    for (i, block) in blocks.iter().enumerate() {
        // The difference belongs to the last design: it stands beside it, once.
        let difference = several && i + 1 == blocks.len();
        let mut grid = Grid::new(Cut::End);
        let mut head = vec![Cell::from("")];
        head.extend(block.iter().map(|d| Cell::from(name(d, column)).ink(Ink::Bold)));
        if difference {
            head.push(Cell::from(format!("vs {}", name(first, 14))).ink(Ink::Dim));
        }
        grid.row(head);
        for line in LINES {
            let mut row = vec![Cell::from(line.label)];
            row.extend(block.iter().map(|d| Cell::from((line.show)(d, wide))));
            if let (true, Some(size)) = (difference, line.size) {
                row.extend(change(size(first), size(last)));
            }
            grid.row(row);
        }
        writeln!(out)?;
        grid.print(out, style.width, style.colour)?;
    }
    Ok(())
}

/// The designs in blocks of at most `most`, of much the same size; the last, which has the difference beside
/// it, of at most `last`.
fn blocks(designs: &[Design], most: usize, last: usize) -> Vec<&[Design]> {
    let (before, end) = designs.split_at(designs.len().saturating_sub(last));
    let count = before.len().div_ceil(most).max(1);
    let mut blocks: Vec<&[Design]> = before.chunks(before.len().div_ceil(count).max(1)).collect();
    blocks.push(end);
    blocks
}

/// A figure as text: its label, whether it is part of the one above, and for each design the figure and, where that
/// is rounded, the same with exact bytes.
type Row = (&'static str, bool, Vec<(String, String)>);

/// Every figure.
pub(in crate::report) fn rows(report: &Report) -> Vec<Row> {
    let both = |line: &Line, d| ((line.show)(d, false), (line.show)(d, true));
    let values = |line: &Line| report.designs.iter().map(|d| both(line, d)).collect();
    LINES.iter().map(|line| (line.label.trim_start(), line.label.starts_with(' '), values(line))).collect()
}

/// What `after` adds to `before`, in bytes and percent.
fn change(before: u64, after: u64) -> [Cell; 2] {
    let difference = i128::from(after) - i128::from(before);
    let ink = match difference {
        0 => Ink::Dim,
        1.. => Ink::Bad,
        _ => Ink::Good,
    };
    let ratio = match before {
        0 => String::new(),
        _ if difference > 0 => format!("+{}", percent(difference as f64 / before as f64)),
        _ => percent(difference as f64 / before as f64),
    };
    [Cell::from(signed_bytes(difference)).ink(ink), Cell::from(ratio).ink(ink)]
}

fn name(design: &Design, width: usize) -> String {
    shorten(&printable(&design.name), width.saturating_sub(2), Cut::End)
}

/// `bytes` of a cell that a design may lack.
pub(super) fn bytes_or_dash(n: Option<u64>) -> String {
    n.map_or("–".into(), bytes)
}
