//! A small world in which every operation makes what it needs, what of it must not change when one fails, and its end.

use crate::common::free;
use std::future::Future;
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use tenalloc::page::Simulated;
use tenalloc::{
    Cache, CacheConfig, Config, Controller, Error, Group, ListLru, LruStatus, Migrate, Owner, PeakReader,
    Registration, Scanned, Shrink, Shrinker, Stat, Topology,
};

/// Where an item lies.
pub(crate) const ITEM: usize = 16;

/// A controller in which much was never done yet: each operation makes what it needs.
pub(crate) struct World {
    pub(crate) source: &'static Simulated,
    pub(crate) ctl: Controller,
    pub(crate) cache: Cache,
    pub(crate) movable: Cache,
    pub(crate) lru: ListLru,
    pub(crate) deep: Group,
    pub(crate) owner: Owner,
    /// What an operation that succeeded made.
    pub(crate) made: Made,
}

#[derive(Default)]
pub(crate) struct Made {
    pub(crate) objects: Vec<NonNull<u8>>,
    pub(crate) listed: Vec<NonNull<u8>>,
    pub(crate) pages: Vec<NonNull<u8>>,
    pub(crate) groups: Vec<Group>,
    pub(crate) caches: Vec<Cache>,
    pub(crate) lists: Vec<ListLru>,
    pub(crate) readers: Vec<PeakReader>,
    pub(crate) registrations: Vec<Registration>,
}

/// Moves the one movable object of a world.
struct Move;

/// Where that is; 0: there is none.
pub(crate) static PLACE: AtomicUsize = AtomicUsize::new(0);

impl Migrate for Move {
    unsafe fn migrate(&self, from: NonNull<u8>, to: NonNull<u8>) -> bool {
        // SAFETY: 64 bytes each, says the caller.
        unsafe { to.copy_from_nonoverlapping(from, 64) };
        PLACE.store(to.as_ptr() as usize, SeqCst);
        true
    }
}

/// Frees what it is shown.
pub(crate) struct Reclaim;

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
pub(crate) struct Books {
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
    pub(crate) fn new(hardened: bool) -> Self {
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

    pub(crate) fn books(&self) -> Books {
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

    pub(crate) fn object(&mut self, object: Result<NonNull<u8>, Error>) -> Result<(), Error> {
        self.made.objects.push(object?);
        Ok(())
    }

    pub(crate) fn listed(&mut self, group: &Group) -> Result<(), Error> {
        let object = self.cache.alloc_lru(group, &self.lru)?;
        // SAFETY: live, with an item at the offset of the lists.
        assert!(unsafe { self.lru.add(object) });
        self.made.listed.push(object);
        Ok(())
    }

    /// An object for `deep` by a future that is polled once.
    pub(crate) fn future(&mut self) -> Result<(), Error> {
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
    pub(crate) fn end(mut self, what: &str) {
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
