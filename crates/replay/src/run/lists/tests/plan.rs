//! The rules by which a recording becomes a plan, one recording of each kind.

use tenalloc_trace::Program;
use tenalloc_trace::program::{Counts, GroupId, OpKind};

use super::super::plan::{Event, List, Plan};
use crate::run::tests::build::{Build, ROOT};
use Event::{Create, Mount, Remove, Unmount, Use};

const DENTRIES: bool = false;
const INODES: bool = true;

/// Call sites have names, and lists are made on first use: 5.18 or later.
fn sparse(b: &mut Build) -> Program {
    with(b, Counts { supers: 1, list_uses: 1, own: 1, ..Counts::default() })
}

/// Call sites have names, lists are made in advance: 5.17 or earlier. `older` lists stood before.
fn eager(b: &mut Build, older: Option<u64>) -> Program {
    with(b, Counts { supers: 1, own: 1, older_lists: older, ..Counts::default() })
}

/// No names: there are only calls of mount(2) and umount(2).
fn nameless(b: &mut Build) -> Program {
    with(b, Counts::default())
}

fn with(b: &mut Build, counts: Counts) -> Program {
    Program { counts, ..b.end(1_000) }
}

fn events(program: &Program) -> Vec<Event> {
    Plan::new(program).steps.iter().map(|step| step.event).collect()
}

/// A task of `group` uses a list.
fn uses(b: &mut Build, group: GroupId, times: usize) {
    for _ in 0..times {
        b.step(OpKind::ListUse, 0, group, 0);
    }
}

#[test]
fn a_list_in_use_is_of_the_groups_newest_superblock_and_then_an_older_one() {
    let mut b = Build::new(&[64]);
    let (a, c) = (b.made(ROOT, "/a"), b.made(ROOT, "/c"));
    b.step(OpKind::Super, 0, a, 0).step(OpKind::Super, 1, a, 0).on(1, 1);
    uses(&mut b, a, 6);
    uses(&mut b, c, 1);
    let program = sparse(&mut b);
    let used = |group, list| Use(group, list, 1);
    assert_eq!(
        events(&program),
        [
            Create(a),
            Create(c),
            Mount(0),
            Mount(1),
            used(a, List::Of(1, INODES)),
            used(a, List::Of(1, DENTRIES)),
            used(a, List::Of(0, INODES)),
            used(a, List::Of(0, DENTRIES)),
            used(a, List::Older(0)),
            used(a, List::Older(1)),
            // Older file systems are the same for all groups, in their order.
            used(c, List::Older(0)),
        ]
    );
    // As many as the group that uses most of them.
    assert_eq!(Plan::new(&program).older, 2);
}

#[test]
fn parts_of_the_groups_above_come_along() {
    let mut b = Build::new(&[64]);
    let a = b.made(ROOT, "/a");
    let below = b.made(a, "/a/b");
    b.step(OpKind::ListUse, 1, a, 0).step(OpKind::ListUse, 0, below, 0);
    assert_eq!(events(&sparse(&mut b))[2..], [Use(below, List::Older(0), 0)]);
}

#[test]
fn a_superblock_that_is_gone_has_no_lists_to_use() {
    let mut b = Build::new(&[64]);
    let (a, c) = (b.made(ROOT, "/a"), b.made(ROOT, "/c"));
    b.step(OpKind::Super, 0, a, 0).step(OpKind::Super, 1, a, 0).step(OpKind::Super, 2, c, 0);
    uses(&mut b, a, 1);
    // Whoever unmounts it, and whoever the operation is said to be of: its maker loses what is left of it.
    b.step(OpKind::SuperGone, 1, c, 0);
    uses(&mut b, a, 1);
    uses(&mut b, c, 1);
    assert_eq!(
        events(&sparse(&mut b))[2..],
        [
            Mount(0),
            Mount(1),
            Mount(2),
            Use(a, List::Of(1, INODES), 0),
            Unmount(1),
            Use(a, List::Of(0, INODES), 0),
            Use(c, List::Of(2, INODES), 0),
        ]
    );
}

