//! The plan as one HTML page that needs no network and no script: stacked bars, the curve as SVG, all figures.
//!
//! Apart from the page of `tenalloc replay`, which has other questions; it borrows that page's way: places in percent, a
//! template that escapes every text.

use std::io::{self, Write};

use minijinja::{Environment, value::Serde};
use serde::Serialize;
use tenalloc_replay::report::units::{bytes, count};

use super::{printable, size};
use crate::plan::Plan;
use crate::spend::CAUSES;
use crate::sweep::Curve;

/// A piece of a bar, in percent of the largest.
#[derive(Serialize)]
struct Part {
    hue: usize,
    x: String,
    width: String,
    title: String,
}

#[derive(Serialize)]
struct Bar {
    name: &'static str,
    change: &'static str,
    since: Option<String>,
    running: bool,
    total: String,
    cells: Vec<String>,
    parts: Vec<Part>,
}

/// A line of the curve and where its name stands.
#[derive(Serialize)]
struct Line {
    hue: usize,
    name: &'static str,
    points: String,
    last: String,
}

#[derive(Serialize)]
struct Tick {
    at: String,
    text: String,
}

#[derive(Serialize)]
struct Chart {
    over: &'static str,
    lines: Vec<Line>,
    x: Vec<Tick>,
    y: Vec<Tick>,
}

#[derive(Serialize)]
struct InputRow {
    name: &'static str,
    value: String,
    origin: String,
    from: String,
}

#[derive(Serialize)]
struct Page<'a> {
    tenalloc: &'static str,
    title: String,
    verdict: String,
    causes: [&'static str; 7],
    bars: Vec<Bar>,
    chart: Option<Chart>,
    ways: Vec<(String, String, String)>,
    inputs: Vec<InputRow>,
    unread: Vec<(String, String)>,
    formulas: &'a [crate::formulas::Formula],
    symbols: &'a str,
    style: &'static str,
}

/// Writes the page.
///
/// # Errors
/// Those of `out`.
pub fn write(plan: &Plan, mut out: impl Write) -> io::Result<()> {
    let page = Page {
        tenalloc: plan.tenalloc,
        title: printable(&plan.title()),
        verdict: printable(&plan.advice.verdict),
        causes: CAUSES,
        bars: bars(plan),
        chart: plan.curve.as_ref().map(chart),
        ways: plan.advice.ways.iter().map(way).collect(),
        inputs: plan.inputs.iter().map(input).collect(),
        unread: plan.unread.iter().map(|u| (printable(&u.what), printable(&u.why))).collect(),
        formulas: plan.formulas,
        symbols: plan.symbols,
        style: include_str!("page.css"),
    };
    let mut templates = Environment::new();
    templates.add_template("page.html", include_str!("page.html")).map_err(io::Error::other)?;
    let template = templates.get_template("page.html").map_err(io::Error::other)?;
    out.write_all(template.render(Serde(page)).map_err(io::Error::other)?.as_bytes())
}

fn bars(plan: &Plan) -> Vec<Bar> {
    let most = plan.designs.iter().filter_map(|row| row.total).max().unwrap_or(0).max(1);
    plan.designs
        .iter()
        .map(|row| {
            let mut x = 0.0;
            let values = row.bytes.map(|b| b.parts()).unwrap_or_default();
            let parts = CAUSES.into_iter().zip(values).enumerate().filter(|(_, (_, part))| *part > 0);
            let parts = parts
                .map(|(hue, (cause, part))| {
                    let width = part as f64 / most as f64 * 100.0;
                    let title = format!("{}: {cause}, {} ({} bytes)", row.design, bytes(part), count(part));
                    let part = Part { hue, x: place(x), width: place(width), title };
                    x += width;
                    part
                })
                .collect();
            Bar {
                name: row.design,
                change: row.change,
                since: row.since.clone(),
                running: row.running,
                total: size(row.total),
                cells: match row.bytes {
                    None => vec!["–".into(); CAUSES.len()],
                    Some(b) => {
                        let known = |at: usize| at + 1 < CAUSES.len() || b.vectors.is_some();
                        let parts = b.parts().into_iter().enumerate();
                        parts.map(|(at, part)| size(known(at).then_some(part))).collect()
                    }
                },
                parts,
            }
        })
        .collect()
}

