//! Tests that follow from real bugs of the kernel, numbers 30 to 44 of reference/linux.md, section 4.4.
//!
//! | number | about | here |
//! |---|---|---|
//! | 30 | reparent, del and walk at once | see tests/lists.rs `reparent_del_and_walk_race`; closer together: `t30_del_meets_the_drain`; loom: lru/models.rs |
//! | 31 | add after the dead mark | see tests/lists.rs `items_of_a_removed_group_are_its_parents`; and `t31_pressure_finds_what_came_late` |
//! | 32 | a walk that only retries | see tests/lists.rs `retry_alone_ends_with_the_budget` |
//! | 33 | add without lists | see tests/lists.rs `an_unprepared_group_is_no_trap` |
//! | 34 | ancestors' lists | see tests/lists.rs `ancestors_have_lists_too` |
//! | 35 | 0 ↔ 1 transitions | `t35_no_add_is_lost_to_pressure`: there is no bit; pressure finds lists through their group |
//! | 36 | recycled ids | see tests/lists.rs `a_recycled_owner_has_fresh_lists` |
//! | 37 | metadata apart from slabs | `t37_vectors_are_not_in_slabs` |
//! | 38 | owners go with nothing charged | `t38_owners_go_with_their_last_byte`; no residue of pages: stocks give back to the byte |
//! | 39 | offline while CPUs hold stock | `t39_removal_collects_stocks` |
//! | 40 | groups in turn | `t40_groups_in_turn_do_not_drain` |
//! | 41 | publication of a vector | `t41_the_second_owner_races_with_the_first`; no stride to publish: entries have 4 bytes; loom: slab/owners.rs `publication_loses_no_owner` |
//! | 42 | faults | see tests/faults.rs `every_request_of_every_operation_fails_once`, tests/lists.rs `faults_in_lists_leave_nothing_behind`, tests/objects.rs `faults_at_every_page_leave_nothing_behind` |
//! | 43 | teardown does not wait for the world | see tests/deadlock.rs |
//! | 44 | memory after growth | `t44_lists_shrink_again` |

mod common;
mod kernel_common;
use common::{Random, free, lean, machine};
use kernel_common::{Pool, Sent, add, del};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use tenalloc::{CacheConfig, Config, Controller, Group, ListLru, LruStatus, Scanned, Shrinker};

/// A group with lists in many families is removed while another thread deletes from all of them: a `del` that comes
/// between a list's drain and its end finds the item where it is. (With the list taken out of the index first, as in
/// Linux 6.13 to 7.1, a few hundred rounds are enough to see a list whose number is wrong.)
#[test]
fn t30_del_meets_the_drain() {
    const FAMILIES: usize = 12;
    const EACH: usize = 4;
    let ctl = Controller::new(Config::new()).unwrap();
    let pools: Vec<_> = (0..FAMILIES).map(|_| Pool::new(&ctl, 64)).collect();
    let p = ctl.root().create("p").unwrap();
    let going = Mutex::new(None::<Group>);
    let (round, gone) = (AtomicU64::new(0), AtomicU64::new(0));
    let rounds = 3000;
    // Both must be running to meet, so they spin, but not for ever on a machine that has no CPU for them.
    let wait = |what: &AtomicU64, until: u64| {
        for spins in 0u32.. {
            if what.load(Acquire) >= until {
                break;
            }
            if spins < 5000 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    };
    /// Lets the other thread go on when this one fails.
    struct Free<'a>(&'a AtomicU64);
    impl Drop for Free<'_> {
        fn drop(&mut self) {
            self.0.store(u64::MAX, Release);
        }
    }
    std::thread::scope(|s| {
        let _free = Free(&round);
        s.spawn(|| {
            let _free = Free(&gone);
            for r in 1..=rounds {
                wait(&round, r);
                let Some(group) = going.lock().unwrap().take() else { return };
                group.remove().unwrap();
                gone.store(r, Release);
            }
        });
        for r in 1..=rounds {
            let g = p.create("g").unwrap();
            let objects: Vec<Vec<_>> =
                pools.iter().map(|pool| (0..EACH).map(|_| pool.make(&g).unwrap()).collect()).collect();
            *going.lock().unwrap() = Some(g);
            round.store(r, Release);
            for i in 1..EACH {
                for (pool, objects) in pools.iter().zip(&objects) {
                    assert!(del(&pool.lru, objects[i]), "it is on some list");
                }
            }
            wait(&gone, r);
            for (pool, objects) in pools.iter().zip(&objects) {
                let on = |g: &Group| (0..ctl.topology().nodes()).map(|n| pool.lru.count(g, n)).sum::<u64>();
                assert_eq!((on(&p), on(&ctl.root()), pool.lru.groups()), (1, 0, 1), "round {r}");
                objects[1..].iter().for_each(|o| free(&ctl, *o));
                pool.drop(objects[0]);
            }
            assert_eq!(p.exact(), 0);
        }
    });
    assert_eq!(ctl.stat().orphans, 0);
}

