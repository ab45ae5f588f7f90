//! Each form of the report is what its name says, and all say the same.

use super::support::{replay, run, script, small, tenalloc};

#[test]
fn help_tells_the_commands_and_every_option() {
    let top = run(tenalloc().arg("--help")).with(0);
    assert!(top.out.contains("replay") && top.out.contains("record") && top.err.is_empty(), "{}", top.out);
    let help = run(replay().arg("--help")).with(0).out;
    for word in [
        "--design",
        "--format",
        "--output",
        "--html",
        "--truth",
        "--fail-if",
        "--check",
        "--sidecar",
        "--formats",
        "--colour",
        "--quiet",
        "Examples:",
        "Exit codes:",
        "table",
        "json",
        "csv",
        "html",
        "perf script",
    ] {
        assert!(help.contains(word), "{word} in {help}");
    }
    for design in tenalloc_replay::run::DESIGNS {
        assert!(help.contains(&format!("\n  {design} ")), "{design} in {help}");
    }
    assert!(help.contains("Linux 6.18 to 7.0"), "{help}");
    let record = run(tenalloc().args(["record", "--help"])).with(0).out;
    assert!(record.contains("--seconds") && record.contains("Ctrl-C"), "{record}");
    // Without a word it helps, too, but nothing was done.
    let none = run(&mut tenalloc()).with(2);
    assert!(none.err.contains("Usage: tenalloc") && none.out.is_empty(), "{}", none.err);
    let version = run(tenalloc().arg("--version")).with(0).out;
    assert_eq!(version, format!("tenalloc {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn json_is_json_in_the_order_of_the_schema() {
    let ended = run(replay().arg(small()).args(["--format", "json"])).with(0);
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!((&report["schema"], &report["version"]), (&"tenalloc.replay".into(), &2.into()));
    assert_eq!(report["trace"]["allocations"], 240_430);
    assert_eq!((&report["truth"][0]["equal"], &report["truth"][0]["groups"]), (&40.into(), &40.into()));
    assert_eq!(report["truth"][0]["older"], 1);
    let names: Vec<_> = report["designs"].as_array().expect("designs").iter().map(|d| &d["name"]).collect();
    let all = ["linux-5.8", "linux-5.9", "+transposed", "+lazy", "linux-5.18", "linux-6.18", "tenalloc"];
    assert_eq!(names, all);
    let at = |key: &str| ended.out.find(&format!("\n  \"{key}\"")).expect(key);
    assert!(at("schema") < at("trace") && at("trace") < at("designs") && at("designs") < at("notes"));
    // What the table would show is said beside it, and not into it.
    assert!(ended.err.starts_with("tenalloc: note: 128 accounted allocations are of tasks"), "{}", ended.err);
    assert_eq!(run(replay().arg(small()).args(["-f", "json", "-q"])).with(0).err, "");
}

#[test]
fn csv_is_csv_with_a_figure_a_line() {
    let ended = run(replay().arg(script()).args(["--format", "csv"])).with(0);
    let mut reader = csv::Reader::from_reader(ended.out.as_bytes());
    let head = reader.headers().expect("a head").clone();
    assert_eq!(
        head.iter().collect::<Vec<_>>(),
        ["section", "design", "name", "key", "t", "metric", "unit", "value"]
    );
    let rows: Vec<csv::StringRecord> = reader.records().map(|r| r.expect("a row")).collect();
    let value = |section: &str, design: &str, metric: &str| {
        let row = rows.iter().find(|r| (&r[0], &r[1], &r[5]) == (section, design, metric));
        row.map(|r| r[7].to_owned())
    };
    assert_eq!(value("trace", "", "allocations").as_deref(), Some("60"));
    assert_eq!(value("peak", "linux-5.8", "live"), value("peak", "tenalloc", "live"));
    assert!(value("peak", "tenalloc", "slab").is_some());
}

#[test]
fn html_is_one_page_with_charts_and_nothing_to_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    let ended = run(replay().arg(script()).arg("--html").arg(&page)).with(0);
    // The table comes, too.
    assert!(ended.out.starts_with("On this machine Linux 5.8 would have spent "), "{}", ended.out);
    assert_eq!(ended.err, format!("tenalloc: wrote {}\n", page.display()));
    let text = std::fs::read_to_string(&page).expect("a page");
    assert!(text.starts_with("<!doctype html>") && text.trim_end().ends_with("</html>"));
    assert!(text.matches("<svg").count() >= 3, "charts");
    for load in ["src=", "href=\"http", "stylesheet", "@import", "url(http"] {
        assert!(!text.contains(load), "nothing is loaded: {load}");
    }
    let alone = run(replay().arg(script()).args(["--format", "html", "-q"])).with(0);
    assert!(alone.out.starts_with("<!doctype html>") && alone.err.is_empty());
}

#[test]
fn truth_is_told_once() {
    let ended = run(replay().arg(small()).arg("--truth")).with(0);
    assert_eq!(ended.out.matches("40 of 40 groups equal").count(), 1, "{}", ended.out);
    assert!(
        ended.out.trim_end().ends_with("/g/mgr          1,283,400     1,281,728   older"),
        "{}",
        ended.out
    );
    assert!(ended.out.contains("under every"), "{}", ended.out);
    let one = run(replay().arg(small()).args(["--truth", "--design", "tenalloc"])).with(0).out;
    assert!(one.contains("40 of 40 groups equal") && !one.contains("every design"), "{one}");
    // Nothing to compare with.
    let none = run(replay().arg(script()).arg("--truth")).with(0).out;
    assert!(none.contains("none of the kernel's own figures"), "{none}");
}

#[test]
fn designs_are_run_in_the_order_asked_for_and_once() {
    let ended =
        run(replay().arg(script()).args(["-f", "json", "-d", "tenalloc, linux-5.8,tenalloc,all"])).with(0);
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    let names: Vec<_> = report["designs"].as_array().expect("designs").iter().map(|d| &d["name"]).collect();
    let rest = ["linux-5.9", "+transposed", "+lazy", "linux-5.18", "linux-6.18"];
    assert_eq!(names[..2], ["tenalloc", "linux-5.8"]);
    assert_eq!(names[2..], rest);
}

#[test]
fn a_condition_that_holds_is_exit_1_and_one_line() {
    let conditions = ["--fail-if", "linux-5.8:waste>1%, truth<1", "--fail-if", "tenalloc:slab>1TiB"];
    let ended = run(replay().arg(small()).args(conditions).arg("-q")).with(1);
    let lines: Vec<&str> = ended.err.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ended.err);
    assert!(
        lines[0].starts_with("tenalloc: failed: linux-5.8:waste>1% (linux-5.8: waste is 77."),
        "{}",
        lines[0]
    );
    assert!(lines[1].starts_with("tenalloc: failed: truth<1 "), "{}", lines[1]);
    // The report is there all the same.
    assert!(ended.out.starts_with("On this machine Linux 5.8 would have spent "), "{}", ended.out);
    run(replay().arg(script()).args(["--fail-if", "linux-5.8:waste>100%"])).with(0);
    // A condition that this report cannot answer is bad usage and no success.
    let ended = run(replay().arg(script()).args(["--fail-if", "truth>0"])).with(2);
    assert!(ended.err.lines().count() == 1 && ended.err.contains("truth"), "{}", ended.err);
}

#[test]
fn checks_run_and_are_counted() {
    let ended = run(replay().arg(script()).args(["--check", "1", "-f", "json"])).with(0);
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    for design in report["designs"].as_array().expect("designs") {
        let steps = design["ops"].as_u64().expect("steps");
        assert_eq!(design["checks"]["model"], steps + 1);
    }
}
