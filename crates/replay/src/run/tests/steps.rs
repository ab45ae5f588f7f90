//! What reaches a design, and in which order.

use super::build::{Build, NOBODY, ROOT, UNKNOWN};
use super::fake::Fake;
use crate::run::drive::{Settings, drive};
use crate::run::{DESIGNS, Progress, replay};
use tenalloc_trace::program::OpKind;

fn diary(build: &mut Build) -> Vec<String> {
    let mut fake = Fake::default();
    drive(&build.end(10), &mut fake, &Settings { check_every: Some(1), recorded_nodes: false }, &mut |_| {})
        .unwrap();
    fake.diary
}

#[test]
fn caches_come_first_then_the_unknown_group_then_every_step_in_order() {
    let mut b = Build::new(&[64, 256]);
    let a = b.made(ROOT, "/a");
    let below = b.made(a, "/a/b");
    b.on(1, 0).alloc(0, 1, below).on(0, 1).alloc(1, 0, NOBODY).alloc(2, 0, UNKNOWN);
    b.step(OpKind::Mount, 0, a, 0).step(OpKind::Unmount, 0, a, 0);
    b.on(1, 1).step(OpKind::HiddenFree, 1, NOBODY, 0);
    b.on(0, 0).remove(below).free(0);
    let expected = [
        "cache cache-0 64",
        "cache cache-1 256",
        "group (unknown) in None",
        "group a in None",
        "group b in Some(1)",
        "alloc 1 for Some(2) on 1.0",
        "alloc 0 for None on 0.1",
        "alloc 0 for Some(0) on 0.1",
        "free on 1",
        "remove 2",
        "free on 0",
    ];
    assert_eq!(diary(&mut b), expected);
}

#[test]
fn what_the_kernel_does_not_charge_reaches_the_design_without_a_group() {
    let mut b = Build::new(&[64]);
    for (slot, row) in [ROOT, NOBODY, tenalloc_trace::program::GroupId::INTERRUPT].into_iter().enumerate() {
        b.alloc(slot as u32, 0, row);
    }
    assert_eq!(diary(&mut b)[2..], ["alloc 0 for None on 0.0"; 3]);
}

#[test]
fn a_path_used_again_is_another_group() {
    let mut b = Build::new(&[64]);
    let first = b.made(ROOT, "/x");
    b.alloc(0, 0, first).remove(first);
    let second = b.made(ROOT, "/x");
    b.alloc(1, 0, second);
    let expected = [
        "group x in None",
        "alloc 0 for Some(1) on 0.0",
        "remove 1",
        "group x in None",
        "alloc 0 for Some(2) on 0.0",
    ];
    assert_eq!(diary(&mut b)[2..], expected);
}

/// The kernel removes no group with children: the recording lost the children's own removals, or a mkdir.
#[test]
fn lost_removals_and_lost_mkdirs_are_made_good() {
    let mut b = Build::new(&[64]);
    let a = b.made(ROOT, "/a");
    let below = b.made(a, "/a/b");
    let leaf = b.made(below, "/a/b/c");
    b.alloc(0, 0, leaf).remove(a);
    // Later events of what is gone by then.
    let late = b.made(below, "/a/b/late");
    b.alloc(1, 0, leaf).alloc(2, 0, late).remove(below).remove(leaf).remove(late);
    let expected = [
        "group a in None",
        "group b in Some(1)",
        "group c in Some(2)",
        "alloc 0 for Some(3) on 0.0",
        "remove 3",
        "remove 2",
        "remove 1",
        "group late in None",
        "alloc 0 for None on 0.0",
        "alloc 0 for Some(4) on 0.0",
        "remove 4",
    ];
    assert_eq!(diary(&mut b)[2..], expected);
    let settings = Settings { check_every: Some(1), recorded_nodes: false };
    let report = replay(&b.end(9), DESIGNS, &settings, ("x", 0), &mut |_| {}).unwrap();
    assert!(report.designs.iter().all(|d| (d.groups_created, d.groups_removed) == (4, 4)));
}

#[test]
fn names_that_no_group_can_have_are_replaced() {
    let mut b = Build::new(&[64]);
    for path in ["/(unknown)", "/..", "/.", "/a\0b", &format!("/{}", "n".repeat(256))] {
        b.made(ROOT, path);
    }
    b.made(ROOT, &format!("/{}", "n".repeat(255)));
    b.made(ROOT, "/日本語");
    let report = replay(&b.end(9), DESIGNS, &Settings::default(), ("x", 0), &mut |_| {}).unwrap();
    assert!(report.designs.iter().all(|d| d.groups_created == 7), "{:?}", report.designs);
    assert_eq!(diary(&mut b)[2..4], ["group #4 in None", "group #5 in None"]);
}

#[test]
fn progress_ends_at_the_total_and_names_the_design() {
    let mut b = Build::new(&[64]);
    b.alloc(0, 0, NOBODY);
    b.free(0);
    let program = b.end(9);
    let mut seen = Vec::new();
    let mut tell = |p: Progress<'_>| seen.push((p.design.to_owned(), p.done, p.total));
    replay(&program, DESIGNS, &Settings::default(), ("x", 0), &mut tell).unwrap();
    let mut expected = Vec::new();
    // Designs with the same slabs have them run once.
    let mut slabs: Vec<_> = DESIGNS.iter().map(|name| tenalloc_designs::slabs_of(name).unwrap()).collect();
    slabs.dedup();
    assert_eq!(slabs, ["linux-5.8", "linux-5.9", "linux-6.18", "tenalloc"]);
    for (i, name) in slabs.iter().enumerate() {
        let steps = 2 * slabs.len() as u64;
        expected.push((name.to_string(), 2 * i as u64, steps));
        expected.push((name.to_string(), 2 * i as u64 + 2, steps));
    }
    assert_eq!(seen, expected);
}

#[test]
fn an_unknown_design_is_refused_before_anything_runs() {
    let program = Build::new(&[64]).end(9);
    let mut called = false;
    let error =
        replay(&program, &["linux-5.8", "slob"], &Settings::default(), ("x", 0), &mut |_| called = true);
    let error = error.unwrap_err();
    assert_eq!((error.exit_code(), called), (2, false));
    assert!(error.to_string().starts_with("no design is called \"slob\": there are linux-5.8, "), "{error}");
}
