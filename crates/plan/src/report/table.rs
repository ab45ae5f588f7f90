//! The plan for a terminal: the verdict, a bar for each design, the figures, the ways out, where numbers came from.

use std::io::{self, Write};

use tenalloc_replay::report::units::{bytes, count, round_percent};

use super::{printable, size};
use crate::plan::Plan;
use crate::situation::Origin;
use crate::spend::Row;
use crate::sweep::Curve;

/// Cells of the longest bar.
const BAR: usize = 40;

/// Prints the plan in lines of at most `width` cells where words can be wrapped.
///
/// # Errors
/// Those of `out`.
pub fn write(plan: &Plan, mut out: impl Write, width: usize) -> io::Result<()> {
    let out = &mut out;
    wrap(out, "", &plan.title(), width)?;
    wrap(out, "", &plan.advice.verdict, width)?;
    writeln!(out)?;
    bars(plan, out)?;
    writeln!(out)?;
    figures(plan, out)?;
    if let Some(curve) = &plan.curve {
        writeln!(out)?;
        growth(curve, out)?;
    }
    slabs(plan, out, width)?;
    if !plan.advice.ways.is_empty() {
        writeln!(out, "\nWhat to do")?;
        for way in &plan.advice.ways {
            let saves = match way.saves {
                1.. => format!("{} less", bytes(way.saves.unsigned_abs())),
                0 => "no change".into(),
                _ => format!("{} more", bytes(way.saves.unsigned_abs())),
            };
            wrap(out, "  ", &format!("{}: {saves}; {}", way.what, way.note), width)?;
        }
    }
    writeln!(out, "\nWhere the numbers are from")?;
    for input in &plan.inputs {
        let origin = match input.origin {
            Origin::Host => "host",
            Origin::Given => "given",
            Origin::Assumed => "assumed",
        };
        let value = match &input.value {
            serde_json::Value::String(text) => printable(text),
            serde_json::Value::Null => "–".into(),
            serde_json::Value::Number(number) => number.as_u64().map_or_else(|| number.to_string(), count),
            other => other.to_string(),
        };
        let lead = format!("  {:<15} {value:>15}  {origin:<8} ", input.name);
        wrap(out, &lead, &input.from, width)?;
    }
    for unread in &plan.unread {
        wrap(out, "  not read: ", &format!("{}: {}", unread.what, unread.why), width)?;
    }
    let names: Vec<&str> = plan.designs.iter().filter(|r| r.since.is_none()).map(|r| r.design).collect();
    let text = format!(
        "Every figure of the table is computed from these numbers, none is measured; the formulas are in docs/plan.md and \
         in --format json. Never released: {}. linux-5.8 is without its set of caches for each group, which no formula \
         tells: `tenalloc replay` runs it. tenalloc is a library: its row is what the same lists take in a program that \
         keeps them with it.",
        names.iter().filter(|n| **n != "tenalloc").copied().collect::<Vec<_>>().join(", ")
    );
    writeln!(out)?;
    wrap(out, "", &text, width)
}

/// A mark for the row in question.
fn name(row: &Row) -> String {
    format!("{}{}", if row.running { "▸ " } else { "  " }, row.design)
}

fn bars(plan: &Plan, out: &mut impl Write) -> io::Result<()> {
    let most = plan.designs.iter().filter_map(|row| row.total).max().unwrap_or(0);
    for row in &plan.designs {
        writeln!(out, "{:<14} {:>9}  {}", name(row), size(row.total), bar(row.total.unwrap_or(0), most))?;
    }
    Ok(())
}

