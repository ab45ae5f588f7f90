//! Objects in the words of the design: one owner each, clear errors, clean failures, memory returned.

mod common;
use common::{Random, free, lean, machine};
use std::ptr::NonNull;
use tenalloc::{CacheConfig, Config, Controller, Error, Geometry, NodePolicy, Topology};

fn fill(object: NonNull<u8>, bytes: usize, mark: u8) {
    // SAFETY: the object is live, ours, and `bytes` long.
    unsafe { object.write_bytes(mark, bytes) };
}

fn holds(object: NonNull<u8>, bytes: usize, mark: u8) -> bool {
    // SAFETY: as in `fill`, and it was filled.
    (0..bytes).all(|i| unsafe { object.add(i).read() } == mark)
}

#[test]
fn objects_are_apart_aligned_and_keep_their_contents() {
    let (_, ctl) = lean(2, 2);
    let g = ctl.root().create("g").unwrap();
    let mut random = Random(3);
    let mut live: Vec<(NonNull<u8>, usize, u8)> = Vec::new();
    for step in 0..20_000usize {
        ctl.set_cpu(random.below(2) as u16);
        if live.len() > 1500 || !live.is_empty() && random.below(3) == 0 {
            let (object, bytes, mark) = live.swap_remove(random.below(live.len()));
            assert!(holds(object, bytes, mark));
            free(&ctl, object);
        } else {
            let bits = random.below(17);
            let size = 1 + random.below(1 << bits);
            let align = 8 << random.below(8);
            let object = ctl.malloc(&g, size, align).unwrap();
            assert_eq!(object.as_ptr() as usize % align, 0);
            let usable = ctl.usable_size(object).unwrap();
            assert!(usable >= size);
            fill(object, usable, step as u8);
            live.push((object, usable, step as u8));
        }
    }
    for (object, bytes, mark) in live {
        assert!(holds(object, bytes, mark));
        free(&ctl, object);
    }
    assert_eq!(ctl.root().exact(), 0);
}

#[test]
fn a_slab_of_one_owner_has_no_vector() {
    let (_, ctl) = lean(1, 1);
    let page = Geometry { pages: 1, objects: 64 };
    let cache = ctl.cache(&CacheConfig::new("c", 64).geometry(page)).unwrap();
    let (a, b) = (ctl.root().create("a").unwrap(), ctl.root().create("b").unwrap());
    let mut live: Vec<_> = (0..64).map(|_| cache.alloc(&a).unwrap()).collect();
    assert_eq!(ctl.stat().owner_vector_bytes, 0);
    free(&ctl, live.pop().unwrap());
    ctl.trim(); // it is ready for `a` until then
    live.push(cache.alloc(&b).unwrap());
    assert_eq!((ctl.stat().owner_vector_bytes, cache.stat().slabs), (4 * 64, 1), "4 bytes an object");
    assert_eq!(ctl.group_of_object(live[3]).unwrap().unwrap(), a);
    assert_eq!(ctl.group_of_object(live[63]).unwrap().unwrap(), b);
    assert_eq!((a.exact(), b.exact()), (63 * cache.charge(), cache.charge()));
    live.into_iter().for_each(|o| free(&ctl, o));
    ctl.trim();
    assert_eq!(ctl.stat().owner_vector_bytes, 0);
}

#[test]
fn groups_share_a_slab() {
    let (_, ctl) = lean(1, 1);
    let cache = ctl.cache(&CacheConfig::new("c", 128)).unwrap();
    let mut slabs = std::collections::HashSet::new();
    for i in 0..32 {
        let g = ctl.root().create(&format!("g{i}")).unwrap();
        slabs.insert(ctl.slab_of(cache.alloc(&g).unwrap()).unwrap());
    }
    assert_eq!(slabs.len(), 1);
}

