//! list_lru in the words of the design. Numbers in brackets: the tests of reference/linux.md, section 4.4.

mod common;
#[path = "lists/family.rs"]
mod family;

use common::{Random, lean, machine};
use family::{OFFSET, add, del, family, item, make, number, on};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Barrier;
use tenalloc::{Controller, Group, LruItem, LruStatus};

#[test]
fn an_object_is_on_the_list_of_its_group_and_node() {
    let (_, ctl) = lean(2, 2);
    let (cache, lru) = family(&ctl);
    let (a, b) = (ctl.root().create("a").unwrap(), ctl.root().create("b").unwrap());
    let mut objects = Vec::new();
    for i in 0..6 {
        ctl.set_cpu(i % 2);
        let object = make(&cache, if i < 4 { &a } else { &b }, &lru, i.into());
        assert!(add(&lru, object) && !add(&lru, object), "once is enough");
        objects.push(object);
    }
    assert_eq!((on(&lru, &a, 0), on(&lru, &a, 1)), (vec![0, 2], vec![1, 3]));
    assert_eq!((on(&lru, &b, 0), on(&lru, &b, 1)), (vec![4], vec![5]));
    assert_eq!(
        (lru.count(&a, 0), lru.count(&a, 1), lru.count(&a, 2), lru.count(&ctl.root(), 0)),
        (2, 2, 0, 0)
    );
    assert!(del(&lru, objects[2]) && !del(&lru, objects[2]));
    assert_eq!((on(&lru, &a, 0), lru.count(&a, 0)), (vec![0], 1));
    assert!(add(&lru, objects[2]));
    assert_eq!(on(&lru, &a, 0), [0, 2]);
}

#[test]
fn a_walk_does_what_it_is_told() {
    let (_, ctl) = lean(1, 1);
    let (cache, lru) = family(&ctl);
    let g = ctl.root().create("g").unwrap();
    let objects: Vec<_> = (0..6).map(|i| make(&cache, &g, &lru, i)).collect();
    objects.iter().for_each(|o| assert!(add(&lru, *o)));
    item(objects[1]).reference();
    let mut freed = Vec::new();
    let mut budget = 5;
    let done = lru.walk(
        &g,
        0,
        &mut budget,
        |o| match number(o) {
            _ if item(o).take_reference() => LruStatus::Rotate,
            0 => LruStatus::Skip,
            3 => LruStatus::Stop,
            _ => LruStatus::Removed,
        },
        |o| {
            freed.push(number(o));
            // SAFETY: off the list, and nobody else has it. The list is unlocked: the library may be called.
            unsafe { cache.free(o) }.unwrap();
        },
    );
    assert_eq!((done.removed, done.shown, budget, freed), (1, 4, 1, vec![2]));
    assert_eq!(on(&lru, &g, 0), [0, 3, 4, 5, 1]);
    assert_eq!(g.exact(), 5 * cache.charge());
    // RemovedRetry begins again at the front; each object shown counts.
    let mut shown = Vec::new();
    let mut budget = 4;
    lru.walk(
        &g,
        0,
        &mut budget,
        |o| {
            shown.push(number(o));
            if number(o) == 0 { LruStatus::Skip } else { LruStatus::RemovedRetry }
        },
        |_| {},
    );
    assert_eq!(shown, [0, 3, 0, 4]);
    assert_eq!(on(&lru, &g, 0), [0, 5, 1]);
}

/// [32] A callback that only says Retry ends with the budget.
#[test]
fn retry_alone_ends_with_the_budget() {
    let (_, ctl) = lean(1, 1);
    let (cache, lru) = family(&ctl);
    let g = ctl.root().create("g").unwrap();
    add(&lru, make(&cache, &g, &lru, 1));
    let mut budget = 1000;
    let done = lru.walk(&g, 0, &mut budget, |_| LruStatus::Retry, |_| {});
    assert_eq!((done.shown, done.removed, budget), (1000, 0, 0));
}

