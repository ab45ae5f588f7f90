//! One test a trace. The small one lies in the repository; the others are looked for beside it, and a test says so
//! when they are not there.

use super::expected::{CHURN300, Expected, KBUILD_TINY, MARIADB_RW, NUMA4_CHURN_510, NUMA4_CHURN_612, SMALL};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tenalloc_replay::report::{Design, Report, Trace};
use tenalloc_replay::run::{DESIGNS, Settings, replay};
use tenalloc_trace::Program;
use tenalloc_trace::program::OpKind;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Steps between two comparisons with the model. A prime, so that they do not fall in step with the workload.
const CHECK_EVERY: u64 = 49_999;

fn run(folder: &Path) -> (Report, Peak) {
    let options = tenalloc_trace::Options::default();
    let program = tenalloc_trace::open(folder, &options, &mut |_| {}).expect("the trace is readable");
    let settings = Settings { check_every: Some(CHECK_EVERY), recorded_nodes: false };
    let report = replay(&program, DESIGNS, &settings, ("trace", 1), &mut |_| {}).expect("every check holds");
    (report, peak(&program))
}

/// Live bytes at the peak, by plain addition.
struct Peak {
    /// Of objects that are replayed.
    replayed: u64,
    /// Of the recorded kernel's own lists and shrinkers, too.
    all: u64,
}

fn peak(program: &Program) -> Peak {
    let mut live = HashMap::new();
    for op in &program.ops[..=program.peak_op] {
        match op.kind {
            OpKind::Alloc => {
                let size = u64::from(program.caches[usize::from(op.cache.0)].slot_size);
                assert_eq!(live.insert(op.slot, (size, op.own)), None);
            }
            OpKind::Free | OpKind::HiddenFree => assert!(live.remove(&op.slot).is_some()),
            _ => {}
        }
    }
    let replayed = live.values().filter(|(_, own)| !own).map(|(size, _)| size).sum();
    Peak { replayed, all: live.values().map(|(size, _)| size).sum() }
}

fn check(folder: &Path, expected: &Expected) -> Report {
    let (report, peak) = run(folder);
    counts(&report.trace, expected);
    truth(&report, expected);
    report.designs.iter().for_each(|design| sums(design, &report.trace, &peak));
    // What a design must not change.
    for pair in report.designs.windows(2) {
        let [a, b] = pair else { unreachable!("windows of two") };
        assert_eq!((a.at_peak.usage.live, a.at_peak.t), (b.at_peak.usage.live, b.at_peak.t));
        assert_eq!(a.at_end.usage.live, b.at_end.usage.live);
        assert_eq!(a.average.live, b.average.live);
        let used =
            |d: &Design| d.groups.iter().map(|g| (g.path.clone(), g.objects, g.used)).collect::<Vec<_>>();
        assert_eq!(used(a), used(b));
    }
    report
}

fn counts(trace: &Trace, e: &Expected) {
    assert_eq!((trace.nodes, trace.cpus), (e.nodes, e.cpus));
    assert_eq!((trace.events, trace.lost), (e.samples, 0));
    assert_eq!(trace.samples.iter().map(|s| s.1).sum::<u64>(), e.samples);
    assert!((trace.seconds - e.seconds).abs() <= 0.005, "{}", trace.seconds);
    assert_eq!(trace.allocations, e.allocations);
    if let Some(percent) = e.accounted {
        let found = 100.0 * trace.accounted as f64 / trace.allocations as f64;
        assert!((found - percent).abs() <= 0.05, "{found} %");
    }
    let frees = (trace.matched_frees, trace.unseen_frees, trace.hidden_frees);
    assert_eq!(frees, (e.matched_frees, e.unseen_frees, e.hidden_frees));
    assert_eq!((trace.live_at_end, trace.peak_live_bytes), (e.live_at_end, e.peak_live_bytes));
}

fn truth(report: &Report, e: &Expected) {
    // Without anything expected there is nothing usable, whatever the file holds.
    if e.stamps.is_empty() {
        return assert!(report.truth.iter().all(|t| t.equal == 0));
    }
    assert_eq!(report.truth.len(), e.stamps.len());
    for (truth, stamp) in report.truth.iter().zip(e.stamps) {
        assert_eq!(
            (truth.label.as_str(), truth.groups + truth.older, truth.equal),
            (stamp.label, stamp.groups, stamp.equal)
        );
        let older: Vec<&str> = truth.rows.iter().filter(|r| r.older).map(|r| r.path.as_str()).collect();
        assert_eq!((older.as_slice(), truth.older), (stamp.older, stamp.older.len() as u64));
        assert_eq!(truth.rows.iter().map(|r| r.kernel).sum::<u64>(), stamp.kernel);
        for (i, name) in DESIGNS.iter().enumerate() {
            assert_eq!(truth.rows.iter().map(|r| r.designs[i]).sum::<u64>(), stamp.ours, "{name}");
            let off = truth.rows.iter().map(|r| (r.path.as_str(), r.designs[i] as i64 - r.kernel as i64));
            let off: Vec<_> = off.filter(|r| r.1 != 0).collect();
            assert_eq!(off, stamp.differ, "{name}");
        }
    }
}

