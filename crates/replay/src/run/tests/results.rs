//! The closer look at the peak: caches, groups, sharing; and who pays.

use super::build::{Build, NOBODY, ROOT, UNKNOWN};
use super::fake::Fake;
use crate::report::{Cache, Design as Found, Group};
use crate::run::drive::{Settings, drive};
use crate::run::{DESIGNS, replay};
use tenalloc_trace::program::GroupId;

fn run(b: &mut Build) -> Found {
    let settings = Settings { check_every: Some(1), recorded_nodes: false };
    drive(&b.end(1_000), &mut Fake::default(), &settings, &mut |_| {}).unwrap().0
}

fn group(path: &str, removed: bool, objects: u64, used: u64, charged: u64) -> Group {
    Group { path: path.into(), removed, objects, used, charged }
}

#[test]
fn the_closer_look_is_taken_at_the_peak() {
    let mut b = Build::new(&[64, 256]);
    let a = b.made(ROOT, "/a");
    b.at(10).alloc(0, 0, a).at(20).alloc(1, 1, a).at(30).free(1).at(40).alloc(1, 0, a);
    let found = run(&mut b);
    assert_eq!((found.at_peak.t, found.at_peak.usage.live, found.at_end.usage.live), (2e-8, 320, 128));
    let cache = |i: usize, slot_size, live| Cache {
        name: format!("cache-{i}"),
        slot_size,
        objects: 1,
        live,
        slab: 4096,
        slabs: 1,
    };
    assert_eq!(found.caches, [cache(0, 64, 64), cache(1, 256, 256)]);
    assert_eq!(found.groups, [group("/a", false, 2, 336, 4096)]);
}

#[test]
fn rows_of_groups_tell_their_own_objects_and_pages() {
    let mut b = Build::new(&[64]);
    let a = b.made(ROOT, "/a");
    let below = b.made(a, "/a/b");
    let gone = b.made(a, "/a/gone");
    b.made(ROOT, "/empty");
    b.alloc(0, 0, a).alloc(1, 0, below).alloc(2, 0, below).alloc(3, 0, gone).remove(gone);
    b.alloc(4, 0, NOBODY).alloc(5, 0, UNKNOWN).alloc(6, 0, GroupId::INTERRUPT).alloc(7, 0, ROOT);
    let found = run(&mut b);
    // The fake charges a subtree in whole pages: /a has 4 objects of 72 bytes in one, which is its child's already.
    let expected = [
        group("/a/b", false, 2, 144, 4096),
        group("(unknown)", false, 1, 72, 4096),
        group("/a", false, 1, 72, 0),
        group("/a/gone", true, 1, 72, 0),
        group("(interrupt)", false, 1, 64, 0),
        group("(not accounted)", false, 1, 64, 0),
        group("/", false, 1, 64, 0),
    ];
    assert_eq!(found.groups, expected);
    assert_eq!((found.groups_created, found.groups_removed, found.orphans), (4, 1, 1));
    assert_eq!((found.checks.groups, found.ops), (4, 13));
}

#[test]
fn caches_that_waste_most_come_first_and_those_without_slabs_not_at_all() {
    let mut b = Build::new(&[2048, 64, 1024, 64]);
    b.alloc(0, 0, NOBODY).alloc(1, 1, NOBODY).alloc(2, 2, NOBODY);
    let names: Vec<_> = run(&mut b).caches.into_iter().map(|c| (c.name, c.slab - c.live)).collect();
    assert_eq!(names, [("cache-1".into(), 4032), ("cache-2".into(), 3072), ("cache-0".into(), 2048)]);
}

/// Two objects a page.
#[test]
fn slabs_are_counted_by_the_groups_they_serve() {
    let mut b = Build::new(&[2048]);
    let (a, c) = (b.made(ROOT, "/a"), b.made(ROOT, "/c"));
    for (slot, owner) in
        [a, c, a, a, NOBODY, a, NOBODY, GroupId::INTERRUPT, a, c, UNKNOWN].into_iter().enumerate()
    {
        b.alloc(slot as u32, 0, owner);
        if slot == 9 {
            b.free(8).free(9); // their page is empty from here on
        }
    }
    // One more pair, so that the peak comes after the frees.
    b.alloc(8, 0, UNKNOWN).alloc(9, 0, c).alloc(11, 0, c);
    let sharing = run(&mut b).sharing;
    // none: (nobody, interrupt), the empty page; one: (a, a), (nobody, a), (unknown, unknown), (c, c); two: (a, c).
    assert_eq!(sharing.by_owners, [2, 4, 1]);
    assert_eq!(sharing.groups, ["/a", "/c", "(unknown)"]);
    assert_eq!(sharing.matrix, [[3, 1, 0], [1, 2, 0], [0, 0, 1]]);
    assert_eq!((sharing.slabs(), sharing.shared()), (7, 1));
}

#[test]
fn many_groups_are_counted_as_many_and_the_matrix_ends_at_sixteen() {
    let mut b = Build::new(&[64]);
    for i in 0..20 {
        let group = b.made(ROOT, &format!("/g{i}"));
        b.alloc(i, 0, group);
    }
    let sharing = run(&mut b).sharing;
    assert_eq!(sharing.by_owners, [0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!((sharing.groups.len(), &sharing.groups[15][..]), (16, "/g15"));
    assert_eq!(sharing.matrix, vec![vec![1; 16]; 16]);
}

/// Every payer by hand, asked of both real designs at stamps; the plain model runs along (`check_every`).
#[test]
fn a_removed_group_pays_nothing_and_the_nearest_living_above_it_pays() {
    let mut b = Build::new(&[64]);
    let a = b.made(ROOT, "/a");
    let mid = b.made(a, "/a/m");
    let leaf = b.made(mid, "/a/m/l");
    let other = b.made(ROOT, "/o");
    let paths = [("/a", 0), ("/a/m", 0), ("/a/m/l", 0), ("/o", 0)];
    b.alloc(0, 0, a).alloc(1, 0, mid).alloc(2, 0, leaf).alloc(3, 0, leaf).alloc(4, 0, other);
    b.stamp("all", &paths);
    b.remove(leaf).stamp("leaf gone", &paths);
    b.free(3).alloc(5, 0, leaf).stamp("a free and an allocation of the removed", &paths);
    b.remove(mid).stamp("middle gone", &paths);
    b.free(1).free(2).stamp("freed", &paths);
    b.remove(a).remove(other).stamp("none left", &paths);
    b.free(5).free(0).free(4);
    let settings = Settings { check_every: Some(1), recorded_nodes: false };
    let report = replay(&b.end(9), DESIGNS, &settings, ("x", 0), &mut |_| {}).unwrap();
    let expected = [
        [4 * 72, 3 * 72, 2 * 72, 72],
        [4 * 72, 3 * 72, 0, 72],
        [4 * 72, 3 * 72, 0, 72],
        [4 * 72, 0, 0, 72],
        [2 * 72, 0, 0, 72],
        [0, 0, 0, 0],
    ];
    for (truth, expected) in report.truth.iter().zip(expected) {
        for (row, expected) in truth.rows.iter().zip(expected) {
            assert_eq!(row.designs, vec![expected; DESIGNS.len()], "{} at {}", row.path, truth.label);
        }
    }
    assert!(
        report.designs.iter().all(|d| d.orphans == 0 && d.at_end.usage.live == 0),
        "{:?}",
        report.designs
    );
}
