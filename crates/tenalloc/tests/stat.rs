//! What a group tells of itself.

mod common;
use common::{free, machine};
use std::time::Duration;
use tenalloc::page::Simulated;
use tenalloc::{CacheConfig, Config, Controller, ListLru, Topology};

#[test]
fn a_group_and_all_below_it() {
    let (_, ctl) = machine(2, 2);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let lrus = [ListLru::new(&ctl, 0).unwrap(), ListLru::new(&ctl, 16).unwrap()];
    let top = ctl.root().create("top").unwrap();
    let below = top.create("a").unwrap().create("b").unwrap();
    let beside = ctl.root().create("beside").unwrap();
    let objects: Vec<_> = (0..10)
        .map(|i| {
            let (group, lru) = ([&below, &top, &beside][i % 3], &lrus[i % 2]);
            let object = cache.alloc_lru(group, lru).unwrap();
            // SAFETY: new, live, with an item at the family's offset; taken off before it is freed.
            assert!(unsafe { lru.add(object) });
            (object, lru)
        })
        .collect();
    let plain = cache.alloc(&top).unwrap();
    let stat = top.stat();
    let each = cache.charge();
    // 0, 3, 6, 9 are below's, 1, 4, 7 top's, 2, 5, 8 beside's.
    assert_eq!((stat.exact, stat.own, stat.listed), (8 * each, 4 * each, 7));
    assert_eq!((stat.descendants, stat.current), (2, top.current()));
    // Two families, two nodes, three groups: who has lists has them up to the root.
    assert_eq!(stat.lists, 2 * 2 * 3);
    assert!(stat.list_bytes > 0 && stat.list_bytes <= 192 * 2 * 3, "{stat:?}");
    assert_eq!(ctl.root().stat().listed, 10);
    let text = stat.to_string();
    assert!(text.contains(&format!("exact {}\n", 8 * each)) && text.lines().count() == 7, "{text}");
    below.remove().unwrap();
    let stat = top.stat();
    assert_eq!((stat.exact, stat.own, stat.descendants, stat.listed), (8 * each, 4 * each, 1, 7));
    for (object, lru) in objects {
        // SAFETY: live, and on that list.
        assert!(unsafe { lru.del(object) });
        free(&ctl, object);
    }
    free(&ctl, plain);
    assert_eq!((ctl.root().stat().exact, ctl.root().stat().listed), (0, 0));
}

#[test]
fn freezing_is_told_below() {
    let (_, ctl) = machine(1, 1);
    let top = ctl.root().create("top").unwrap();
    let below = top.create("below").unwrap();
    top.freeze(true);
    assert!(top.is_frozen() && below.is_frozen() && !ctl.root().is_frozen());
    top.freeze(false);
    assert!(!below.is_frozen());
    assert_eq!(top.events().to_string(), "low 0\nhigh 0\nmax 0\noom 0\noom_victim 0\n");
}

/// A walk over children goes on where a child stood that was removed under it, also when its record is used again.
#[test]
fn a_walk_over_children_survives_their_removal() {
    let (_, ctl) = machine(1, 1);
    let names: Vec<String> = (0..20).map(|i| format!("g{i}")).collect();
    for name in &names {
        ctl.root().create(name).unwrap();
    }
    let mut seen = Vec::new();
    for child in ctl.root().children() {
        seen.push(child.name().to_string());
        if child.name().ends_with(['2', '3', '7']) {
            child.remove().unwrap();
            drop(child);
            ctl.root().create("new").unwrap().remove().unwrap();
        }
    }
    let expected: Vec<String> = names.into_iter().rev().collect();
    assert_eq!(seen, expected);
    assert_eq!(ctl.root().children().count(), 20 - 6);
}

/// Free pages are given back in passing, without `trim`: with no time to wait, at once.
#[test]
fn free_pages_go_by_themselves() {
    let source: &'static Simulated = Box::leak(Box::default());
    let config = Config::new().source(source).topology(Topology::simulated(1, 1));
    for (decay, left) in [(Duration::ZERO, 64 << 10), (Duration::MAX, 2 << 20)] {
        let ctl = Controller::new(config.decay(decay)).unwrap();
        let g = ctl.root().create("g").unwrap();
        let keep = ctl.malloc(&g, 10_000, 8).unwrap();
        let objects: Vec<_> = (0..20).map(|_| ctl.malloc(&g, 64 << 10, 8).unwrap()).collect();
        objects.into_iter().for_each(|o| free(&ctl, o));
        for _ in 0..3 {
            free(&ctl, ctl.malloc(&g, 64 << 10, 8).unwrap());
        }
        let held = ctl.stat().free_page_bytes;
        assert!(held <= left && (decay == Duration::ZERO || held >= 1 << 20), "{held} bytes with {decay:?}");
        assert_eq!(ctl.tick() > 0, decay == Duration::ZERO && held > 0);
        free(&ctl, keep);
    }
}