/// [31] Whoever comes too late for a removed group finds the nearest living ancestor's list.
#[test]
fn items_of_a_removed_group_are_its_parents() {
    let (_, ctl) = machine(1, 1);
    let (cache, lru) = family(&ctl);
    let p = ctl.root().create("p").unwrap();
    let g = p.create("g").unwrap();
    let objects: Vec<_> = (0..4).map(|i| make(&cache, &g, &lru, i)).collect();
    objects[..3].iter().for_each(|o| assert!(add(&lru, *o)));
    let own = make(&cache, &p, &lru, 9);
    add(&lru, own);
    g.remove().unwrap();
    assert_eq!((on(&lru, &p, 0), lru.count(&g, 0), lru.groups()), (vec![9, 0, 1, 2], 0, 1));
    assert!(del(&lru, objects[1]), "found on the parent's list");
    assert!(add(&lru, objects[3]), "its group is gone, its parent is there");
    assert_eq!(on(&lru, &p, 0), [9, 0, 2, 3]);
    p.remove().unwrap();
    assert_eq!((on(&lru, &ctl.root(), 0), lru.groups()), (vec![9, 0, 2, 3], 0));
    assert!(del(&lru, objects[3]) && del(&lru, own));
    assert_eq!(lru.count(&ctl.root(), 0), 2);
}

/// [33] An object whose group has no lists goes to the root's, and is found there, also once the group has lists.
#[test]
fn an_unprepared_group_is_no_trap() {
    let (_, ctl) = machine(1, 1);
    let (cache, lru) = family(&ctl);
    let g = ctl.root().create("g").unwrap();
    let plain = |group: Option<&Group>| {
        let object = group.map_or_else(|| cache.alloc_unowned(None), |g| cache.alloc(g)).unwrap();
        // SAFETY: ours, 64 bytes.
        unsafe { object.add(OFFSET).cast::<LruItem>().write(LruItem::new()) };
        object
    };
    let (stray, nobody) = (plain(Some(&g)), plain(None));
    assert!(add(&lru, stray) && add(&lru, nobody));
    assert_eq!((lru.count(&ctl.root(), 0), lru.count(&g, 0), lru.groups()), (2, 0, 0));
    add(&lru, make(&cache, &g, &lru, 1));
    assert_eq!((lru.count(&ctl.root(), 0), lru.count(&g, 0)), (2, 1));
    assert!(del(&lru, stray) && del(&lru, nobody));
    assert_eq!(lru.count(&ctl.root(), 0), 0);
    assert!(add(&lru, stray), "now its group has a list");
    assert_eq!(lru.count(&g, 0), 2);
}

/// [34] Lists come with those of all ancestors; groups go in any order that leaves leaves.
#[test]
fn ancestors_have_lists_too() {
    let (_, ctl) = machine(1, 1);
    let (cache, lru) = family(&ctl);
    let mut chain = vec![ctl.root()];
    for depth in 0..5 {
        chain.push(chain[depth].create("x").unwrap());
    }
    add(&lru, make(&cache, &chain[5], &lru, 1));
    assert_eq!(lru.groups(), 5);
    chain[5].remove().unwrap();
    let side = chain[3].create("side").unwrap();
    add(&lru, make(&cache, &side, &lru, 2));
    chain[4].remove().unwrap();
    assert_eq!((on(&lru, &chain[3], 0), lru.groups()), (vec![1], 4));
    side.remove().unwrap();
    assert_eq!(on(&lru, &chain[3], 0), [1, 2]);
}

/// [36] A new group with a recycled id never sees old items.
#[test]
fn a_recycled_owner_has_fresh_lists() {
    let (_, ctl) = machine(1, 1);
    let (cache, lru) = family(&ctl);
    for round in 0..50 {
        let g = ctl.root().create("g").unwrap();
        assert_eq!(lru.count(&g, 0), 0);
        let object = make(&cache, &g, &lru, round);
        add(&lru, object);
        assert_eq!(on(&lru, &g, 0), [round]);
        g.remove().unwrap();
        assert!(del(&lru, object));
        // SAFETY: off the list, freed once.
        unsafe { cache.free(object) }.unwrap();
    }
    assert_eq!((ctl.stat().orphans, lru.groups()), (0, 0));
}

