//! Many objects in one call: all or none; and frees that name the size.

mod common;

use common::{free, lean, machine};
use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use tenalloc::{CacheConfig, Error};

fn places(n: usize) -> Vec<MaybeUninit<NonNull<u8>>> {
    vec![MaybeUninit::uninit(); n]
}

#[test]
fn all_are_distinct_owned_and_charged() {
    for (_, ctl) in [lean(1, 2), machine(2, 2)] {
        let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
        let g = ctl.root().create("g").unwrap();
        for n in [0, 1, 63, 64, 65, 1000] {
            for _ in 0..3 {
                let mut places = places(n);
                let objects = cache.alloc_bulk(&g, &mut places).unwrap();
                assert_eq!(objects.iter().collect::<HashSet<_>>().len(), n);
                assert!(objects.iter().all(|o| ctl.group_of_object(*o).unwrap().as_ref() == Some(&g)));
                assert_eq!((g.exact(), cache.stat().objects), (n as u64 * cache.charge(), n as u64));
                // SAFETY: live and ours.
                unsafe { cache.free_bulk(objects) }.unwrap();
                assert_eq!((g.exact(), cache.stat().objects), (0, 0));
            }
        }
    }
}

#[test]
fn a_limit_gives_all_or_none() {
    let (_, ctl) = lean(1, 1);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let g = ctl.root().create("g").unwrap();
    g.set_max(200 * cache.charge());
    let mut places = places(201);
    assert!(matches!(cache.alloc_bulk(&g, &mut places), Err(Error::Limit(_))));
    assert_eq!((g.exact(), cache.stat().objects), (0, 0));
    let objects = cache.alloc_bulk(&g, &mut places[..200]).unwrap();
    assert_eq!(g.exact(), g.max());
    objects.iter().for_each(|o| free(&ctl, *o));
    g.remove().unwrap();
    assert_eq!(cache.alloc_bulk(&g, &mut places).err(), Some(Error::GroupRemoved));
}

/// Memory ends at each of its requests in turn.
#[test]
fn without_memory_nothing_is_lost() {
    for fail in 0..40 {
        let (source, ctl) = lean(1, 1);
        let cache = ctl.cache(&CacheConfig::new("c", 1024)).unwrap();
        let g = ctl.root().create("g").unwrap();
        let other = cache.alloc(&ctl.root()).unwrap();
        source.fail_from(fail);
        let mut places = places(600);
        let made = cache.alloc_bulk(&g, &mut places).map(|objects| objects.to_vec());
        source.heal();
        let live = made.as_ref().map_or(0, Vec::len) as u64;
        assert_eq!((g.exact(), cache.stat().objects), (live * cache.charge(), live + 1));
        made.into_iter().flatten().for_each(|o| free(&ctl, o));
        free(&ctl, other);
        ctl.trim();
        assert_eq!((ctl.root().current(), ctl.slab_bytes()), (0, 0), "failed at request {fail}");
    }
}

#[test]
fn a_mistake_among_many_is_told() {
    let (_, ctl) = machine(1, 1);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let g = ctl.root().create("g").unwrap();
    let mut places = places(10);
    let objects = cache.alloc_bulk(&g, &mut places).unwrap();
    objects[4] = objects[3];
    let address = objects[3].as_ptr() as usize;
    // SAFETY: live and ours; the one that is there twice is refused.
    assert_eq!(unsafe { cache.free_bulk(objects) }, Err(Error::DoubleFree { address }));
    assert_eq!(cache.stat().objects, 1, "the one that was not named");
}

#[test]
fn a_size_that_is_not_its_own_is_told() {
    let (_, ctl) = lean(1, 1);
    let g = ctl.root().create("g").unwrap();
    for (size, align) in [(1, 8), (64, 64), (100, 16), (8192, 8), (100_000, 4096), (3 << 20, 8)] {
        let object = ctl.malloc(&g, size, align).unwrap();
        let address = object.as_ptr() as usize;
        // SAFETY: refused, but for the last.
        unsafe {
            assert_eq!(ctl.free_sized(object, size * 16, align), Err(Error::WrongCache { address }));
            ctl.free_sized(object, size, align).unwrap();
        }
    }
    assert_eq!(g.exact(), 0);
}