/// What is added for a removed group is on its nearest living ancestor's list, and pressure on that one gets it.
#[test]
fn t31_pressure_finds_what_came_late() {
    let (_, ctl) = machine(1, 2);
    let pool = Pool::new(&ctl, 64);
    let a = ctl.root().create("a").unwrap();
    let b = a.create("b").unwrap();
    let c = b.create("c").unwrap();
    let late = pool.cache.alloc_lru(&c, &pool.lru).unwrap();
    c.remove().unwrap();
    b.remove().unwrap();
    assert!(add(&pool.lru, late));
    assert_eq!((pool.lru.count(&a, 0), pool.lru.count(&ctl.root(), 0)), (1, 0));
    assert_eq!(a.reclaim(pool.charge()).unwrap().freed, 1);
    assert_eq!((a.exact(), ctl.stat().orphans), (0, 2), "the handles of b and c are still there");
    drop((b, c));
    assert_eq!(ctl.stat().orphans, 0);
}

/// Takes objects off and says so at the object's first word; frees nothing.
struct Taker {
    taken: AtomicU64,
}

impl Shrinker for Taker {
    fn scan(&self, lru: &ListLru, group: &Group, node: u8, number: u64) -> Scanned {
        let mut budget = number;
        let done = lru.walk(
            group,
            node,
            &mut budget,
            |_| LruStatus::Removed,
            |o| {
                self.taken.fetch_add(1, Relaxed);
                // SAFETY: objects begin with this word.
                unsafe { o.cast::<AtomicBool>().as_ref() }.store(false, Release);
            },
        );
        Scanned { looked_at: done.shown, ..Scanned::default() }
    }
}

/// One thread adds, again and again, to a list that another empties under pressure all the while: what is added after
/// the last look is found by the next. A million times in the soak.
#[test]
fn t35_no_add_is_lost_to_pressure() {
    let taker: &'static Taker = Box::leak(Box::new(Taker { taken: AtomicU64::new(0) }));
    let ctl = Controller::new(Config::new()).unwrap();
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let lru = ListLru::new(&ctl, 8).unwrap();
    lru.set_shrinker(taker);
    let g = ctl.root().create("a").unwrap().create("b").unwrap();
    // Few objects: the list is empty again and again.
    let objects: Vec<_> = (0..16).map(|_| Sent(cache.alloc_lru(&g, &lru).unwrap())).collect();
    // SAFETY: objects of 64 bytes, the first of them not the item's.
    let listed = |o: &Sent| unsafe { o.0.cast::<AtomicBool>().as_ref() };
    objects.iter().for_each(|o| listed(o).store(false, Relaxed));
    let adds = if std::env::var_os("TENALLOC_SOAK").is_some() { 1_000_000 } else { 100_000u64 };
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut left = adds;
            while left > 0 {
                if objects.iter().all(|o| listed(o).load(Relaxed)) {
                    std::thread::yield_now();
                }
                for o in &objects {
                    if left > 0 && !listed(o).load(Acquire) {
                        listed(o).store(true, Relaxed);
                        assert!(add(&lru, o.0));
                        left -= 1;
                    }
                }
            }
            done.store(true, Release);
        });
        while !done.load(Acquire) {
            let _ = ctl.root().reclaim(1);
        }
    });
    let _ = ctl.root().reclaim(1);
    assert_eq!(taker.taken.load(Relaxed), adds);
    assert!(objects.iter().all(|o| !listed(o).load(Relaxed) && !del(&lru, o.0)));
}