/// DESIGN, budgets: a list with one user on 2 nodes costs at most 192 bytes; a family that nobody uses, nothing a group.
#[test]
fn lists_are_small_and_exist_only_where_used() {
    let (_, ctl) = lean(2, 2);
    let (cache, lru) = family(&ctl);
    let empty = lru.bytes();
    let groups: Vec<_> = (0..1000).map(|i| ctl.root().create(&format!("g{i}")).unwrap()).collect();
    assert_eq!(lru.bytes(), empty);
    add(&lru, make(&cache, &groups[7], &lru, 1));
    assert!(lru.bytes() - empty <= 192, "{} bytes", lru.bytes() - empty);
    for (i, g) in groups.iter().enumerate() {
        add(&lru, make(&cache, g, &lru, i as u64));
    }
    assert_eq!(lru.groups(), 1000);
    assert!(groups.iter().enumerate().all(|(i, g)| on(&lru, g, 0).contains(&(i as u64))));
    assert!((lru.bytes() - empty) / 1000 <= 192, "{} bytes each", (lru.bytes() - empty) / 1000);
    groups.iter().for_each(|g| g.remove().unwrap());
    assert_eq!((lru.groups(), lru.count(&ctl.root(), 0)), (0, 1001));
}

#[test]
fn random_life_matches_a_plain_model() {
    for seed in 0..20 {
        let (_, ctl) = lean(2, 2);
        let (cache, lru) = family(&ctl);
        let mut random = Random(seed);
        let mut groups = vec![ctl.root()]; // living
        let mut parent: HashMap<String, usize> = HashMap::new();
        // (object, its group now, listed)
        let mut objects: Vec<(NonNull<u8>, Group, bool)> = Vec::new();
        for step in 0..1500u64 {
            ctl.set_cpu(random.below(2) as u16);
            match random.below(10) {
                0 if groups.len() < 20 => {
                    let at = random.below(groups.len());
                    let g = groups[at].create(&format!("g{step}")).unwrap();
                    *parent.entry(groups[at].path().to_string()).or_default() += 1;
                    groups.push(g);
                }
                1 if groups.len() > 1 => {
                    let at = 1 + random.below(groups.len() - 1);
                    if parent.get(&groups[at].path().to_string()).copied().unwrap_or(0) == 0 {
                        let g = groups.swap_remove(at);
                        let heir = g.parent().unwrap();
                        *parent.get_mut(&heir.path().to_string()).unwrap() -= 1;
                        g.remove().unwrap();
                        objects.iter_mut().filter(|o| o.1 == g).for_each(|o| o.1 = heir.clone());
                    }
                }
                2..=5 => {
                    let g = groups[random.below(groups.len())].clone();
                    let object = make(&cache, &g, &lru, step);
                    objects.push((object, g, false));
                }
                6 | 7 if !objects.is_empty() => {
                    let at = random.below(objects.len());
                    let o = &mut objects[at];
                    assert_eq!(add(&lru, o.0), !o.2);
                    o.2 = true;
                }
                8 if !objects.is_empty() => {
                    let at = random.below(objects.len());
                    let o = &mut objects[at];
                    assert_eq!(del(&lru, o.0), o.2);
                    o.2 = false;
                }
                9 if !objects.is_empty() => {
                    let (object, _, listed) = objects.swap_remove(random.below(objects.len()));
                    assert_eq!(del(&lru, object), listed);
                    // SAFETY: off the list, freed once.
                    unsafe { cache.free(object) }.unwrap();
                }
                _ => {}
            }
            if step % 50 == 0 {
                for g in &groups {
                    let mut found: Vec<_> = (0..2).flat_map(|n| on(&lru, g, n)).collect();
                    let mut expected: Vec<_> =
                        objects.iter().filter(|o| o.2 && o.1 == *g).map(|o| number(o.0)).collect();
                    found.sort_unstable();
                    expected.sort_unstable();
                    assert_eq!(found, expected, "seed {seed} step {step} {g:?}");
                }
            }
        }
    }
}

