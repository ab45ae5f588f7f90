//! Every recorded trace: its counts are those of its summary, and what its cgroups are charged at each stamp is what
//! the kernel said, to the byte, for as many as the traces' README says.

mod common;

use std::path::Path;
use tenalloc_trace::program::Counts;

/// Label, cgroups compared, equal to the byte, sum of the trace, sum of the kernel.
type Truth = (&'static str, usize, usize, u64, u64);

fn numbers(line: &str) -> Vec<u64> {
    // A percentage or a time is no count.
    line.split([' ', '(', ')', ',', ';', '{', '}']).filter_map(|w| w.parse().ok()).collect()
}

/// Hold the counts against summary.txt, which tools/tracestat.rs wrote.
fn same_as_summary(c: &Counts, folder: &Path) {
    let summary = std::fs::read_to_string(folder.join("summary.txt")).unwrap();
    let line = |start: &str| summary.lines().find(|l| l.starts_with(start)).map(numbers);
    let samples: Vec<(String, u64)> = summary
        .lines()
        .skip(1)
        .take_while(|l| l.starts_with("  "))
        .map(|l| {
            let (name, n) = l.trim().split_once(' ').unwrap();
            (name.to_owned(), n.parse().unwrap())
        })
        .collect();
    assert!(samples.len() > 7, "{samples:?}");
    assert_eq!(c.samples, samples);
    let first = numbers(summary.lines().next().unwrap());
    assert_eq!(first[first.len() - 2..], [c.lost, c.out_of_order]);
    let all = [c.allocations, c.accounted, 8192, c.large, c.explicit_node, c.interrupt];
    assert_eq!(line("allocations ").unwrap(), all);
    assert_eq!(
        line("matched frees").unwrap(),
        [c.matched_frees, c.unseen_frees, c.hidden_frees, c.live_at_end]
    );
    let peak = [c.peak_live_bytes, c.peak_accounted_bytes, c.end_live_bytes, c.end_accounted_bytes];
    assert_eq!(line("peak live").unwrap(), peak);
    assert_eq!(
        line("accounted allocations charged").unwrap(),
        [c.charged, c.accounted - c.charged, c.groups_charged]
    );
    let by_node = summary.lines().find(|l| l.starts_with("allocations by node"));
    match by_node {
        Some(l) => {
            let n: Vec<u64> = l
                .split_once('{')
                .unwrap()
                .1
                .trim_end_matches('}')
                .split(", ")
                .map(|p| p.split_once(": ").unwrap().1.parse().unwrap())
                .collect();
            assert_eq!(c.by_node, n);
        }
        None => assert!(c.by_node.iter().sum::<u64>() == 0 || c.by_node.len() == 1, "{:?}", c.by_node),
    }
}

fn check(folder: &Path, truth: &[Truth]) {
    let p = common::open(folder);
    same_as_summary(&p.counts, folder);
    assert_eq!(p.truncated, None);
    let charges = common::run(&p);
    assert_eq!(p.stamps.len(), truth.len());
    for ((stamp, charges), (label, compared, equal, ours, kernel)) in p.stamps.iter().zip(&charges).zip(truth)
    {
        let mine: Vec<u64> =
            stamp.slab.iter().map(|(path, _)| charges.get(path).copied().unwrap_or(0)).collect();
        assert_eq!((stamp.label.as_str(), mine.len()), (*label, *compared));
        let same = stamp.slab.iter().zip(&mine).filter(|((_, kernel), mine)| kernel == *mine).count();
        assert_eq!((same, mine.iter().sum::<u64>()), (*equal, *ours));
        assert_eq!(stamp.slab.iter().map(|s| s.1).sum::<u64>(), *kernel);
    }
}

#[test]
fn the_small_trace_of_this_repository() {
    check(&common::small(), &[("steady", 41, 40, 8_105_696, 8_107_368)]);
}

#[test]
fn churn300() {
    if let Some(folder) = common::shared("churn300") {
        check(&folder, &[("steady", 301, 300, 62_507_064, 62_504_304)]);
    }
}

#[test]
fn mariadb_rw() {
    if let Some(folder) = common::shared("mariadb_rw") {
        check(&folder, &[("steady", 2, 1, 860_272, 908_848), ("steady2", 2, 1, 678_296, 726_872)]);
    }
}

#[test]
fn kbuild_tiny() {
    if let Some(folder) = common::shared("kbuild_tiny") {
        check(
            &folder,
            &[
                ("steady1", 1, 1, 8_478_688, 8_478_688),
                ("steady2", 1, 1, 8_810_648, 8_810_648),
                ("steady3", 1, 1, 9_148_728, 9_148_728),
                ("steady4", 1, 1, 9_177_344, 9_177_344),
            ],
        );
    }
}

#[test]
fn numa4_churn_612() {
    if let Some(folder) = common::shared("numa4_churn_612") {
        check(&folder, &[("steady", 150, 149, 10_207_080, 10_204_248)]);
    }
}

#[test]
fn numa4_churn_510_has_no_usable_truth() {
    if let Some(folder) = common::shared("numa4_churn_510") {
        check(&folder, &[("steady", 60, 0, 36_240, 131_248)]);
    }
}
