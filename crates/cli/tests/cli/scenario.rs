//! The published experiments as commands: tables, bars, JSON, and memory that is kept to.

use super::support::{Ended, run, tenalloc};
use serde_json::Value;

fn scenario(args: &[&str]) -> Ended {
    run(tenalloc().arg("scenario").args(args))
}

fn json(args: &[&str]) -> Value {
    let ended = scenario(&[args, &["--format", "json"]].concat()).with(0);
    serde_json::from_str(&ended.out).expect("JSON")
}

#[test]
fn muchun_prints_tables_and_bars() {
    let ended = scenario(&["muchun", "--groups", "200", "--mounts", "100", "--users", "1"]).with(0);
    assert!(ended.err.is_empty(), "{}", ended.err);
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(lines[0], "200 groups, 100 mounts of 2 list_lrus, 2 nodes; each mount used by one group");
    for word in ["patch 1: transposed", "patch 10", "patch 12", "tenalloc", "measured", "computed", "█"] {
        assert!(ended.out.contains(word), "{word} in {}", ended.out);
    }
    // Published figures are of another size, and so are not shown as if they were of this one.
    assert!(!ended.out.contains("24,464"), "{}", ended.out);
    assert!(lines.iter().all(|line| line.chars().count() <= 100 && !line.ends_with(' ')), "{}", ended.out);
}

#[test]
fn bharata_counts_heads_at_every_stage() {
    let outcome = json(&["bharata", "--containers", "40", "--mounts", "3"]);
    assert_eq!(outcome["schema"], "tenalloc.scenario");
    let tables = outcome["tables"].as_array().expect("tables");
    let built = tables.iter().find(|t| t["title"] == "list heads of 40 containers, built").expect("built");
    assert_eq!(built["columns"][1]["name"], "during");
    assert_eq!(built["columns"][1]["origin"], "measured");
    // 40 × 3 × 2 × 2 lists for each of 46 ids; then one each.
    let during: Vec<&Value> =
        built["rows"].as_array().expect("rows").iter().map(|r| &r["values"][1]).collect();
    assert_eq!(during, [22_080.0, 480.0, 480.0, 480.0]);
    let removed: Vec<&Value> =
        built["rows"].as_array().expect("rows").iter().map(|r| &r["values"][2]).collect();
    assert_eq!(removed, [22_080.0, 0.0, 0.0, 0.0]);
}

/// Both take nearly all that they may at these sizes, bharata with arrays that grow at many steps.
#[test]
fn no_more_memory_is_taken_than_asked_for() {
    for args in [
        ["muchun", "--memory", "150MiB"],
        ["bharata", "--memory", "100MiB"],
        ["bharata", "--memory", "150MiB"],
    ] {
        let ended = scenario(&[&args[..], &["--format", "json"]].concat()).with(0);
        assert!(ended.err.contains("may be taken, so") && ended.err.lines().count() == 1, "{}", ended.err);
        let outcome: Value = serde_json::from_str(&ended.out).expect("JSON");
        let memory = &outcome["figures"][0];
        let (took, allowed) = (memory["value"].as_f64(), memory["budget"].as_f64());
        assert!(took.zip(allowed).is_some_and(|(took, allowed)| took <= allowed), "{args:?} {memory}");
        assert!(took.zip(allowed).is_some_and(|(took, allowed)| took > allowed / 2.0), "{args:?} {memory}");
    }
}

#[test]
fn what_cannot_be_is_told_in_a_line() {
    for (args, word) in [
        (vec!["muchun", "--memory", "1MiB"], "--memory"),
        (vec!["muchun", "--memory", "8000TiB"], "free here"),
        (vec!["muchun", "--groups", "10", "--users", "11"], "10 groups"),
        (vec!["bharata", "--memory", "20MiB"], "a single container"),
        (vec!["bharata", "--mounts", "7", "--memory", "4000000000MiB"], "free here"),
    ] {
        let ended = scenario(&args).with(2);
        assert!(ended.err.contains(word) && ended.err.lines().count() == 1, "{args:?}: {}", ended.err);
        assert!(ended.out.is_empty());
    }
    for args in [
        ["muchun", "--memory", "much"],
        ["muchun", "--groups", "65535"],
        ["muchun", "--mounts", "0"],
        ["bharata", "--nodes", "65"],
        ["bharata", "--containers", "-1"],
    ] {
        let ended = scenario(&args).with(2);
        assert!(ended.err.starts_with("error: ") && ended.out.is_empty(), "{args:?}: {}", ended.err);
    }
    // Nothing is built that could not be written.
    let ended = scenario(&["muchun", "--output", "/nowhere/at/all.json"]).with(1);
    assert!(ended.err.contains("no folder"), "{}", ended.err);
}

#[test]
fn roman_runs_a_recording_under_both() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/small");
    let outcome = json(&["roman", folder]);
    let row = |table: usize, row: usize| -> Vec<f64> {
        let values = outcome["tables"][table]["rows"][row]["values"].as_array().expect("values");
        values.iter().map(|v| v.as_f64().expect("a number")).collect()
    };
    // Accounted objects: never more than their slabs; shared slabs are used better.
    let used = row(0, 0);
    assert!(used.iter().all(|part| (1.0..100.0).contains(part)), "{used:?}");
    assert!(used[0] < used[2] && used[1] < used[3], "{used:?}");
    let slab = row(1, 0);
    // The recording's own account of its peak: 9,120,360 bytes, with the kernel's own lists, which are left out here.
    assert!(slab[0] <= 9_120_360.0 && slab[0] > 5_000_000.0, "{slab:?}");
    assert!((slab[0] / slab[1] * 100.0 - used[0]).abs() < 1e-9, "{slab:?} {used:?}");
    assert!(((1.0 - slab[2] / slab[1]) * 100.0 - slab[3]).abs() < 1e-9, "{slab:?}");
    // With what is not accounted more bytes live, and a smaller part of them is saved.
    let all = row(1, 2);
    assert!(all[0] > slab[0] && all[3] < slab[3], "{all:?} {slab:?}");
    // Rao's own percentages, which he rounded down.
    let published: Vec<f64> = (0..11).map(|at| row(3, at)[2].floor()).collect();
    assert_eq!(published, [71.0, 71.0, 25.0, 29.0, 31.0, 30.0, 31.0, 31.0, 29.0, 40.0, 29.0]);

    let ended = scenario(&["roman", "/nowhere/at/all"]).with(2);
    assert!(ended.err.contains("/nowhere/at/all") && ended.err.contains("tenalloc record"), "{}", ended.err);
    assert!(ended.err.lines().count() == 1 && ended.out.is_empty(), "{}", ended.err);
}