fn way(way: &crate::advice::Way) -> (String, String, String) {
    let sign = if way.saves < 0 { "more" } else { "less" };
    (way.what.clone(), format!("{} {sign}", bytes(way.saves.unsigned_abs())), way.note.clone())
}

fn input(input: &crate::Input) -> InputRow {
    let value = match &input.value {
        serde_json::Value::String(text) => printable(text),
        serde_json::Value::Null => "–".into(),
        serde_json::Value::Number(number) => number.as_u64().map_or_else(|| number.to_string(), count),
        other => other.to_string(),
    };
    let origin = format!("{:?}", input.origin).to_lowercase();
    InputRow { name: input.name, value, origin, from: printable(&input.from) }
}

/// Both axes logarithmic, from the smallest to the largest figure; the drawing is 1000 × 500.
fn chart(curve: &Curve) -> Chart {
    let all: Vec<u64> =
        curve.lines.iter().flat_map(|l| l.totals.iter().flatten().copied()).filter(|b| *b > 0).collect();
    let y = Axis::new(all.iter().copied().min().unwrap_or(1), all.iter().copied().max().unwrap_or(1));
    let x = Axis::new(curve.steps.first().copied().unwrap_or(1), curve.steps.last().copied().unwrap_or(1));
    let line = |(hue, line): (usize, &crate::sweep::Line)| {
        let points = curve.steps.iter().zip(&line.totals).filter_map(|(step, total)| {
            total.map(|total| format!("{:.1},{:.1}", 1000.0 * x.at(*step), 500.0 * (1.0 - y.at(total))))
        });
        let last = size(line.totals.iter().rev().find_map(|total| *total));
        Line { hue, name: line.design, points: points.collect::<Vec<_>>().join(" "), last }
    };
    Chart {
        over: curve.over,
        lines: curve.lines.iter().enumerate().map(line).collect(),
        x: x.ticks(10).into_iter().map(|v| Tick { at: place(100.0 * x.at(v)), text: count(v) }).collect(),
        y: y.ticks(y.base())
            .into_iter()
            .map(|v| Tick { at: place(100.0 * (1.0 - y.at(v))), text: bytes(v) })
            .collect(),
    }
}

/// A logarithmic axis.
#[derive(Clone, Copy)]
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn new(low: u64, high: u64) -> Self {
        Self { low: (low.max(1) as f64).ln(), high: (high.max(1) as f64).ln() }
    }

    /// 0 to 1; 0 where the axis has no length.
    fn at(self, value: u64) -> f64 {
        let at = ((value.max(1) as f64).ln() - self.low) / (self.high - self.low);
        if at.is_finite() { at.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The smallest power of two whose powers make at most 7 marks for bytes.
    fn base(self) -> u64 {
        (1..=60).map(|power| 1 << power).find(|base| self.ticks(*base).len() <= 7).unwrap_or(1 << 60)
    }

    /// Powers of `base` on the axis.
    fn ticks(self, base: u64) -> Vec<u64> {
        let mut ticks = Vec::new();
        let mut power = 1_u64;
        loop {
            let log = (power as f64).ln();
            if log >= self.low - 1e-9 && log <= self.high + 1e-9 {
                ticks.push(power);
            }
            match power.checked_mul(base) {
                Some(next) if log <= self.high => power = next,
                _ => return ticks,
            }
        }
    }
}

fn place(percent: f64) -> String {
    format!("{percent:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_stay_on_the_chart() {
        for (low, high) in [(0, 0), (1, 1), (1, u64::MAX), (100, 100_000)] {
            let axis = Axis::new(low, high);
            for value in [0, 1, 500, u64::MAX] {
                assert!((0.0..=1.0).contains(&axis.at(value)), "{low} {high} {value}");
            }
            assert!(axis.ticks(10).len() < 25 && axis.ticks(axis.base()).len() <= 7);
        }
        assert_eq!(Axis::new(100, 100_000).ticks(10), [100, 1000, 10_000, 100_000]);
    }
}
