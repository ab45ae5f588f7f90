//! A design that lies is found out, and the error says with which figure.

use super::build::{Build, NOBODY, ROOT};
use super::fake::{Fake, Lie};
use crate::run::drive::{Settings, drive};
use crate::run::{DESIGNS, Error, replay};
use tenalloc_trace::program::Geometry;

const EACH: Settings = Settings { check_every: Some(1), recorded_nodes: false };
const END: Settings = Settings { check_every: None, recorded_nodes: false };

/// Step 0 makes /a, 1 and 2 allocate for it and for nobody, 3 frees the first, 4 allocates again.
fn error(lie: Lie, settings: &Settings) -> Option<Error> {
    let mut b = Build::new(&[64, 16]);
    let a = b.made(ROOT, "/a");
    b.alloc(0, 0, a).alloc(1, 0, NOBODY).free(0).alloc(0, 1, a);
    drive(&b.end(10), &mut Fake::lying(lie), settings, &mut |_| {}).err()
}

fn check(lie: Lie, settings: &Settings, step: usize, what: &str, found: u64, expected: u64) {
    match error(lie, settings) {
        Some(Error::Check { design, step: s, what: w, found: f, expected: e }) => {
            assert_eq!(
                (design.as_str(), s, w.as_str(), f, e),
                ("fake", step, what, found, expected),
                "{lie:?}"
            );
        }
        other => panic!("{lie:?}: {other:?}"),
    }
}

#[test]
fn a_design_that_tells_the_truth_passes() {
    assert!(error(Lie::None, &EACH).is_none() && error(Lie::None, &END).is_none());
}

#[test]
fn every_wrong_figure_is_found_at_the_step_or_at_the_end() {
    // With nothing allocated the group of unknown tasks is charged 0, and the lie is one byte.
    check(Lie::Charge, &EACH, 0, "the charge of group (unknown)", 1, 0);
    check(Lie::Charge, &END, 5, "the charge of group (unknown)", 1, 0);
    check(Lie::Count, &EACH, 0, "the number of objects of cache cache-0", 1, 0);
    check(Lie::Count, &END, 5, "the number of objects of cache cache-0", 2, 1);
    check(Lie::Caches, &END, 5, "the number of caches", 1, 2);
    check(Lie::Live, &EACH, 0, "the sum of live bytes", 1, 0);
    check(Lie::Live, &END, 5, "the sum of live bytes", 81, 80);
    check(Lie::Usage, &END, 5, "the figure of slab bytes in its usage", 12288, 8192);
    check(Lie::Slab, &END, 5, "the sum of its caches' slab bytes", 16384, 8192);
}

#[test]
fn checks_come_after_every_n_steps() {
    check(
        Lie::Live,
        &Settings { check_every: Some(4), recorded_nodes: false },
        3,
        "the sum of live bytes",
        65,
        64,
    );
    check(
        Lie::Live,
        &Settings { check_every: Some(6), recorded_nodes: false },
        5,
        "the sum of live bytes",
        81,
        80,
    );
}

#[test]
fn an_object_handed_out_twice_is_found() {
    let text = error(Lie::Twice, &EACH).unwrap().to_string();
    let start = "fake at step 2: the address of a new object, where a live one lies, is ";
    let end = ", the plain model has ";
    assert!(text.starts_with(start) && text.contains(end) && text.ends_with("; please report it"), "{text}");
}

#[test]
fn overwritten_contents_are_found_when_the_object_is_freed_or_at_the_end() {
    for (lie, byte) in [(Lie::First, 0), (Lie::Last, 56)] {
        match error(lie, &EACH) {
            Some(Error::Check { step: 3, what, found, expected, .. }) => {
                assert_eq!(what, format!("the contents of a live object at its byte {byte}"));
                assert_ne!(found, expected);
            }
            other => panic!("{lie:?}: {other:?}"),
        }
        // Never freed.
        let mut b = Build::new(&[64]);
        b.alloc(0, 0, NOBODY).alloc(1, 0, NOBODY);
        let end = drive(&b.end(1), &mut Fake::lying(lie), &EACH, &mut |_| {}).unwrap_err();
        assert!(matches!(end, Error::Check { step: 2, .. }), "{end}");
        // Without checks nobody looks.
        assert!(error(lie, &END).is_none());
    }
}

/// What lies behind the object in its slot is the design's.
#[test]
fn only_what_the_user_of_an_object_may_write_is_marked() {
    let mut b = Build::new(&[64]);
    b.alloc(0, 0, NOBODY).alloc(1, 0, NOBODY);
    let mut program = b.end(1);
    program.caches[0].geometry = Some(Geometry { object_size: 56, order: 0, objects: 64 });
    let mut fake = Fake::lying(Lie::Last);
    assert!(drive(&program, &mut fake, &EACH, &mut |_| {}).is_ok());
}

#[test]
fn a_refusal_names_step_and_reason() {
    let error = error(Lie::Full, &END).unwrap();
    assert_eq!(error.exit_code(), 1);
    assert_eq!(
        error.to_string(),
        "fake refused step 4 of the trace (an object of cache cache-1): too many objects"
    );
}

#[test]
fn the_number_of_checks_is_told() {
    let mut b = Build::new(&[64, 8]);
    let a = b.made(ROOT, "/a");
    for slot in 0..20 {
        b.alloc(slot, (slot % 2) as u16, a);
    }
    let program = b.end(5);
    for (every, checks) in [(None, 1), (Some(1), 22), (Some(10), 3), (Some(0), 22)] {
        let settings = Settings { check_every: every, recorded_nodes: false };
        let report = replay(&program, DESIGNS, &settings, ("x", 0), &mut |_| {}).unwrap();
        for design in &report.designs {
            assert_eq!((design.checks.model, design.checks.groups), (checks, 2), "{every:?} {}", design.name);
        }
    }
}
