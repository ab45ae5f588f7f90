//! Every request for memory of every public operation fails once, and once with all requests after it.
//!
//! An operation is run in a new world for each request that it makes: that request fails, the error must be
//! `NoMemory`, everything must be as it was before, and the same call must succeed when there is memory again. At the end
//! of each world nothing may be mapped. Random faults amid everything else: tests/soak.rs.

mod common;
use common::free;
use std::future::Future;
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tenalloc::page::Simulated;
use tenalloc::{
    Cache, CacheConfig, Config, Controller, Error, Group, ListLru, LruStatus, Migrate, OfflineError, Owner,
    PeakReader, Range, Registration, Scanned, Shrink, Shrinker, Stat, Topology,
};

/// Where an item lies.
const ITEM: usize = 16;

/// A controller in which much was never done yet: each operation makes what it needs.
struct World {
    source: &'static Simulated,
    ctl: Controller,
    cache: Cache,
    movable: Cache,
    lru: ListLru,
    deep: Group,
    owner: Owner,
    /// What an operation that succeeded made.
    made: Made,
}

#[derive(Default)]
struct Made {
    objects: Vec<NonNull<u8>>,
    listed: Vec<NonNull<u8>>,
    pages: Vec<NonNull<u8>>,
    groups: Vec<Group>,
    caches: Vec<Cache>,
    lists: Vec<ListLru>,
    readers: Vec<PeakReader>,
    registrations: Vec<Registration>,
}

/// Moves the one movable object of a world.
struct Move;

/// Where that is; 0: there is none.
static PLACE: AtomicUsize = AtomicUsize::new(0);

impl Migrate for Move {
    unsafe fn migrate(&self, from: NonNull<u8>, to: NonNull<u8>) -> bool {
        // SAFETY: 64 bytes each, says the caller.
        unsafe { to.copy_from_nonoverlapping(from, 64) };
        PLACE.store(to.as_ptr() as usize, SeqCst);
        true
    }
}

/// Frees what it is shown.
struct Reclaim;

impl Shrinker for Reclaim {
    fn scan(&self, lru: &ListLru, group: &Group, node: u8, number: u64) -> Scanned {
        let mut budget = number;
        let dispose = |o| free(group.controller(), o);
        let done = lru.walk(group, node, &mut budget, |_| LruStatus::Removed, dispose);
        Scanned { looked_at: done.shown, freed: done.removed, ..Scanned::default() }
    }
}

impl Shrink for Reclaim {
    fn count(&self, _: &Group, _: u8) -> u64 {
        0
    }
    fn scan(&self, _: &Group, _: u8, _: u64) -> Scanned {
        Scanned::default()
    }
}

/// What must not change: charges, numbers of things, and what is live. (Free pages, metadata blocks and sheaves may
/// stay: they wait for their next use.)
#[derive(Debug, PartialEq)]
struct Books {
    exact: [u64; 3],
    objects: u64,
    groups: u64,
    orphans: u64,
    raw: u64,
    large: u64,
    caches: usize,
    listed: u64,
    high: u64,
    low: u64,
    min: u64,
    corrupted: u64,
}

impl World {
    fn new(hardened: bool) -> Self {
        let source: &'static Simulated = Box::leak(Box::default());
        let config =
            Config::new().source(source).topology(Topology::simulated(2, 2)).hardened(hardened).sleep(false);
        let ctl = Controller::new(config).unwrap();
        let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
        let movable = ctl.cache(&CacheConfig::new("m", 64).migrate(&Move)).unwrap();
        let lru = ListLru::new(&ctl, ITEM).unwrap();
        lru.set_shrinker(&Reclaim);
        let deep = ctl.root().create("a").unwrap().create("b").unwrap();
        let owner = deep.owner();
        Self { source, ctl, cache, movable, lru, deep, owner, made: Made::default() }
    }

