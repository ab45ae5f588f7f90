//! Names of groups against a plain map: made, looked up, removed and made again, while handles hold some that are gone and
//! requests for memory fail.

mod common;
use common::{Random, free, machine};
use proptest::prelude::*;
use std::collections::HashMap;
use tenalloc::{CacheConfig, Error, Group};

/// Short ones, long ones, and those at the edge between.
fn name(number: usize) -> String {
    match number % 4 {
        0 => format!("{number}"),
        1 => format!("tenant-{number:06}"),
        2 => format!("tenant-{number:07}"),
        _ => format!("a name that needs a block of its own: {number}"),
    }
}

fn life(seed: u64, steps: usize, names: usize, faults: bool) {
    let (source, ctl) = machine(1, 1);
    let mut random = Random(seed);
    let parents = [ctl.root(), ctl.root().create("p").unwrap()];
    let mut model: HashMap<(usize, usize), Group> = HashMap::new();
    let mut gone: Vec<Group> = Vec::new();
    for _ in 0..steps {
        let key = (random.below(2), random.below(names));
        let (parent, text) = (&parents[key.0], name(key.1));
        match random.below(8) {
            0..4 => match parent.create(&text) {
                Ok(group) => {
                    assert_eq!((group.name(), model.contains_key(&key)), (text.as_str(), false));
                    model.insert(key, group);
                }
                Err(Error::Exists) => assert!(model.contains_key(&key)),
                Err(e) => assert!(faults && matches!(e, Error::NoMemory { .. }), "{e:?}"),
            },
            4 => assert_eq!(parent.lookup(&text).ok().as_ref(), model.get(&key)),
            5..7 => {
                if let Some(group) = model.remove(&key) {
                    group.remove().unwrap();
                    assert!(parent.lookup(&text).is_err());
                    if random.below(4) == 0 {
                        gone.push(group);
                    }
                }
            }
            _ if random.below(20) == 0 => gone.clear(),
            _ if faults => source.fail_after(random.below(4) as u32),
            _ => {}
        }
    }
    source.heal();
    for (place, parent) in parents.iter().enumerate() {
        for number in 0..names {
            assert_eq!(parent.lookup(&name(number)).ok().as_ref(), model.get(&(place, number)));
        }
    }
    assert_eq!(ctl.stat().groups, model.len() as u64 + 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn names_are_as_in_a_map(seed in any::<u64>(), steps in 1usize..3000, names in 1usize..500, faults in any::<bool>()) {
        life(seed, steps, names, faults);
    }
}

/// Many, so that the table is made anew a few times, and few at a time, so that it is full of what is gone.
#[test]
fn tables_grow_and_are_cleaned() {
    life(1, 60_000, 20_000, false);
    life(2, 60_000, 40, false);
}

/// What groups took is given back when they went, and those that are left, and come, are as they were.
#[test]
fn records_of_groups_that_went_are_given_back() {
    let (_, ctl) = machine(1, 1);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let mut random = Random(4);
    let mut most = 0;
    for round in 0..6 {
        let groups: Vec<_> = (0..20_000).map(|i| ctl.root().create(&name(i)).unwrap()).collect();
        most = most.max(ctl.stat().metadata_bytes);
        // Some stay, a few of those that go leave an object, and a few handles stay.
        let stay = random.below(3000);
        let (mut held, mut objects) = (Vec::new(), Vec::new());
        for group in &groups[stay..] {
            if random.below(2000) == 0 {
                objects.push((cache.alloc(group).unwrap(), group.name().len()));
            }
            group.remove().unwrap();
            if random.below(2000) == 0 {
                held.push(group.clone());
            }
        }
        let left: Vec<_> = groups[..stay].to_vec();
        drop(groups);
        ctl.trim();
        let again: Vec<_> = (0..2000).map(|i| ctl.root().create(&format!("again-{i}")).unwrap()).collect();
        for (i, group) in left.iter().enumerate() {
            assert_eq!(ctl.root().lookup(&name(i)).unwrap(), *group);
            assert_eq!((group.name(), group.is_removed()), (name(i).as_str(), false));
        }
        assert!(held.iter().all(|g| g.is_removed() && !g.name().is_empty()));
        assert_eq!(ctl.root().exact(), objects.len() as u64 * cache.charge());
        again.into_iter().chain(left).for_each(|g| g.remove().unwrap());
        objects.into_iter().for_each(|(o, _)| free(&ctl, o));
        drop(held);
        ctl.trim();
        let stat = ctl.stat();
        assert_eq!((stat.groups, stat.removed_held, stat.orphans, ctl.root().exact()), (0, 0, 0, 0));
        assert!(stat.metadata_bytes < most / 2, "round {round}: {} of {most} bytes", stat.metadata_bytes);
    }
}

#[test]
fn a_special_byte_is_seen_wherever_it_stands() {
    let (_, ctl) = machine(1, 1);
    for len in 1..=20 {
        let plain = "\u{1}.0~\u{7f}x".chars().cycle().take(len).collect::<String>();
        ctl.root().create(&plain).unwrap();
        assert_eq!(ctl.root().create(&plain).err(), Some(Error::Exists));
        for (at, special) in (0..len).flat_map(|at| [(at, "/"), (at, "\0")]) {
            let mut name = plain.clone();
            name.replace_range(at..at + 1, special);
            assert_eq!(ctl.root().create(&name).err(), Some(Error::BadName), "{name:?}");
        }
        // Bytes above 127 are none of them, whatever their other bits say.
        ctl.root().create(&format!("{}ĀÿŀĀ\u{2f2f}\u{10ffff}", "x".repeat(len))).unwrap();
    }
}

/// Enough of them that new tables are filled part by part, the last one twice as far as the one before.
#[test]
fn a_great_many_are_all_there() {
    const MANY: usize = 220_000;
    let (_, ctl) = machine(1, 1);
    let root = ctl.root();
    for number in 0..MANY {
        let group = root.create(&format!("{number}")).unwrap();
        if number % 5 == 0 {
            group.remove().unwrap();
        }
    }
    for number in 0..MANY {
        let found = root.lookup(&format!("{number}")).ok();
        assert_eq!(found.is_some(), number % 5 > 0, "{number}");
        assert!(found.is_none_or(|group| group.name() == number.to_string()));
    }
    assert_eq!(ctl.stat().groups, (MANY - MANY / 5) as u64);
}
