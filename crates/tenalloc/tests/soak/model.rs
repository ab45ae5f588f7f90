//! The world of one life, and the plain model that it is compared with.

use crate::common::Random;
use crate::object::{MOVABLE, Move, OFFSET, Object, Reclaim, id_of};
use crate::shelf::Shelf;
use crate::worker::Worker;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering::*;
use tenalloc::page::Simulated;
use tenalloc::{Cache, CacheConfig, Config, Controller, Group, ListLru, LruStatus, Owner, Topology};

pub(crate) const CPUS: u16 = 4;
pub(crate) const NODES: u8 = 2;
/// Families of lists, each with a cache of its own.
pub(crate) const FAMILIES: usize = 2;
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
    /// Caches that come and go.
    pub(crate) extras: Mutex<Vec<Cache>>,
    pub(crate) shelf: &'static Shelf,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let source: &'static Simulated = Box::leak(Box::default());
        let mut random = Random(seed);
        let shelf: &'static Shelf = Box::leak(Box::default());
        let config = Config::new()
            .source(source)
            .sleep(false) // a nap of up to 2 s is tested in tests/reclaim.rs
            .out_of_memory(shelf)
            .topology(Topology::simulated(NODES, CPUS))
            .hardened(random.below(2) == 0)
            .exact_charges(random.below(4) == 0);
        let ctl = Controller::new(config).unwrap();
        let cache = |name: &str, size| ctl.cache(&CacheConfig::new(name, size)).unwrap();
        let movable = ctl.cache(&CacheConfig::new("movable", MOVABLE).migrate(&Move)).unwrap();
        let caches = vec![cache("a", 16), cache("b", 100), cache("c", 1500), movable];
        let pools = (0..FAMILIES)
            .map(|i| {
                let lru = ListLru::new(&ctl, OFFSET).unwrap();
                lru.set_shrinker(&Reclaim);
                (cache(&format!("pool{i}"), 64 << i), lru)
            })
            .collect();
        let root = Place { group: ctl.root(), parent: 0, removed: false, allowed: u64::MAX };
        let (mail, extras) = Default::default();
        Self { source, ctl, caches, pools, places: Mutex::new(vec![root]), mail, extras, shelf }
    }

    /// Nothing is in flight: compares everything.
    pub(crate) fn quiet(&self, workers: &mut [Worker; 2]) {
        self.source.heal();
        for (w, mail) in workers.iter_mut().zip(&self.mail) {
            w.collect(&mut mail.lock().unwrap(), self);
        }
        // What one task does may wake another's, and may reclaim: what that freed is then forgotten as well.
        while workers.iter_mut().any(|w| w.poll_woken(self)) {}
        workers.iter_mut().for_each(|w| w.collect(&mut Vec::new(), self));
        workers.iter().for_each(|w| w.check_tasks(self));
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
                match self.ctl.group_of_object(o.at()) {
                    Ok(Some(owner)) => assert_eq!(owner, places[home(o.group)].group),
                    told => panic!("{told:?} of live {o:?}, number in place: {}", o.is_intact()),
                }
                assert!(o.is_intact(), "object {} was overwritten", o.id);
            }
            for a in &w.accounts {
                sums[home(a.group)] += a.bytes;
                assert_eq!(a.owner.group(), places[home(a.group)].group);
            }
        }
        for good in self.shelf.0.lock().unwrap().iter() {
            sums[home(good.group)] += good.bytes;
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
        self.ctl.orphans(&mut |o| assert!(!o.payer.is_removed() && o.objects > 0, "{o:?}"));
    }

    /// Takes everything away in the order that a program ends in: objects, groups, caches, pages.
    pub(crate) fn end(self, workers: [Worker; 2]) {
        for w in workers {
            w.end(&self);
        }
        for good in self.shelf.0.lock().unwrap().drain(..) {
            good.owner.uncharge(good.bytes);
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
        assert_eq!((self.ctl.root().current(), stat.raw_bytes), (0, 0));
        for cache in self.caches.into_iter().chain(self.extras.into_inner().unwrap()) {
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