#[test]
fn before_5_18_a_group_uses_both_lists_of_what_it_mounts_and_no_other() {
    let mut b = Build::new(&[64]);
    let (a, c) = (b.made(ROOT, "/a"), b.made(ROOT, "/c"));
    b.on(1, 1).step(OpKind::Super, 0, a, 0).step(OpKind::Super, 1, c, 0);
    b.step(OpKind::SuperGone, 0, a, 0).remove(a);
    let program = eager(&mut b, None);
    assert_eq!(
        events(&program)[2..],
        [
            Mount(0),
            Use(a, List::Of(0, DENTRIES), 1),
            Use(a, List::Of(0, INODES), 1),
            Mount(1),
            Use(c, List::Of(1, DENTRIES), 1),
            Use(c, List::Of(1, INODES), 1),
            Unmount(0),
            Remove(a),
        ]
    );
    assert_eq!(Plan::new(&program).older, 0);
}

#[test]
fn lists_that_are_older_stand_there_if_their_number_is_told_or_they_are_used() {
    let mut b = Build::new(&[64]);
    let a = b.made(ROOT, "/a");
    assert_eq!(Plan::new(&eager(&mut b, Some(45))).older, 45);
    uses(&mut b, a, 3);
    assert_eq!(Plan::new(&sparse(&mut b)).older, 3);
    let both = |older| Counts { list_uses: 3, older_lists: Some(older), ..Counts::default() };
    assert_eq!(Plan::new(&with(&mut b, both(2))).older, 3);
    assert_eq!(Plan::new(&with(&mut b, both(9))).older, 9);
}

#[test]
fn without_names_a_mount_is_a_superblock_and_an_unmount_takes_the_groups_newest() {
    let mut b = Build::new(&[64]);
    let (a, c) = (b.made(ROOT, "/a"), b.made(ROOT, "/c"));
    b.step(OpKind::Mount, 0, a, 0).step(OpKind::Mount, 1, c, 0).step(OpKind::Mount, 2, a, 0);
    for group in [a, a, a, c] {
        b.step(OpKind::Unmount, 0, group, 0);
    }
    let made =
        |n, group| [Mount(n), Use(group, List::Of(n, DENTRIES), 0), Use(group, List::Of(n, INODES), 0)];
    let mut expected = [made(0, a), made(1, c), made(2, a)].concat();
    // The third of this group has nothing to take, least of all another group's.
    expected.extend([Unmount(2), Unmount(0), Unmount(1)]);
    assert_eq!(events(&nameless(&mut b))[2..], expected);
}

#[test]
fn where_superblocks_are_seen_the_calls_mean_nothing() {
    let mut b = Build::new(&[64]);
    let a = b.made(ROOT, "/a");
    // A bind mount, say: a call, and no superblock.
    b.step(OpKind::Mount, 0, a, 0).step(OpKind::Unmount, 0, a, 0);
    let none = |counts| events(&with(&mut b.clone(), counts)) == [Create(a)];
    assert!(none(Counts { supers: 1, ..Counts::default() }));
    // None was made, but would have been seen.
    assert!(none(Counts { list_uses: 1, ..Counts::default() }));
    assert!(none(Counts { own: 1, ..Counts::default() }));
    assert!(!none(Counts::default()));
}

#[test]
fn a_step_tells_where_it_stands_in_the_recording() {
    let mut b = Build::new(&[64]);
    let a = b.made(ROOT, "/a");
    b.at(5).alloc(0, 0, a).at(7).step(OpKind::Super, 0, a, 0).at(9).free(0);
    uses(&mut b, a, 1);
    let stands: Vec<_> = Plan::new(&sparse(&mut b)).steps.iter().map(|s| (s.op, s.time)).collect();
    assert_eq!(stands, [(0, 0), (2, 7), (4, 9)]);
}
