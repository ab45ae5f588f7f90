//! Groups in the words of the design: sums, limits, removal.

mod common;
use common::{Random, free, lean, machine};
use tenalloc::{CacheConfig, Config, Controller, Error, Group, OWNER_BYTES};

#[test]
fn a_new_group_has_used_nothing() {
    let (_, ctl) = machine(1, 2);
    let g = ctl.root().create("a").unwrap();
    assert_eq!((g.current(), g.peak(), g.max(), g.exact()), (0, 0, u64::MAX, 0));
    assert_eq!(
        (g.name(), g.path().to_string(), ctl.root().path().to_string()),
        ("a", "/a".into(), "/".into())
    );
}

#[test]
fn groups_are_found_by_path_and_name_their_parent() {
    let (_, ctl) = machine(1, 1);
    let root = ctl.root();
    let deep = root.create("a").unwrap().create("b").unwrap().create("c").unwrap();
    assert_eq!(deep.path().to_string(), "/a/b/c");
    assert_eq!(root.lookup("/a/b//c/").unwrap(), deep);
    assert_eq!(root.lookup("").unwrap(), root);
    assert_eq!(root.lookup("a/x").err(), Some(Error::NotFound));
    assert_eq!(deep.parent().unwrap().parent().unwrap().parent(), Some(root.clone()));
    let names = |g: &tenalloc::Group| g.children().map(|c| c.name().to_owned()).collect::<Vec<_>>();
    for n in ["x", "y", "z"] {
        deep.create(n).unwrap();
    }
    assert_eq!(names(&deep), ["z", "y", "x"]);
    deep.lookup("y").unwrap().remove().unwrap();
    assert_eq!(names(&deep), ["z", "x"]);
}

#[test]
fn bad_names_and_bad_removals_are_told() {
    let (_, ctl) = machine(1, 1);
    let root = ctl.root();
    for bad in ["", "a/b", ".", "..", "n\0", &"x".repeat(256)] {
        assert_eq!(root.create(bad).err(), Some(Error::BadName), "{bad:?}");
    }
    let a = root.create(&"x".repeat(255)).unwrap();
    assert_eq!(root.create(&"x".repeat(255)).err(), Some(Error::Exists));
    let b = a.create("b").unwrap();
    assert_eq!(a.remove(), Err(Error::GroupBusy { children: 1 }));
    assert_eq!(root.remove(), Err(Error::Root));
    b.remove().unwrap();
    assert_eq!(b.remove(), Err(Error::GroupRemoved));
    assert_eq!(b.create("c").err(), Some(Error::GroupRemoved));
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    assert_eq!(cache.alloc(&b).err(), Some(Error::GroupRemoved));
    let (_, other) = machine(1, 1);
    assert_eq!(cache.alloc(&other.root()).err(), Some(Error::NotFound), "a group of another controller");
    a.remove().unwrap();
    assert_eq!(ctl.root().children().count(), 0);
}

#[test]
fn a_name_can_be_used_again() {
    let (_, ctl) = machine(1, 1);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let first = ctl.root().create("t").unwrap();
    let object = cache.alloc(&first).unwrap();
    first.remove().unwrap();
    let second = ctl.root().create("t").unwrap();
    assert_eq!((second.exact(), ctl.root().exact()), (0, cache.charge()));
    assert_ne!(first, second);
    free(&ctl, object);
    assert_eq!((second.exact(), ctl.root().exact()), (0, 0));
}

