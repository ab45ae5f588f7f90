//! Programs that no reader makes end in an error, not in wrong figures and never in a panic.

use super::build::{Build, NOBODY, ROOT};
use super::fake::Fake;
use crate::run::drive::{Settings, drive};
use crate::run::{DESIGNS, Error, replay};
use tenalloc_trace::Program;
use tenalloc_trace::program::{GroupId, OpKind};

#[track_caller]
fn nonsense(program: &Program, step: usize, what: &str) {
    let settings = Settings { check_every: Some(1), recorded_nodes: false };
    let error = drive(program, &mut Fake::default(), &settings, &mut |_| {}).unwrap_err();
    assert!(matches!(&error, Error::Program { step: s, what: w } if (*s, *w) == (step, what)), "{error}");
    assert!(error.to_string().ends_with("this is a fault of the reader, please report it"), "{error}");
    for design in DESIGNS {
        replay(program, &[design], &settings, ("x", 0), &mut |_| {}).unwrap_err();
    }
}

fn built(make: impl FnOnce(&mut Build) -> &mut Build) -> Program {
    let mut b = Build::new(&[64]);
    make(&mut b);
    b.end(10)
}

#[test]
fn slots() {
    let taken = "an allocation into a slot that is taken or unknown";
    nonsense(&built(|b| b.alloc(0, 0, NOBODY).alloc(0, 0, NOBODY)), 1, taken);
    nonsense(&built(|b| b.step(OpKind::Alloc, 5, NOBODY, 0)), 0, taken);
    let empty = "a free of an empty slot";
    nonsense(&built(|b| b.step(OpKind::Free, 0, NOBODY, 0)), 0, empty);
    nonsense(&built(|b| b.alloc(0, 0, NOBODY).free(0).step(OpKind::HiddenFree, 0, NOBODY, 0)), 2, empty);
}

#[test]
fn groups() {
    let unmade = "an object of a group that was not made";
    nonsense(&built(|b| b.alloc(0, 0, GroupId(77))), 0, unmade);
    nonsense(
        &built(|b| {
            let a = b.group(ROOT, "/a");
            b.alloc(0, 0, a)
        }),
        0,
        unmade,
    );
    let twice = "a group made twice, or one that is unknown";
    nonsense(&built(|b| b.step(OpKind::Create, 0, GroupId(9), 0)), 0, twice);
    nonsense(&built(|b| b.step(OpKind::Create, 0, ROOT, 0)), 0, twice);
    nonsense(
        &built(|b| {
            let a = b.made(ROOT, "/a");
            b.remove(a).step(OpKind::Create, 0, a, 0)
        }),
        2,
        twice,
    );
    nonsense(
        &built(|b| {
            let a = b.group(ROOT, "/a");
            b.made(a, "/a/b");
            b
        }),
        0,
        "a group whose parent was not made",
    );
    let removal = "the removal of a group that was not made";
    nonsense(&built(|b| b.remove(ROOT)), 0, removal);
    nonsense(&built(|b| b.remove(GroupId(99))), 0, removal);
    nonsense(
        &built(|b| {
            let a = b.group(ROOT, "/a");
            b.remove(a)
        }),
        0,
        removal,
    );
    let order = "a group stands before its parent";
    for parent in [4, 5, 99] {
        nonsense(
            &built(|b| {
                b.group(GroupId(parent), "/a");
                b
            }),
            0,
            order,
        );
    }
}

#[test]
fn stamps() {
    nonsense(&built(|b| b.step(OpKind::Stamp, 0, NOBODY, 0)), 0, "an unknown stamp");
    let mut program = built(|b| b.stamp("steady", &[("/a", 1)]));
    program.ops.clear();
    let error = replay(&program, &["tenalloc"], &Settings::default(), ("x", 0), &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Program { step: 0, what: "a stamp has no step" }), "{error}");
}

#[test]
fn places_and_caches() {
    for design in DESIGNS {
        let run = |program: &Program| {
            let error = replay(program, &[design], &Settings::default(), ("x", 0), &mut |_| {}).unwrap_err();
            assert_eq!(error.exit_code(), 1);
            error.to_string()
        };
        // It is the slabs that refuse, under the name of the design that has them.
        let slabs = tenalloc_designs::slabs_of(design).unwrap();
        let refused = format!("{slabs} refused step 0 of the trace");
        assert_eq!(
            run(&built(|b| b.on(2, 0).alloc(0, 0, NOBODY))),
            format!("{refused} (an object of cache cache-0): CPU 2 does not exist: the machine has 2")
        );
        // A node that the machine does not have cannot be had: the object takes any.
        for recorded_nodes in [false, true] {
            let settings = Settings { check_every: Some(1), recorded_nodes };
            let program = built(|b| b.on(0, 2).alloc(0, 0, NOBODY));
            let report = replay(&program, &[design], &settings, ("x", 0), &mut |_| {}).unwrap();
            assert_eq!(report.designs[0].at_end.usage.live, 64, "{design}");
        }
        assert!(run(&built(|b| b.step(OpKind::Alloc, 0, NOBODY, 3))).starts_with(&refused));
        let mut program = built(|b| b);
        program.caches[0].slot_size = 0;
        assert!(run(&program).starts_with(&format!("{refused} (cache cache-0): ")));
        program = built(|b| b);
        program.cpu_node = vec![0, 7];
        assert!(run(&program).starts_with(&format!("{refused} (start): unusable machine: ")));
    }
}
