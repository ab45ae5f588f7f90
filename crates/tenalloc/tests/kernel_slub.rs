//! The kernel's tests of its slab allocator (lib/tests/slub_kunit.c), numbers 20 to 29 of reference/linux.md, section
//! 4.3, in the words of this library.
//!
//! | number | kernel's name | here |
//! |---|---|---|
//! | 20 | clobber_zone | tests/kernel_debug.rs `t20_…`: one byte behind, one in front |
//! | 21 | next_pointer | tests/kernel_debug.rs `t21_…`: mended at the first look; without red zones: tests/objects.rs `a_write_after_free_cannot_lead_outside_the_slab` |
//! | 22 | first_word, 50th_byte | tests/kernel_debug.rs `t22_…` |
//! | 23 | redzone_free | tests/kernel_debug.rs `t23_redzone_free` |
//! | 24 | kmalloc_redzone_access | tests/kernel_debug.rs `t24_kmalloc_redzone_access` |
//! | 25 | kfree_rcu | `t25_kfree_rcu`: the deferred free is another thread's |
//! | 26 | kfree_rcu_wq_destroy | `t26_kfree_rcu_wq_destroy`: no delay, the last free races with the destruction |
//! | 27 | leak_destroy | `t27_leak_destroy` |
//! | 28 | krealloc_redzone_zeroing | tests/kernel_debug.rs `t28_krealloc_redzone_zeroing` |
//! | 29 | nolock_and_friends | tests/nolock.rs `t29_…`: from a signal handler; `t29_nolock_and_friends` here: re-entered from callbacks |

mod common;
mod kernel_common;
use common::{Finally, Random, free, lean, machine};
use kernel_common::{Sent, add};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use tenalloc::{CacheConfig, Config, Controller, Error, Group, ListLru, LruStatus, Scanned, Shrinker};

/// A cache is destroyed once objects whose free was left to somebody else are back: no error, nothing left.
#[test]
fn t25_kfree_rcu() {
    let ctl = Controller::new(Config::new()).unwrap();
    let g = ctl.root().create("g").unwrap();
    for round in 0..50 {
        let cache = ctl.cache(&CacheConfig::new("rcu", 64)).unwrap();
        let (send, inbox) = mpsc::channel::<Sent>();
        std::thread::scope(|s| {
            let ctl = &ctl;
            s.spawn(move || inbox.into_iter().for_each(|o| free(ctl, o.0)));
            for _ in 0..100 {
                send.send(Sent(cache.alloc(&g).unwrap())).unwrap();
            }
            drop(send);
        });
        cache.destroy().unwrap();
        assert_eq!((g.exact(), ctl.slab_bytes(), ctl.stat().corrupted), (0, 0, 0), "round {round}");
    }
}

/// A cache is destroyed while its last objects are still being freed elsewhere: the destruction is refused until they
/// are back, and then their charge is right although the cache's record is already used for another cache. In every
/// tenth round the free waits for the first refusal, and then races with the next attempt.
#[test]
fn t26_kfree_rcu_wq_destroy() {
    let ctl = Controller::new(Config::new()).unwrap();
    let g = ctl.root().create("g").unwrap();
    let mut refused = 0u64;
    for round in 0..3000 {
        let cache = ctl.cache(&CacheConfig::new("wq", 64).sheaf(0)).unwrap();
        let object = Sent(cache.alloc(&g).unwrap());
        let go = AtomicBool::new(round % 10 > 0);
        std::thread::scope(|s| {
            let (ctl, go) = (&ctl, &go);
            let _go = Finally(|| go.store(true, SeqCst));
            s.spawn(move || {
                let object = object;
                while !go.load(SeqCst) {
                    std::thread::yield_now();
                }
                free(ctl, object.0);
            });
            let mut cache = Some(cache);
            while let Some(c) = cache.take() {
                match c.clone().destroy() {
                    Ok(()) => {}
                    Err(Error::CacheBusy { objects: 1 }) => {
                        refused += 1;
                        go.store(true, SeqCst);
                        cache = Some(c);
                    }
                    Err(e) => panic!("{e}"),
                }
            }
            ctl.cache(&CacheConfig::new("next", 4000)).unwrap().destroy().unwrap();
        });
        assert_eq!((g.exact(), ctl.slab_bytes()), (0, 0), "round {round}");
    }
    assert!(refused >= 300, "the free waited for it in every tenth round");
}

/// Destroying a cache with a live object is refused and says how many; the object and the cache are as good as before.
#[test]
fn t27_leak_destroy() {
    let (_, ctl) = machine(1, 2);
    let g = ctl.root().create("g").unwrap();
    let cache = ctl.cache(&CacheConfig::new("leak", 64)).unwrap();
    let object = cache.alloc(&g).unwrap();
    // SAFETY: live, ours, 64 bytes.
    unsafe { object.write_bytes(0xa5, 64) };
    for _ in 0..2 {
        let error = cache.clone().destroy().unwrap_err();
        assert_eq!(error, Error::CacheBusy { objects: 1 });
        assert_eq!(error.to_string(), "the cache has 1 live objects");
    }
    // SAFETY: as above.
    assert!((0..64).all(|i| unsafe { object.add(i).read() } == 0xa5));
    let other = cache.alloc(&g).unwrap();
    [object, other].into_iter().for_each(|o| free(&ctl, o));
    cache.destroy().unwrap();
    assert_eq!((g.exact(), ctl.slab_bytes(), ctl.stat().orphans), (0, 0, 0));
}