#[test]
fn misuse_is_told_and_changes_nothing() {
    let (_, ctl) = machine(1, 1); // hardened
    let g = ctl.root().create("g").unwrap();
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let other = ctl.cache(&CacheConfig::new("o", 64)).unwrap();
    let object = cache.alloc(&g).unwrap();
    let large = ctl.malloc(&g, 100_000, 8).unwrap();
    let exact = g.exact();
    let address = object.as_ptr() as usize;
    let local = NonNull::from(&address).cast::<u8>();
    // SAFETY: these calls must fail and leave the objects alone.
    unsafe {
        assert_eq!(other.free(object), Err(Error::WrongCache { address }));
        assert_eq!(ctl.free(object.add(8)), Err(Error::Interior { address: address + 8 }));
        assert!(matches!(ctl.free(large.add(4096)), Err(Error::Interior { .. })));
        assert!(matches!(ctl.free(local), Err(Error::Foreign { .. })));
        assert!(matches!(ctl.free(NonNull::dangling()), Err(Error::Foreign { .. })));
        assert!(matches!(cache.free(large), Err(Error::WrongCache { .. })));
    }
    assert_eq!(g.exact(), exact);
    free(&ctl, object);
    // SAFETY: as above.
    assert_eq!(unsafe { ctl.free(object) }, Err(Error::DoubleFree { address }));
    free(&ctl, large);
    assert_eq!(g.exact(), 0);
    let (_, elsewhere) = machine(1, 1);
    let foreign = elsewhere.malloc(&elsewhere.root(), 64, 8).unwrap();
    // SAFETY: as above.
    let refused = unsafe { ctl.free(foreign) };
    assert!(matches!(refused, Err(Error::Foreign { .. })), "another controller's object");
    for (size, align) in [(0, 8), (usize::MAX, 8), (64, 3), (64, 0)] {
        assert!(matches!(ctl.malloc(&g, size, align), Err(Error::BadSize { .. } | Error::BadAlign { .. })));
    }
    assert!(ctl.cache(&CacheConfig::new("", 64)).is_err());
    assert!(ctl.cache(&CacheConfig::new("x", 1 << 20)).is_err());
    assert!(ctl.cache(&CacheConfig::new("x", 64).align(24)).is_err());
    assert!(ctl.cache(&CacheConfig::new("x", 64).policy(NodePolicy::Bind(1))).is_err());
    assert!(ctl.cache(&CacheConfig::new("x", 64).geometry(Geometry { pages: 1, objects: 65 })).is_err());
    assert_eq!(cache.alloc_on(&g, 1).err(), Some(Error::BadNode { node: 1 }));
}

#[test]
fn a_write_after_free_cannot_lead_outside_the_slab() {
    let (_, ctl) = lean(1, 1);
    let g = ctl.root().create("g").unwrap();
    let cache = ctl.cache(&CacheConfig::new("c", 64).sheaf(0)).unwrap();
    let objects: Vec<_> = (0..10).map(|_| cache.alloc(&g).unwrap()).collect();
    objects[..9].iter().for_each(|o| free(&ctl, *o));
    fill(objects[8], 8, 0xee); // the head of the free list
    let again: Vec<_> = (0..200).map(|_| cache.alloc(&g).unwrap()).collect();
    assert!(ctl.stat().corrupted > 0);
    let mut distinct = again.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 200, "no object is handed out twice");
    assert_eq!(g.exact(), 201 * cache.charge());
}

#[test]
fn nodes_are_kept() {
    let (source, ctl) = lean(4, 8);
    let g = ctl.root().create("g").unwrap();
    let on = |node: u8| source.mapped(node);
    let local = ctl.cache(&CacheConfig::new("local", 512)).unwrap();
    ctl.set_cpu(6); // node 3
    let before = on(3);
    local.alloc(&g).unwrap();
    assert!(on(3) > before);
    let bound = ctl.cache(&CacheConfig::new("bound", 512).policy(NodePolicy::Bind(2))).unwrap();
    let before = on(2);
    bound.alloc(&g).unwrap();
    assert!(on(2) > before);
    let turn = ctl.cache(&CacheConfig::new("turn", 512).policy(NodePolicy::Interleave)).unwrap();
    let chunks: std::collections::HashSet<_> =
        (0..4).map(|_| turn.alloc(&g).unwrap().as_ptr() as usize >> 21).collect();
    assert_eq!(chunks.len(), 4, "a chunk on each node");
    source.set_limit(source.total()); // no new chunks
    assert!(bound.alloc(&g).is_ok(), "its slab has more");
    let starved = ctl.cache(&CacheConfig::new("starved", 60_000).policy(NodePolicy::Prefer(1))).unwrap();
    let mut n = 0;
    while starved.alloc(&g).is_ok() {
        n += 1;
    }
    assert!(n > 100, "the other nodes' chunks were used: {n}");
}

