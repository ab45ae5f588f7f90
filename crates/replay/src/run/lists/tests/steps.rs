//! What a design is asked for each step of a plan, and when its sizes are read.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tenalloc_designs::Machine;
use tenalloc_trace::Program;
use tenalloc_trace::program::{Counts, GroupId, OpKind};

use super::super::plan::{Event, List, Plan};
use super::super::{Run, drive};
use super::fake::Fake;
use crate::run::tests::build::{Build, INTERRUPT, ROOT};
use crate::run::{DESIGNS, Error};
use Event::{Create, Remove, Unmount, Use};

const DENTRIES: bool = false;
const INODES: bool = true;

/// A run on the fake design, and what that was asked.
fn run(program: &Program) -> (Run<'_>, Rc<RefCell<Vec<String>>>) {
    let fake = Fake::default();
    let calls = Rc::clone(&fake.calls);
    let run = Run {
        program,
        design: Box::new(fake),
        keys: HashMap::new(),
        older: Vec::new(),
        mounts: HashMap::new(),
        used: 0,
    };
    (run, calls)
}

/// The calls for these events, without those for the events before `from`.
fn calls(program: &Program, older: u32, events: &[Event], from: usize) -> (Vec<String>, u64) {
    let (mut run, calls) = run(program);
    run.stand(older).unwrap();
    for (i, event) in events.iter().enumerate() {
        if i == from {
            calls.borrow_mut().clear();
        }
        run.step(*event).unwrap();
    }
    (calls.take(), run.used)
}

fn machine() -> Machine {
    Machine { cpus: 2, nodes: 2, cpu_node: vec![0, 1], page_size: 4096 }
}

#[test]
fn older_lists_stand_in_pairs_with_a_shrinker_each() {
    let program = Build::new(&[64]).end(1);
    let (mut run, calls) = run(&program);
    run.stand(3).unwrap();
    assert_eq!(
        calls.take(),
        ["shrinker 0", "list 0 of shrinker 0", "list 1 of shrinker 0", "shrinker 1", "list 2 of shrinker 1"]
    );
    run.stand(0).unwrap();
    assert!(calls.take().is_empty());
}

#[test]
fn a_use_prepares_the_list_of_the_group_and_puts_an_item_on_the_node_of_the_cpu() {
    let mut b = Build::new(&[64]);
    let a = b.made(ROOT, "/a");
    let program = b.end(1);
    let events = [
        Create(a),
        Event::Mount(7),
        Use(a, List::Older(0), 0),
        Use(a, List::Of(7, DENTRIES), 1),
        Use(a, List::Of(7, INODES), 1),
        // Neither is there.
        Use(a, List::Older(1), 0),
        Use(a, List::Of(8, INODES), 0),
        // A CPU that the recording does not know is on the first node.
        Use(a, List::Older(0), 9),
    ];
    let (calls, used) = calls(&program, 1, &events, 2);
    assert_eq!(
        calls,
        [
            "prepare list 0 for g0",
            "item 0 on list 0 of g0 on node 0",
            "prepare list 1 for g0",
            "item 1 on list 1 of g0 on node 1",
            "prepare list 2 for g0",
            "item 2 on list 2 of g0 on node 1",
            "prepare list 0 for g0",
            "item 3 on list 0 of g0 on node 0",
        ]
    );
    assert_eq!(used, 4);
}

#[test]
fn an_unmount_takes_the_items_of_that_mount_off_and_then_its_lists() {
    let mut b = Build::new(&[64]);
    let a = b.made(ROOT, "/a");
    let program = b.end(1);
    let events = [
        Create(a),
        Event::Mount(0),
        Event::Mount(1),
        Use(a, List::Of(0, INODES), 0),
        Use(a, List::Of(1, INODES), 0),
        Use(a, List::Of(0, DENTRIES), 0),
        // Its group goes first, as containers do.
        Remove(a),
        Unmount(0),
        // Once is enough; and one that never was.
        Unmount(0),
        Unmount(5),
    ];
    assert_eq!(
        calls(&program, 0, &events, 6).0,
        [
            "remove g0",
            "delete item 0",
            "delete item 2",
            "remove list 0",
            "remove list 1",
            "remove shrinker 0"
        ]
    );
}

#[test]
fn groups_are_made_below_the_nearest_that_lives_and_is_charged() {
    let mut b = Build::new(&[64]);
    let a = b.made(ROOT, "/a");
    let mid = b.made(a, "/a/m");
    let low = b.made(mid, "/a/m/l");
    let program = b.end(1);
    let events =
        [Create(ROOT), Create(a), Create(mid), Remove(mid), Create(low), Use(low, List::Older(0), 0)];
    assert_eq!(
        calls(&program, 1, &events, 0).0,
        [
            "g0 below root",
            "g1 below g0",
            "remove g1",
            "g2 below g0",
            "prepare list 0 for g2",
            "item 0 on list 0 of g2 on node 0"
        ]
    );
}

#[test]
fn children_whose_removals_were_lost_go_first_the_lowest_before_all() {
    let mut b = Build::new(&[64]);
    let a = b.made(ROOT, "/a");
    let mid = b.made(a, "/a/m");
    let low = b.made(mid, "/a/m/l");
    let beside = b.made(ROOT, "/b");
    let program = b.end(1);
    let events = [
        Create(a),
        Create(mid),
        Create(low),
        Create(beside),
        Remove(a),
        // Those came late, or twice.
        Remove(mid),
        Remove(a),
        Remove(beside),
    ];
    assert_eq!(calls(&program, 0, &events, 4).0, ["remove g2", "remove g1", "remove g0", "remove g3"]);
}