/// Vectors, lists and sheaves are metadata, never objects of slabs: nothing keeps itself alive, and making one never
/// begins another allocation of an object. One call asks for memory a bounded number of times.
#[test]
fn t37_vectors_are_not_in_slabs() {
    let (source, ctl) = lean(1, 1);
    let groups = ["a", "b", "c"].map(|n| ctl.root().create(n).unwrap());
    let mut live = Vec::new();
    let mut most = 0;
    for size in 1..=2048 {
        for g in &groups {
            let before = source.calls();
            live.push(ctl.malloc(g, size, 8).unwrap());
            most = most.max(source.calls() - before);
        }
    }
    assert!(ctl.stat().owner_vector_bytes > 0);
    // Three blocks of a cache, a sheaf, a slab, a vector; a new region of metadata and a new chunk.
    assert!(most <= 10, "{most} requests in one call");
    assert_eq!(ctl.stat().objects, live.len() as u64, "no object but ours");
    live.drain(..).for_each(|o| free(&ctl, o));
    ctl.trim();
    let stat = ctl.stat();
    assert_eq!((stat.slab_bytes, stat.owner_vector_bytes, stat.objects), (0, 0, 0));
}

/// Groups removed at random moments, their objects of odd sizes freed on random CPUs: each owner goes with its last
/// byte, and no byte is left in the tree or near a CPU.
#[test]
fn t38_owners_go_with_their_last_byte() {
    let (_, ctl) = lean(2, 4);
    let mut random = Random(38);
    for _ in 0..40 {
        let parent = ctl.root().create("p").unwrap();
        let mut groups: Vec<_> = (0..5).map(|i| parent.create(&format!("g{i}")).unwrap()).collect();
        let mut live = Vec::new();
        for _ in 0..1500 {
            ctl.set_cpu(random.below(4) as u16);
            match random.below(20) {
                0 if !groups.is_empty() => {
                    let at = random.below(groups.len());
                    groups.swap_remove(at).remove().unwrap();
                }
                1..=10 if !groups.is_empty() => {
                    let at = random.below(groups.len());
                    live.push(ctl.malloc(&groups[at], 1 + random.below(300), 8).unwrap());
                }
                _ if !live.is_empty() => free(&ctl, live.swap_remove(random.below(live.len()))),
                _ => {}
            }
        }
        live.into_iter().for_each(|o| free(&ctl, o));
        assert_eq!((parent.exact(), ctl.stat().orphans), (0, 0));
        for g in groups {
            g.remove().unwrap();
            drop(g);
            assert_eq!(ctl.stat().orphans, 0);
        }
        parent.remove().unwrap();
        ctl.trim();
        assert_eq!((ctl.root().current(), ctl.stat().stock_bytes), (0, 0));
    }
}

/// Removal collects what CPUs hold for the group, and needs none of them to do anything. The limit never depends on it.
#[test]
fn t39_removal_collects_stocks() {
    let (_, ctl) = lean(2, 4);
    let cache = ctl.cache(&CacheConfig::new("c", 100)).unwrap();
    let p = ctl.root().create("p").unwrap();
    let g = p.create("g").unwrap();
    let mut live = Vec::new();
    for cpu in 0..4 {
        ctl.set_cpu(cpu);
        live.push(cache.alloc(&g).unwrap());
        let before = p.current();
        free(&ctl, cache.alloc(&g).unwrap());
        assert_eq!(p.current(), before, "a stock holds some");
    }
    let sum = 4 * cache.charge();
    assert!(p.current() > sum && ctl.stat().stock_bytes == p.current() - sum);
    // A limit with room for one object more, all stocks elsewhere in the way: the charge collects them.
    ctl.set_cpu(0);
    p.set_max(p.current().max(5 * cache.charge()));
    let other = p.create("other").unwrap();
    live.push(cache.alloc(&other).unwrap());
    assert!(p.current() <= p.max());
    free(&ctl, live.pop().unwrap());
    other.remove().unwrap();
    for cpu in 0..4 {
        ctl.set_cpu(cpu);
        free(&ctl, cache.alloc(&g).unwrap());
    }
    g.remove().unwrap();
    assert_eq!((p.exact(), p.current(), ctl.stat().stock_bytes), (sum, sum, 0));
    live.into_iter().for_each(|o| free(&ctl, o));
    ctl.trim();
    assert_eq!((p.current(), ctl.stat().stock_bytes), (0, 0));
}

