//! The page with charts: bars drawn from the same JSON that is kept, nothing loaded from elsewhere.

use serde_json::Value;
use std::fmt::Write;

/// Height of one bar, px.
const BAR: usize = 15;
/// Width left for names and for bars, px.
const LEFT: usize = 250;
const WIDTH: f64 = 430.0;

struct Bar {
    label: String,
    colour: &'static str,
    value: f64,
    /// Least and most of the rounds.
    range: Option<(f64, f64)>,
    text: String,
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

fn colour(policy: &str) -> &'static str {
    match policy {
        "3 levels" | "a cache a size" | "size classes" => "#0b6e4f",
        "1 level" => "#333333",
        "raw" => "#9aa5b1",
        "counter" => "#7b9acc",
        "header, 3 levels" => "#d1495b",
        "header, batch" => "#edae49",
        _ => "#8d6a9f",
    }
}

/// One chart, widest bar = the largest value but at most twenty times the least (or 100): longer ones are cut and marked.
fn draw(page: &mut String, title: &str, bars: &[Bar]) {
    let least = bars.iter().map(|b| b.value).fold(f64::INFINITY, f64::min);
    let most = bars.iter().map(|b| b.value).fold(0.0, f64::max);
    let full = most.min(least.max(5.0) * 20.0).max(f64::MIN_POSITIVE);
    let height = bars.len() * (BAR + 3) + 4;
    let _ = write!(
        page,
        "<figure><figcaption>{}</figcaption><svg width=\"760\" height=\"{height}\" role=\"img\">",
        escape(title)
    );
    for (i, bar) in bars.iter().enumerate() {
        let y = i * (BAR + 3) + 2;
        let x = |value: f64| (value / full).min(1.0) * WIDTH;
        let cut = if bar.value > full { " ⋯" } else { "" };
        let (width, base, end) = (x(bar.value), y + BAR - 3, LEFT as f64 + x(bar.value) + 5.0);
        let _ = write!(
            page,
            "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{}\"/>\
             <text x=\"{end:.1}\" y=\"{base}\">{}{cut}</text>",
            LEFT - 6,
            escape(&bar.label),
            bar.colour,
            escape(&bar.text),
        );
        if let Some((low, high)) = bar.range {
            let (low, high, middle) = (LEFT as f64 + x(low), LEFT as f64 + x(high), y + BAR - 2);
            let _ = write!(page, "<path d=\"M{low:.1} {middle}H{high:.1}\" stroke=\"#000\"/>");
        }
    }
    page.push_str("</svg></figure>\n");
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or("")
}

fn speed(page: &mut String, rows: &[Value]) {
    let same = |a: &Value, b: &Value| ["workload", "bytes", "threads"].iter().all(|key| a[key] == b[key]);
    for group in rows.chunk_by(same) {
        let first = &group[0];
        let title = format!("{} B, {}: ns of processor time", first["bytes"], text(first, "workload"));
        let mut bars: Vec<Bar> = group
            .iter()
            .filter_map(|row| {
                let (low, high) = (row["ns"]["min"].as_f64()?, row["ns"]["max"].as_f64()?);
                let value = row["ns"]["median"].as_f64()?;
                Some(Bar {
                    label: format!("{}, {}", text(row, "peer"), text(row, "policy")),
                    colour: colour(text(row, "policy")),
                    value,
                    range: Some((low, high)),
                    text: format!("{value:.1}"),
                })
            })
            .collect();
        bars.sort_by(|a, b| a.value.total_cmp(&b.value));
        draw(page, &title, &bars);
    }
}

/// `parts`: what, and its two fields, bytes / bytes.
fn memory(page: &mut String, rows: &[Value], by: &[&str], parts: &[(&str, &str, &str)]) {
    for group in rows.chunk_by(|a, b| by.iter().all(|key| a[key] == b[key])) {
        let size = format!("{} groups × {} objects", group[0][by[0]], group[0]["objects_each"]);
        for (what, part, whole) in parts {
            let mut bars: Vec<Bar> = group
                .iter()
                .filter_map(|row| {
                    let value = 100.0 * row[part].as_f64()? / row[whole].as_f64()?;
                    Some(Bar {
                        label: format!("{}, {}", text(row, "peer"), text(row, "policy")),
                        colour: colour(text(row, "policy")),
                        value,
                        range: None,
                        text: format!("{value:.1}"),
                    })
                })
                .collect();
            bars.sort_by(|a, b| b.value.total_cmp(&a.value));
            draw(page, &format!("{size}: {what}"), &bars);
        }
    }
}

/// The page of a run.
pub(crate) fn page(all: &Value) -> String {
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>tenalloc bench</title><style>\
         body{font:14px/1.4 system-ui,sans-serif;max-width:800px;margin:2em auto;padding:0 1em;color:#111;background:#fff}\
         figure{margin:1.5em 0}figcaption{font-weight:600}svg{max-width:100%}svg text{font-size:11px;fill:#111}\
         </style><h1>tenalloc beside other allocators</h1>",
    );
    let machine = &all["machine"];
    let _ = write!(
        page,
        "<p>Commit {}. {}, {} CPUs, Linux {}, {}. Load {} before the run, {} after the timed part. Bars: median of {} rounds in turn; \
         the line over a bar spans all rounds. ⋯: longer than shown.</p>",
        escape(text(all, "commit")),
        escape(text(machine, "processor")),
        machine["cpus"],
        escape(text(machine, "kernel")),
        escape(text(machine, "libc")),
        machine["load_before"],
        machine["load_after_speed"],
        all["rounds"],
    );
    page.push_str("<p>");
    for (name, version) in all["peers"].as_object().into_iter().flatten() {
        let _ = write!(page, "{} {}; ", escape(name), escape(version.as_str().unwrap_or("?")));
    }
    page.push_str("</p><h2>Time: one allocation and one free</h2>");
    speed(&mut page, all["speed"].as_array().map_or(&[], |rows| rows));
    page.push_str("<h2>Memory</h2>");
    let rows = |key: &str| all["memory"][key].as_array().cloned().unwrap_or_default();
    let live = ("live / resident, %", "requested_bytes", "grown_bytes");
    memory(&mut page, &rows("tenants"), &["asked_groups", "objects_each"], &[live]);
    let steady = (
        "coming and going, 5 % of the objects live on: live / resident, %",
        "steady_bytes",
        "steady_grown_bytes",
    );
    let gone = ("all gone, memory asked back: live / resident, %", "left_bytes", "reclaimed_grown_bytes");
    memory(&mut page, &rows("churn"), &["groups_live", "objects_each"], &[steady, gone]);
    page.push_str("</html>\n");
    page
}
