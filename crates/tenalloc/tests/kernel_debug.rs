//! The kernel's tests of SLUB's red zones and poison (lib/tests/slub_kunit.c), numbers 20 to 24 and 28 of
//! reference/linux.md, section 4.3. Where the kernel counts messages, two for most damages, these count damaged places.

mod common;
use common::{Finally, Random, free, machine};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use tenalloc::{Cache, CacheConfig, Config, Controller, Damage, Error, Group, Overwritten, Topology};

/// A controller with red zones and poison everywhere.
fn debugged(nodes: u8, cpus: u16) -> (Controller, Group) {
    let ctl = Controller::new(Config::new().topology(Topology::simulated(nodes, cpus)).debug(true)).unwrap();
    let group = ctl.root().create("g").unwrap();
    (ctl, group)
}

fn cache(ctl: &Controller, size: usize) -> Cache {
    // No sheaf: a free object is in its slab at once, and so is the last of the slab's.
    ctl.cache(&CacheConfig::new("test", size).sheaf(0)).unwrap()
}

/// What a look over a cache finds.
fn validate(cache: &Cache) -> Vec<Damage> {
    let mut found = Vec::new();
    let number = cache.validate(&mut |damage| found.push(damage));
    assert_eq!(number, found.len() as u64);
    found
}

/// Writes where nobody may: at an offset from an object of a slab that stays.
fn scribble(object: NonNull<u8>, at: isize, byte: u8) {
    // SAFETY: the tests stay inside the object's slab, whose pages are mapped; the cache is there to tell.
    unsafe { object.offset(at).write_volatile(byte) };
}

fn byte(object: NonNull<u8>, at: isize) -> u8 {
    // SAFETY: as in `scribble`.
    unsafe { object.offset(at).read_volatile() }
}

/// A byte behind an object of 64, and one in front of it: found, mended, told again at nobody's free.
#[test]
fn t20_clobber_zone() {
    let (ctl, g) = debugged(1, 1);
    let cache = cache(&ctl, 64);
    let (object, beside) = (cache.alloc(&g).unwrap(), cache.alloc(&g).unwrap());
    for at in [64, -1] {
        scribble(object, at, 0x12);
        let place = object.as_ptr() as usize;
        let expected = Damage {
            object: place,
            at: place.wrapping_add_signed(at),
            found: 0x12,
            what: Overwritten::RedZone,
        };
        assert_eq!(validate(&cache), [expected]);
        assert_eq!(validate(&cache), [], "it was mended");
    }
    assert_eq!(ctl.stat().corrupted, 2);
    [object, beside].into_iter().for_each(|o| free(&ctl, o));
    assert_eq!(g.exact(), 0);
}

/// The same, told by the free: the object is gone, its bytes are back, and the next free is a double one.
#[test]
fn t20_clobber_zone_is_told_by_the_free() {
    let (ctl, g) = debugged(1, 1);
    for sheaf in [0, 8] {
        let cache = ctl.cache(&CacheConfig::new("test", 60).align(32).sheaf(sheaf)).unwrap();
        for at in [60, 67, -1, -32] {
            let object = cache.alloc(&g).unwrap();
            scribble(object, at, 0);
            let address = object.as_ptr() as usize;
            let expected = Error::Overwritten { address, at: address.wrapping_add_signed(at) };
            // SAFETY: ours, and not used again.
            assert_eq!(unsafe { cache.free(object) }, Err(expected));
            // SAFETY: as above.
            assert_eq!(unsafe { cache.free(object) }, Err(Error::DoubleFree { address }));
            assert_eq!((g.exact(), cache.stat().objects), (0, 0));
        }
        cache.destroy().unwrap();
    }
    assert_eq!(ctl.stat().corrupted, 8);
}

