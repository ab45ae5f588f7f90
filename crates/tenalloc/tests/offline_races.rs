//! Taking memory out of use while it empties itself, while others do the same, and while it is put back.

mod common;
use common::{free, lean};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tenalloc::{CacheConfig, Geometry, OfflineError, Range};

const LONG: Duration = Duration::from_secs(60);

fn none(_: tenalloc::Pin) {}

/// A chunk is taken out, in vain or not, while its slabs empty themselves: one that has just gone is not given back
/// again, and is not put back on a list when the attempt fails.
#[test]
fn slabs_that_go_meanwhile_go_once() {
    let (_, ctl) = lean(1, 2);
    let g = ctl.root().create("g").unwrap();
    let cache =
        ctl.cache(&CacheConfig::new("c", 4096).geometry(Geometry { pages: 1, objects: 1 }).sheaf(0)).unwrap();
    let keep = cache.alloc(&g).unwrap();
    let chunk = Range::Chunk(keep.as_ptr() as usize);
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            for round in 0..20_000u64 {
                let objects: Vec<_> = (0..4).map(|_| cache.alloc(&g).unwrap()).collect();
                for (i, o) in objects.iter().enumerate() {
                    // SAFETY: 4096 bytes of ours.
                    unsafe { o.cast::<u64>().write(round << 8 | i as u64) };
                }
                for (i, o) in objects.into_iter().enumerate() {
                    // SAFETY: as above.
                    assert_eq!(unsafe { o.cast::<u64>().read() }, round << 8 | i as u64);
                    free(&ctl, o);
                }
            }
            done.store(true, SeqCst);
        });
        let mut tries = 0;
        while !done.load(SeqCst) || tries == 0 {
            assert_eq!(
                ctl.offline(chunk, Duration::ZERO, &mut none),
                Err(OfflineError::TimedOut { pinned: 1 })
            );
            tries += 1;
        }
    });
    free(&ctl, keep);
    cache.destroy().unwrap();
    ctl.trim();
    assert_eq!((g.exact(), ctl.slab_bytes()), (0, 0));
}

/// What is being taken out already is not taken out by a second caller, whichever way round: each would give back chunks
/// that the other looks at.
#[test]
fn two_do_not_empty_the_same_chunk() {
    let (_, ctl) = lean(2, 2);
    let g = ctl.root().create("g").unwrap();
    let cache = ctl.cache(&CacheConfig::new("c", 256)).unwrap();
    let held = cache.alloc_on(&g, 1).unwrap();
    let (node, chunk) = (Range::Node(1), Range::Chunk(held.as_ptr() as usize));
    for (first, second) in [(chunk, node), (node, chunk), (node, node), (chunk, chunk)] {
        let mut told = 0;
        let failed = ctl.offline(first, Duration::ZERO, &mut |_| {
            told += 1;
            // The first is not done before this returns.
            assert_eq!(ctl.offline(second, Duration::ZERO, &mut none), Err(OfflineError::NotThere));
        });
        assert_eq!((failed, told), (Err(OfflineError::TimedOut { pinned: 1 }), 1), "{first:?}, {second:?}");
    }
    free(&ctl, held);
    assert!(ctl.offline(Range::Node(1), LONG, &mut none).is_ok(), "nothing is left marked");
    ctl.online_node(1);
    let again = cache.alloc_on(&g, 1).unwrap();
    free(&ctl, again);
}

/// A node is put back into use while it is being emptied: its chunks stay with who does so.
#[test]
fn a_node_comes_back_while_it_is_emptied() {
    let (source, ctl) = lean(2, 2);
    let g = ctl.root().create("g").unwrap();
    ctl.set_cpu(1);
    let large = ctl.malloc(&g, 50_000, 8).unwrap();
    let got = ctl.offline(Range::Node(1), Duration::ZERO, &mut |pin| {
        assert_eq!(pin.address, large.as_ptr() as usize);
        ctl.online_node(1);
        free(&ctl, large);
        ctl.trim();
        assert!(source.mapped(1) > 0, "the caller of this looks at the chunk");
    });
    assert_eq!(got, Err(OfflineError::TimedOut { pinned: 1 }));
    let again = ctl.malloc(&g, 50_000, 8).unwrap();
    free(&ctl, again);
    assert!(ctl.offline(Range::Node(1), LONG, &mut none).is_ok());
    assert_eq!((source.mapped(1), g.exact()), (0, 0));
}

/// A chunk that went may be followed by another at the same address, which somebody else empties by then: the marks of
/// that one are his.
#[test]
fn the_next_chunk_at_the_address_is_somebody_elses() {
    let (_, ctl) = lean(1, 2);
    let g = ctl.root().create("g").unwrap();
    let work = || {
        let geometry = Geometry { pages: 1, objects: 1 };
        let cache = ctl.cache(&CacheConfig::new("c", 4096).geometry(geometry).sheaf(0)).unwrap();
        let mut went = 0;
        for round in 0..5_000 {
            let held = cache.alloc(&g).unwrap();
            let chunk = Range::Chunk(held.as_ptr() as usize);
            let failed = ctl.offline(chunk, Duration::ZERO, &mut none);
            assert!(
                matches!(failed, Err(OfflineError::TimedOut { .. } | OfflineError::NotThere)),
                "round {round}: {failed:?} with an object in it"
            );
            free(&ctl, held);
            went += u32::from(ctl.offline(chunk, Duration::ZERO, &mut none).is_ok());
        }
        went
    };
    let went: u32 = std::thread::scope(|s| {
        let both = [s.spawn(work), s.spawn(work)];
        both.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert!(went > 0);
    assert_eq!(g.exact(), 0);
}
