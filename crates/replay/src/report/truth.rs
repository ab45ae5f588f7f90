//! The kernel comparison: each group's bytes in the kernel's own `memory.stat` against the replay's.
//!
//! Apart from the table, which says in one line how many groups are equal (`summary`): this has every group that is
//! not, and is printed behind the table when `--truth` asks for it. Groups older than the recording hold objects that no
//! event tells of: they are shown, and not compared.

use std::io::{self, Write};

use super::grid::{Cell, Cut, Grid, Ink, printable, shorten, wrap};
use super::table::Style;
use super::units::{count, counted, seconds};
use super::{Report, Truth, TruthRow};

/// Rows of a stamp that are equal are counted; of those that differ, at most this many are shown.
const ROWS: usize = 200;

impl TruthRow {
    /// Every design's figure is the kernel's. False when there is no design.
    pub fn is_equal(&self) -> bool {
        !self.designs.is_empty() && self.designs.iter().all(|d| *d == self.kernel)
    }

    /// It is compared, and not equal.
    pub(super) fn differs(&self) -> bool {
        !self.older && !self.is_equal()
    }
}

/// Writes the groups that differ and those that are not compared, each stamp's behind an empty line; nothing when all are
/// equal.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, style: Style, mut out: impl Write) -> io::Result<()> {
    let out = &mut out;
    if report.truth.is_empty() {
        writeln!(out)?;
        return wrap(out, "", NONE, style.width);
    }
    report.truth.iter().try_for_each(|truth| stamp(report, truth, style, out))
}

const NONE: &str = "The recording holds none of the kernel's own figures. `tenalloc record` keeps them; \
                    a bare perf.data has none.";

fn stamp(report: &Report, truth: &Truth, style: Style, out: &mut impl Write) -> io::Result<()> {
    let mut rows: Vec<&TruthRow> = truth.rows.iter().filter(|r| r.older || r.differs()).collect();
    rows.sort_by_key(|r| (r.older, std::cmp::Reverse(largest_difference(r))));
    let mut grid = Grid::new(Cut::Middle);
    // Charging is what a design does not change: where all agree, one column says it.
    let agree = rows.iter().all(|r| r.designs.windows(2).all(|w| w.first() == w.last()));
    let mut head = vec![
        Cell::from(format!("{} at {}", shorten(&printable(&truth.label), 24, Cut::End), seconds(truth.t))),
        Cell::from("kernel"),
    ];
    if agree {
        head.push(
            Cell::from(if report.designs.len() > 1 { "every design" } else { "replay" }).ink(Ink::Bold),
        );
    } else {
        head.extend(
            report
                .designs
                .iter()
                .map(|d| Cell::from(shorten(&printable(&d.name), 14, Cut::End)).ink(Ink::Bold)),
        );
    }
    head.push(Cell::from("off by").ink(Ink::Dim));
    grid.row(head);
    for row in rows.iter().take(ROWS) {
        let mut cells: Vec<Cell> = vec![format!("  {}", row.path).into(), count(row.kernel).into()];
        let shown = if agree { 1 } else { row.designs.len() };
        cells.extend(row.designs.iter().take(shown).map(|d| Cell::from(count(*d))));
        cells.push(match row.older {
            true => Cell::from("older").ink(Ink::Dim),
            false => Cell::from(off_by(row)).ink(Ink::Bad),
        });
        grid.row(cells);
    }
    if !rows.is_empty() {
        writeln!(out)?;
        grid.print(out, style.width, style.colour)?;
    }
    if rows.len() > ROWS {
        writeln!(out, "  … and {} more", count((rows.len() - ROWS) as u64))?;
    }
    Ok(())
}

/// The last design against the kernel.
fn off_by(row: &TruthRow) -> String {
    let off = row.designs.last().map_or(0, |d| i128::from(*d) - i128::from(row.kernel));
    let sign = if off < 0 { "−" } else { "+" };
    format!("{sign}{}", count(u64::try_from(off.unsigned_abs()).unwrap_or(u64::MAX)))
}

fn largest_difference(row: &TruthRow) -> u64 {
    row.designs.iter().map(|d| d.abs_diff(row.kernel)).max().unwrap_or(0)
}

/// One line a stamp: how many groups are equal.
pub(super) fn summary(report: &Report, style: Style, out: &mut impl Write) -> io::Result<()> {
    for truth in &report.truth {
        wrap(out, "truth     ", &sentence(truth), style.width)?;
    }
    Ok(())
}

/// `steady at 14.5 s: 40 of 40 groups equal the kernel's own figure to the byte, under every design; 1 older than the
/// recording, not compared`.
pub(super) fn sentence(truth: &Truth) -> String {
    let designs = truth.rows.iter().map(|row| row.designs.len()).max().unwrap_or(0);
    let when = format!("{} at {}", truth.label, seconds(truth.t));
    let older = format!("{} older than the recording, not compared", count(truth.older));
    if truth.groups == 0 {
        return format!("{when}: {older}");
    }
    format!(
        "{when}: {} of {} equal the kernel's own figure to the byte{}{}",
        count(truth.equal),
        counted(truth.groups, "group", "groups"),
        if designs > 1 { ", under every design" } else { "" },
        if truth.older > 0 { format!("; {older}") } else { String::new() },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(designs: usize, kernel: u64) -> Report {
        let row = TruthRow { path: "/g".into(), kernel, designs: vec![72; designs], older: false };
        let equal = row.is_equal().into();
        let truth = Truth { label: "steady".into(), t: 14.5, groups: 1, equal, rows: vec![row], older: 0 };
        Report { truth: vec![truth], ..Report::default() }
    }

    fn printed(report: &Report) -> String {
        let mut out = Vec::new();
        write(report, Style::default(), &mut out).expect("writes to memory");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn every_design_is_spoken_of_where_there_are_several() {
        let told = |designs| sentence(&report(designs, 72).truth[0]);
        assert_eq!(told(1), "steady at 14.5 s: 1 of 1 group equal the kernel's own figure to the byte");
        assert_eq!(told(2), told(1) + ", under every design");
    }

    #[test]
    fn only_what_differs_is_listed() {
        assert_eq!(printed(&report(2, 72)), "");
        let text = printed(&report(2, 80));
        assert!(text.starts_with("\nsteady at 14.5 s") && text.ends_with("80      72      −8\n"), "{text:?}");
        assert!(!text.contains("equal"), "{text}");
        assert!(printed(&Report::default()).starts_with("\nThe recording holds none"));
    }

    #[test]
    fn what_is_older_is_told_behind_what_differs_and_not_counted_with_it() {
        let mut both = report(2, 80);
        let older = TruthRow { path: "/old".into(), kernel: 9_000, designs: vec![72; 2], older: true };
        both.truth[0].rows.insert(0, older);
        both.truth[0].older = 1;
        let text = printed(&both);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert!(lines.len() == 2 && lines[0].ends_with("72      −8"), "{text}");
        assert!(lines[1].starts_with("  /old") && lines[1].ends_with("72   older"), "{text}");
        let told = sentence(&both.truth[0]);
        assert!(told.contains(": 0 of 1 group equal"), "{told}");
        assert!(told.ends_with("under every design; 1 older than the recording, not compared"), "{told}");
        // Where all are older, there is no "0 of 0".
        both.truth[0].rows.truncate(1);
        both.truth[0].groups = 0;
        assert_eq!(sentence(&both.truth[0]), "steady at 14.5 s: 1 older than the recording, not compared");
    }
}
