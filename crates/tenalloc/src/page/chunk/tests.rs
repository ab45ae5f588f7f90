//! Runs of pages against a plain model: every page is in at most one run, and the totals add up.

mod apart;

use super::*;
use crate::page::{PAGE, Simulated};
use proptest::prelude::*;
extern crate std;
use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::boxed::Box;
use std::vec::Vec;

fn chunks() -> (&'static Simulated, Chunks) {
    let source: &'static Simulated = Box::leak(Box::new(Simulated::new()));
    (source, Chunks::new(source).unwrap())
}

fn at(desc: NonNull<Slab>) -> (usize, usize) {
    // SAFETY: the tests ask only for live runs.
    unsafe { (desc.as_ref().base() as usize, desc.as_ref().pages()) }
}

#[test]
fn bits_match_a_plain_vector() {
    let mut bits = Bits([0; PAGES / 64]);
    let mut plain = [false; PAGES];
    for (first, len, value) in
        [(9, 503, true), (60, 10, false), (64, 64, false), (511, 1, false), (0, 1, true)]
    {
        bits.set(first, len, value);
        plain[first..first + len].fill(value);
        assert!((0..PAGES).all(|i| (bits.next(i, true) == i) == plain[i]));
        assert_eq!(bits.count(0, PAGES), plain.iter().filter(|b| **b).count());
    }
    assert_eq!(bits.longest_run(), 511 - 128);
    assert_eq!(bits.find_run(8, 8), Some(16));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn runs_never_overlap(steps in prop::collection::vec((0usize..3, 1usize..600, 0u32..4, 0u8..2), 1..80)) {
        let (source, chunks) = chunks();
        let mut live: Vec<(usize, usize, NonNull<Slab>)> = Vec::new();
        for (kind, pages, align, node) in steps {
            if kind == 0 && !live.is_empty() {
                let (.., desc) = live.swap_remove(pages % live.len());
                // SAFETY: live until here.
                unsafe { chunks.free(desc) };
            } else {
                let align = PAGE << (align * 3);
                let desc = chunks.alloc(pages, align, node, Kind::Large).unwrap();
                let (base, got) = at(desc);
                prop_assert_eq!(got, pages);
                prop_assert_eq!(base % align, 0);
                for (other, len, _) in &live {
                    prop_assert!(base + pages * PAGE <= *other || *other + len * PAGE <= base);
                }
                // SAFETY: the run is ours: its first and last byte can be written.
                unsafe {
                    (base as *mut u8).write(1);
                    (base as *mut u8).add(pages * PAGE - 1).write(2);
                }
                live.push((base, pages, desc));
            }
            for (base, _, desc) in &live {
                prop_assert_eq!(chunks.find(*base), Some(*desc));
            }
            let runs: usize = live.iter().map(|l| l.1 * PAGE).sum();
            prop_assert_eq!(chunks.totals().runs, runs);
        }
        for (.., desc) in live {
            // SAFETY: live until here.
            unsafe { chunks.free(desc) };
        }
        chunks.trim();
        prop_assert_eq!(chunks.totals().mapped, 0);
        prop_assert_eq!(chunks.totals().headers + chunks.totals().dirty, 0);
        // SAFETY: not used again.
        unsafe { chunks.release() };
        prop_assert_eq!(source.total(), 0);
    }
}

#[test]
fn foreign_addresses_are_not_followed() {
    let (_, chunks) = chunks();
    let local = 0u8;
    assert!(chunks.find(&raw const local as usize).is_none());
    assert!(chunks.find(0).is_none());
    assert!(chunks.find(usize::MAX).is_none());
    let desc = chunks.alloc(1, PAGE, 0, Kind::Large).unwrap();
    let (base, _) = at(desc);
    assert!(chunks.find(chunk_of(base) + 1).is_none(), "the header is no run");
    // SAFETY: not used again.
    unsafe { chunks.release() };
}

