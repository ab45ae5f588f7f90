//! The kernel's figures: what is compared, when, and with what.

use super::build::{Build, ROOT, UNKNOWN};
use crate::report::{Truth, TruthRow};
use crate::run::drive::Settings;
use crate::run::{DESIGNS, replay};

fn truth(b: &mut Build) -> Vec<Truth> {
    replay(&b.end(2_000_000_000), DESIGNS, &Settings::default(), ("x", 0), &mut |_| {}).unwrap().truth
}

fn row(path: &str, kernel: u64, ours: u64) -> TruthRow {
    TruthRow { path: path.into(), kernel, designs: vec![ours; DESIGNS.len()], older: false }
}

fn older(path: &str, kernel: u64, ours: u64) -> TruthRow {
    TruthRow { older: true, ..row(path, kernel, ours) }
}

#[test]
fn a_stamp_is_compared_where_it_stands_among_the_steps() {
    let mut b = Build::new(&[64]);
    let a = b.made(ROOT, "/a");
    b.alloc(0, 0, a).at(1_500_000_000);
    b.made(ROOT, "/none");
    b.stamp("one", &[("/a", 72), ("/none", 0)]);
    // The same moment, but later.
    b.alloc(1, 0, a).stamp("two", &[("/a", 72)]);
    let truth = truth(&mut b);
    assert_eq!((truth[0].label.as_str(), truth[0].t, truth[0].groups, truth[0].equal), ("one", 1.5, 2, 2));
    assert_eq!(truth[0].rows, [row("/a", 72, 72), row("/none", 0, 0)]);
    assert_eq!((truth[1].equal, &truth[1].rows[..]), (0, &[row("/a", 72, 144)][..]));
}

#[test]
fn a_path_means_the_group_that_has_it_then() {
    let mut b = Build::new(&[64, 128]);
    let paths = [("/x", 1), ("/x/y", 2)];
    let old = b.made(ROOT, "/x");
    let below = b.made(old, "/x/y");
    b.alloc(0, 0, below).stamp("first", &paths);
    b.remove(below).remove(old).stamp("between", &paths);
    let new = b.made(ROOT, "/x");
    b.alloc(1, 1, new).stamp("second", &paths);
    let ours: Vec<u64> =
        truth(&mut b).iter().flat_map(|t| t.rows.iter().map(|r| r.designs[0]).collect::<Vec<_>>()).collect();
    assert_eq!(ours, [72, 72, 0, 0, 136, 0]);
}

#[test]
fn what_cannot_be_in_the_trace_is_not_compared() {
    let mut b = Build::new(&[64]);
    b.alloc(0, 0, UNKNOWN);
    b.stamp("before", &[("/a", 5)]).stamp("empty", &[]).stamp("root", &[("/", 9_000)]);
    // The row of unknown tasks is no path of a cgroup.
    b.stamp("steady", &[("/", 9_000), ("(unknown)", 72)]);
    let truth = truth(&mut b);
    assert_eq!(truth.len(), 1);
    assert_eq!((truth[0].groups, truth[0].older), (0, 1));
    assert_eq!(truth[0].rows, [older("(unknown)", 72, 0)]);
}

#[test]
fn what_stood_before_the_recording_is_told_and_not_compared() {
    let mut b = Build::new(&[64]);
    let old = b.older(ROOT, "/old");
    let again = b.older(ROOT, "/again");
    b.alloc(0, 0, old).alloc(1, 0, again).at(10);
    let new = b.made(old, "/old/new");
    let paths = [("/old", 9_000), ("/old/new", 72), ("/again", 72), ("/quiet", 5)];
    b.alloc(2, 0, new).stamp("first", &paths);
    b.at(20).remove(again);
    // The same path, made anew: all it holds is in the trace.
    let again = b.at(30).made(ROOT, "/again");
    b.alloc(3, 0, again).stamp("second", &paths[..3]);
    let truth = truth(&mut b);
    // Neither a figure that happens to be right counts as equal, nor one that cannot be as different.
    let first =
        [older("/old", 9_000, 144), row("/old/new", 72, 72), older("/again", 72, 72), older("/quiet", 5, 0)];
    assert_eq!((truth[0].groups, truth[0].equal, truth[0].older), (1, 1, 3));
    assert_eq!(truth[0].rows, first);
    assert_eq!((truth[1].groups, truth[1].equal, truth[1].older), (2, 2, 1));
    assert_eq!(truth[1].rows, [older("/old", 9_000, 144), row("/old/new", 72, 72), row("/again", 72, 72)]);
}