/// The cache of a size class belongs to the controller: who found it by walking over the caches cannot take it away
/// from under `malloc`.
#[test]
fn t27_a_size_class_stays() {
    let (_, ctl) = machine(1, 1);
    let g = ctl.root();
    free(&ctl, ctl.malloc(&g, 64, 8).unwrap());
    let class = ctl.caches().find(|c| c.name() == "size-64").unwrap();
    assert!(class.destroy().is_err(), "the class is empty, and yet it is in use");
    let again = ctl.malloc(&g, 64, 8).unwrap();
    assert_eq!(g.exact(), 64 + u64::from(tenalloc::OWNER_BYTES));
    free(&ctl, again);
}

/// Allocates and frees from inside reclaim, in a group of its own and in the one that is being reclaimed.
struct Reentrant {
    calls: AtomicU64,
}

impl Shrinker for Reentrant {
    fn scan(&self, lru: &ListLru, group: &Group, node: u8, number: u64) -> Scanned {
        self.calls.fetch_add(1, SeqCst);
        let ctl = group.controller();
        let note = ctl.malloc(&ctl.root(), 100, 8).unwrap();
        let mut budget = number;
        let done = lru.walk(
            group,
            node,
            &mut budget,
            |_| LruStatus::Removed,
            |o| {
                free(ctl, o);
                // In the very group: refused or served, but neither reclaim inside reclaim nor a deadlock.
                if let Ok(o) = ctl.malloc(group, 64, 8) {
                    free(ctl, o);
                }
            },
        );
        free(ctl, note);
        Scanned { looked_at: done.shown, freed: done.removed, ..Scanned::default() }
    }
}

/// 1,000 times 1,000 allocations, accounted and not, freed at once or by another thread, while a limit calls back into
/// the allocator: no error, nothing left.
#[test]
fn t29_nolock_and_friends() {
    let shrinker: &'static Reentrant = Box::leak(Box::new(Reentrant { calls: AtomicU64::new(0) }));
    let ctl = Controller::new(Config::new()).unwrap();
    let cache = ctl.cache(&CacheConfig::new("nolock", 64)).unwrap();
    let lru = ListLru::new(&ctl, 8).unwrap();
    lru.set_shrinker(shrinker);
    let g = ctl.root().create("g").unwrap();
    g.set_max(3000 * cache.charge());
    let (send, inbox) = mpsc::sync_channel::<Vec<Sent>>(2);
    std::thread::scope(|s| {
        s.spawn(|| inbox.into_iter().flatten().for_each(|o| free(&ctl, o.0)));
        for round in 0..1000 {
            let mut deferred = Vec::new();
            for i in 0..1000 {
                let object = match i % 3 {
                    0 => cache.alloc(&g).unwrap(),
                    1 => cache.alloc_unowned(None).unwrap(),
                    _ => {
                        // Stays until reclaim takes it; nobody else frees it.
                        let listed = cache.alloc_lru(&g, &lru).unwrap();
                        assert!(add(&lru, listed));
                        continue;
                    }
                };
                if (i + round) % 2 == 0 {
                    free(&ctl, object);
                } else {
                    deferred.push(Sent(object));
                }
            }
            send.send(deferred).unwrap();
        }
        drop(send);
    });
    assert!(shrinker.calls.load(SeqCst) > 100, "reclaim ran");
    assert!(g.reclaim(g.exact()).is_ok());
    let stat = ctl.stat();
    assert_eq!((g.exact(), stat.objects, stat.corrupted), (0, 0, 0));
}

/// Objects of one cache move between threads in random order, owned and unowned: each is live once at a time.
#[test]
fn t29_no_object_is_handed_out_twice() {
    let (_, ctl) = lean(2, 4);
    let cache = ctl.cache(&CacheConfig::new("c", 48)).unwrap();
    let g = ctl.root().create("g").unwrap();
    std::thread::scope(|s| {
        for t in 0..2u64 {
            let (ctl, cache, g) = (&ctl, &cache, &g);
            s.spawn(move || {
                let mut random = Random(t);
                let mut live: Vec<(NonNull<u8>, u64)> = Vec::new();
                for i in 0..100_000u64 {
                    ctl.set_cpu(random.below(4) as u16);
                    if live.len() > 500 || !live.is_empty() && random.below(2) == 0 {
                        let (object, mark) = live.swap_remove(random.below(live.len()));
                        // SAFETY: live and ours.
                        assert_eq!(unsafe { object.cast::<u64>().read() }, mark, "somebody else has it too");
                        free(ctl, object);
                    } else {
                        let object =
                            if i % 2 == 0 { cache.alloc(g) } else { cache.alloc_unowned(None) }.unwrap();
                        let mark = i << 8 | t;
                        // SAFETY: live and ours.
                        unsafe { object.cast::<u64>().write(mark) };
                        live.push((object, mark));
                    }
                }
                live.into_iter().for_each(|(o, _)| free(ctl, o));
            });
        }
    });
    assert_eq!((g.exact(), ctl.stat().objects), (0, 0));
}