/// The parts of a report add up.
fn sums(design: &Design, trace: &Trace, expected: &Peak) {
    let peak = design.at_peak.usage;
    let name = &design.name;
    assert_eq!(design.caches.iter().map(|c| c.live).sum::<u64>(), peak.live, "{name}");
    assert_eq!(design.caches.iter().map(|c| c.slab).sum::<u64>(), peak.slab, "{name}");
    assert_eq!(design.caches.iter().map(|c| c.slabs).sum::<u64>(), design.sharing.slabs(), "{name}");
    let objects: u64 = design.caches.iter().map(|c| c.objects).sum();
    assert_eq!(design.groups.iter().map(|g| g.objects).sum::<u64>(), objects, "{name}");
    assert_eq!(peak.live, expected.replayed, "{name}");
    // The recorded kernel's own owner vectors are left out of the program, not out of the counts.
    let all = expected.all;
    assert!(all <= trace.peak_live_bytes && all * 10 > trace.peak_live_bytes * 9, "{name}: {all}");
    lists(design);
    assert!(peak.live <= peak.slab && peak.slab <= design.max_slab, "{name}");
    assert!(peak.utilisation() > 0.1 && design.average_utilisation <= 1.0, "{name}");
    assert!(design.groups_removed <= design.groups_created, "{name}");
    assert_eq!(design.checks.model, design.ops / CHECK_EVERY + 1, "{name}");
    // Every group that lives at the end, and the row of unknown tasks.
    assert_eq!(design.checks.groups, design.groups_created - design.groups_removed + 1, "{name}");
    assert_eq!((design.series.len(), design.series[0].t), (400, 0.0), "{name}");
    assert_eq!(design.series[399], design.at_end, "{name}");
    let most = design.series.iter().map(|s| s.usage.slab).max();
    assert!(most.is_some_and(|most| most <= design.max_slab), "{name}");
    if name == "linux-5.8" {
        assert_eq!((design.sharing.shared(), peak.owners), (0, 0));
        assert!(design.groups.iter().all(|g| g.charged % 4096 == 0));
    } else {
        assert!(design.sharing.shared() > 0, "{name}");
    }
}

/// Lists and shrinkers: the sizes at a moment are the sums of their parts, and what was made is still there or was freed.
fn lists(design: &Design) {
    let name = &design.name;
    for (at, parts) in [(design.at_peak, design.lists_at_peak), (design.at_end, design.lists_at_end)] {
        assert_eq!(at.usage.lists, parts.kernel.lists(), "{name}");
        assert_eq!(at.usage.shrinkers, parts.kernel.shrinkers, "{name}");
    }
    assert!(design.lists_used > 0, "{name}");
    if name == "tenalloc" {
        // Ours is no kernel: what it takes is what it takes here.
        assert_eq!(design.lists_at_peak.kernel, design.lists_at_peak.here);
        return assert!(design.lists_made.is_empty());
    }
    assert!(design.lists_made.iter().all(|m| m.live <= m.made && m.asked <= m.taken), "{name}");
    let left: u64 = design.lists_made.iter().map(|m| m.taken * m.live).sum();
    assert_eq!(left, design.at_end.usage.lists + design.at_end.usage.shrinkers, "{name}");
}

fn shared(expected: &Expected) {
    let folder = repository().join("../shared/traces").join(expected.name);
    if folder.join("perf.data").is_file() {
        check(&folder, expected);
    } else {
        println!("skipped: {} is not here", folder.display());
    }
}

#[test]
fn small() {
    let report = check(&repository().join("data/small"), &SMALL);
    assert_eq!(report.trace.groups, 62);
    for design in &report.designs {
        // 60 containers, /g and /g/mgr; the two outlive them.
        assert_eq!((design.groups_created, design.groups_removed), (62, 60), "{}", design.name);
    }
    let [old, between @ .., new] = &report.designs[..] else { panic!("two designs or more") };
    // 5.8 leaves a cache for each kind of object that outlives its container, all others a handle for each container.
    assert_eq!((old.orphans, new.orphans), (332, 60));
    assert!(between.len() == 5 && between.iter().all(|d| d.orphans == 60));
    // Designs that name the same slabs differ in their lists alone.
    for pair in between[..4].windows(2) {
        assert_eq!((pair[0].slabs(), &pair[0].caches), ("linux-5.9", &pair[1].caches));
        assert_ne!(pair[0].lists_at_peak, pair[1].lists_at_peak);
    }
    assert!(new.at_peak.usage.total() < old.at_peak.usage.total());
    assert!(new.at_peak.usage.utilisation() > 2.0 * old.at_peak.usage.utilisation());
}

#[test]
fn churn300() {
    shared(&CHURN300);
}

#[test]
fn mariadb_rw() {
    shared(&MARIADB_RW);
}

#[test]
fn kbuild_tiny() {
    shared(&KBUILD_TINY);
}

#[test]
fn numa4_churn_612() {
    shared(&NUMA4_CHURN_612);
}

#[test]
fn numa4_churn_510() {
    shared(&NUMA4_CHURN_510);
}
