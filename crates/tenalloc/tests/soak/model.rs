//! The world of one life, and the plain model that it is compared with.

use crate::common::{Random, free};
use crate::worker::Worker;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::*};
use tenalloc::page::Simulated;
use tenalloc::{
    Cache, CacheConfig, Config, Controller, Group, ListLru, LruItem, LruStatus, Owner, Scanned, Shrinker,
    Topology,
};

pub(crate) const CPUS: u16 = 4;
pub(crate) const NODES: u8 = 2;
/// Families of lists, each with a cache of its own.
pub(crate) const FAMILIES: usize = 2;
/// Where an item lies; an object's number is in front of it.
const OFFSET: usize = 8;
/// Objects that can be live at once.
const OBJECTS: usize = 1 << 15;

/// What the table says of an object.
const NONE: u8 = 0;
/// Anybody may pin it.
const LIVE: u8 = 1;
/// Somebody is at it.
const PINNED: u8 = 2;
/// Reclaim or a walk freed it.
const GONE: u8 = 3;

struct Entry {
    state: AtomicU8,
    listed: AtomicBool,
}

static TABLE: [Entry; OBJECTS] =
    [const { Entry { state: AtomicU8::new(NONE), listed: AtomicBool::new(false) } }; OBJECTS];

/// An object of the model.
pub(crate) struct Object {
    pub(crate) at: NonNull<u8>,
    /// Its number in the table.
    pub(crate) id: u32,
    /// The group that it was allocated in.
    pub(crate) group: usize,
    pub(crate) charge: u64,
    /// The family whose lists it may be on.
    pub(crate) family: Option<usize>,
}

// SAFETY: an object may be used on any thread.
unsafe impl Send for Object {}

impl Object {
    /// A number for a new object, pinned. `None`: the table is full.
    pub(crate) fn number(free: &mut Vec<u32>) -> Option<u32> {
        let id = free.pop()?;
        TABLE[id as usize].listed.store(false, Relaxed);
        TABLE[id as usize].state.store(PINNED, Relaxed);
        Some(id)
    }

    /// The numbers of a worker: every second one.
    pub(crate) fn numbers(worker: usize) -> Vec<u32> {
        (0..OBJECTS as u32).skip(worker).step_by(2).collect()
    }

    /// From now on the object is the caller's alone. False: it was freed.
    pub(crate) fn pin(&self) -> bool {
        loop {
            match TABLE[self.id as usize].state.compare_exchange(LIVE, PINNED, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(GONE) => return false,
                Err(_) => std::thread::yield_now(), // a walk that looks at it
            }
        }
    }

    pub(crate) fn unpin(&self) {
        TABLE[self.id as usize].state.store(LIVE, Release);
    }

    /// Gives the number back, of an object that is freed.
    pub(crate) fn forget(self, free: &mut Vec<u32>) {
        TABLE[self.id as usize].state.store(NONE, Relaxed);
        free.push(self.id);
    }

    pub(crate) fn listed(&self) -> &AtomicBool {
        &TABLE[self.id as usize].listed
    }

    pub(crate) fn is_gone(&self) -> bool {
        TABLE[self.id as usize].state.load(Acquire) == GONE
    }

    /// Writes the number where a walk finds it.
    pub(crate) fn sign(&self) {
        // SAFETY: live, pinned, at least 8 bytes.
        unsafe { self.at.cast::<u32>().write(self.id) };
    }

    pub(crate) fn item(&self) -> &LruItem {
        // SAFETY: objects of a family hold an item there.
        unsafe { self.at.add(OFFSET).cast().as_ref() }
    }
}

fn id_of(at: NonNull<u8>) -> usize {
    // SAFETY: listed objects are signed.
    unsafe { at.cast::<u32>().read() as usize }
}

/// In a walk: takes the object unless somebody has it pinned.
pub(crate) fn claim(at: NonNull<u8>) -> LruStatus {
    let entry = &TABLE[id_of(at)];
    if entry.state.compare_exchange(LIVE, GONE, Acquire, Relaxed).is_err() {
        return LruStatus::Skip;
    }
    entry.listed.store(false, Relaxed);
    LruStatus::Removed
}

/// Frees what a walk claimed.
struct Reclaim;

impl Shrinker for Reclaim {
    fn scan(&self, lru: &ListLru, group: &Group, node: u8, number: u64) -> Scanned {
        let mut budget = number;
        let done = lru.walk(group, node, &mut budget, claim, |o| free(group.controller(), o));
        Scanned { looked_at: done.shown, freed: done.removed, ..Scanned::default() }
    }
}

/// A group of the model.
pub(crate) struct Place {
    pub(crate) group: Group,
    pub(crate) parent: usize,
    pub(crate) removed: bool,
    /// What `current` may reach: `max`, and what was there when it was set.
    pub(crate) allowed: u64,
}

/// Bytes charged through an owner, without objects.
pub(crate) struct Account {
    pub(crate) owner: Owner,
    pub(crate) group: usize,
    pub(crate) bytes: u64,
}

