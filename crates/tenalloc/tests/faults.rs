//! Every request for memory of every public operation fails once, and once with all requests after it.
//!
//! An operation is run in a new world for each request that it makes: that request fails, the error must be
//! `NoMemory`, everything must be as it was before, and the same call must succeed when there is memory again. At the end
//! of each world nothing may be mapped. Random faults amid everything else: tests/soak.rs.

mod common;
#[path = "faults/world.rs"]
mod world;

use common::free;
use std::future::Future;
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Waker};
use std::time::Duration;
use tenalloc::page::Simulated;
use tenalloc::{CacheConfig, Config, Controller, Error, ListLru, OfflineError, Range, Topology};
use world::{ITEM, PLACE, Reclaim, World};

type Act = fn(&mut World) -> Result<(), Error>;

/// A call that may want memory.
struct Operation {
    name: &'static str,
    /// What must be there first.
    before: fn(&mut World),
    act: Act,
    /// It works with less where there is no memory: it never fails.
    content: bool,
    /// The fewest requests that it makes, so that this tests something.
    requests: u32,
}

fn nothing(_: &mut World) {}

fn keep<T>(made: &mut Vec<T>, new: Result<T, Error>) -> Result<(), Error> {
    made.push(new?);
    Ok(())
}

const fn fails(name: &'static str, requests: u32, before: fn(&mut World), act: Act) -> Operation {
    Operation { name, before, act, content: false, requests }
}

const fn works(name: &'static str, requests: u32, before: fn(&mut World), act: Act) -> Operation {
    Operation { name, before, act, content: true, requests }
}

fn groups(w: &mut World, names: std::ops::Range<u32>) {
    for i in names {
        w.made.groups.push(w.ctl.root().create(&format!("g{i}")).unwrap());
    }
}

/// An object of one owner in a slab of two, so that another owner's makes the vector.
fn one_owner(w: &mut World) {
    let object = w.cache.alloc(&w.deep);
    w.object(object).unwrap();
}

/// A movable object in the chunk of node 1.
fn movable(w: &mut World) {
    let object = w.movable.alloc_on(&w.deep, 1).unwrap();
    PLACE.store(object.as_ptr() as usize, SeqCst);
}

const OPERATIONS: &[Operation] = &[
    fails("create: a long name", 1, nothing, |w| {
        keep(&mut w.made.groups, w.deep.create("of twenty characters"))
    }),
    fails(
        "create the 64th: more records",
        2,
        |w| groups(w, 0..61),
        |w| keep(&mut w.made.groups, w.ctl.root().create("more")),
    ),
    fails("cache", 3, nothing, |w| keep(&mut w.made.caches, w.ctl.cache(&CacheConfig::new("n", 100)))),
    fails("ListLru::new", 1, nothing, |w| keep(&mut w.made.lists, ListLru::new(&w.ctl, ITEM))),
    fails("prepare", 2, nothing, |w| w.lru.prepare(&w.deep)),
    fails(
        "prepare the third owner: a table",
        3,
        |w| {
            groups(w, 0..2);
            w.made.groups.iter().for_each(|g| w.lru.prepare(g).unwrap());
        },
        |w| w.lru.prepare(&w.deep),
    ),
    fails("alloc", 2, nothing, |w| {
        let object = w.cache.alloc(&w.deep);
        w.object(object)
    }),
    fails("alloc for a second owner: a vector", 0, one_owner, |w| {
        let object = w.cache.alloc(&w.ctl.root());
        w.object(object)
    }),
    fails("alloc_on", 2, nothing, |w| {
        let object = w.cache.alloc_on(&w.deep, 1);
        w.object(object)
    }),
    fails("alloc_unowned", 2, nothing, |w| {
        let object = w.cache.alloc_unowned(None);
        w.object(object)
    }),
    fails("alloc of a movable object", 3, nothing, |w| {
        let object = w.movable.alloc(&w.deep);
        w.object(object)
    }),
    fails("alloc_lru", 4, nothing, |w| {
        let deep = w.deep.clone();
        w.listed(&deep)
    }),
    fails("malloc, small: a class", 4, nothing, |w| {
        let object = w.ctl.malloc(&w.deep, 100, 8);
        w.object(object)
    }),
    fails("malloc, whole pages", 2, nothing, |w| {
        let object = w.ctl.malloc(&w.deep, 50_000, 8);
        w.object(object)
    }),
    fails("malloc, a mapping of its own", 2, nothing, |w| {
        let object = w.ctl.malloc(&w.deep, 5_000_000, 8);
        w.object(object)
    }),
    fails("pages", 2, nothing, |w| keep(&mut w.made.pages, w.ctl.pages(3, 1))),
    fails("set_high", 3, nothing, |w| w.deep.set_high(12_345)),
    fails("set_low", 3, nothing, |w| w.deep.set_low(12_345)),
    fails("set_min", 3, nothing, |w| w.deep.set_min(12_345)),
    fails("peak_reader", 4, nothing, |w| keep(&mut w.made.readers, w.deep.peak_reader())),
    fails("add_shrinker", 1, nothing, |w| keep(&mut w.made.registrations, w.ctl.add_shrinker(&Reclaim))),
    fails("alloc_async", 2, nothing, World::future),
    works("set_max: the limit holds, its events are not counted", 3, nothing, |w| {
        w.deep.set_max(1000);
        assert!(matches!(w.owner.try_charge(1001), Err(Error::Limit(_))));
        w.deep.set_max(u64::MAX);
        Ok(())
    }),
    works("charges", 0, nothing, |w| {
        w.owner.try_charge(10_000)?;
        w.owner.charge_forced(5000);
        w.owner.uncharge(15_000);
        Ok(())
    }),
    works(
        "free: a sheaf, if there can be one",
        1,
        |w| {
            // Made on one CPU, freed on the other, which has no sheaf yet, but is of the object's node.
            let object = w.cache.alloc_unowned(Some(1));
            w.object(object).unwrap();
            w.ctl.set_cpu(1);
        },
        |w| {
            let object = w.made.objects.pop();
            object.into_iter().for_each(|o| free(&w.ctl, o));
            Ok(())
        },
    ),
    works(
        "remove, with lists and objects",
        0,
        |w| {
            groups(w, 0..40);
            for g in w.made.groups.clone() {
                w.listed(&g).unwrap();
            }
        },
        |w| w.made.groups.drain(..).try_for_each(|g| g.remove()),
    ),
    works("reclaim", 0, nothing, |w| {
        let got = w.ctl.root().reclaim(1).unwrap_or_else(|less| less);
        assert_eq!(got.bytes, 0);
        Ok(())
    }),
    works("shrink, trim, stat, orphans", 0, one_owner, |w| {
        w.cache.shrink();
        w.ctl.trim();
        w.ctl.orphans(&mut |_| {});
        Ok(())
    }),
    works("compact: what cannot be moved stays", 0, movable, |w| {
        w.movable.compact(u64::MAX);
        Ok(())
    }),
    works("below_high", 0, nothing, |w| {
        let future = pin!(w.deep.below_high());
        assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_ready());
        Ok(())
    }),
    works("offline: what cannot be moved for want of memory stays", 2, movable, |w| {
        let at = PLACE.load(SeqCst);
        match w.ctl.offline(Range::Node(1), Duration::ZERO, &mut |_| {}) {
            Ok(_) => w.ctl.online_node(1),
            Err(e) => assert_eq!((e, PLACE.load(SeqCst)), (OfflineError::TimedOut { pinned: 1 }, at)),
        }
        Ok(())
    }),
];