/// A link of the free list leads nowhere: told once, and what hung on it is lost only until its slab was empty.
#[test]
fn t21_next_pointer() {
    let (ctl, g) = debugged(1, 1);
    let cache = cache(&ctl, 64);
    let objects: Vec<_> = (0..10).map(|_| cache.alloc(&g).unwrap()).collect();
    objects[..8].iter().for_each(|o| free(&ctl, *o));
    let (stays, slab) = (objects[9], ctl.slab_of(objects[9]).unwrap());
    // Behind the second red zone and the number of bytes asked for.
    let link = 64 + 8 + 4;
    scribble(objects[7], link, byte(objects[7], link) ^ 0x12);
    scribble(objects[7], link + 1, 0x12);
    let found = validate(&cache);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].object, found[0].what), (objects[7].as_ptr() as usize, Overwritten::FreeList));
    assert_eq!(validate(&cache), [], "the list ends there now");
    free(&ctl, objects[8]);
    free(&ctl, stays);
    let again: Vec<_> = (0..10).map(|_| cache.alloc(&g).unwrap()).collect();
    assert!(again.iter().all(|o| ctl.slab_of(*o) == Ok(slab)), "nothing is lost for good");
    again.into_iter().for_each(|o| free(&ctl, o));
    assert_eq!((g.exact(), ctl.stat().corrupted), (0, 1));
}

/// A list that leads in a circle is found, too.
#[test]
fn t21_a_circle() {
    let (ctl, g) = debugged(1, 1);
    let cache = cache(&ctl, 64);
    let objects: Vec<_> = (0..4).map(|_| cache.alloc(&g).unwrap()).collect();
    objects[..3].iter().for_each(|o| free(&ctl, *o));
    // The last of the list now leads to its head.
    let link = 64 + 8 + 4;
    scribble(objects[0], link, 2);
    scribble(objects[0], link + 1, 0);
    assert_eq!(validate(&cache).len(), 1);
    let again: Vec<_> = (0..100).map(|_| cache.alloc(&g).unwrap()).collect();
    let mut distinct: Vec<_> = again.iter().chain([&objects[3]]).collect();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 101);
}

/// The first word, and the 50th byte, of an object that was freed.
#[test]
fn t22_first_word_and_50th_byte() {
    let (ctl, g) = debugged(1, 1);
    let cache = cache(&ctl, 64);
    let stays = cache.alloc(&g).unwrap();
    for at in [0, 50] {
        let object = cache.alloc(&g).unwrap();
        free(&ctl, object);
        scribble(object, at, 0x78);
        let found = validate(&cache);
        let place = object.as_ptr() as usize;
        let expected =
            Damage { object: place, at: place + at as usize, found: 0x78, what: Overwritten::FreeObject };
        assert_eq!(found, [expected]);
        assert_eq!(validate(&cache), []);
    }
    free(&ctl, stays);
}

/// An object written to after its free is not handed out until the others of its slab are back.
#[test]
fn t22_what_was_written_to_is_not_handed_out() {
    for sheaf in [0, 16] {
        let (ctl, g) = debugged(1, 1);
        let cache = ctl.cache(&CacheConfig::new("test", 64).sheaf(sheaf)).unwrap();
        let stays = cache.alloc(&g).unwrap();
        let object = cache.alloc(&g).unwrap();
        free(&ctl, object);
        scribble(object, 7, 0x78);
        let others: Vec<_> = (0..200).map(|_| cache.alloc(&g).unwrap()).collect();
        assert!(!others.contains(&object), "sheaf of {sheaf}");
        assert_eq!(ctl.stat().corrupted, 1);
        assert_eq!(g.exact(), 201 * cache.charge());
        others.into_iter().chain([stays]).for_each(|o| free(&ctl, o));
        assert_eq!((g.exact(), cache.stat().objects), (0, 0));
        cache.destroy().unwrap();
        assert_eq!(ctl.slab_bytes(), 0);
    }
}

/// In front of and behind an object that was freed.
#[test]
fn t23_redzone_free() {
    let (ctl, g) = debugged(1, 1);
    let cache = cache(&ctl, 64);
    let (object, stays) = (cache.alloc(&g).unwrap(), cache.alloc(&g).unwrap());
    free(&ctl, object);
    for at in [64, -8] {
        scribble(object, at, 0xab);
        let found = validate(&cache);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].what, found[0].found), (Overwritten::RedZone, 0xab));
    }
    assert_eq!(validate(&cache), []);
    free(&ctl, stays);
}