pub(crate) struct World {
    pub(crate) source: &'static Simulated,
    pub(crate) ctl: Controller,
    pub(crate) caches: Vec<Cache>,
    pub(crate) pools: Vec<(Cache, ListLru)>,
    pub(crate) places: Mutex<Vec<Place>>,
    /// Objects on their way to the other thread, pinned.
    pub(crate) mail: [Mutex<Vec<Object>>; 2],
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let source: &'static Simulated = Box::leak(Box::default());
        let mut random = Random(seed);
        let config = Config::new()
            .source(source)
            .topology(Topology::simulated(NODES, CPUS))
            .hardened(random.below(2) == 0)
            .exact_charges(random.below(4) == 0);
        let ctl = Controller::new(config).unwrap();
        let cache = |name: &str, size| ctl.cache(&CacheConfig::new(name, size)).unwrap();
        let caches = vec![cache("a", 16), cache("b", 100), cache("c", 1500)];
        let pools = (0..FAMILIES)
            .map(|i| {
                let lru = ListLru::new(&ctl, OFFSET).unwrap();
                lru.set_shrinker(&Reclaim);
                (cache(&format!("pool{i}"), 64 << i), lru)
            })
            .collect();
        let root = Place { group: ctl.root(), parent: 0, removed: false, allowed: u64::MAX };
        let mail = Default::default();
        Self { source, ctl, caches, pools, places: Mutex::new(vec![root]), mail }
    }

    /// Nothing is in flight: compares everything.
    pub(crate) fn quiet(&self, workers: &mut [Worker; 2]) {
        self.source.heal();
        for (w, mail) in workers.iter_mut().zip(&self.mail) {
            w.collect(&mut mail.lock().unwrap(), self);
        }
        let places = self.places.lock().unwrap();
        let home = |mut at: usize| {
            while places[at].removed {
                at = places[at].parent;
            }
            at
        };
        // Own, then with descendants: children come after their parents.
        let mut sums = vec![0u64; places.len()];
        let mut lists: BTreeMap<(usize, usize), Vec<u32>> = BTreeMap::new();
        let mut objects = 0;
        for w in workers.iter() {
            for o in &w.objects {
                sums[home(o.group)] += o.charge;
                objects += 1;
                if let Some(family) = o.family.filter(|_| o.listed().load(Relaxed)) {
                    lists.entry((family, home(o.group))).or_default().push(o.id);
                }
                let owner = self.ctl.group_of_object(o.at).unwrap().unwrap();
                assert_eq!(owner, places[home(o.group)].group);
            }
            for a in &w.accounts {
                sums[home(a.group)] += a.bytes;
                assert_eq!(a.owner.group(), places[home(a.group)].group);
            }
        }
        for at in (1..places.len()).rev().filter(|at| !places[*at].removed) {
            let parent = places[at].parent;
            assert!(parent < at && !places[parent].removed);
            sums[parent] += sums[at];
        }
        let slack = u64::from(CPUS) * Controller::SLACK_PER_CPU;
        let living = || places.iter().enumerate().filter(|(_, p)| !p.removed);
        for (at, place) in living() {
            let g = &place.group;
            assert_eq!(g.exact(), sums[at], "{g:?}");
            assert!(g.current() >= sums[at] && g.current() - sums[at] <= slack, "{g:?} exact {}", sums[at]);
            assert!(g.current() <= place.allowed, "{g:?} may have {}", place.allowed);
            assert_eq!(self.ctl.root().lookup(&g.path().to_string()).unwrap(), *g);
            for (family, (_, lru)) in self.pools.iter().enumerate() {
                let mut found = Vec::new();
                for node in 0..NODES {
                    let before = found.len();
                    let see = |o| {
                        found.push(id_of(o) as u32);
                        LruStatus::Skip
                    };
                    lru.walk(g, node, &mut u64::MAX.clone(), see, |_| {});
                    assert_eq!(lru.count(g, node), (found.len() - before) as u64);
                }
                found.sort_unstable();
                let mut expected = lists.remove(&(family, at)).unwrap_or_default();
                expected.sort_unstable();
                assert_eq!(found, expected, "family {family} of {g:?}");
            }
        }
        assert!(lists.is_empty(), "objects on lists of groups that are gone: {lists:?}");
        let stat = self.ctl.stat();
        assert_eq!((stat.objects, stat.groups, stat.corrupted), (objects, living().count() as u64 - 1, 0));
        assert_eq!(stat.stock_bytes, self.ctl.root().current() - self.ctl.root().exact());
        assert!(stat.stock_bytes <= stat.stock_bound_bytes);
    }

    /// Takes everything away in the order that a program ends in: objects, groups, caches, pages.
    pub(crate) fn end(self, workers: [Worker; 2]) {
        for w in workers {
            w.end(&self);
        }
        assert_eq!(self.ctl.root().exact(), 0);
        let places = self.places.into_inner().unwrap();
        for place in places.iter().skip(1).rev().filter(|p| !p.removed) {
            place.group.remove().unwrap();
        }
        drop(places);
        self.ctl.trim();
        let stat = self.ctl.stat();
        assert_eq!((stat.groups, stat.removed_held, stat.orphans), (0, 0, 0));
        assert_eq!((stat.slab_bytes, stat.owner_vector_bytes, stat.large_bytes), (0, 0, 0));
        assert_eq!(self.ctl.root().current(), 0);
        for cache in self.caches {
            cache.destroy().unwrap();
        }
        for (cache, lru) in self.pools {
            assert_eq!(lru.groups(), 0);
            drop(lru);
            cache.destroy().unwrap();
        }
        drop(self.ctl);
        assert_eq!(self.source.total(), 0, "something is still mapped");
    }
}