    fn books(&self) -> Books {
        let Stat { objects, groups, orphans, raw_bytes, large_bytes, corrupted, .. } = self.ctl.stat();
        let (root, above) = (self.ctl.root(), self.deep.parent().unwrap());
        let listed =
            [&root, &above, &self.deep].into_iter().map(|g| self.lru.count(g, 0) + self.lru.count(g, 1));
        Books {
            exact: [root.exact(), above.exact(), self.deep.exact()],
            objects,
            groups,
            orphans,
            raw: raw_bytes,
            large: large_bytes,
            // Those of size classes come with the first object of their size, and stay.
            caches: self.ctl.caches().filter(|c| !c.name().starts_with("size-")).count(),
            listed: listed.sum(),
            high: self.deep.high(),
            low: self.deep.low(),
            min: self.deep.min(),
            corrupted,
        }
    }

    fn object(&mut self, object: Result<NonNull<u8>, Error>) -> Result<(), Error> {
        self.made.objects.push(object?);
        Ok(())
    }

    fn listed(&mut self, group: &Group) -> Result<(), Error> {
        let object = self.cache.alloc_lru(group, &self.lru)?;
        // SAFETY: live, with an item at the offset of the lists.
        assert!(unsafe { self.lru.add(object) });
        self.made.listed.push(object);
        Ok(())
    }

    /// An object for `deep` by a future that is polled once.
    fn future(&mut self) -> Result<(), Error> {
        let object = {
            let mut future = pin!(self.cache.alloc_async(&self.deep));
            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(object) => object,
                Poll::Pending => panic!("nobody is above high"),
            }
        };
        self.object(object)
    }

    /// Takes everything away; nothing may be left.
    fn end(mut self, what: &str) {
        let made = std::mem::take(&mut self.made);
        for object in &made.listed {
            // SAFETY: live and listed.
            assert!(unsafe { self.lru.del(*object) }, "{what}");
        }
        made.objects.into_iter().chain(made.listed).for_each(|o| free(&self.ctl, o));
        for pages in made.pages {
            // SAFETY: given back once.
            unsafe { self.ctl.free_pages(pages) }.unwrap();
        }
        made.groups.into_iter().filter(|g| !g.is_removed()).for_each(|g| g.remove().unwrap());
        made.caches.into_iter().for_each(|c| c.destroy().unwrap());
        drop((made.lists, made.readers, made.registrations));
        assert_eq!(self.ctl.root().exact(), 0, "{what}");
        let Self { source, ctl, cache, movable, lru, deep, owner, .. } = self;
        drop((cache, movable, lru, deep, owner));
        ctl.trim();
        let stat = ctl.stat();
        let left = (ctl.root().current(), stat.slab_bytes, stat.owner_vector_bytes, stat.orphans);
        assert_eq!(left, (0, 0, 0, 0), "{what}");
        drop(ctl);
        assert_eq!(source.total(), 0, "{what}: something is still mapped");
    }
}

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
    fails("create", 1, nothing, |w| Ok(w.made.groups.push(w.deep.create("c")?))),
    fails(
        "create the 64th: more records",
        2,
        |w| groups(w, 0..61),
        |w| Ok(w.made.groups.push(w.ctl.root().create("more")?)),
    ),
    fails("cache", 3, nothing, |w| Ok(w.made.caches.push(w.ctl.cache(&CacheConfig::new("n", 100))?))),
    fails("ListLru::new", 1, nothing, |w| Ok(w.made.lists.push(ListLru::new(&w.ctl, ITEM)?))),
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
    fails("alloc", 3, nothing, |w| {
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
    fails("alloc_lru", 5, nothing, |w| {
        let deep = w.deep.clone();
        w.listed(&deep)
    }),
    fails("malloc, small: a class", 5, nothing, |w| {
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
    fails("pages", 2, nothing, |w| Ok(w.made.pages.push(w.ctl.pages(3, 1)?))),
    fails("set_high", 3, nothing, |w| w.deep.set_high(12_345)),
    fails("set_low", 3, nothing, |w| w.deep.set_low(12_345)),
    fails("set_min", 3, nothing, |w| w.deep.set_min(12_345)),
    fails("peak_reader", 4, nothing, |w| Ok(w.made.readers.push(w.deep.peak_reader()?))),
    fails("add_shrinker", 1, nothing, |w| Ok(w.made.registrations.push(w.ctl.add_shrinker(&Reclaim)?))),
    fails("alloc_async", 3, nothing, World::future),
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
            let object = w.cache.alloc_on(&w.deep, 1);
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