/// A cache that is destroyed while it is shown hides none of the others: who empties memory must reach them all.
#[test]
fn a_walk_over_caches_outlives_the_cache_it_is_at() {
    let (_, ctl) = machine(1, 1);
    let make = |name: &str| ctl.cache(&CacheConfig::new(name, 64)).unwrap();
    let _keep = [make("a"), make("b"), make("c"), make("d")];
    let mut seen = Vec::new();
    for cache in ctl.caches() {
        seen.push(cache.name().to_owned());
        if ["d", "b"].contains(&cache.name()) {
            make("newer");
            cache.destroy().unwrap();
        }
    }
    assert_eq!(seen, ["d", "c", "b", "a"]);
}

/// DESIGN, the way of an object: a failed step undoes all before it. Every request for memory fails once.
#[test]
fn faults_at_every_page_leave_nothing_behind() {
    for hardened in [false, true] {
        let mut fault = 0;
        loop {
            let source: &'static tenalloc::page::Simulated = Box::leak(Box::default());
            let config = Config::new().source(source).topology(Topology::simulated(2, 2)).hardened(hardened);
            source.fail_after(fault);
            let Ok(ctl) = Controller::new(config) else {
                assert_eq!(source.total(), 0, "a controller that could not be made left something");
                fault += 1;
                continue;
            };
            let mut live = Vec::new();
            let mut groups = Vec::new();
            for i in 0..100usize {
                match ctl.root().create(&format!("g{i}")) {
                    Ok(g) => groups.push(g),
                    Err(Error::NoMemory { .. } | Error::Full { .. }) => {}
                    Err(e) => panic!("{e}"),
                }
            }
            let mut sum = 0;
            for i in 0..400usize {
                let Some(g) = groups.get(i % groups.len().max(1)) else { continue };
                ctl.set_cpu(i as u16);
                let size = [40, 700, 9000, 64, 3_000_000][i % if i % 100 == 0 { 5 } else { 4 }];
                match ctl.malloc(g, size, 8) {
                    Ok(object) => {
                        sum += ctl.usable_size(object).unwrap() as u64 + 4;
                        live.push(object);
                    }
                    Err(Error::NoMemory { .. }) => {}
                    Err(e) => panic!("{e}"),
                }
                if let Some(object) = live.pop_if(|_| i % 10 == 9) {
                    sum -= ctl.usable_size(object).unwrap() as u64 + 4;
                    free(&ctl, object);
                }
            }
            assert_eq!(ctl.root().exact(), sum, "fault {fault}");
            for g in &groups {
                g.remove().unwrap();
            }
            assert_eq!(ctl.root().exact(), sum);
            groups.clear();
            live.drain(..).for_each(|object| free(&ctl, object));
            ctl.trim();
            let stat = ctl.stat();
            assert_eq!((ctl.root().current(), stat.live_bytes, stat.slab_bytes, stat.orphans), (0, 0, 0, 0));
            assert_eq!((stat.owner_vector_bytes, stat.groups, stat.removed_held), (0, 0, 0));
            drop(ctl);
            assert_eq!(source.total(), 0, "fault {fault}: everything is unmapped");
            if source.calls() <= u64::from(fault) {
                break;
            }
            fault += 1;
        }
        assert!(fault > 150, "only {fault} requests were made to fail");
    }
}