#[test]
fn a_huge_object_may_begin_where_a_chunk_would() {
    let (_, chunks) = chunks();
    for align in [PAGE, CHUNK / 2, CHUNK, 4 * CHUNK] {
        let desc = chunks.alloc(1024, align, 1, Kind::Large).unwrap();
        let (base, pages) = at(desc);
        assert_eq!((base % align, pages), (0, 1024));
        assert_eq!(chunks.find(base), Some(desc));
        // SAFETY: the memory is the run's; the run is given back once.
        unsafe {
            (base as *mut u8).add(1024 * PAGE - 1).write(1);
            chunks.free(desc);
        }
        assert_eq!(chunks.find(base), None);
    }
    // SAFETY: not used again.
    unsafe { chunks.release() };
}

/// The clock of these tests, ns.
static NOW: AtomicU64 = AtomicU64::new(0);

/// Chunks whose pages wait for 100 ns of a clock that stands still unless it is told.
fn waiting() -> Chunks {
    let (_, chunks) = chunks();
    Chunks { clock: || NOW.load(Relaxed), ..chunks.decaying(Duration::from_nanos(100)) }
}

#[test]
fn free_pages_go_after_one_to_two_periods() {
    let chunks = waiting();
    let keep = chunks.alloc(1, PAGE, 0, Kind::Large).unwrap();
    let runs: Vec<_> = (0..60).map(|_| chunks.alloc(3, PAGE, 0, Kind::Large).unwrap()).collect();
    let start = NOW.fetch_add(1000, Relaxed) + 1000;
    let at = |after: u64| NOW.store(start + after, Relaxed);
    // Every other one, so that no two runs are one.
    for run in runs.iter().step_by(2) {
        // SAFETY: live until here.
        unsafe { chunks.free(*run) };
    }
    assert_eq!(chunks.totals().dirty, 90 * PAGE);
    at(100);
    assert_eq!(chunks.tick(), 3 * PAGE, "the others were not there at the first sweep");
    at(199);
    assert_eq!(chunks.tick(), 0);
    // Used in between: its time begins anew, in whatever state it comes back.
    let again = [(); 2].map(|()| chunks.alloc(3, PAGE, 0, Kind::Large).unwrap());
    // The first was given to the system above, the second was not.
    // SAFETY: live until here.
    assert_eq!(again.map(|run| unsafe { run.as_ref().zero }), [true, false]);
    // SAFETY: live until here.
    again.into_iter().for_each(|run| unsafe { chunks.free(run) });
    at(200);
    assert_eq!(chunks.tick(), 84 * PAGE);
    assert_eq!(chunks.totals().dirty, 6 * PAGE);
    at(299);
    assert_eq!(chunks.tick(), 0);
    at(300);
    assert_eq!((chunks.tick(), chunks.totals().dirty), (6 * PAGE, 0));
    // In passing, a part at a time.
    for run in runs.iter().skip(1).step_by(2) {
        // SAFETY: live until here.
        unsafe { chunks.free(*run) };
    }
    let dirty = chunks.totals().dirty;
    assert!(dirty > 0);
    for period in 4..7 {
        at(period * 100);
        for _ in 0..4 {
            let run = chunks.alloc(1, PAGE, 0, Kind::Large).unwrap();
            // SAFETY: live until here.
            unsafe { chunks.free(run) };
        }
    }
    assert!(chunks.totals().dirty <= PAGE, "but for the page that was used");
    // SAFETY: `keep` is live; nothing is used again.
    unsafe {
        chunks.free(keep);
        chunks.release();
    }
}

/// With a clock that stands still too, no more is held back than the bound.
#[test]
fn what_is_held_back_is_bounded() {
    let (_, chunks) = chunks(); // for ever
    let runs: Vec<_> = (0..400).map(|_| chunks.alloc(100, PAGE, 0, Kind::Large).unwrap()).collect();
    let mut most = 0;
    // One of four pages stays, so that no chunk goes as a whole.
    for (i, run) in runs.iter().enumerate() {
        if i % 4 > 0 {
            // SAFETY: live until here.
            unsafe { chunks.free(*run) };
            most = most.max(chunks.totals().dirty);
        }
    }
    let in_use = chunks.totals().runs;
    assert_eq!(in_use, 100 * 100 * PAGE);
    assert!(most <= (8 << 20) + 400 * 100 * PAGE / 8 + 100 * PAGE, "{most}");
    assert!(chunks.totals().dirty <= (8 << 20) + in_use / 8 + 100 * PAGE);
    for run in runs.iter().step_by(4) {
        // SAFETY: live until here.
        unsafe { chunks.free(*run) };
    }
    // SAFETY: not used again.
    unsafe { chunks.release() };
}