/// 18 bytes in a size class of 24: the other six are a red zone.
#[test]
fn t24_kmalloc_redzone_access() {
    let (ctl, g) = debugged(1, 1);
    let object = ctl.malloc(&g, 18, 8).unwrap();
    assert_eq!(ctl.usable_size(object), Ok(18));
    let class = ctl.caches().find(|c| c.name() == "size-24").unwrap();
    assert_eq!(validate(&class), []);
    scribble(object, 18, 0xab);
    scribble(object, 23, 0xab);
    let found = validate(&class);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].at, found[0].what), (object.as_ptr() as usize + 18, Overwritten::RedZone));
    scribble(object, 19, 0xcd);
    let (address, at) = (object.as_ptr() as usize, object.as_ptr() as usize + 19);
    // SAFETY: ours, and not used again.
    assert_eq!(unsafe { ctl.free(object) }, Err(Error::Overwritten { address, at }));
    assert_eq!(g.exact(), 0);
}

/// An object that shrinks and grows inside its class: only new bytes are zeroed, and the red zone follows. One that
/// grows beyond it takes along what it had.
#[test]
fn t28_krealloc_redzone_zeroing() {
    let (ctl, g) = debugged(1, 1);
    let realloc = |object, size| {
        // SAFETY: ours; the old address is not used again.
        unsafe { ctl.realloc_zeroed(object, size, 8) }.unwrap()
    };
    let object = ctl.malloc_zeroed(&g, 63, 8).unwrap();
    assert!((0..63).all(|i| byte(object, i) == 0));
    let class = ctl.caches().find(|c| c.name() == "size-64").unwrap();
    (0..63).for_each(|i| scribble(object, i, 0xff));
    // Smaller, in place.
    assert_eq!(realloc(object, 57), object);
    assert_eq!(ctl.usable_size(object), Ok(57));
    assert_eq!(validate(&class), [], "what it gave up is a red zone now");
    scribble(object, 57, 1);
    assert_eq!(validate(&class).len(), 1);
    // Larger, in place.
    assert_eq!(realloc(object, 61), object);
    assert!((0..57).all(|i| byte(object, i) == 0xff));
    assert!((57..61).all(|i| byte(object, i) == 0));
    assert_eq!(validate(&class), []);
    // Larger, elsewhere.
    let moved = realloc(object, 112);
    assert_ne!(moved, object);
    assert!((0..57).all(|i| byte(moved, i) == 0xff));
    assert!((57..112).all(|i| byte(moved, i) == 0));
    assert_eq!(g.exact(), ctl.caches().find(|c| c.name() == "size-112").unwrap().charge());
    free(&ctl, moved);
    assert_eq!((g.exact(), validate(&class)), (0, vec![]));
}

/// Sizes and contents through random reallocs, with red zones and without, in groups with a limit: what a plain model
/// says.
#[test]
fn realloc_keeps_contents_and_owner() {
    for debug in [false, true] {
        let ctl = Controller::new(Config::new().debug(debug)).unwrap();
        let groups: Vec<_> = ["a", "b"].map(|name| ctl.root().create(name).unwrap()).into();
        groups[1].set_max(60_000);
        let mut random = Random(28);
        let mut live: Vec<(NonNull<u8>, Vec<u8>, usize)> = Vec::new();
        let mut refused = 0;
        for _ in 0..20_000 {
            let size = match random.below(10) {
                0 => 8000 + random.below(60_000),
                _ => 1 + random.below(600),
            };
            let (number, which) = (live.len(), random.below(live.len() + 1));
            match live.get_mut(which).map(|entry| (entry, random.below(4))) {
                None if number < 60 => {
                    let group = random.below(2);
                    match ctl.malloc_zeroed(&groups[group], size, 8) {
                        Ok(object) => live.push((object, vec![0; size], group)),
                        Err(Error::Limit(_)) => refused += 1,
                        Err(e) => panic!("{e}"),
                    }
                }
                Some(((object, model, _), 0..=1)) => {
                    // SAFETY: ours; the old address is not used again.
                    match unsafe { ctl.realloc_zeroed(*object, size, 8) } {
                        Ok(new) => {
                            *object = new;
                            model.resize(size, 0);
                        }
                        Err(Error::Limit(_)) => refused += 1,
                        Err(e) => panic!("{e}"),
                    }
                }
                Some(((object, model, _), 2)) => {
                    let (from, mark) = (random.below(model.len()), random.next() as u8);
                    for (i, byte) in model.iter_mut().enumerate().skip(from) {
                        *byte = mark;
                        scribble(*object, i as isize, mark);
                    }
                }
                _ if number > 0 => {
                    let (object, _, _) = live.swap_remove(which.min(number - 1));
                    free(&ctl, object);
                }
                _ => {}
            }
            if let Some((object, model, group)) = live.get(which) {
                assert!((0..model.len()).all(|i| byte(*object, i as isize) == model[i]));
                assert_eq!(ctl.group_of_object(*object).unwrap().unwrap().name(), groups[*group].name());
            }
        }
        assert!(refused > 0, "the limit was never met");
        live.into_iter().for_each(|(object, ..)| free(&ctl, object));
        assert_eq!((ctl.root().exact(), ctl.stat().corrupted), (0, 0));
        assert!(ctl.caches().all(|c| c.validate(&mut |_| ()) == 0));
    }
}

