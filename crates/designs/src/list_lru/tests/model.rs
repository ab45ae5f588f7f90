//! A plain model of what every generation must do, and random lives against it.
//!
//! Properties, checked after every step for every list there could be: the count is right; a walk shows exactly the items
//! that were added and not deleted, in order; items of a removed group are with its nearest living ancestor; wrong calls
//! fail and change nothing. And for the generations of Linux: bytes counted from what was built = the closed form.

use crate::kernel::generation::Lists;
use crate::kernel::list_lru::Population;
use crate::kernel::{Generation, Kmalloc, ids, xarray};
use crate::lists::{ItemKey, ListDesign, ListError, LruKey, Mount, Parts, by_name};
use crate::{GroupKey, Machine};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

type Key = (LruKey, Option<GroupKey>, u8);

#[derive(Default)]
struct Model {
    nodes: u8,
    reparent_first: bool, // items of a removed group become the oldest of its parent, or the youngest
    parents: Vec<Option<GroupKey>>,
    ids: Vec<Option<u32>>, // lowest free first; none: removed
    most_groups: u64,
    mounts: Vec<Option<Mount>>,
    most_mounts: u64,
    lists: BTreeMap<Key, VecDeque<ItemKey>>,
    users: BTreeMap<LruKey, BTreeSet<GroupKey>>, // living groups that were prepared, with their ancestors
    items: Vec<ItemKey>,
}

impl Model {
    fn living(&self, mut at: Option<GroupKey>) -> Option<GroupKey> {
        while let Some(key) = at.filter(|key| self.ids[key.0 as usize].is_none()) {
            at = self.parents[key.0 as usize];
        }
        at
    }

    fn alive(&self) -> usize {
        self.ids.iter().flatten().count()
    }

    fn add_group(&mut self, parent: Option<GroupKey>) {
        let taken: BTreeSet<u32> = self.ids.iter().flatten().copied().collect();
        let id = (0..).find(|id| !taken.contains(id)).unwrap();
        self.parents.push(parent);
        self.ids.push(Some(id));
        self.most_groups = self.most_groups.max(self.alive() as u64);
    }

    fn has_children(&self, key: GroupKey) -> bool {
        (0..self.ids.len()).any(|i| self.ids[i].is_some() && self.parents[i] == Some(key))
    }

    fn remove_group(&mut self, key: GroupKey) {
        let heir = self.parents[key.0 as usize];
        let of_it: Vec<Key> = self.lists.keys().filter(|k| k.1 == Some(key)).copied().collect();
        for list in of_it {
            let mut child = self.lists.remove(&list).unwrap();
            let parent = self.lists.entry((list.0, heir, list.2)).or_default();
            if self.reparent_first {
                child.append(parent);
                *parent = child;
            } else {
                parent.append(&mut child);
            }
        }
        self.users.values_mut().for_each(|users| users.retain(|user| *user != key));
        self.ids[key.0 as usize] = None;
    }

    fn prepare(&mut self, lru: LruKey, group: Option<GroupKey>) {
        let mut at = self.living(group);
        while let Some(key) = at {
            self.users.entry(lru).or_default().insert(key);
            at = self.parents[key.0 as usize];
        }
    }

    fn lrus(&self) -> impl Iterator<Item = LruKey> {
        self.mounts.iter().flatten().flat_map(|m| [m.dentries, m.inodes])
    }

    /// What the formulas say that Linux would spend.
    fn closed_form(&self, generation: &Generation) -> Parts {
        let nodes = u64::from(self.nodes);
        let mut parts = Parts::default();
        for lru in self.lrus() {
            let users: Vec<u64> = self
                .users
                .get(&lru)
                .into_iter()
                .flatten()
                .map(|key| u64::from(self.ids[key.0 as usize].unwrap()) + 2) // 0 is nobody, 1 the root
                .collect();
            let mut sorted = users.clone();
            sorted.sort_unstable();
            let at = Population {
                nodes,
                ids: ids::array_length(self.most_groups),
                users: users.len() as u64,
                index_nodes: xarray::nodes(&sorted),
            };
            let bytes = generation.lists.bytes(at, Kmalloc::X86);
            parts.heads += bytes.heads;
            parts.index += bytes.arrays + bytes.index;
            parts.lrus += bytes.root;
        }
        parts.shrinkers =
            generation.shrinkers.total(self.alive() as u64, nodes, self.most_mounts, Kmalloc::X86);
        parts
    }