/// A huge object that was freed serves the next of about its size, waits as long as other free pages, and is one of them
/// for the bound.
#[test]
fn a_huge_object_is_kept_for_the_next() {
    static NOW: AtomicU64 = AtomicU64::new(1000);
    let (source, chunks) = chunks();
    let chunks = Chunks { clock: || NOW.load(Relaxed), ..chunks.decaying(Duration::from_nanos(100)) };
    let huge = |pages| chunks.alloc(pages, PAGE, 0, Kind::Large).unwrap();
    let first = huge(700);
    let (base, _) = at(first);
    let mapped = chunks.totals().mapped;
    // SAFETY: live until here.
    unsafe { chunks.free(first) };
    assert_eq!(chunks.find(base), None);
    assert_eq!(
        (chunks.totals().dirty, chunks.totals().runs, chunks.totals().mapped),
        (700 * PAGE, 0, mapped)
    );
    // Too large, too small by more than a fifth, on another node, aligned otherwise.
    let others = [huge(701), huge(500), chunks.alloc(700, PAGE, 1, Kind::Large).unwrap()];
    assert!(others.iter().all(|run| at(*run).0 != base));
    let again = huge(650);
    assert_eq!((at(again), chunks.find(base)), ((base, 650), Some(again)));
    // SAFETY: live.
    assert!(!unsafe { again.as_ref().zero }, "it has what the last one left there");
    assert_eq!(chunks.totals().dirty, 0);
    // SAFETY: live until here; each once.
    others.into_iter().chain([again]).for_each(|run| unsafe { chunks.free(run) });
    // 8 MiB is all that may wait: not all four do.
    let waiting = chunks.totals().dirty;
    assert!((650 * PAGE..=8 << 20).contains(&waiting) && waiting < (701 + 500 + 700 + 650) * PAGE);
    assert_eq!(chunks.totals().runs, 0);
    // Two sweeps later they are gone; so they are at once when asked for.
    NOW.fetch_add(1000, Relaxed);
    chunks.tick();
    NOW.fetch_add(1000, Relaxed);
    assert_eq!(chunks.tick(), waiting);
    assert_eq!((chunks.totals().dirty, chunks.totals().mapped), (0, 0));
    let last = huge(300);
    // SAFETY: live until here.
    unsafe { chunks.free(last) };
    assert_eq!((chunks.trim(), chunks.totals().mapped), (300 * PAGE, 0));
    // More than may wait goes at once.
    let large = huge(3000);
    // SAFETY: live until here.
    unsafe { chunks.free(large) };
    assert_eq!((chunks.totals().mapped, chunks.totals().dirty), (0, 0));
    // While somebody looks it is not used again, and it goes with the look.
    let seen = huge(300);
    let look = chunks.look(0).unwrap();
    // SAFETY: live until here.
    unsafe { chunks.free(seen) };
    let other = huge(300);
    assert_ne!(at(other).0, at(seen).0);
    chunks.looked(look);
    // SAFETY: live until here; not used again.
    unsafe {
        chunks.free(other);
        chunks.release();
    }
    assert_eq!(source.total(), 0);
}

#[test]
fn trim_purges_free_pages_and_keeps_runs() {
    let (_, chunks) = chunks();
    let keep = chunks.alloc(4, PAGE, 0, Kind::Large).unwrap();
    let gone = chunks.alloc(64, PAGE, 0, Kind::Large).unwrap();
    let (base, _) = at(keep);
    // SAFETY: runs of ours; `gone` is given back once.
    unsafe {
        (base as *mut u64).write(42);
        chunks.free(gone);
    }
    assert_eq!(chunks.trim(), 64 * PAGE);
    assert_eq!(chunks.totals().dirty, 0);
    // SAFETY: `keep` is live.
    assert_eq!(unsafe { (base as *const u64).read() }, 42);
    // SAFETY: not used again.
    unsafe { chunks.release() };
}
