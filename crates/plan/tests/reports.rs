//! The forms of a plan: nothing that a terminal or a browser would obey gets through, and every form has every figure.

use std::path::Path;

use tenalloc_plan::host::{Host, Read};
use tenalloc_plan::report::{csv, html, json, table};
use tenalloc_plan::{Plan, Request};

fn request(kernel: &str, groups: &str, mounts: &str) -> Request {
    Request {
        kernel: kernel.parse().ok(),
        nodes: Some(2),
        cpus: Some(8),
        groups: groups.parse().ok(),
        mounts: mounts.parse().ok(),
        ..Request::default()
    }
}

fn text(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_hostile_release_name_stays_text() {
    let evil = "6.12-\u{1b}[2J\u{202e}<script>\"'&".to_owned();
    let kernel = Some(Read { value: (evil, "6.12".parse().unwrap()), from: "<b>\u{7}".into() });
    let host = Host { kernel, ..Host::default() };
    let plan = Plan::new(&Request::default(), &host).unwrap();
    let shown = text(|out| table::write(&plan, out, 80));
    assert!(!shown.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{shown}");
    let page = text(|out| html::write(&plan, out));
    assert!(!page.contains("<script>") && !page.contains("<b>\u{7}") && !page.contains('\u{1b}'));
}

#[test]
fn the_page_has_bars_curve_and_formulas_and_asks_no_network() {
    let plan = Plan::new(&request("5.10", "100..100000", "952"), &Host::default()).unwrap();
    let page = text(|out| html::write(&plan, out));
    assert_eq!(page.matches("<polyline").count(), 11);
    assert_eq!(page.matches("<svg class=\"bar\"").count(), 11);
    assert!(page.contains("L · N · C · K(24)") && page.contains("How it grows with groups"));
    assert!(!page.contains("://") && !page.contains("NaN") && !page.contains("inf,"));
}

#[test]
fn csv_sums_up_to_the_totals() {
    let plan = Plan::new(&request("6.12", "10000", "10..1000"), &Host::default()).unwrap();
    let written = text(|out| csv::write(&plan, out));
    let mut reader = ::csv::Reader::from_reader(written.as_bytes());
    let rows: Vec<(String, String, String, String, u64)> = reader.deserialize().map(Result::unwrap).collect();
    for row in &plan.designs {
        let here = || rows.iter().filter(|r| r.0 == row.design && r.1.is_empty());
        let parts: u64 = here().filter(|r| r.3 != "total").map(|r| r.4).sum();
        let total = here().find(|r| r.3 == "total").map(|r| r.4);
        assert_eq!((Some(parts), total), (row.total, row.total), "{}", row.design);
    }
    assert_eq!(rows.iter().filter(|r| r.1 == "mounts" && r.0 == "tenalloc").count(), 13);
}

#[test]
fn the_table_keeps_its_width() {
    for (kernel, groups, mounts) in
        [("5.10", "10000", "10000"), ("6.12", "1..65535", "10000"), ("7.1", "0", "0")]
    {
        let plan = Plan::new(&request(kernel, groups, mounts), &Host::default()).unwrap();
        let shown = text(|out| table::write(&plan, out, 100));
        let longest = shown.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= 100, "{shown}");
        assert!(!shown.contains("\n\n\n"), "{shown}");
    }
}

#[test]
fn this_machine_has_a_plan() {
    let host = Host::read(Path::new("/"));
    let plan = Plan::new(&Request::default(), &host).unwrap();
    assert!(text(|out| json(&plan, out)).ends_with("}\n"));
    assert_eq!(plan.designs.iter().filter(|row| row.running).count(), 1);
}