/// As many groups as a stock has slots may take turns on a CPU without touching the tree; one more may not.
#[test]
fn t40_groups_in_turn_do_not_drain() {
    for n in [2, 3, 4, 5, 6, 8, 9] {
        let (_, ctl) = lean(1, 1);
        let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
        let groups: Vec<_> = (0..n).map(|i| ctl.root().create(&format!("g{i}")).unwrap()).collect();
        let turn = |i: usize| free(&ctl, cache.alloc(&groups[i % n]).unwrap());
        (0..n).for_each(turn);
        let mut moved = 0;
        for i in 0..10_000 {
            let before: Vec<_> = groups.iter().map(Group::current).collect();
            turn(i);
            moved += u64::from(groups.iter().map(Group::current).ne(before));
        }
        if n <= 8 {
            assert_eq!(moved, 0, "{n} groups in turn went to the tree");
        } else {
            assert!(moved > 0, "{n} groups cannot all have a slot: the test does not see drains");
        }
    }
}

/// Two threads bring a slab its first owner and its second, again and again: each object's owner is right at once.
#[test]
fn t41_the_second_owner_races_with_the_first() {
    for hardened in [false, true] {
        let ctl = Controller::new(Config::new().hardened(hardened)).unwrap();
        let cache = ctl.cache(&CacheConfig::new("c", 512).sheaf(0)).unwrap();
        let groups = ["a", "b"].map(|n| ctl.root().create(n).unwrap());
        std::thread::scope(|s| {
            for g in &groups {
                let (ctl, cache) = (&ctl, &cache);
                s.spawn(move || {
                    for i in 0..30_000 {
                        // Few objects: slabs empty, and forget their owners, all the time.
                        let mine: Vec<_> = (0..1 + i % 3).map(|_| cache.alloc(g).unwrap()).collect();
                        for o in &mine {
                            assert_eq!(ctl.group_of_object(*o).unwrap().as_ref(), Some(g));
                        }
                        mine.into_iter().for_each(|o| free(ctl, o));
                    }
                });
            }
        });
        ctl.trim();
        let stat = ctl.stat();
        assert_eq!((ctl.root().exact(), stat.owner_vector_bytes, stat.slab_bytes), (0, 0, 0));
    }
}

/// 10,000 groups use a family, 9,900 go: what the family takes is what 100 take, and the next 10,000 take no more
/// metadata than the first. (Linux's arrays kept the size of the largest number there ever was.)
#[test]
fn t44_lists_shrink_again() {
    let (_, ctl) = lean(2, 2);
    let pool = Pool::new(&ctl, 64);
    let mut full = None;
    let fill = |from: usize, to: usize| {
        for i in from..to {
            let g = ctl.root().create(&format!("g{i}")).unwrap();
            pool.drop(pool.make(&g).unwrap());
        }
    };
    for round in 0..4 {
        fill(0, 100);
        let hundred = pool.lru.bytes();
        fill(100, 10_000);
        let all = (pool.lru.bytes(), ctl.stat().metadata_bytes);
        if round > 0 {
            // (In the first round the pages of this CPU's shelf are touched; later its stacks may differ a little.)
            let first = *full.get_or_insert(all);
            assert!(
                all.0 == first.0 && all.1 <= first.1 + (16 << 10),
                "round {round}: {all:?}, at first {first:?}"
            );
        }
        for i in 100..10_000 {
            ctl.root().lookup(&format!("g{i}")).unwrap().remove().unwrap();
        }
        let left = pool.lru.bytes();
        assert!(left <= 2 * hundred, "round {round}: {left} bytes left, 100 groups took {hundred}");
        assert_eq!(pool.lru.groups(), 100);
        for i in 0..100 {
            let g = ctl.root().lookup(&format!("g{i}")).unwrap();
            pool.drop(pool.make(&g).unwrap());
            g.remove().unwrap();
        }
        assert_eq!(pool.lru.groups(), 0);
    }
}