/// DESIGN, what always holds, 2: exact = Σ live (slot + owner entry); `current` ahead by a bound.
#[test]
fn sums_hold_through_random_life() {
    let cpus = 3;
    let (_, ctl) = lean(2, cpus);
    let mut random = Random(1);
    let caches: Vec<_> = [24, 64, 200, 1000, 5000]
        .iter()
        .map(|n| ctl.cache(&CacheConfig::new(&format!("c{n}"), *n)).unwrap())
        .collect();
    let mid: Vec<_> = (0..3).map(|i| ctl.root().create(&format!("m{i}")).unwrap()).collect();
    let leaf: Vec<_> = (0..12).map(|i| mid[i % 3].create(&format!("l{i}")).unwrap()).collect();
    let mut live: Vec<(std::ptr::NonNull<u8>, usize, u64)> = Vec::new();
    let mut sums = [0u64; 12];
    for step in 0..30_000 {
        ctl.set_cpu(random.below(cpus.into()) as u16);
        if live.len() > 2000 || !live.is_empty() && random.below(5) < 2 {
            let (object, g, bytes) = live.swap_remove(random.below(live.len()));
            assert_eq!(ctl.group_of_object(object).unwrap().unwrap(), leaf[g]);
            free(&ctl, object);
            sums[g] -= bytes;
        } else {
            let (g, c) = (random.below(12), random.below(6));
            let (object, bytes) = if c < 5 {
                (caches[c].alloc_on(&leaf[g], random.below(2) as u8).unwrap(), caches[c].charge())
            } else {
                let object = ctl.malloc(&leaf[g], 1 + random.below(40_000), 16).unwrap();
                (object, ctl.usable_size(object).unwrap() as u64 + u64::from(OWNER_BYTES))
            };
            live.push((object, g, bytes));
            sums[g] += bytes;
        }
        if step % 500 == 0 {
            for (g, sum) in leaf.iter().zip(sums) {
                assert_eq!(g.exact(), sum);
                assert!(g.current() - sum <= Controller::SLACK_PER_CPU * u64::from(cpus));
            }
            for (i, m) in mid.iter().enumerate() {
                assert_eq!(m.exact(), (0..12).filter(|g| g % 3 == i).map(|g| sums[g]).sum::<u64>());
            }
            assert_eq!(ctl.root().exact(), sums.iter().sum::<u64>());
            let stat = ctl.stat();
            assert_eq!(ctl.root().current() - ctl.root().exact(), stat.stock_bytes);
            assert!(stat.stock_bytes <= stat.stock_bound_bytes);
        }
    }
    live.drain(..).for_each(|(object, ..)| free(&ctl, object));
    ctl.trim();
    assert_eq!((ctl.root().exact(), ctl.root().current()), (0, 0));
    let stat = ctl.stat();
    assert_eq!((stat.live_bytes, stat.slab_bytes, stat.owner_vector_bytes, stat.objects), (0, 0, 0, 0));
}

/// DESIGN 3: `current ≤ max` at every instant, and a refused charge leaves nothing behind.
#[test]
fn max_is_never_passed_at_any_level() {
    let (_, ctl) = machine(1, 2);
    let cache = ctl.cache(&CacheConfig::new("c", 96)).unwrap();
    let a = ctl.root().create("a").unwrap();
    let (b, c) = (a.create("b").unwrap(), a.create("c").unwrap());
    let n = 50;
    a.set_max(n * cache.charge() + 7);
    let mut live = Vec::new();
    let error = loop {
        ctl.set_cpu(live.len() as u16); // stocks on two CPUs must not eat the limit
        match cache.alloc(if live.len() % 2 == 0 { &b } else { &c }) {
            Ok(object) => live.push(object),
            Err(e) => break e,
        }
        assert!(a.current() <= a.max());
    };
    assert_eq!(live.len() as u64, n, "every byte of the limit can be used");
    let Error::Limit(limit) = error else { panic!("{error}") };
    assert_eq!((limit.path(), limit.max, limit.wanted), ("/a", a.max(), cache.charge()));
    assert_eq!(a.exact(), n * cache.charge());
    assert_eq!(b.exact() + c.exact(), a.exact());
    free(&ctl, live.pop().unwrap());
    live.push(cache.alloc(&b).unwrap());
    assert!(error.to_string().starts_with("group /a: 100 bytes more would pass max 5007"), "{error}");
    live.into_iter().for_each(|o| free(&ctl, o));
    assert_eq!(a.exact(), 0);
}

#[test]
fn a_max_below_current_stops_new_charges_only() {
    let (_, ctl) = machine(1, 1);
    let cache = ctl.cache(&CacheConfig::new("c", 1000)).unwrap();
    let g = ctl.root().create("g").unwrap();
    let objects: Vec<_> = (0..10).map(|_| cache.alloc(&g).unwrap()).collect();
    assert_eq!(g.set_max(5000), g.exact(), "what stocks held was collected");
    assert!(cache.alloc(&g).is_err());
    objects.into_iter().for_each(|o| free(&ctl, o));
    g.set_max(5000);
    assert!(g.current() <= 5000 && cache.alloc(&g).is_ok());
}

