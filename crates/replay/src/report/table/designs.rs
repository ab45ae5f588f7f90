//! All designs in one line each: what each needs at the peak, and for what.
//!
//! Apart from `figures`, which tells everything of designs with slabs of their own: here one sees history step by step,
//! and the lists and shrinkers that no other part of the table shows.

use std::io::{self, Write};

use super::super::grid::{Cell, Cut, Grid, Ink, printable, shorten};
use super::super::units::{bytes, round_percent};
use super::super::{Design, Report};
use super::Style;

pub(super) fn write(report: &Report, style: Style, out: &mut impl Write) -> io::Result<()> {
    if report.designs.iter().all(|d| d.lists_at_peak == Default::default()) {
        return Ok(());
    }
    let mut grid = Grid::new(Cut::End);
    let mut head = vec![Cell::from("at the peak")];
    let columns = ["total", "slabs", "used", "owners", "other", "list_lru", "shrinkers"];
    head.extend(columns.map(|t| Cell::from(t).ink(Ink::Dim)));
    grid.row(head);
    let mut before: Option<&Design> = None;
    for design in &report.designs {
        let usage = design.at_peak.usage;
        // What a step of history did not change is not said again.
        let same = before.is_some_and(|b| b.slabs() == design.slabs());
        let unless = |text: String| if same { "〃".into() } else { text };
        grid.row(vec![
            Cell::from(format!("  {}", shorten(&printable(&design.name), 14, Cut::End))).ink(Ink::Bold),
            bytes(usage.total()).into(),
            unless(bytes(usage.slab)).into(),
            unless(round_percent(usage.utilisation())).into(),
            unless(bytes(usage.owners)).into(),
            unless(bytes(usage.metadata)).into(),
            bytes(usage.lists).into(),
            bytes(usage.shrinkers).into(),
        ]);
        before = Some(design);
    }
    writeln!(out)?;
    grid.print(out, style.width, style.colour)?;
    let here = report.designs.iter().map(|d| {
        let here = d.lists_at_peak.here;
        format!("{} {}", printable(&d.name), bytes(here.lists().saturating_add(here.shrinkers)))
    });
    let text = format!(
        "Slabs, owners and tenalloc's figures are bytes allocated here; other, list_lru and shrinkers of Linux what its \
         structures would take for what was built. Really allocated here for lists and shrinkers: {}.",
        here.collect::<Vec<_>>().join(", ")
    );
    super::super::grid::wrap(out, "  ", &text, style.width)
}
