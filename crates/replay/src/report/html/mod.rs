//! The report as one HTML page that needs no network: charts are SVG, made here, and work without script.
//!
//! [`write()`] fills `page.html`. The parts of the page are plain structures, one file each: `hero` (the result),
//! `time` (slab bytes over time), `caches`, `sharing`, `groups` (with the kernel comparison); `scale` turns
//! figures into places on an axis. The template escapes every text. The script adds only a reading cursor and the
//! download of the report, which is embedded as JSON.
//!
//! A chart stretches with its column: marks are placed in percent, so text keeps its size on a phone.

use std::io::{self, Write};

use minijinja::{Environment, value::Serde};
use serde::Serialize;

use super::grid::printable;
use super::{Report, Usage, compare, table};

mod caches;
mod groups;
mod hero;
mod scale;
mod sharing;
mod time;

/// Colours that the style sheet has; a design's is its index modulo this.
const HUES: usize = 8;

/// A design as the legend names it.
#[derive(Clone, Serialize)]
struct Label {
    name: String,
    summary: String,
    hue: usize,
}

/// A line of the table of all figures.
#[derive(Serialize)]
struct Figure {
    label: &'static str,
    part: bool,
    /// Short, and with exact bytes.
    values: Vec<(String, String)>,
}

/// What the template is given.
#[derive(Serialize)]
struct Page {
    tenalloc: String,
    trace: String,
    headline: String,
    better: bool,
    facts: hero::Facts,
    designs: Vec<Label>,
    bars: Vec<hero::Bar>,
    time: Option<time::Chart>,
    figures: Vec<Figure>,
    caches: Vec<caches::Row>,
    sharing: sharing::Charts,
    groups: groups::Table,
    truth: Vec<groups::Stamp>,
    notes: Vec<String>,
    style: &'static str,
    script: &'static str,
    data: String,
}

/// Writes the page.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, mut out: impl Write) -> io::Result<()> {
    // Designs that differ in lists alone have one colour, and one place wherever lists are not shown.
    let whole = report;
    let slim = compare::by_slabs(report);
    let report = &slim;
    let designs: Vec<Label> = report
        .designs
        .iter()
        .enumerate()
        .map(|(i, d)| Label { name: printable(&d.name), summary: printable(&d.summary), hue: i % HUES })
        .collect();
    let page = Page {
        tenalloc: printable(&report.tenalloc),
        trace: printable(&report.trace.path),
        headline: printable(&compare::headline(whole)),
        better: compare::Saving::of(whole).is_none_or(|s| s.bytes() >= 0),
        facts: hero::facts(&report.trace),
        bars: hero::bars(whole, report),
        time: time::chart(report),
        figures: table::figures::rows(report)
            .into_iter()
            .map(|(label, part, values)| Figure { label, part, values })
            .collect(),
        caches: caches::rows(report),
        sharing: sharing::charts(report),
        groups: groups::table(report),
        truth: groups::stamps(report),
        notes: report.notes.iter().map(|n| printable(n)).collect(),
        designs,
        style: include_str!("page.css"),
        script: include_str!("page.js"),
        data: script_json(whole)?,
    };
    let mut templates = Environment::new();
    templates.add_template("page.html", include_str!("page.html")).map_err(io::Error::other)?;
    let template = templates.get_template("page.html").map_err(io::Error::other)?;
    out.write_all(template.render(Serde(page)).map_err(io::Error::other)?.as_bytes())
}

/// JSON that can stand inside `<script>`: no `<`, so that no name ends the element or opens a comment; no `&`;
/// none of the two line ends that old scripts do not take in a string; and no mark that turns the direction of
/// the text for whoever reads the source. All become `\u` escapes, which are the same JSON.
fn script_json(report: &Report) -> io::Result<String> {
    let json = serde_json::to_string(report)?;
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' => safe.push_str(&format!("\\u{:04x}", c as u32)),
            '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                safe.push_str(&format!("\\u{:04x}", c as u32))
            }
            c => safe.push(c),
        }
    }
    Ok(safe)
}

/// A share of `whole` in percent, 0 to 100, for a place on a chart.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64 * 100.0).clamp(0.0, 100.0) }
}

/// A place on a chart as text: two decimals are a hundredth of a pixel.
fn place(percent: f64) -> String {
    format!("{percent:.2}")
}

/// Largest sum of all memory over the designs.
fn largest(report: &Report, f: impl Fn(&Usage) -> u64) -> u64 {
    report.designs.iter().map(|d| f(&d.at_peak.usage)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_json_is_the_report_and_ends_no_element() {
        let mut report = Report::default();
        report.notes.push("</script><!-- & \u{2028}\u{2029} \"quote\" <script>".into());
        let json = script_json(&report).expect("serialises");
        assert!(!json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{json}");
        assert_eq!(serde_json::from_str::<Report>(&json).expect("parses"), report);
    }
}
