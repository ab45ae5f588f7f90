//! Many threads at once on the machine's own CPUs: sums, limits, removal under way.

mod common;
use common::{Finally, Random, free};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use tenalloc::{CacheConfig, Config, Controller, Error};

const THREADS: usize = 4;

struct Object(NonNull<u8>);
// SAFETY: an object may be freed on any thread.
unsafe impl Send for Object {}

fn controller(hardened: bool) -> Controller {
    Controller::new(Config::new().hardened(hardened)).unwrap()
}

/// Whoever frees it, on whatever thread, the owner's group gets the bytes back.
#[test]
fn objects_freed_elsewhere_credit_their_owner() {
    for hardened in [false, true] {
        let ctl = controller(hardened);
        let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
        let groups: Vec<_> = (0..THREADS).map(|i| ctl.root().create(&format!("g{i}")).unwrap()).collect();
        let (send, receive): (Vec<_>, Vec<_>) =
            (0..THREADS).map(|_| mpsc::sync_channel::<Object>(256)).unzip();
        std::thread::scope(|s| {
            for (i, inbox) in receive.into_iter().enumerate() {
                let (cache, group, next, ctl) = (&cache, &groups[i], send[(i + 1) % THREADS].clone(), &ctl);
                s.spawn(move || {
                    for _ in 0..20_000 {
                        while let Ok(o) = inbox.try_recv() {
                            free(ctl, o.0);
                        }
                        if let Err(full) = next.try_send(Object(cache.alloc(group).unwrap())) {
                            let (mpsc::TrySendError::Full(o) | mpsc::TrySendError::Disconnected(o)) = full;
                            free(ctl, o.0);
                        }
                    }
                    drop(next);
                    inbox.into_iter().for_each(|o| free(ctl, o.0));
                });
            }
            drop(send);
        });
        assert!(groups.iter().all(|g| g.exact() == 0));
        assert_eq!((ctl.root().exact(), ctl.stat().objects), (0, 0));
    }
}

/// `current ≤ max` at every instant, also while `max` moves down and up under load.
#[test]
fn max_holds_under_load() {
    let ctl = controller(false);
    let cache = ctl.cache(&CacheConfig::new("c", 500)).unwrap();
    let parent = ctl.root().create("p").unwrap();
    let groups: Vec<_> = (0..THREADS).map(|i| parent.create(&format!("g{i}")).unwrap()).collect();
    let max = 300 * cache.charge();
    parent.set_max(max);
    let done = AtomicBool::new(false);
    let (refused, looks) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|s| {
        let _done = Finally(|| done.store(true, SeqCst));
        s.spawn(|| {
            let _enough = Finally(|| looks.store(u64::MAX, SeqCst));
            while !done.load(SeqCst) {
                assert!(parent.current() <= max);
                looks.fetch_add(1, SeqCst);
            }
        });
        let workers: Vec<_> = groups
            .iter()
            .map(|g| {
                let (cache, ctl, refused, looks) = (&cache, &ctl, &refused, &looks);
                s.spawn(move || {
                    let mut live = Vec::new();
                    // The load lasts until somebody has looked at it, however late he comes.
                    for i in (0..).take_while(|i| *i < 20_000 || looks.load(SeqCst) < 100) {
                        match cache.alloc(g) {
                            Ok(o) => live.push(o),
                            Err(Error::Limit(l)) => {
                                assert_eq!((l.path(), l.max), ("/p", max));
                                refused.fetch_add(1, SeqCst);
                                live.drain(..live.len() / 2).for_each(|o| free(ctl, o));
                            }
                            Err(e) => panic!("{e}"),
                        }
                        if let Some(o) = live.pop_if(|_| i % 7 == 0) {
                            free(ctl, o);
                        }
                    }
                    live.into_iter().for_each(|o| free(ctl, o));
                })
            })
            .collect();
        workers.into_iter().for_each(|w| w.join().unwrap());
    });
    assert!(refused.load(SeqCst) > 0);
    assert_eq!(parent.exact(), 0);
}

/// A charge under way while its group is removed lands in the parent; nothing is lost, nothing stays.
#[test]
fn removal_races_with_allocation_and_free() {
    for hardened in [false, true] {
        let ctl = controller(hardened);
        let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
        let parent = ctl.root().create("p").unwrap();
        for round in 0..60 {
            let group = parent.create(&format!("g{round}")).unwrap();
            let survivors: Vec<Vec<Object>> = std::thread::scope(|s| {
                let workers: Vec<_> = (0..THREADS)
                    .map(|i| {
                        let (cache, group, ctl) = (&cache, group.clone(), &ctl);
                        s.spawn(move || {
                            let mut random = Random((round * THREADS + i) as u64);
                            let mut live = Vec::new();
                            loop {
                                match cache.alloc(&group) {
                                    Ok(o) => live.push(Object(o)),
                                    Err(Error::GroupRemoved) => return live,
                                    Err(e) => panic!("{e}"),
                                }
                                // Who removes the group may come late: nobody fills the memory until then.
                                if live.len() > 20_000 || random.below(2) == 0 {
                                    let at = random.below(live.len());
                                    free(ctl, live.swap_remove(at).0);
                                }
                            }
                        })
                    })
                    .collect();
                while group.exact() < 2000 {
                    std::thread::yield_now();
                }
                group.remove().unwrap();
                workers.into_iter().map(|w| w.join().unwrap()).collect()
            });
            let n: usize = survivors.iter().map(Vec::len).sum();
            assert_eq!(parent.exact(), n as u64 * cache.charge(), "round {round}");
            drop(group);
            survivors.into_iter().flatten().for_each(|o| free(&ctl, o.0));
            assert_eq!((parent.exact(), ctl.stat().orphans, ctl.stat().removed_held), (0, 0, 0));
        }
    }
}

/// Trees made and removed by several threads at once, with objects that outlive them.
#[test]
fn trees_come_and_go_together() {
    let ctl = controller(false);
    std::thread::scope(|s| {
        for t in 0..THREADS {
            let ctl = &ctl;
            s.spawn(move || {
                let mut random = Random(t as u64);
                let mut live = Vec::new();
                for i in 0..400 {
                    let top = ctl.root().create(&format!("t{t}-{i}")).unwrap();
                    let kids: Vec<_> = (0..3).map(|k| top.create(&format!("k{k}")).unwrap()).collect();
                    for _ in 0..30 {
                        live.push(ctl.malloc(&kids[random.below(3)], 1 + random.below(3000), 8).unwrap());
                    }
                    kids.iter().for_each(|k| k.remove().unwrap());
                    top.remove().unwrap();
                    while live.len() > 200 {
                        free(ctl, live.swap_remove(random.below(live.len())));
                    }
                }
                live.into_iter().for_each(|o| free(ctl, o));
            });
        }
    });
    let stat = ctl.stat();
    assert_eq!((ctl.root().exact(), stat.groups, stat.orphans, stat.removed_held), (0, 0, 0, 0));
}

#[test]
fn the_global_controller_is_one() {
    let all: Vec<String> = std::thread::scope(|s| {
        let t: Vec<_> =
            (0..THREADS).map(|_| s.spawn(|| format!("{:p}", Controller::global().unwrap()))).collect();
        t.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(all.iter().all(|p| *p == all[0]));
    let ctl = Controller::global().unwrap();
    let object = ctl.malloc(&ctl.root(), 10, 16).unwrap();
    assert!(ctl.root().exact() >= 16);
    free(ctl, object);
}
