//! Ready objects: free ones that have their owner and its charge already. What they may do to nobody: be lost, be counted
//! as live, outlast a limit, a removal, an `offline`.

mod common;

use common::{Random, free, lean};
use std::collections::HashSet;
use std::ptr::NonNull;
use std::time::Duration;
use tenalloc::{Cache, CacheConfig, Config, Controller, Error, Group, Range};

/// Allocates and frees until `cache` has some objects ready for `group` on this CPU.
fn warm(ctl: &Controller, cache: &Cache, group: &Group, objects: usize) {
    for _ in 0..8 {
        let live: Vec<_> = (0..objects).map(|_| cache.alloc(group).unwrap()).collect();
        live.into_iter().for_each(|o| free(ctl, o));
    }
}

#[test]
fn they_are_charged_ahead_and_counted_as_free() {
    let (_, ctl) = lean(1, 2);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let g = ctl.root().create("g").unwrap();
    warm(&ctl, &cache, &g, 200);
    assert_eq!((g.exact(), cache.stat().objects), (0, 0));
    let stat = ctl.stat();
    assert!(g.current() >= 100 * cache.charge(), "a hundred and more are ready: {}", g.current());
    assert_eq!((g.current(), ctl.root().current()), (stat.stock_bytes, stat.stock_bytes));
    assert!(stat.stock_bytes <= stat.stock_bound_bytes && stat.cached_bytes >= 100 * 64);
    let live: Vec<_> = (0..50).map(|_| cache.alloc(&g).unwrap()).collect();
    assert_eq!((g.exact(), cache.stat().objects), (50 * cache.charge(), 50));
    live.into_iter().for_each(|o| free(&ctl, o));
    ctl.trim();
    let stat = ctl.stat();
    assert_eq!((stat.stock_bytes, stat.cached_bytes, stat.slab_bytes, g.current()), (0, 0, 0, 0));
}

#[test]
fn they_are_their_owners_alone() {
    let (_, ctl) = lean(1, 1);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let groups: Vec<_> = (0..5).map(|i| ctl.root().create(&format!("g{i}")).unwrap()).collect();
    let mut random = Random(1);
    let mut live: Vec<(NonNull<u8>, usize)> = Vec::new();
    let mut count = [0u64; 5];
    for _ in 0..20_000 {
        if random.below(live.len() + 20) < 20 {
            let g = random.below(5);
            live.push((cache.alloc(&groups[g]).unwrap(), g));
            count[g] += 1;
        } else {
            let (object, g) = live.swap_remove(random.below(live.len()));
            assert_eq!(ctl.group_of_object(object).unwrap().as_ref(), Some(&groups[g]));
            free(&ctl, object);
            count[g] -= 1;
        }
    }
    let addresses: HashSet<_> = live.iter().map(|(object, _)| *object).collect();
    assert_eq!(addresses.len(), live.len(), "nobody got another's object");
    for (g, count) in groups.iter().zip(count) {
        assert_eq!(g.exact(), count * cache.charge());
    }
}

#[test]
fn a_limit_finds_what_other_cpus_have_ready() {
    let (_, ctl) = lean(1, 2);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let other = ctl.cache(&CacheConfig::new("other", 128)).unwrap();
    let (g, h) = (ctl.root().create("g").unwrap(), ctl.root().create("h").unwrap());
    warm(&ctl, &cache, &h, 200);
    warm(&ctl, &cache, &g, 200);
    g.set_max(g.current());
    let kept = h.current();
    ctl.set_cpu(1);
    let objects = g.max() / other.charge();
    let live: Vec<_> = (0..objects).map(|_| other.alloc(&g).unwrap()).collect();
    assert!(matches!(other.alloc(&g), Err(Error::Limit(_))));
    assert!(g.exact() <= g.current() && g.current() <= g.max());
    assert_eq!(h.current(), kept, "what another group has ready is left to it");
    live.into_iter().for_each(|o| free(&ctl, o));
}

#[test]
fn a_frozen_group_has_none() {
    let (_, ctl) = lean(1, 1);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let g = ctl.root().create("g").unwrap();
    warm(&ctl, &cache, &g, 100);
    g.freeze(true);
    assert_eq!(cache.alloc(&g), Err(Error::Frozen));
    g.freeze(false);
    free(&ctl, cache.alloc(&g).unwrap());
}

