//! Reclaim that looks at how full slabs are: what lies in sparse ones goes first, what lies in full ones stays.

mod common;
use common::{free, lean};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::time::Duration;
use tenalloc::{
    Cache, CacheConfig, Controller, Error, Geometry, Group, ListLru, LruItem, LruStatus, Scanned, Shrinker,
    Sparse,
};

/// Objects of a slab here, which is one page.
const EACH: usize = 16;

/// Frees what was not used since the last look.
struct Old;

impl Shrinker for Old {
    fn scan(&self, lru: &ListLru, group: &Group, node: u8, number: u64) -> Scanned {
        let mut budget = number;
        let done = lru.walk(
            group,
            node,
            &mut budget,
            |o| {
                // SAFETY: objects of these tests begin with their item.
                let item: &LruItem = unsafe { o.cast().as_ref() };
                let (out, of) = group.controller().fill_of(o).unwrap();
                assert!(out > 0 && out <= of && of as usize == EACH, "{out} of {of}");
                if item.take_reference() { LruStatus::Rotate } else { LruStatus::Removed }
            },
            |o| free(group.controller(), o),
        );
        Scanned { looked_at: done.shown, freed: done.removed, ..Scanned::default() }
    }
}

struct World {
    ctl: Controller,
    cache: Cache,
    lru: ListLru,
    /// Slab → objects that are left of it.
    slabs: HashMap<usize, Vec<NonNull<u8>>>,
}

impl World {
    /// Slabs with 1, 2, … 16 objects left, all on lists; objects of the groups in turn.
    fn new(nodes: u8, groups: &[&str]) -> (Self, Vec<Group>) {
        let (_, ctl) = lean(nodes, u16::from(nodes));
        let groups: Vec<_> = groups.iter().map(|n| ctl.root().create(n).unwrap()).collect();
        let geometry = Geometry { pages: 1, objects: EACH as u16 };
        // Nothing is kept near CPUs: slabs fill one after another.
        let cache = ctl.cache(&CacheConfig::new("c", 256).geometry(geometry).sheaf(0)).unwrap();
        let lru = ListLru::new(&ctl, 0).unwrap();
        lru.set_shrinker(&Old);
        let mut slabs: HashMap<usize, Vec<_>> = HashMap::new();
        for i in 0..EACH * EACH {
            let object = cache.alloc_lru(&groups[i % groups.len()], &lru).unwrap();
            slabs.entry(ctl.slab_of(object).unwrap().0).or_default().push(object);
        }
        assert_eq!(slabs.len(), EACH);
        for (number, slab) in slabs.values_mut().enumerate() {
            slab.drain(number + 1..).for_each(|o| free(&ctl, o));
        }
        // By age one of each slab in turn.
        for age in 0..EACH {
            for object in slabs.values().filter_map(|slab| slab.get(age)) {
                // SAFETY: live, with an item in front.
                assert!(unsafe { lru.add(*object) });
            }
        }
        (Self { ctl, cache, lru, slabs }, groups)
    }

    /// Numbers of objects in the slabs that are left, as the library knows them, in rising order.
    fn left(&self) -> Vec<usize> {
        let is_live = |o: &&NonNull<u8>| self.ctl.fill_of(**o).is_ok() && self.is_listed(**o);
        let left = self.slabs.values().map(|slab| slab.iter().filter(is_live).count());
        let mut left: Vec<_> = left.filter(|n| *n > 0).collect();
        left.sort_unstable();
        left
    }

    fn is_listed(&self, object: NonNull<u8>) -> bool {
        // SAFETY: its slab is in place, or `fill_of` would have failed; items of freed objects are off their lists, but
        // the link of a free object lies over the item's first word only.
        unsafe { object.cast::<LruItem>().as_ref() }.is_listed()
    }
}

#[test]
fn sparse_slabs_go_and_full_ones_stay() {
    let (w, g) = World::new(1, &["g"]);
    let before = w.ctl.slab_bytes();
    let got = g[0].reclaim_sparse(u64::MAX, 50, None);
    // Slabs of 1 to 8 objects of 16.
    assert_eq!(got, Sparse { freed: (1..=8).sum(), bytes: 8 * 4096, out_of_time: false });
    assert_eq!(before - w.ctl.slab_bytes(), got.bytes);
    assert_eq!(w.left(), (9..=16).collect::<Vec<_>>());
    assert_eq!(g[0].exact(), (9..=16).sum::<u64>() * w.cache.charge());
    assert_eq!(g[0].reclaim_sparse(u64::MAX, 50, None), Sparse::default());
    assert_eq!(g[0].reclaim_sparse(u64::MAX, 0, None), Sparse::default());
    let all = g[0].reclaim_sparse(u64::MAX, 255, None);
    assert_eq!((all.freed, g[0].exact(), w.ctl.slab_bytes()), ((9..=16).sum(), 0, 0));
}

