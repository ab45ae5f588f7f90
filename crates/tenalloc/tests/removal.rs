//! A removal visits the CPUs where a group was used, and no others: whichever they are, nothing of the group is left there.

mod common;
use common::machine;
use tenalloc::{CacheConfig, Error};

const CPUS: u16 = 3;

/// A group's objects are made and freed on `used`, in turn, so that stocks and ready objects lie there; then it goes on `at`.
fn removed(used: &[u16], at: u16) {
    let (_, ctl) = machine(1, CPUS);
    let cache = ctl.cache(&CacheConfig::new("object", 64)).unwrap();
    let parent = ctl.root().create("p").unwrap();
    let group = parent.create("g").unwrap();
    let mut live = Vec::new();
    for round in 0..60 {
        for cpu in used {
            ctl.set_cpu(*cpu);
            live.push(cache.alloc(&group).unwrap());
            if round % 10 > 0 {
                let one = round % live.len();
                common::free(&ctl, live.swap_remove(one));
            }
        }
    }
    let bytes = cache.charge() * live.len() as u64;
    assert_eq!(live.len(), 6 * used.len());
    ctl.set_cpu(at);
    group.remove().unwrap();
    assert_eq!((parent.exact(), group.remove()), (bytes, Err(Error::GroupRemoved)), "{used:?} {at}");
    for cpu in 0..CPUS {
        ctl.set_cpu(cpu);
        assert_eq!(cache.alloc(&group).err(), Some(Error::GroupRemoved), "{used:?} {at}: ready on CPU {cpu}");
    }
    assert_eq!(group.current(), bytes, "nothing is charged ahead to who went");
    drop(group);
    // Whoever gets its places in the tables has nothing of it.
    let next = ctl.root().create("next").unwrap();
    assert_eq!((next.current(), ctl.stat().orphans), (0, u64::from(!used.is_empty())));
    for (cpu, object) in (0..CPUS).cycle().zip(live) {
        ctl.set_cpu(cpu);
        common::free(&ctl, object);
    }
    assert_eq!((parent.exact(), ctl.stat().orphans), (0, 0), "{used:?} {at}");
    ctl.trim();
    assert_eq!(ctl.root().current(), 0, "{used:?} {at}: all that was ahead came back");
}

#[test]
fn where_a_group_was_used_does_not_matter() {
    for used in [&[][..], &[0], &[1], &[0, 1], &[2, 1, 0], &[1, 1, 2]] {
        (0..CPUS).for_each(|at| removed(used, at));
    }
}

#[test]
fn whoever_is_held_last_goes_last() {
    let (_, ctl) = machine(1, 1);
    let path: Vec<_> = (0..5)
        .try_fold(vec![ctl.root()], |mut path, i| {
            let next = path[i].create("deeper")?;
            path.push(next);
            Ok::<_, Error>(path)
        })
        .unwrap();
    for group in path[1..].iter().rev() {
        group.remove().unwrap();
    }
    let last = path[5].clone();
    drop(path);
    assert_eq!((ctl.stat().groups, ctl.stat().removed_held), (0, 5), "the last keeps those above it");
    assert_eq!(last.path().to_string(), "/deeper/deeper/deeper/deeper/deeper");
    drop(last);
    assert_eq!((ctl.stat().removed_held, ctl.stat().orphans), (0, 0));
}

/// A group that used a few caches of many, `last` being the number of the newest: nothing of it stays ready.
fn removed_with_caches(last: usize) {
    let (_, ctl) = common::lean(1, 1);
    let mut caches = Vec::new();
    for number in 1..=last {
        let cache = ctl.cache(&CacheConfig::new("object", 64)).unwrap();
        if number % 8 == 1 && (number < 30 || number + 20 > last) || number == 2 {
            caches.push(cache);
        } else {
            cache.destroy().unwrap();
        }
    }
    let groups = ["one", "other"].map(|name| ctl.root().create(name).unwrap());
    for (cache, group) in caches.iter().flat_map(|cache| groups.iter().map(move |group| (cache, group))) {
        for _ in 0..8 {
            let some: Vec<_> = (0..50).map(|_| cache.alloc(group).unwrap()).collect();
            some.into_iter().for_each(|object| common::free(&ctl, object));
        }
    }
    for group in &groups {
        assert!(group.current() > 0 && group.exact() == 0, "{last}: some are ready");
        group.remove().unwrap();
        assert_eq!(group.current(), 0, "{last}: nothing is charged ahead to who went");
    }
    drop(groups);
    assert_eq!((ctl.stat().orphans, ctl.stat().stock_bytes, ctl.root().current()), (0, 0, 0), "{last}");
}

#[test]
fn which_caches_a_group_used_does_not_matter() {
    [2, 40, 600].into_iter().for_each(removed_with_caches);
}
