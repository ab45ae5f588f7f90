//! JSON and CSV: what is written can be read back, whole and in a stable order.

use std::collections::HashMap;

use tenalloc_replay::report::json::ReadError;
use tenalloc_replay::report::{Report, csv, json};

use super::fixture;

fn written(report: &Report) -> String {
    let mut out = Vec::new();
    json::write(report, &mut out).expect("writes to memory");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn json_comes_back_the_same() {
    for (name, report) in fixture::all() {
        let text = written(&report);
        assert!(text.ends_with("}\n"), "{name}");
        assert_eq!(json::read(text.as_bytes()).expect(name), report, "{name}");
        assert_eq!(written(&json::read(text.as_bytes()).expect(name)), text, "{name}");
    }
}

/// The order is part of the format: a reader may compare reports as text.
#[test]
fn fields_come_in_their_order() {
    let text = written(&fixture::plain());
    let keys = |indent: usize| -> Vec<&str> {
        let margin = " ".repeat(indent) + "\"";
        let mut keys: Vec<&str> = Vec::new();
        for line in text.lines().filter(|l| l.starts_with(&margin)) {
            let key = line.trim_start().trim_start_matches('"').split('"').next().unwrap_or("");
            if line.contains("\": ") && !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    };
    assert_eq!(keys(2), ["schema", "version", "tenalloc", "trace", "designs", "truth", "notes"]);
    let trace = [
        "path",
        "kernel",
        "cpus",
        "nodes",
        "seconds",
        "samples",
        "events",
        "allocations",
        "accounted",
        "matched_frees",
        "unseen_frees",
        "hidden_frees",
        "lost",
        "live_at_end",
        "groups",
        "peak_live_bytes",
        "read_ns",
        "own",
        "supers",
    ];
    assert_eq!(keys(4), trace);
    let design = [
        "name",
        "summary",
        "series",
        "at_peak",
        "at_end",
        "max_slab",
        "average",
        "average_utilisation",
        "caches",
        "groups",
        "sharing",
        "groups_created",
        "groups_removed",
        "orphans",
        "run_ns",
        "ops",
        "checks",
        "slabs_of",
        "lists_at_peak",
        "lists_at_end",
        "lists_made",
        "lists_used",
        // A stamp of the kernel's truth is as deep.
        "label",
        "t",
        "equal",
        "rows",
        "older",
    ];
    assert_eq!(keys(6), design);
    let at = |key: &str| text.find(&format!("\"{key}\": ")).expect(key);
    let sample = ["t", "live", "slab", "owners", "metadata", "cached", "lists", "shrinkers"].map(at);
    assert!(sample.is_sorted(), "{sample:?}");
}

#[test]
fn foreign_files_are_told_apart() {
    assert!(matches!(json::read(&b"nonsense"[..]), Err(ReadError::Json(_))));
    assert!(matches!(json::read(&b"{}"[..]), Err(ReadError::Json(_))));
    let mut report = fixture::empty();
    report.schema = "other".into();
    let error = json::read(written(&report).as_bytes()).expect_err("another schema");
    assert!(error.to_string().contains("tenalloc replay"), "{error}");
    report.schema = fixture::empty().schema;
    report.version += 1;
    assert!(matches!(json::read(written(&report).as_bytes()), Err(ReadError::Version(_))));
    // A field of a later tenalloc does not matter.
    let later = written(&fixture::empty()).replacen('{', "{\n  \"new\": [1],", 1);
    assert_eq!(json::read(later.as_bytes()).expect("reads"), fixture::empty());
}

#[test]
fn csv_holds_every_figure_once() {
    for (name, report) in fixture::all() {
        let mut out = Vec::new();
        csv::write(&report, &mut out).expect("writes to memory");
        let mut reader = ::csv::Reader::from_reader(out.as_slice());
        assert_eq!(reader.headers().expect("header"), csv::HEADER.as_slice());
        let rows: Vec<::csv::StringRecord> = reader.records().collect::<Result<_, _>>().expect(name);
        let mut sections: HashMap<&str, u64> = HashMap::new();
        for row in &rows {
            *sections.entry(&row[0]).or_default() += 1;
            let (unit, value) = (&row[6], &row[7]);
            match unit {
                "bytes" | "count" | "ns" => assert!(value.parse::<u64>().is_ok(), "{name}: {row:?}"),
                "ratio" | "s" => assert!(value.parse::<f64>().is_ok(), "{name}: {row:?}"),
                unit => assert_eq!(unit, "text", "{name}: {row:?}"),
            }
            assert!(row[4].is_empty() || row[4].parse::<f64>().is_ok(), "{name}: {row:?}");
        }
        let of = |section: &str| sections.get(section).copied().unwrap_or(0);
        let sum = |f: fn(&tenalloc_replay::report::Design) -> usize| {
            report.designs.iter().map(f).sum::<usize>() as u64
        };
        assert_eq!(of("series"), sum(|d| d.series.len()) * 7, "{name}");
        assert_eq!(of("cache"), sum(|d| d.caches.len()) * 4, "{name}");
        assert_eq!(of("group"), sum(|d| d.groups.len()) * 3, "{name}");
        assert_eq!(of("sharing"), sum(|d| d.sharing.groups.len().pow(2)), "{name}");
        assert_eq!(of("peak"), sum(|_| 7), "{name}");
        assert_eq!(of("lists"), sum(|_| 16), "two moments, two ways, four sizes: {name}");
        assert_eq!(of("made"), sum(|d| d.lists_made.len()) * 3, "{name}");
        let compared: usize = report.truth.iter().map(|t| t.rows.len()).sum();
        let older: u64 = report.truth.iter().map(|t| t.older).sum();
        assert_eq!(of("truth"), (compared * (1 + report.designs.len())) as u64 + older, "{name}");
        // Names come back as they were, whatever is in them.
        for group in report.designs.iter().flat_map(|d| &d.groups) {
            let found =
                rows.iter().any(|r| &r[0] == "group" && r[2] == group.path && r[7] == group.used.to_string());
            assert!(found, "{name}: {}", group.path);
        }
    }
}