/// Eighths of a cell, so that a small share is still to be seen.
fn bar(part: u64, most: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if most == 0 || part == 0 {
        return String::new();
    }
    let eighths = ((part as f64 / most as f64) * (BAR * 8) as f64).round().max(1.0) as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

fn figures(plan: &Plan, out: &mut impl Write) -> io::Result<()> {
    let with_vectors = plan.designs.iter().any(|row| row.bytes.is_some_and(|b| b.vectors.is_some()));
    let mut heads = vec!["roots", "heads", "arrays", "index", "shrinkers", "handles"];
    if with_vectors {
        heads.push("vectors≤");
    }
    write!(out, "{:<14}", "")?;
    for head in &heads {
        write!(out, " {head:>9}")?;
    }
    writeln!(out, " {:>9}", "total")?;
    for row in &plan.designs {
        write!(out, "{:<14}", name(row))?;
        let parts = row.bytes.map(|b| b.parts());
        for at in 0..heads.len() {
            write!(out, " {:>9}", size(parts.map(|parts| parts[at])))?;
        }
        writeln!(out, " {:>9}", size(row.total))?;
    }
    Ok(())
}

/// A table of the curve: all steps down, designs across, those that are the same for all steps joined.
fn growth(curve: &Curve, out: &mut impl Write) -> io::Result<()> {
    let lines: Vec<_> = curve.lines.iter().enumerate().collect();
    // Six columns a block: names stay whole in 80 cells.
    for (number, block) in lines.chunks(6).enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        write!(out, "{:>10}", curve.over)?;
        for (_, line) in block {
            write!(out, " {:>11}", line.design)?;
        }
        writeln!(out)?;
        for (at, step) in curve.steps.iter().enumerate() {
            write!(out, "{:>10}", count(*step))?;
            for (_, line) in block {
                write!(out, " {:>11}", size(line.totals.get(at).copied().flatten()))?;
            }
            writeln!(out)?;
        }
        write!(out, "{:>10}", "log scale")?;
        for (_, line) in block {
            write!(out, " {:>11}", sparks(&line.totals, curve).trim_end())?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Up to 11 marks from the first step to the last, higher for more bytes, on one logarithmic scale for all designs.
fn sparks(totals: &[Option<u64>], curve: &Curve) -> String {
    const MARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let all = || curve.lines.iter().flat_map(|line| line.totals.iter().flatten()).filter(|b| **b > 0);
    let log = |bytes: u64| (bytes.max(1) as f64).ln();
    let (low, high) = (all().min().map_or(0.0, |b| log(*b)), all().max().map_or(0.0, |b| log(*b)));
    let marks = totals.len().min(11);
    (0..marks)
        .map(|i| {
            let at = if marks < 2 { 0 } else { i * (totals.len() - 1) / (marks - 1) };
            match totals[at] {
                None => ' ',
                Some(bytes) => {
                    let share = if high > low { (log(bytes) - low) / (high - low) } else { 0.0 };
                    MARKS[((share * 7.0).round().clamp(0.0, 7.0)) as usize]
                }
            }
        })
        .collect()
}

fn slabs(plan: &Plan, out: &mut impl Write, width: usize) -> io::Result<()> {
    if let Some(slack) = plan.slack.filter(|s| s.slab_bytes > 0) {
        let share = |part: u64| round_percent(part as f64 / slack.slab_bytes as f64);
        let text = format!(
            "Slabs (read from slabinfo): {} of pages, {} in use, {} ({}) in free slots, {} ({}) left over behind the last \
             object. Where each group had slabs of its own, up to Linux 5.8, 45 to 65 % were in use (published).",
            bytes(slack.slab_bytes),
            share(slack.active_bytes),
            bytes(slack.free_slots),
            share(slack.free_slots),
            bytes(slack.leftover),
            share(slack.leftover),
        );
        writeln!(out)?;
        wrap(out, "", &text, width)?;
    } else if let Some(slab) = plan.slab.filter(|_| !plan.hypothetical) {
        writeln!(out)?;
        wrap(
            out,
            "",
            &format!("Slabs of this host: {}; what of it is free is shown to root alone.", bytes(slab)),
            width,
        )?;
    }
    Ok(())
}

/// `text` after `lead`, wrapped at `width` cells, further lines indented by as many cells.
pub(super) fn wrap(out: &mut impl Write, lead: &str, text: &str, width: usize) -> io::Result<()> {
    let indent = lead.chars().count();
    let mut line = lead.to_owned();
    let mut at = indent;
    for word in printable(text).split(' ').filter(|word| !word.is_empty()) {
        let cells = word.chars().count();
        if at > indent && at + 1 + cells > width {
            writeln!(out, "{}", line.trim_end())?;
            line = " ".repeat(indent);
            at = indent;
        }
        if at > indent {
            line.push(' ');
            at += 1;
        }
        line.push_str(word);
        at += cells;
    }
    writeln!(out, "{}", line.trim_end())
}