/// The same number of objects, by age: fewer pages come back.
#[test]
fn age_alone_gives_fewer_pages() {
    let by_age = {
        let (w, g) = World::new(1, &["g"]);
        g[0].reclaim(36 * w.cache.charge()).unwrap();
        w.ctl.trim();
        w.ctl.slab_bytes()
    };
    let (w, g) = World::new(1, &["g"]);
    assert_eq!(g[0].reclaim_sparse(u64::MAX, 50, None).freed, 36);
    assert!(w.ctl.slab_bytes() < by_age, "{} and {by_age}", w.ctl.slab_bytes());
}

/// It stops when enough pages came back, and begins with the emptiest slabs.
#[test]
fn the_emptiest_go_first() {
    let (w, g) = World::new(1, &["g"]);
    let got = g[0].reclaim_sparse(4096, 100, None);
    // The first step: slabs at most 13 % full.
    assert_eq!((got.freed, got.bytes), (1 + 2, 2 * 4096));
    assert_eq!(w.left(), (3..=16).collect::<Vec<_>>());
    let none = g[0].reclaim_sparse(u64::MAX, 100, Some(Duration::ZERO));
    assert_eq!((none.freed, none.out_of_time), (0, true));
}

/// What was used since the last walk is spared once, and `min` is kept.
#[test]
fn used_and_protected_objects_are_spared() {
    let (w, g) = World::new(2, &["plain", "protected"]);
    g[1].set_min(g[1].exact()).unwrap();
    let hot: Vec<_> = w.slabs.values().map(|slab| slab[0]).collect();
    for object in &hot {
        // SAFETY: live, with an item in front.
        unsafe { object.cast::<LruItem>().as_ref() }.reference();
    }
    let protected = g[1].exact();
    w.ctl.root().reclaim_sparse(u64::MAX, 100, None);
    assert_eq!(g[1].exact(), protected);
    // Steps look again: a mark spares an object in the first that comes to its slab.
    assert!(w.ctl.root().reclaim_sparse(u64::MAX, 100, None).freed <= hot.len() as u64);
    assert_eq!(g[0].exact(), 0);
    g[1].set_min(0).unwrap();
    w.ctl.root().reclaim_sparse(u64::MAX, 100, None);
    assert_eq!((w.ctl.root().exact(), w.ctl.slab_bytes()), (0, 0));
    assert_eq!(w.lru.count(&g[1], 0) + w.lru.count(&g[1], 1), 0);
}

/// Of removed groups too: their objects are on the parent's list.
#[test]
fn survivors_of_removed_groups_are_found() {
    let (w, g) = World::new(1, &["a", "b", "c"]);
    g.iter().for_each(|g| g.remove().unwrap());
    let got = w.ctl.root().reclaim_sparse(u64::MAX, 60, None);
    assert_eq!((got.freed, got.bytes), ((1..=9).sum(), 9 * 4096));
    drop(g);
    w.ctl.root().reclaim_sparse(u64::MAX, 100, None);
    assert_eq!((w.ctl.root().exact(), w.ctl.stat().orphans), (0, 0));
}

#[test]
fn how_full_a_slab_is_can_be_asked() {
    let (_, ctl) = lean(1, 1);
    let g = ctl.root().create("g").unwrap();
    let geometry = Geometry { pages: 1, objects: 16 };
    let cache = ctl.cache(&CacheConfig::new("c", 256).geometry(geometry).sheaf(0)).unwrap();
    let objects: Vec<_> = (0..5).map(|_| cache.alloc(&g).unwrap()).collect();
    assert_eq!(ctl.fill_of(objects[0]), Ok((5, 16)));
    free(&ctl, objects[4]);
    assert_eq!(ctl.fill_of(objects[0]), Ok((4, 16)));
    let large = ctl.malloc(&g, 100_000, 8).unwrap();
    assert_eq!(ctl.fill_of(large), Ok((1, 1)));
    let local = 0u8;
    assert!(matches!(ctl.fill_of(NonNull::from(&local)), Err(Error::Foreign { .. })));
    objects[..4].iter().chain([&large]).for_each(|o| free(&ctl, *o));
}