/// Runs an operation with its `fault`-th request failing, and with `all` those after it too. Returns whether there was
/// such a request.
fn run(op: &Operation, hardened: bool, fault: u32, all: bool) -> bool {
    let what = format!("{}, request {fault}{}", op.name, if all { " and all after it" } else { "" });
    let mut w = World::new(hardened);
    (op.before)(&mut w);
    let moved = PLACE.load(SeqCst) != 0;
    let books = w.books();
    let calls = w.source.calls();
    if all {
        w.source.fail_from(fault)
    } else {
        w.source.fail_after(fault)
    }
    let result = (op.act)(&mut w);
    let used = w.source.calls() - calls;
    w.source.heal();
    let hit = used > u64::from(fault);
    match result {
        Ok(()) => {}
        Err(Error::NoMemory { bytes }) if hit && !op.content => {
            assert!(bytes > 0, "{what}");
            assert_eq!(w.books(), books, "{what}: something stayed");
            (op.act)(&mut w).unwrap_or_else(|e| panic!("{what}, again: {e}"));
        }
        Err(e) => panic!("{what}: {e:?}"),
    }
    if moved {
        let at = NonNull::new(PLACE.swap(0, SeqCst) as *mut u8).unwrap();
        assert_eq!(w.ctl.group_of_object(at).unwrap(), Some(w.deep.clone()), "{what}");
        free(&w.ctl, at);
    }
    w.end(&what);
    hit
}

#[test]
fn every_request_of_every_operation_fails_once() {
    for op in OPERATIONS {
        for hardened in [false, true] {
            for all in [false, true] {
                let mut fault = 0;
                while run(op, hardened, fault, all) {
                    fault += 1;
                }
                assert!(fault >= op.requests, "{} made only {fault} requests", op.name);
                if !hardened && !all {
                    println!("{fault:>3} requests: {}", op.name);
                }
            }
        }
    }
}

/// The same for a controller.
#[test]
fn a_controller_that_cannot_be_made_leaves_nothing() {
    let mut fault = 0;
    loop {
        let source: &'static Simulated = Box::leak(Box::default());
        source.fail_after(fault);
        match Controller::new(Config::new().source(source).topology(Topology::simulated(4, 8))) {
            Ok(ctl) => drop(ctl),
            Err(e) => {
                assert!(matches!(e, Error::NoMemory { bytes } if bytes > 0), "request {fault}: {e:?}");
                assert_eq!(source.total(), 0, "request {fault}: something is still mapped");
                fault += 1;
                continue;
            }
        }
        assert_eq!(source.total(), 0);
        break;
    }
    assert!(fault >= 4, "only {fault} requests");
}

/// Where it is sugar, the same calls: the group of this thread or task.
#[cfg(feature = "std")]
#[test]
fn scopes_fail_and_restore() {
    for fault in 0.. {
        let mut w = World::new(true);
        let books = w.books();
        let calls = w.source.calls();
        w.source.fail_from(fault);
        let (ctl, cache, deep) = (w.ctl.clone(), w.cache.clone(), w.deep.clone());
        let got = deep.scope(|| [cache.alloc_here(), ctl.malloc_here(100, 8)]);
        drop((ctl, cache, deep));
        assert!(tenalloc::current_group().is_none());
        let hit = w.source.calls() - calls > u64::from(fault);
        w.source.heal();
        if got.iter().all(Result::is_err) {
            assert_eq!(w.books(), books, "request {fault}");
        }
        for object in got {
            match object {
                Ok(object) => {
                    assert_eq!(w.ctl.group_of_object(object).unwrap(), Some(w.deep.clone()));
                    w.object(Ok(object)).unwrap();
                }
                Err(e) => assert!(hit && matches!(e, Error::NoMemory { .. }), "request {fault}: {e:?}"),
            }
        }
        w.end(&format!("scope, request {fault}"));
        if !hit {
            assert!(fault > 5);
            break;
        }
    }
}
