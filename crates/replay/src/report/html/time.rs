//! The chart of slab bytes over time: one line a design above the hill of live bytes.

use serde::Serialize;

use super::super::units::{bytes, seconds};
use super::super::{Report, Sample, Usage};
use super::scale::{Scale, Tick};
use super::{HUES, place, printable};

/// The chart, ready to draw.
#[derive(Serialize)]
pub(super) struct Chart {
    lines: Vec<Line>,
    x: Vec<Tick>,
    y: Vec<Tick>,
    peak: Peak,
    told: String,
}

/// One line, in a box of 1000 × 1000.
#[derive(Serialize)]
struct Line {
    name: String,
    /// Class of its colour: `hill` or `d0` …
    class: String,
    path: String,
    /// The same closed along the bottom, for the hill of live bytes.
    area: Option<String>,
    at_peak: String,
}

/// The moment that every design is compared at.
#[derive(Serialize)]
struct Peak {
    x: String,
    text: String,
    /// Its text stands to the left of the mark.
    left: bool,
}

/// `None` when there is nothing to draw.
pub(super) fn chart(report: &Report) -> Option<Chart> {
    let last = report.designs.last()?;
    let samples = || report.designs.iter().flat_map(|d| &d.series);
    let top = samples().map(|s| s.usage.slab.max(s.usage.live)).max().filter(|top| *top > 0)?;
    let end = samples().map(|s| s.t).filter(|t| t.is_finite()).fold(0.0, f64::max);
    // Some air above the highest line.
    let (x, y) = (Scale::new(end), Scale::new(top as f64 * 1.04));
    let path = |series: &[Sample], f: fn(&Usage) -> u64| -> String {
        let mut path = String::new();
        for sample in series {
            let (px, py) = (x.at(sample.t) * 1000.0, (1.0 - y.at(f(&sample.usage) as f64)) * 1000.0);
            path.push_str(&format!("{}{px:.1} {py:.1}", if path.is_empty() { "M" } else { "L" }));
        }
        if let [only] = series {
            // A recording of one moment: its figure holds for the whole (empty) time.
            path.push_str(&format!("L1000 {:.1}", (1.0 - y.at(f(&only.usage) as f64)) * 1000.0));
        }
        path
    };
    let hill = path(&last.series, |u| u.live);
    let right = if last.series.len() == 1 { 1.0 } else { last.series.last().map_or(0.0, |s| x.at(s.t)) };
    let mut lines = vec![Line {
        name: "live objects".into(),
        class: "hill".into(),
        area: Some(format!("{hill}L{:.1} 1000L0 1000Z", right * 1000.0)),
        path: hill,
        at_peak: bytes(last.at_peak.usage.live),
    }];
    lines.extend(report.designs.iter().enumerate().map(|(i, d)| Line {
        name: printable(&d.name),
        class: format!("d{}", i % HUES),
        path: path(&d.series, |u| u.slab),
        area: None,
        at_peak: bytes(d.at_peak.usage.slab),
    }));
    let at = x.at(last.at_peak.t);
    let told = lines.iter().map(|l| format!("{}: {}", l.name, l.at_peak)).collect::<Vec<_>>().join(", ");
    Some(Chart {
        lines,
        x: x.seconds(6),
        y: y.bytes(5),
        peak: Peak { x: place(at * 100.0), text: seconds(last.at_peak.t), left: at > 0.6 },
        told: format!(
            "Lines over {}. At the moment most bytes were live, {} after the start: {told}.",
            seconds(end),
            seconds(last.at_peak.t)
        ),
    })
}