/// What is not an object of a size class, or is asked for what there is not, stays as it was.
#[test]
fn realloc_of_what_it_must_not() {
    let (ctl, g) = debugged(1, 1);
    let cache = cache(&ctl, 64);
    let object = cache.alloc(&g).unwrap();
    let address = object.as_ptr() as usize;
    // SAFETY: refused, or ours.
    let realloc = |object, size, align| unsafe { ctl.realloc(object, size, align) };
    assert_eq!(realloc(object, 10, 8), Err(Error::WrongCache { address }));
    let sized = ctl.malloc(&g, 40, 8).unwrap();
    assert_eq!(realloc(sized, 0, 8), Err(Error::BadSize { size: 0 }));
    assert_eq!(realloc(sized, usize::MAX, 8), Err(Error::BadSize { size: usize::MAX }));
    assert_eq!(realloc(sized, 40, 3), Err(Error::BadAlign { align: 3 }));
    let inside = sized.map_addr(|a| a.saturating_add(8));
    assert_eq!(realloc(inside, 10, 8), Err(Error::Interior { address: inside.as_ptr() as usize }));
    free(&ctl, sized);
    assert_eq!(realloc(sized, 10, 8), Err(Error::DoubleFree { address: sized.as_ptr() as usize }));
    g.remove().unwrap();
    free(&ctl, object);
    assert_eq!(ctl.root().exact(), 0);
}

/// Two threads, remote frees, moving objects between CPUs, and a third that looks all the while: nothing is found where
/// nobody did wrong.
#[test]
fn a_look_while_others_work_finds_nothing() {
    let (_, ctl) = machine(2, 4);
    let g = ctl.root().create("g").unwrap();
    let cache = ctl.cache(&CacheConfig::new("test", 100).debug(true)).unwrap();
    let (working, looks) = (AtomicU64::new(2), AtomicU64::new(0));
    std::thread::scope(|s| {
        for t in 0..2u64 {
            let (ctl, cache, g, working, looks) = (&ctl, &cache, &g, &working, &looks);
            s.spawn(move || {
                let _works = Finally(|| {
                    working.fetch_sub(1, SeqCst);
                });
                let mut random = Random(t);
                let mut live = Vec::new();
                // They work until there was a look from its beginning to its end, however late it comes.
                for _ in (0..).take_while(|n| *n < 200_000 || looks.load(SeqCst) < 2) {
                    ctl.set_cpu(random.below(4) as u16);
                    if live.len() > 300 || !live.is_empty() && random.below(2) == 0 {
                        free(ctl, live.swap_remove(random.below(live.len())));
                    } else {
                        let object = cache.alloc(g).unwrap();
                        // SAFETY: ours, 100 bytes.
                        unsafe { object.write_bytes(t as u8, 100) };
                        live.push(object);
                    }
                }
                live.into_iter().for_each(|o| free(ctl, o));
            });
        }
        let _enough = Finally(|| looks.store(2, SeqCst));
        while working.load(SeqCst) > 0 {
            assert_eq!(validate(&cache), []);
            looks.fetch_add(1, SeqCst);
        }
    });
    assert_eq!((g.exact(), ctl.stat().corrupted), (0, 0));
}