#[test]
fn peak_remembers() {
    let ctl = Controller::new(Config::new().exact_charges(true)).unwrap();
    let g = ctl.root().create("g").unwrap();
    let object = ctl.malloc(&g, 100_000, 8).unwrap();
    let full = g.current();
    assert_eq!(full, 25 * 4096 + u64::from(OWNER_BYTES));
    free(&ctl, object);
    assert_eq!((g.current(), g.peak()), (0, full));
    g.reset_peak();
    assert_eq!(g.peak(), 0);
}

/// DESIGN 4: removal costs the group's own handles; nothing stays but one owner until the last object dies.
#[test]
fn removal_leaves_one_owner_until_the_last_object_dies() {
    let (_, ctl) = machine(1, 2);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let parent = ctl.root().create("p").unwrap();
    let g = parent.create("g").unwrap();
    let objects: Vec<_> = (0..1000)
        .map(|i| {
            ctl.set_cpu(i);
            cache.alloc(&g).unwrap()
        })
        .collect();
    g.remove().unwrap();
    assert_eq!(parent.exact(), 1000 * cache.charge());
    assert_eq!(ctl.group_of_object(objects[7]).unwrap().unwrap(), parent);
    drop(g);
    let stat = ctl.stat();
    assert_eq!((stat.groups, stat.removed_held, stat.orphans), (1, 0, 1));
    for (i, object) in objects.into_iter().enumerate() {
        assert_eq!(ctl.stat().orphans, 1);
        ctl.set_cpu(i as u16 / 2);
        free(&ctl, object);
    }
    assert_eq!((ctl.stat().orphans, parent.exact()), (0, 0));
}

/// Nobody else can answer it: who holds what a removed group left behind.
#[test]
fn orphans_are_told_by_cache_and_address() {
    for (hardened, two) in [(true, false), (false, true), (false, false)] {
        let (_, ctl) = if hardened { machine(2, 2) } else { lean(2, 2) };
        let (a, b) =
            (ctl.cache(&CacheConfig::new("a", 64)).unwrap(), ctl.cache(&CacheConfig::new("b", 500)).unwrap());
        let living = ctl.root().create("living").unwrap();
        let parent = ctl.root().create("p").unwrap();
        let g = parent.create("g").unwrap();
        let keep = a.alloc(if two { &living } else { &g }).unwrap();
        let held: Vec<_> = (0..5).map(|_| a.alloc(&g).unwrap()).chain([b.alloc(&g).unwrap()]).collect();
        let tell = || {
            let (mut objects, mut addresses, mut names) = (0, Vec::new(), std::collections::BTreeSet::new());
            ctl.orphans(&mut |o| {
                assert_eq!(o.payer, parent);
                assert_eq!(o.slot_size, if o.cache.name() == "a" { 64 } else { 504 });
                objects += o.objects;
                addresses.push(o.address);
                names.insert(o.cache.name().to_owned());
            });
            (objects, addresses, names.into_iter().collect::<Vec<_>>())
        };
        assert_eq!(tell().0, 0);
        g.remove().unwrap();
        drop(g);
        ctl.trim(); // what lies in sheaves is free
        let (objects, addresses, names) = tell();
        assert_eq!(objects as usize, held.len() + usize::from(!two));
        assert_eq!(names, ["a", "b"]);
        if hardened {
            assert!(held.iter().all(|o| addresses.contains(&(o.as_ptr() as usize))));
        }
        held.iter().chain([&keep]).for_each(|o| free(&ctl, *o));
        assert_eq!((tell().0, ctl.stat().orphans, ctl.root().exact()), (0, 0, 0));
        ctl.trim();
        assert_eq!(ctl.stat().slab_bytes, 0);
    }
}