/// [30] One thread deletes items of a group while another removes the group and a third walks the lists of both: the
/// lists stay whole, and every item that was not deleted is on the parent's.
#[test]
fn reparent_del_and_walk_race() {
    let ctl = Controller::new(tenalloc::Config::new()).unwrap();
    let (cache, lru) = family(&ctl);
    let p = ctl.root().create("p").unwrap();
    let nodes = ctl.topology().nodes();
    for round in 0..300 {
        let g = p.create(&format!("g{round}")).unwrap();
        let objects: Vec<_> = (0..60).map(|i| Shared(make(&cache, &g, &lru, i))).collect();
        objects.iter().for_each(|o| assert!(add(&lru, o.0)));
        let start = Barrier::new(3);
        std::thread::scope(|s| {
            s.spawn(|| {
                start.wait();
                objects.iter().step_by(2).for_each(|o| assert!(del(&lru, o.0), "it is on some list"));
            });
            s.spawn(|| {
                start.wait();
                g.remove().unwrap();
            });
            s.spawn(|| {
                start.wait();
                for group in [&g, &p, &g, &p] {
                    for node in 0..nodes {
                        let mut budget = 100;
                        lru.walk(group, node, &mut budget, |_| LruStatus::Rotate, |_| {});
                    }
                }
            });
        });
        let mut left: Vec<_> = (0..nodes).flat_map(|n| on(&lru, &p, n)).collect();
        left.sort_unstable();
        assert!(left.iter().copied().eq((1..60).step_by(2)), "round {round}: {left:?}");
        for (i, o) in objects.iter().enumerate() {
            assert_eq!(del(&lru, o.0), i % 2 == 1);
            // SAFETY: off the list, freed once.
            unsafe { cache.free(o.0) }.unwrap();
        }
    }
    assert_eq!((p.exact(), lru.groups(), ctl.stat().orphans), (0, 1, 0));
}

/// An object that several threads look at.
struct Shared(NonNull<u8>);
// SAFETY: the tests use it under the rules of `add` and `del`.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

/// [42] A head that cannot be made is an error of the allocation, and nothing stays charged.
#[test]
fn faults_in_lists_leave_nothing_behind() {
    let mut fault = 0;
    loop {
        let (source, ctl) = lean(2, 2);
        let (cache, lru) = family(&ctl);
        let g = ctl.root().create("a").unwrap().create("b").unwrap();
        source.fail_after(fault);
        let before = source.calls();
        let mut objects: Vec<NonNull<u8>> = Vec::new();
        for i in 0..40 {
            let group =
                if i % 2 == 0 { g.clone() } else { ctl.root().create(&format!("g{i}")).unwrap_or(g.clone()) };
            if let Ok(o) = cache.alloc_lru(&group, &lru) {
                assert!(add(&lru, o));
                objects.push(o);
            }
        }
        let used = source.calls() - before;
        source.heal();
        assert_eq!(ctl.root().exact(), objects.len() as u64 * cache.charge());
        for o in objects {
            assert!(del(&lru, o));
            // SAFETY: off the list, freed once.
            unsafe { cache.free(o) }.unwrap();
        }
        assert_eq!(ctl.root().exact(), 0);
        drop((lru, cache, g));
        drop(ctl);
        assert_eq!(source.total(), 0);
        if used <= u64::from(fault) {
            break;
        }
        fault += 1;
    }
    assert!(fault > 25, "only {fault} requests were made to fail"); // names are short: they make none
}