    fn check(&self, design: &dyn ListDesign) {
        for lru in self.lrus() {
            for group in (0..self.ids.len() as u32).map(|g| Some(GroupKey(g))).chain([None]) {
                for node in 0..self.nodes {
                    let expected = self.lists.get(&(lru, group, node)).cloned().unwrap_or_default();
                    let mut shown = VecDeque::new();
                    design.walk(lru, group, node, &mut |item| shown.push_back(item));
                    assert_eq!(shown, expected, "{} {lru:?} {group:?} node {node}", design.name());
                    assert_eq!(design.count(lru, group, node), expected.len() as u64);
                }
            }
        }
        let all = u64::from(self.nodes) * self.lrus().count() as u64;
        let heads = match Generation::by_name(design.name()).map(|g| g.lists) {
            Some(Lists::Eager | Lists::Transposed) => ids::array_length(self.most_groups) * all,
            _ => u64::from(self.nodes) * self.users.values().map(|users| users.len() as u64).sum::<u64>(),
        };
        assert_eq!(design.heads(), heads, "{}", design.name());
        let usage = design.usage();
        match Generation::by_name(design.name()) {
            Some(generation) => assert_eq!(usage.kernel, self.closed_form(generation), "{}", design.name()),
            None => assert_eq!(usage.kernel, usage.here),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Group(Option<usize>),
    Remove(usize),
    Mount,
    Unmount(usize),
    Add(usize, Option<usize>, u8),
    Del(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let any = 0..64_usize;
    let maybe = prop::option::weighted(0.8, 0..64_usize);
    prop_oneof![
        3 => maybe.clone().prop_map(Step::Group),
        2 => any.clone().prop_map(Step::Remove),
        2 => Just(Step::Mount),
        1 => any.clone().prop_map(Step::Unmount),
        8 => (any.clone(), maybe, 0..3_u8).prop_map(|(lru, group, node)| Step::Add(lru, group, node)),
        4 => any.prop_map(Step::Del),
    ]
}

fn pick(of: usize, n: usize) -> Option<usize> {
    (n > 0).then(|| of % n)
}

fn run(name: &str, nodes: u8, steps: &[Step]) {
    let machine = Machine { cpus: 1, nodes, cpu_node: vec![0], page_size: 4096 };
    let mut design = by_name(name, &machine).unwrap().unwrap();
    let mut model = Model { nodes, reparent_first: name != "tenalloc", ..Model::default() };
    for step in steps {
        take(step, &mut *design, &mut model);
        model.check(&*design);
    }
}

fn take(step: &Step, design: &mut dyn ListDesign, model: &mut Model) {
    let groups = model.ids.len();
    let group = |of: &Option<usize>| of.and_then(|of| pick(of, groups)).map(|g| GroupKey(g as u32));
    match step {
        Step::Group(parent) => {
            let parent = group(parent);
            let made = design.add_group(parent);
            assert_eq!(made.is_ok(), model.living(parent) == parent);
            if let Ok(key) = made {
                assert_eq!(key.0 as usize, groups);
                model.add_group(parent);
            }
        }
        Step::Remove(which) => {
            let Some(key) = group(&Some(*which)) else { return };
            let can = model.ids[key.0 as usize].is_some() && !model.has_children(key);
            assert_eq!(design.remove_group(key).is_ok(), can);
            if can {
                model.remove_group(key);
            }
        }
        Step::Mount => {
            model.mounts.push(Some(Mount::new(design).unwrap()));
            model.most_mounts = model.most_mounts.max(model.mounts.iter().flatten().count() as u64);
        }
        Step::Unmount(which) => {
            let Some(at) = pick(*which, model.mounts.len()) else { return };
            let Some(mount) = model.mounts[at] else { return };
            let of_it = [mount.dentries, mount.inodes];
            let used = model.lists.iter().any(|(key, list)| of_it.contains(&key.0) && !list.is_empty());
            if used {
                assert!(design.remove_shrinker(mount.shrinker).is_err());
                let busy =
                    of_it.map(|lru| model.lists.iter().any(|(k, list)| k.0 == lru && !list.is_empty()));
                for lru in of_it.into_iter().zip(busy).filter_map(|(lru, busy)| busy.then_some(lru)) {
                    assert!(matches!(design.remove_lru(lru), Err(ListError::LruInUse { .. })));
                }
                return;
            }
            mount.remove(design).unwrap();
            assert!(design.remove_lru(mount.inodes).is_err());
            model.mounts[at] = None;
            model.users.retain(|lru, _| !of_it.contains(lru));
        }
        Step::Add(which, of, node) => {
            let lrus: Vec<LruKey> = model.lrus().collect();
            let Some(at) = pick(*which, lrus.len()) else { return };
            let (lru, group) = (lrus[at], group(of));
            design.prepare(lru, group).unwrap();
            model.prepare(lru, group);
            let added = design.add(lru, group, *node);
            assert_eq!(added.is_ok(), *node < model.nodes);
            if let Ok(item) = added {
                let list = (lru, model.living(group), *node);
                model.lists.entry(list).or_default().push_back(item);
                model.items.push(item);
            }
        }
        Step::Del(which) => {
            let Some(at) = pick(*which, model.items.len()) else { return };
            let item = model.items.swap_remove(at);
            design.del(item).unwrap();
            assert!(design.del(item).is_err(), "deleted twice");
            model.lists.values_mut().for_each(|list| list.retain(|i| *i != item));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn every_generation_does_what_the_model_does(
        nodes in 1..4_u8,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        for name in Generation::ALL.iter().map(|g| g.name).chain(["tenalloc"]) {
            run(name, nodes, &steps);
        }
    }
}

/// 200 groups and their removal: three levels of ids in the tree never hold, two do; arrays grow six times.
#[test]
fn many_groups_in_one_list() {
    let mut steps = vec![Step::Mount];
    steps.extend((0..200).map(|_| Step::Group(None)));
    let add = |g: usize| Step::Add(0, Some(g), 0);
    steps.extend((0..200).step_by(7).map(add));
    steps.extend((0..200).rev().step_by(3).map(Step::Remove));
    steps.extend((0..40).map(|_| Step::Group(None)));
    steps.extend((0..200).step_by(5).map(add));
    for name in ["linux-5.9", "+transposed", "+lazy", "linux-5.18", "linux-6.18", "tenalloc"] {
        run(name, 2, &steps);
    }
}

#[test]
fn generations_differ_in_lists_only_as_the_table_says() {
    let lists = |name| Generation::by_name(name).map(|g| g.lists);
    assert_eq!(lists("+lazy"), Some(Lists::Lazy));
    let machine = Machine { cpus: 1, nodes: 2, cpu_node: vec![0], page_size: 4096 };
    for name in Generation::ALL.iter().map(|g| g.name).chain(["tenalloc"]) {
        assert_eq!(by_name(name, &machine).unwrap().unwrap().name(), name);
    }
    assert!(by_name("linux-2.6", &machine).is_none());
    assert!(by_name("linux-5.9", &Machine { nodes: 0, ..machine }).unwrap().is_err());
}