#[test]
fn generations_of_removed_groups_are_forwarded_to_the_living() {
    let (_, ctl) = machine(1, 1);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let mut chain = vec![ctl.root()];
    let mut objects = Vec::new();
    for depth in 0..20 {
        let g = chain.last().unwrap().create(&format!("d{depth}")).unwrap();
        objects.push(cache.alloc(&g).unwrap());
        chain.push(g);
    }
    while chain.len() > 1 {
        chain.pop().unwrap().remove().unwrap();
        let living = chain.last().unwrap();
        assert_eq!(living.exact(), (21 - chain.len() as u64 + 1).min(20) * cache.charge());
        assert_eq!(ctl.group_of_object(*objects.last().unwrap()).unwrap().as_ref(), Some(living));
    }
    assert_eq!(ctl.stat().orphans, 20);
    // An owner without objects stays only while one that was forwarded to it has some and none was freed yet.
    for (i, object) in objects.into_iter().enumerate() {
        free(&ctl, object);
        assert!(ctl.stat().orphans as usize <= 20 - i);
    }
    assert_eq!((ctl.root().exact(), ctl.stat().orphans), (0, 0));
}

#[test]
fn an_owner_handle_charges_without_objects_and_follows_removal() {
    let (_, ctl) = machine(1, 1);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let p = ctl.root().create("p").unwrap();
    let g = p.create("g").unwrap();
    let owner = g.owner();
    owner.try_charge(1000).unwrap();
    let object = cache.alloc(&g).unwrap();
    g.remove().unwrap();
    drop(g);
    assert_eq!(owner.group(), p);
    owner.try_charge(500).unwrap();
    assert_eq!(p.exact(), 1500 + cache.charge());
    owner.uncharge(1500);
    assert_eq!((p.exact(), ctl.stat().orphans), (cache.charge(), 1), "the object still has its owner");
    assert_eq!(ctl.group_of_object(object).unwrap().unwrap(), p);
    p.set_max(cache.charge() + 10);
    assert!(matches!(owner.try_charge(11), Err(Error::Limit(_))));
    free(&ctl, object);
    drop(owner);
    assert_eq!((p.exact(), ctl.stat().orphans), (0, 0));
}

#[test]
fn caches_are_listed_and_may_be_made_meanwhile() {
    let (_, ctl) = machine(1, 1);
    for name in ["a", "b", "c"] {
        ctl.cache(&CacheConfig::new(name, 64)).unwrap();
    }
    let mut seen = Vec::new();
    for cache in ctl.caches() {
        ctl.cache(&CacheConfig::new("new", 8)).unwrap();
        seen.push(cache.name().to_owned());
    }
    assert_eq!(seen, ["c", "b", "a"]);
    assert_eq!(ctl.caches().count(), 6);
}

/// An idle group costs at most 200 bytes (DESIGN, budgets), names of 8 bytes included.
#[test]
fn idle_groups_are_small() {
    let (_, ctl) = lean(1, 2);
    let before = ctl.stat().metadata_bytes;
    let n = 100_000;
    for i in 0..n {
        ctl.root().create(&format!("t{i}")).unwrap();
    }
    let each = (ctl.stat().metadata_bytes - before) / n;
    assert!((120..=200).contains(&each), "{each} bytes a group");
    for i in (0..n).rev() {
        ctl.root().lookup(&format!("t{i}")).unwrap().remove().unwrap();
    }
    assert_eq!((ctl.stat().groups, ctl.stat().removed_held, ctl.stat().orphans), (0, 0, 0));
}

/// As deep as it may be: every walk comes to its end, on a thread with a small stack too; one level more is refused.
#[test]
fn the_deepest_tree_is_walked() {
    let (_, ctl) = lean(1, 1);
    let mut groups = vec![ctl.root()];
    for level in 0..Group::MAX_DEPTH {
        groups.push(groups[level].create("below").unwrap());
    }
    let deepest = groups.last().unwrap();
    assert!(matches!(deepest.create("one more"), Err(Error::Full { .. })));
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    std::thread::scope(|s| {
        let all = || {
            let object = cache.alloc(deepest).unwrap();
            let top = &groups[1];
            let stat = top.stat();
            assert_eq!((stat.exact, stat.descendants), (cache.charge(), Group::MAX_DEPTH as u64 - 1));
            top.set_high(1).unwrap();
            assert!(top.reclaim(1 << 20).is_err());
            top.freeze(true);
            assert!(deepest.is_frozen());
            top.freeze(false);
            free(&ctl, object);
        };
        std::thread::Builder::new().stack_size(128 << 10).spawn_scoped(s, all).unwrap().join().unwrap();
    });
    while let Some(group) = groups.pop().filter(|group| group.parent().is_some()) {
        group.remove().unwrap();
    }
    assert_eq!(ctl.stat().groups, 0);
}
