//! Outcomes on a terminal: figures against their budgets, tables, and bars.

use std::io::{self, Write};
use tenalloc_replay::report::units;
use tenalloc_scenario::table::{Chart, Column, Origin, Table};
use tenalloc_scenario::{Figure, Outcome};

/// Cells of the longest bar, at least.
const SHORTEST: usize = 10;

/// Writes it all in lines of about `width` cells.
pub(super) fn outcome(outcome: &Outcome, width: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", outcome.situation)?;
    if !outcome.figures.is_empty() {
        writeln!(out)?;
        figures(&outcome.figures, out)?;
    }
    outcome.tables.iter().try_for_each(|t| table(t, out))?;
    outcome.charts.iter().try_for_each(|c| chart(c, width, out))?;
    if !outcome.notes.is_empty() {
        writeln!(out)?;
        outcome.notes.iter().try_for_each(|note| wrapped(note, width, out))?;
    }
    if !outcome.linux.is_empty() {
        writeln!(out, "\nLinux and others (published, not measured here)")?;
        outcome.linux.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    Ok(())
}

fn figures(figures: &[Figure], out: &mut dyn Write) -> io::Result<()> {
    let width = figures.iter().map(|f| cells(&f.what)).max().unwrap_or(0);
    for figure in figures {
        let verdict = match figure.is_within() {
            None => String::new(),
            Some(true) => format!("   budget {}", show(figure.unit, figure.budget.unwrap_or(0.0))),
            Some(false) => {
                format!("   OVER the budget of {}", show(figure.unit, figure.budget.unwrap_or(0.0)))
            }
        };
        let gap = width - cells(&figure.what);
        writeln!(out, "  {}{:gap$}  {:>12}{verdict}", figure.what, "", show(figure.unit, figure.value))?;
    }
    Ok(())
}

/// A heading of two lines: the column's name, and where its values come from.
fn table(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", table.title)?;
    let mut lines = vec![vec![String::new()], vec![String::new()]];
    for Column { name, origin, .. } in &table.columns {
        lines[0].push(name.clone());
        lines[1].push(origin_name(*origin).into());
    }
    for row in &table.rows {
        let mut line = vec![row.name.clone()];
        for (column, value) in table.columns.iter().zip(&row.values) {
            line.push(value.map_or_else(|| "–".into(), |value| show(column.unit, value)));
        }
        lines.push(line);
    }
    let column = |at: usize| lines.iter().filter_map(|line| line.get(at)).map(|t| cells(t)).max();
    let widths: Vec<usize> = (0..=table.columns.len()).map(|at| column(at).unwrap_or(0)).collect();
    for line in &lines {
        let mut text = String::from(" ");
        for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let blank = " ".repeat(width - cells(cell));
            // Names to the left, numbers to the right.
            text += &if at == 0 { format!(" {cell}{blank}") } else { format!("  {blank}{cell}") };
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

/// Bars on one scale, each with its value; what was not measured here is lighter.
fn chart(chart: &Chart, width: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", chart.title)?;
    let values: Vec<String> = chart.bars.iter().map(|bar| show(chart.unit, bar.value)).collect();
    let name = chart.bars.iter().map(|bar| cells(&bar.name)).max().unwrap_or(0);
    let value = values.iter().map(|text| cells(text)).max().unwrap_or(0);
    let room = width.saturating_sub(name + value + 6).max(SHORTEST);
    let longest = chart.bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    for (bar, text) in chart.bars.iter().zip(&values) {
        let full = if longest > 0.0 { bar.value / longest * room as f64 } else { 0.0 };
        let mark = if bar.origin == Origin::Measured { "█" } else { "▒" };
        // What is there is seen, however little.
        let length = if bar.value > 0.0 { full.round().max(1.0) } else { 0.0 };
        let gap = name - cells(&bar.name);
        let rest = value - cells(text);
        let line = format!("  {}{:gap$}  {:rest$}{text}  {}", bar.name, "", "", mark.repeat(length as usize));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// A note, its second and later lines set in.
fn wrapped(note: &str, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut line = String::from("note");
    for word in note.split_whitespace() {
        if cells(&line) + 1 + cells(word) > width {
            writeln!(out, "{line}")?;
            line = "    ".into();
        }
        line = line + " " + word;
    }
    writeln!(out, "{line}")
}

fn cells(text: &str) -> usize {
    text.chars().count()
}

fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Measured => "measured",
        Origin::Computed => "computed",
        Origin::Published => "published",
    }
}

fn show(unit: &str, value: f64) -> String {
    match unit {
        "B" if value >= 1024.0 => units::bytes(value as u64),
        "B" => format!("{value:.1} B"),
        "ns" if value >= 10_000.0 => format!("{:.1} µs", value / 1000.0),
        "ns" => format!("{value:.0} ns"),
        "s" => format!("{value:.1} s"),
        "%" => format!("{value:.2} %"),
        "×" => format!("{value:.2} ×"),
        "GiB" => format!("{value:.1} GiB"),
        unit => {
            let sign = if value <= -0.5 { "−" } else { "" };
            format!("{sign}{} {unit}", units::count(value.abs().round() as u64)).trim_end().to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenalloc_scenario::table::{Bar, Row};

    #[test]
    fn numbers_as_people_read_them() {
        let shown = [("", 3_440_080_000.0), ("MiB", 14_997.6), ("MiB", -3.2), ("B", 3.0), ("%", 99.9375)];
        let texts = ["3,440,080,000", "14,998 MiB", "−3 MiB", "3.0 B", "99.94 %"];
        assert_eq!(shown.map(|(unit, value)| show(unit, value)), texts);
    }

    #[test]
    fn columns_line_up_and_what_is_missing_is_told() {
        let table_of = Table {
            title: "heads".into(),
            columns: vec![
                Column { name: "built".into(), unit: "", origin: Origin::Measured },
                Column { name: "post".into(), unit: "%", origin: Origin::Published },
            ],
            rows: vec![
                Row { name: "first".into(), values: vec![Some(12_286.0), None] },
                Row { name: "größer".into(), values: vec![Some(4.0), Some(0.5)] },
            ],
        };
        let mut text = Vec::new();
        table(&table_of, &mut text).unwrap();
        let expected = "
heads
             built       post
          measured  published
  first     12,286          –
  größer         4     0.50 %
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn bars_have_one_scale_and_little_is_not_nothing() {
        let bar = |name: &str, value| Bar { name: name.into(), value, origin: Origin::Measured };
        let of = Chart {
            title: "c".into(),
            unit: "",
            bars: vec![bar("a", 1000.0), bar("b", 500.0), bar("c", 1.0), bar("d", 0.0)],
        };
        let mut text = Vec::new();
        chart(&of, 32, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lengths: Vec<usize> = text.lines().skip(2).map(|l| l.matches('█').count()).collect();
        assert_eq!(lengths, [20, 10, 1, 0], "{text}");
        let wide = text.lines().all(|line| cells(line) <= 32);
        assert!(wide, "{text}");
    }
}