#[test]
fn who_is_removed_or_not_charged_uses_the_lists_of_the_nearest_above() {
    let mut b = Build::new(&[64]);
    let a = b.made(ROOT, "/a");
    let low = b.made(a, "/a/l");
    let program = b.end(1);
    let used = |group: GroupId| Use(group, List::Older(0), 0);
    let events =
        [Create(a), Create(low), Remove(low), used(low), used(ROOT), used(INTERRUPT), Remove(a), used(low)];
    let (calls, used) = calls(&program, 1, &events, 3);
    let prepared: Vec<&str> = calls.iter().filter_map(|c| c.strip_prefix("prepare list 0 for ")).collect();
    assert_eq!((prepared, used), (vec!["g0", "root", "root", "root"], 4));
}

#[test]
fn a_refusal_tells_design_step_and_what_it_was() {
    let mut b = Build::new(&[64]);
    let a = b.made(ROOT, "/a");
    b.step(OpKind::ListUse, 0, a, 0);
    let program = b.end(1);
    let (mut run, _) = run(&program);
    run.design = Box::new(Fake::full());
    run.stand(1).unwrap();
    let refused = run.step(Use(a, List::Older(0), 0)).unwrap_err();
    assert!(refused.to_string().contains("lists") && run.used == 0, "{refused}");

    // On a real one, by a CPU on a node that the machine does not have.
    let program = Program { cpu_node: vec![7, 7], counts: used_once(), ..program };
    let plan = Plan::new(&program);
    match drive(&program, &plan, "linux-5.18", &machine()).err() {
        Some(Error::Lists { design, step: 1, what: "the first use of a list", .. }) => {
            assert_eq!(design, "linux-5.18");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        drive(&program, &plan, "linux-2.4", &machine()).err(),
        Some(Error::UnknownDesign(name)) if name == "linux-2.4"
    ));
}

fn used_once() -> Counts {
    Counts { list_uses: 1, ..Counts::default() }
}

/// A list_lru takes 64 bytes a node, and a mount has two.
#[test]
fn sizes_are_those_of_their_moment() {
    let mut b = Build::new(&[64]);
    let a = b.made(ROOT, "/a");
    b.step(OpKind::Super, 0, a, 0).at(50).alloc(0, 0, a).free(0);
    b.at(100).step(OpKind::Super, 1, a, 0);
    b.at(300).step(OpKind::SuperGone, 0, a, 0).step(OpKind::SuperGone, 1, a, 0);
    let counts = Counts { supers: 2, list_uses: 1, ..Counts::default() };
    let program = Program { counts, ..b.end(399) };
    let found = drive(&program, &Plan::new(&program), "linux-5.18", &machine()).unwrap();
    let mount = 2 * 2 * 64;
    let lrus: Vec<u64> = found.series.iter().map(|usage| usage.kernel.lrus).collect();
    // A sample each nanosecond: 399 ns in 399 parts. A step counts from its own moment on.
    assert_eq!(lrus.len(), 400);
    assert!(lrus[..100].iter().all(|bytes| *bytes == mount), "{:?}", &lrus[..100]);
    assert!(lrus[100..300].iter().all(|bytes| *bytes == 2 * mount), "{:?}", &lrus[100..300]);
    assert!(lrus[300..].iter().all(|bytes| *bytes == 0), "{:?}", &lrus[300..]);
    assert_eq!((found.at_peak.kernel.lrus, found.at_end.kernel.lrus), (mount, 0));
    let lru = found.made.iter().find(|made| made.what == "lru").unwrap();
    assert_eq!((lru.asked, lru.made, lru.live), (128, 4, 0));
}

/// Heads of 5.18 for two nodes are one block of 64 bytes.
#[test]
fn a_removed_groups_lists_pass_to_its_parent_under_every_design() {
    let mut b = Build::new(&[64]);
    let a = b.made(ROOT, "/a");
    let low = b.made(a, "/a/l");
    b.step(OpKind::Super, 0, low, 0).step(OpKind::ListUse, 0, low, 0).step(OpKind::ListUse, 0, low, 0);
    b.alloc(0, 0, low).at(1).remove(low).at(2).remove(a).at(3).step(OpKind::SuperGone, 0, low, 0);
    let counts = Counts { supers: 1, list_uses: 2, ..Counts::default() };
    let program = Program { counts, ..b.end(4) };
    let plan = Plan::new(&program);
    for name in DESIGNS {
        let found = drive(&program, &plan, name, &machine()).unwrap();
        assert_eq!(found.used, 2, "{name}");
        assert!(found.at_peak.kernel.lists() > found.at_end.kernel.lists(), "{name}");
        if *name == "linux-5.18" {
            let heads = found.made.iter().find(|made| made.what == "heads").unwrap();
            // For the group and the one above it, on both lists.
            assert_eq!((heads.taken, heads.made, heads.live), (64, 4, 0));
            assert_eq!((found.at_peak.kernel.heads, found.at_end.kernel.lists()), (4 * 64, 0));
        }
    }
}
