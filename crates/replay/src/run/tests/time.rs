//! Series, averages and the largest size, against hand calculations.

use super::build::{Build, NOBODY, ROOT};
use super::fake::Fake;
use crate::report::{Design as Found, Usage};
use crate::run::drive::{Settings, drive};
use tenalloc_trace::Program;

fn run(program: &Program) -> Found {
    drive(program, &mut Fake::default(), &Settings::default(), &mut |_| {}).unwrap().0
}

#[test]
fn the_series_is_evenly_spaced_from_0_to_the_end() {
    let mut b = Build::new(&[64]);
    b.at(7).alloc(0, 0, NOBODY);
    for length in [399_000, 1, 398, 400, 3_600_000_000_007] {
        let series = run(&b.end(length)).series;
        assert_eq!(series.len(), 400);
        assert_eq!((series[0].t, series[399].t), (0.0, length as f64 / 1e9));
        for (i, sample) in series.iter().enumerate() {
            assert_eq!((sample.t * 1e9).round() as u64, length * i as u64 / 399, "{length}: {i}");
        }
    }
}

#[test]
fn a_sample_shows_what_holds_after_the_steps_of_its_moment() {
    let mut b = Build::new(&[64]);
    b.at(0).alloc(0, 0, NOBODY).at(1_500).alloc(1, 0, NOBODY).at(3_000).free(0).at(3_001).free(1);
    let series = run(&b.end(399_000)).series;
    let live: Vec<u64> = series[..6].iter().map(|s| s.usage.live).collect();
    assert_eq!(live, [64, 64, 128, 64, 0, 0]);
    assert_eq!(
        series[399].usage,
        Usage { live: 0, slab: 4096, owners: 3, metadata: 10, cached: 7, ..Usage::default() }
    );
}

#[test]
fn averages_are_weighted_by_time() {
    let mut b = Build::new(&[64]);
    // No slab for a quarter, one object for a half, three for the last quarter.
    b.at(250).alloc(0, 0, NOBODY).at(750).alloc(1, 0, NOBODY).alloc(2, 0, NOBODY);
    let found = run(&b.end(1_000));
    assert_eq!((found.average.live, found.average.slab), ((64 * 500 + 192 * 250) / 1000, 4096 * 3 / 4));
    // Before rounding: 80 / 3,072.
    assert_eq!(found.average_utilisation, 80.0 / 3072.0);
    assert_eq!((found.average.owners, found.average.cached), (3, 7));
    assert_eq!((found.max_slab, found.at_end.usage.slab), (4096, 4096));
    // The average of bookkeeping is that of the samples: the second group comes after half of them.
    let mut b = Build::new(&[64]);
    b.at(500).made(ROOT, "/a");
    assert_eq!(run(&b.end(1_000)).average.metadata, 15);
}

#[test]
fn averages_are_rounded_after_their_ratio_is_taken() {
    let mut b = Build::new(&[1024]);
    b.at(2).alloc(0, 0, NOBODY);
    let found = run(&b.end(3));
    assert_eq!((found.average.live, found.average.slab), (341, 1365));
    assert_eq!(found.average_utilisation, 0.25);
}

#[test]
fn stamps_behind_the_end_and_times_that_go_back_change_no_average() {
    let mut b = Build::new(&[64]);
    b.at(0).alloc(0, 0, NOBODY).at(500).free(0).at(100).alloc(1, 0, NOBODY).at(900).free(1);
    let expected = run(&b.end(1_000));
    assert_eq!(expected.average.live, (64 * 500 + 64 * 400) / 1000);
    b.at(1_000_000).stamp("late", &[("/a", 1)]);
    let found = run(&b.end(1_000));
    assert_eq!((&found.series, &found.average), (&expected.series, &expected.average));
    assert_eq!((found.series.len(), found.at_end.t), (400, 1e-6));
}

#[test]
fn a_program_without_length_has_one_sample_the_last_state() {
    let mut b = Build::new(&[64]);
    b.alloc(0, 0, NOBODY).alloc(1, 0, NOBODY).free(0);
    let found = run(&b.end(0));
    assert_eq!(found.series, [found.at_end]);
    assert_eq!((found.at_end.t, found.at_end.usage.live), (0.0, 64));
    assert_eq!((found.average, found.average_utilisation), (found.at_end.usage, 64.0 / 4096.0));
    assert_eq!(found.at_peak.usage.live, 128);
}

#[test]
fn a_program_without_steps_is_a_report_of_nothing() {
    for length in [0, 5_000] {
        let found = run(&Build::new(&[64]).end(length));
        assert_eq!(found.series.len(), if length == 0 { 1 } else { 400 });
        assert_eq!(found.at_peak, found.at_end);
        assert_eq!((found.at_end.t, found.at_end.usage.live), (length as f64 / 1e9, 0));
        assert_eq!((found.average_utilisation, found.max_slab, found.ops), (1.0, 0, 0));
        assert!(found.caches.is_empty() && found.groups.is_empty() && found.sharing.by_owners.is_empty());
    }
    // Not even a cache, and no row for unknown tasks.
    let found = run(&Program { cpus: 1, nodes: 1, cpu_node: vec![0], page_size: 4096, ..Program::default() });
    assert_eq!((found.checks.groups, found.checks.model), (0, 1));
}
