//! The caches that waste most and the groups that hold most, all designs side by side.
//!
//! A narrow terminal shows the first and the last design; a wide one all of them, and more columns.

use std::io::{self, Write};

use super::super::compare;
use super::super::grid::{Cell, Cut, Grid, Ink, printable, shorten};
use super::super::units::{bytes, count, percent};
use super::super::{Cache, Group, Report};
use super::Style;
use super::figures::bytes_or_dash;

/// Rows of each list.
const ROWS: usize = 10;

/// From this width on, the lists show every design and the columns that are left out below.
const WIDE: usize = 110;

/// Indices of the designs shown: all that fit beside `rest` cells, each `column` cells wide.
fn shown(report: &Report, style: Style, rest: usize, column: usize) -> Vec<usize> {
    let all = report.designs.len();
    if all <= 2 || style.width >= rest + column * all { (0..all).collect() } else { vec![0, all - 1] }
}

fn title(report: &Report, i: usize) -> String {
    report.designs.get(i).map_or(String::new(), |d| shorten(&printable(&d.name), 12, Cut::End))
}

pub(super) fn caches(report: &Report, style: Style, out: &mut impl Write) -> io::Result<()> {
    let rows = compare::caches(report);
    if rows.is_empty() {
        return Ok(());
    }
    let wide = style.width >= WIDE;
    let designs = shown(report, style, if wide { 64 } else { 44 }, 23);
    let mut grid = Grid::new(Cut::End);
    let mut head = vec![Cell::from(format!("caches by waste, {} of {}", rows.len().min(ROWS), rows.len()))];
    head.extend(["slot", "live"].map(|t| Cell::from(t).ink(Ink::Dim)));
    if wide {
        head.push(Cell::from("objects").ink(Ink::Dim));
    }
    for &i in &designs {
        head.push(Cell::from(title(report, i)).ink(Ink::Bold));
        head.push(Cell::from("used").ink(Ink::Dim));
        if wide {
            head.push(Cell::from("slabs").ink(Ink::Dim));
        }
    }
    grid.row(head);
    for row in rows.iter().take(ROWS) {
        let Some(any) = row.any() else { continue };
        let mut cells: Vec<Cell> = vec![
            format!("  {}", any.name).into(),
            count(any.slot_size.into()).into(),
            bytes(any.live).into(),
        ];
        if wide {
            cells.push(count(any.objects).into());
        }
        for &i in &designs {
            let cache = row.by.get(i).copied().flatten();
            cells.push(bytes_or_dash(cache.map(Cache::wasted)).into());
            cells.push(cache.map_or("–".into(), |c| percent(c.utilisation())).into());
            if wide {
                cells.push(cache.map_or("–".into(), |c| count(c.slabs)).into());
            }
        }
        grid.row(cells);
    }
    writeln!(out)?;
    grid.print(out, style.width, style.colour)
}

pub(super) fn groups(report: &Report, style: Style, out: &mut impl Write) -> io::Result<()> {
    let rows = compare::groups(report);
    if rows.is_empty() {
        return Ok(());
    }
    let designs = shown(report, style, 54, 14);
    let mut grid = Grid::new(Cut::Middle);
    let mut head = vec![Cell::from(format!("groups by pages, {} of {}", rows.len().min(ROWS), rows.len()))];
    head.extend(["objects", "used"].map(|t| Cell::from(t).ink(Ink::Dim)));
    head.extend(designs.iter().map(|&i| Cell::from(title(report, i)).ink(Ink::Bold)));
    grid.row(head);
    for row in rows.iter().take(ROWS) {
        let Some(any) = row.any() else { continue };
        let mark = if any.removed { " (removed)" } else { "" };
        let mut cells: Vec<Cell> =
            vec![format!("  {}{mark}", any.path).into(), count(any.objects).into(), bytes(any.used).into()];
        cells.extend(
            designs
                .iter()
                .map(|&i| bytes_or_dash(row.by.get(i).copied().flatten().map(|g: &Group| g.charged)).into()),
        );
        grid.row(cells);
    }
    writeln!(out)?;
    grid.print(out, style.width, style.colour)
}