/// The owner and the charge go with the group, whatever was ready; the objects are anybody's then.
#[test]
fn removal_leaves_nothing() {
    let (_, ctl) = lean(1, 2);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    for round in 0..20 {
        let g = ctl.root().create("g").unwrap();
        for cpu in [0, 1] {
            ctl.set_cpu(cpu);
            warm(&ctl, &cache, &g, 300);
        }
        g.remove().unwrap();
        assert_eq!(cache.alloc(&g), Err(Error::GroupRemoved));
        drop(g); // it holds the owner
        let stat = ctl.stat();
        assert_eq!((stat.orphans, stat.stock_bytes, ctl.root().current()), (0, 0, 0), "round {round}");
    }
    assert!(cache.stat().slabs <= 2 * 2 * 300 / 64, "their objects were used again: {:?}", cache.stat());
    ctl.trim();
    assert_eq!(ctl.stat().slab_bytes, 0);
}

#[test]
fn a_removed_groups_objects_are_freed_to_the_parent() {
    let (_, ctl) = lean(1, 1);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let parent = ctl.root().create("p").unwrap();
    let g = parent.create("g").unwrap();
    warm(&ctl, &cache, &g, 100);
    let live: Vec<_> = (0..100).map(|_| cache.alloc(&g).unwrap()).collect();
    g.remove().unwrap();
    drop(g);
    assert_eq!(parent.exact(), 100 * cache.charge());
    for (n, object) in live.into_iter().enumerate() {
        free(&ctl, object);
        assert_eq!(parent.exact(), (99 - n as u64) * cache.charge());
    }
    assert_eq!(ctl.stat().orphans, 0);
}

/// A chunk that is being emptied hands out nothing, and is not kept by what is ready.
#[test]
fn offline_takes_them_along() {
    let (_, ctl) = lean(2, 2);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let g = ctl.root().create("g").unwrap();
    warm(&ctl, &cache, &g, 300);
    let pinned = cache.alloc(&g).unwrap();
    let chunk = Range::Chunk(pinned.as_ptr() as usize);
    assert!(ctl.offline(chunk, Duration::ZERO, &mut |_| ()).is_err(), "one is live there");
    // It is in use again; then it goes with what is ready there.
    warm(&ctl, &cache, &g, 300);
    free(&ctl, pinned);
    ctl.offline(chunk, Duration::ZERO, &mut |_| ()).unwrap();
    assert_eq!((g.exact(), ctl.root().exact()), (0, 0));
    free(&ctl, cache.alloc(&g).unwrap());
}

#[test]
fn a_cache_goes_with_what_it_has_ready() {
    let (_, ctl) = lean(1, 2);
    let g = ctl.root().create("g").unwrap();
    for round in 0..10 {
        let cache = ctl.cache(&CacheConfig::new("c", 64 + 8 * round)).unwrap();
        warm(&ctl, &cache, &g, 300);
        let last = cache.alloc(&g).unwrap();
        assert!(matches!(cache.clone().destroy(), Err(Error::CacheBusy { objects: 1 })));
        free(&ctl, last);
        warm(&ctl, &cache, &g, 300);
        cache.destroy().unwrap();
        let stat = ctl.stat();
        assert_eq!((g.exact(), stat.cached_bytes, stat.slab_bytes), (0, 0, 0));
    }
}

#[test]
fn freeing_twice_in_a_row_is_told() {
    let (_, ctl) = lean(1, 1);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let g = ctl.root().create("g").unwrap();
    warm(&ctl, &cache, &g, 10);
    let object = cache.alloc(&g).unwrap();
    let address = object.as_ptr() as usize;
    free(&ctl, object);
    // SAFETY: refused.
    assert_eq!(unsafe { ctl.free(object) }, Err(Error::DoubleFree { address }));
    assert_eq!((g.exact(), cache.stat().objects), (0, 0));
}

