//! tenalloc in the tables of memory: with which caches, and what it can give back when groups went.

use super::Failure;
use super::stores::Store;
use crate::peers::Peer;
use crate::peers::hand::Place;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};
use tenalloc::{
    Cache, CacheConfig, Config, Controller, Group, ListLru, LruItem, LruStatus, Migrate, Scanned, Shrinker,
    Stat,
};

/// Objects in slabs less full than this are reclaimed, percent.
const FILL: u8 = 40;

/// What objects are to tenalloc.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Objects {
    /// Of a cache for each size.
    Cached,
    /// Of the controller's own size classes.
    Classes,
    /// As `Cached`, and they can be moved.
    Movable,
    /// As `Cached`, and those that outlive their group are on a list, where they may be reclaimed.
    Listed,
}

impl Objects {
    /// Those that take part in all tables.
    pub(super) const PLAIN: [Self; 2] = [Self::Cached, Self::Classes];
    /// Those that matter only where groups went.
    pub(super) const GIVING: [Self; 2] = [Self::Movable, Self::Listed];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cached => "a cache a size",
            Self::Classes => "size classes",
            Self::Movable => "a cache a size, with migrate",
            Self::Listed => "a cache a size, sparse slabs reclaimed",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::PLAIN.into_iter().chain(Self::GIVING).find(|kind| kind.name() == name)
    }
}

/// tenalloc.
pub(super) struct Ours {
    ctl: Controller,
    lru: ListLru,
    groups: Vec<Option<Group>>,
    caches: Vec<(usize, Cache)>,
    kind: Objects,
}

/// Objects that are being moved: the program's own list of them. An object begins with its place there.
struct Mover(Mutex<Vec<(Place, usize)>>);

static MOVER: Mover = Mover(Mutex::new(Vec::new()));

/// Where in an object its place on a list is, behind its place in the program's.
const ITEM: usize = 8;

impl Shrinker for Mover {
    fn scan(&self, lru: &ListLru, group: &Group, node: u8, number: u64) -> Scanned {
        let mut budget = number;
        let dispose = |object: NonNull<u8>| {
            // SAFETY: the object begins with its place; it is off its list, and given back once.
            unsafe {
                let place = object.cast::<usize>().read();
                if let Some((_, size)) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(place)
                {
                    *size = 0;
                }
                group.controller().free(object).expect("a live object");
            }
        };
        let done = lru.walk(group, node, &mut budget, |_| LruStatus::Removed, dispose);
        Scanned { looked_at: done.shown, freed: done.removed, ..Scanned::default() }
    }
}

impl Migrate for Mover {
    unsafe fn migrate(&self, from: NonNull<u8>, to: NonNull<u8>) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: readable, says the caller.
        let place = unsafe { from.cast::<usize>().read() };
        match all.get_mut(place).filter(|(object, _)| object.0 == from) {
            Some((object, size)) => {
                // SAFETY: both hold as many bytes.
                unsafe { to.copy_from_nonoverlapping(from, *size) };
                object.0 = to;
                true
            }
            None => false,
        }
    }
}

impl Ours {
    pub(super) fn new(handles: Vec<Option<Group>>, kind: Objects) -> Result<Self, Failure> {
        let ctl = Controller::new(Config::new())?;
        let mut sized: Vec<(usize, Cache)> = Vec::new();
        for size in super::tenants::SIZES {
            if kind != Objects::Classes && sized.iter().all(|(known, _)| *known != size) {
                let name = format!("object-{size}");
                let config = CacheConfig::new(&name, size);
                let config = if kind == Objects::Movable { config.migrate(&MOVER) } else { config };
                sized.push((size, ctl.cache(&config)?));
            }
        }
        let lru = ListLru::new(&ctl, ITEM)?;
        lru.set_shrinker(&MOVER);
        Ok(Self { ctl, lru, groups: handles, caches: sized, kind })
    }
}

impl Peer for Ours {
    type Object = Place;

    fn alloc(&self, group: usize, size: usize) -> Place {
        let group = self.groups[group].as_ref().expect("a group that was made");
        let object = match self.caches.iter().find(|(of, _)| *of == size) {
            Some((_, cache)) => cache.alloc(group),
            None => self.ctl.malloc(group, size, 8),
        };
        Place(object.expect("memory"))
    }

    fn address(object: Place) -> NonNull<u8> {
        object.0
    }

    unsafe fn free(&self, object: Place, _: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.ctl.free(object.0) }.expect("a live object");
    }
}

impl Store for Ours {
    fn create(&mut self, group: usize) -> Result<bool, Failure> {
        // Groups are made in order.
        self.groups.push(Some(self.ctl.root().create(&format!("tenant-{group}"))?));
        Ok(true)
    }

    fn remove(&mut self, group: usize, alive: &mut [(Place, usize)]) {
        if let Some(group) = self.groups[group].take() {
            group.remove().expect("a group without children");
        }
        for (object, _) in alive.iter().filter(|_| self.kind == Objects::Listed) {
            // SAFETY: live, with room for an item there.
            unsafe {
                object.0.add(ITEM).cast::<LruItem>().write(LruItem::new());
                self.lru.add(object.0);
            }
        }
    }

    fn purge(&mut self, alive: &mut Vec<(Place, usize)>) {
        if self.kind == Objects::Movable || self.kind == Objects::Listed {
            for (place, (object, _)) in alive.iter().enumerate() {
                // SAFETY: live, aligned to 8, and 32 bytes at least.
                unsafe { object.0.cast::<usize>().write(place) };
            }
            let swap = |alive: &mut Vec<_>| {
                std::mem::swap(alive, &mut MOVER.0.lock().unwrap_or_else(PoisonError::into_inner));
            };
            swap(alive);
            if self.kind == Objects::Listed {
                self.ctl.root().reclaim_sparse(u64::MAX, FILL, None);
            }
            self.ctl.trim();
            swap(alive);
            alive.retain(|(_, size)| *size > 0);
        } else {
            self.ctl.trim();
        }
    }

    fn stat(&self) -> Option<Stat> {
        Some(self.ctl.stat())
    }

    fn parts(&self) -> Vec<(&'static str, u64)> {
        let mut parts = Vec::new();
        self.ctl.parts(&mut |name, bytes| parts.push((name, bytes)));
        parts
    }
}
