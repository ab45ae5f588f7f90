//! All caches of a recorded machine together. What single caches are off by is told in docs/fidelity.md.

use super::{open, shared, small};
use std::path::Path;
use tenalloc_replay::fidelity::{Compared, Fidelity, Recorded, Row, compare};

fn run(folder: &Path) -> Fidelity {
    let program = open(folder);
    let recorded = Recorded::read(folder, &program).expect("slabinfo is there");
    compare(&program, &recorded, false).expect("the design runs")
}

fn bytes(moment: &Compared, of: fn(&Row) -> i64) -> f64 {
    moment.rows.iter().map(|r| of(r) as f64 * r.slab_bytes as f64).sum()
}

/// How far the change of all caches together is off: from no slabs at all, and from the kernel's.
fn total(moment: &Compared) -> (f64, f64) {
    let kernel = bytes(moment, |r| r.kernel);
    ((bytes(moment, |r| r.replay) - kernel) / kernel, (bytes(moment, |r| r.seeded) - kernel) / kernel)
}

#[test]
fn small_grows_as_the_kernel_did_and_always_the_same() {
    let found = run(&small());
    assert_eq!((found.design.as_str(), found.version), ("linux-5.9", 1));
    let labels: Vec<_> = found.moments.iter().map(|m| m.label.as_str()).collect();
    assert_eq!(labels, ["steady", "after"]);
    let steady = &found.moments[0];
    assert!(steady.rows.len() > 50, "{} caches", steady.rows.len());
    let (empty, seeded) = total(steady);
    assert!(empty.abs() < 0.15 && seeded.abs() < 0.15, "{empty:+.3} {seeded:+.3}");
    let changed = |r: &Row| r.kernel.unsigned_abs() * r.slab_bytes;
    assert!(steady.rows.is_sorted_by(|a, b| changed(a) >= changed(b)));
    assert_eq!(found, run(&small()));
}

/// Ends of the range of what was found, rounded up to 5 %.
fn within(name: &str, at_most: f64) {
    let Some(folder) = shared(name) else { return };
    let found = run(&folder);
    let (empty, seeded) = total(&found.moments[0]);
    println!("{name}: {:+.1} %, seeded {:+.1} %", 100.0 * empty, 100.0 * seeded);
    assert!(empty.abs() < at_most && seeded.abs() < at_most, "{name}: {empty:+.3} {seeded:+.3}");
}

#[test]
fn four_nodes_with_6_12() {
    within("numa4_churn_612", 0.10);
}

#[test]
fn four_nodes_with_5_10() {
    within("numa4_churn_510", 0.05);
}

#[test]
fn three_hundred_containers() {
    within("churn300", 0.05);
}

#[test]
fn a_kernel_being_built() {
    within("kbuild_tiny", 0.10);
}