/// What a CPU may hold is bounded, however many groups and caches it serves.
#[test]
fn a_cpu_holds_no_more_than_its_bound() {
    let (_, ctl) = lean(1, 1);
    let caches: Vec<_> =
        [64, 512, 4096].map(|size| ctl.cache(&CacheConfig::new("c", size)).unwrap()).into_iter().collect();
    for i in 0..60 {
        let g = ctl.root().create(&format!("g{i}")).unwrap();
        caches.iter().for_each(|cache| warm(&ctl, cache, &g, 400));
        let stat = ctl.stat();
        assert!(stat.stock_bytes <= stat.stock_bound_bytes, "{stat:?}");
        assert_eq!((ctl.root().exact(), ctl.root().current()), (0, stat.stock_bytes));
    }
}

/// Real threads on real CPUs: what one makes another frees, groups and caches come and go, figures are read.
#[test]
fn threads_groups_and_caches_come_and_go() {
    let ctl = Controller::new(Config::new().hardened(false)).unwrap();
    let shared = ctl.cache(&CacheConfig::new("shared", 96)).unwrap();
    std::thread::scope(|s| {
        for t in 0..4u64 {
            let (ctl, shared) = (&ctl, &shared);
            s.spawn(move || {
                let mut random = Random(t);
                for round in 0..60 {
                    let g = ctl.root().create(&format!("t{t}-{round}")).unwrap();
                    let own = ctl.cache(&CacheConfig::new("own", 200)).unwrap();
                    let mut live = Vec::new();
                    for _ in 0..2_000 {
                        match random.below(5) {
                            0 | 1 => live.push(shared.alloc(&g).unwrap()),
                            2 => live.push(own.alloc(&g).unwrap()),
                            _ if live.is_empty() => {}
                            _ => free(ctl, live.swap_remove(random.below(live.len()))),
                        }
                    }
                    let (a, b) = (own.stat().objects, live.len() as u64);
                    assert!(a <= b && g.exact() == a * own.charge() + (b - a) * shared.charge());
                    if round % 2 == 0 {
                        g.remove().unwrap();
                    }
                    live.into_iter().for_each(|o| free(ctl, o));
                    own.destroy().unwrap();
                    if round % 2 == 1 {
                        assert_eq!(g.exact(), 0);
                        g.remove().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!((ctl.root().exact(), shared.stat().objects, ctl.stat().orphans), (0, 0, 0));
    ctl.trim();
    assert_eq!((ctl.root().current(), ctl.stat().slab_bytes), (0, 0));
}

/// Objects of another node are not handed out here.
#[test]
fn nodes_keep_their_own() {
    let (_, ctl) = lean(2, 2);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let g = ctl.root().create("g").unwrap();
    let of_node = [0, 1].map(|cpu| {
        ctl.set_cpu(cpu);
        warm(&ctl, &cache, &g, 64);
        let live: Vec<_> = (0..64).map(|_| cache.alloc(&g).unwrap()).collect();
        let slabs: HashSet<_> = live.iter().map(|o| ctl.slab_of(*o).unwrap().0).collect();
        ctl.set_cpu(1 - cpu);
        live.into_iter().for_each(|o| free(&ctl, o));
        slabs
    });
    assert!(of_node[0].is_disjoint(&of_node[1]), "what was freed elsewhere went home");
}

/// Four hundred groups come to two CPUs, with far more frees than stacks hold: what is free near the CPUs stays a small part of
/// what is charged.
#[test]
fn what_is_free_near_cpus_is_a_part_of_what_is_charged() {
    let (_, ctl) = lean(1, 2);
    let cache = ctl.cache(&CacheConfig::new("c", 512)).unwrap();
    let mut live = Vec::new();
    for i in 0..400 {
        let g = ctl.root().create(&format!("g{i}")).unwrap();
        ctl.set_cpu(1);
        live.extend((0..3).map(|_| cache.alloc(&g).unwrap()));
        ctl.set_cpu(0);
        (0..4).for_each(|_| warm(&ctl, &cache, &g, 600));
        ctl.set_cpu(1);
        live.extend((0..4).map(|_| cache.alloc(&g).unwrap()));
        let stat = ctl.stat();
        let charged = ctl.root().current();
        // 1.25 MiB and a 16th of what is charged; a few sheaves beside.
        let most = (1280 << 10) + charged / 16 + (128 << 10);
        assert!(
            stat.cached_bytes <= most,
            "group {i}: {} free near CPUs, {charged} charged",
            stat.cached_bytes
        );
    }
    live.into_iter().for_each(|o| free(&ctl, o));
    assert_eq!(ctl.root().exact(), 0);
}