#[test]
fn trim_returns_memory() {
    let (_, ctl) = lean(1, 1);
    let g = ctl.root().create("g").unwrap();
    let cache = ctl.cache(&CacheConfig::new("c", 256)).unwrap();
    let objects: Vec<_> = (0..100_000).map(|_| cache.alloc(&g).unwrap()).collect();
    objects.iter().for_each(|o| fill(*o, 256, 1));
    assert!(ctl.stat().utilisation() > 0.95, "{:?}", ctl.stat());
    for o in &objects[1..] {
        free(&ctl, *o);
    }
    ctl.trim();
    let stat = ctl.stat();
    assert!(
        stat.mapped_bytes <= 2 << 20 && stat.free_page_bytes == 0 && stat.slab_bytes == 2 * 4096,
        "{stat:?}"
    );
    assert!(holds(objects[0], 256, 1));
}

#[test]
fn a_cache_goes_only_empty() {
    let (_, ctl) = machine(1, 2);
    let g = ctl.root().create("g").unwrap();
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let before = ctl.stat();
    let object = cache.alloc(&g).unwrap();
    assert_eq!(cache.clone().destroy(), Err(Error::CacheBusy { objects: 1 }));
    // SAFETY: freed once.
    unsafe { cache.free(object) }.unwrap();
    cache.clone().destroy().unwrap();
    assert_eq!(cache.alloc(&g), Err(Error::CacheDestroyed));
    assert_eq!(cache.clone().destroy(), Err(Error::CacheDestroyed));
    assert_eq!((ctl.stat().slab_bytes, g.exact()), (before.slab_bytes, 0));
}

#[test]
fn pages_are_the_users_own() {
    let (source, ctl) = lean(2, 2);
    let before = source.mapped(1);
    let pages = ctl.pages(3, 1).unwrap();
    assert_eq!(pages.as_ptr() as usize % (4 * 4096), 0);
    fill(pages, 3 * 4096, 7);
    assert!(source.mapped(1) > before);
    assert_eq!((ctl.stat().raw_bytes, ctl.root().exact()), (3 * 4096, 0));
    // SAFETY: the first must fail, the second gives them back once.
    unsafe {
        assert!(matches!(ctl.free(pages), Err(Error::Foreign { .. })));
        ctl.free_pages(pages).unwrap();
    }
    assert_eq!(ctl.stat().raw_bytes, 0);
    assert!(matches!(ctl.pages(0, 0), Err(Error::BadSize { .. })));
    assert!(matches!(ctl.pages(1, 2), Err(Error::BadNode { .. })));
}

/// An object whose class is that of its new size stays, and its owner pays the same; any other moves, with its contents.
#[test]
fn realloc_within_a_class_and_beyond() {
    let (_, ctl) = machine(1, 1);
    let g = ctl.root().create("g").unwrap();
    let object = ctl.malloc(&g, 57, 8).unwrap();
    let charged = g.exact();
    // SAFETY: ours, and refused otherwise.
    let realloc = |object, size, align| unsafe { ctl.realloc(object, size, align) };
    for size in [64, 60, 57] {
        assert_eq!(realloc(object, size, 8), Ok(object));
    }
    assert_eq!((g.exact(), realloc(object, 0, 8)), (charged, Err(Error::BadSize { size: 0 })));
    assert_eq!(realloc(object, 60, 3), Err(Error::BadAlign { align: 3 }));
    let inside = object.map_addr(|a| a.saturating_add(8));
    assert_eq!(realloc(inside, 60, 8), Err(Error::Interior { address: inside.as_ptr() as usize }));
    let own = ctl.cache(&CacheConfig::new("own", 64)).unwrap().alloc(&g).unwrap();
    assert_eq!(realloc(own, 60, 8), Err(Error::WrongCache { address: own.as_ptr() as usize }));
    // SAFETY: 57 bytes of ours.
    unsafe { object.write_bytes(7, 57) };
    let moved = realloc(object, 65, 8).unwrap();
    assert_ne!(moved, object);
    // SAFETY: 57 bytes of it were written.
    assert_eq!(unsafe { moved.cast::<[u8; 57]>().read() }, [7; 57]);
    // SAFETY: ours.
    unsafe { [moved, own].into_iter().for_each(|object| ctl.free(object).unwrap()) };
    assert_eq!(g.exact(), 0);
}
