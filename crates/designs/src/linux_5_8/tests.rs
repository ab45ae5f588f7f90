//! The idea of 5.8, by hand: who pays, for how much, and what is left when a group goes.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::kernel::caches;

fn machine() -> Machine {
    Machine { cpus: 2, nodes: 2, cpu_node: vec![0, 1], page_size: 4096 }
}

fn design(sizes: &[u32]) -> Linux58 {
    let mut design = Linux58::new(&machine()).unwrap();
    for &slot_size in sizes {
        design.add_cache(&CacheSpec { name: "t", slot_size, geometry: None }).unwrap();
    }
    design
}

const HERE: Place = Place { cpu: 0, node: Some(0) };
const FIRST: CacheKey = CacheKey(0);

fn free(design: &mut Linux58, object: NonNull<u8>) {
    // SAFETY: the tests free each object once.
    unsafe { design.free(0, object).unwrap() }
}

/// Every slab: its cache, its bytes, the group now charged, its live objects.
fn slabs(design: &Linux58) -> Vec<(CacheKey, u64, Option<GroupKey>, u32)> {
    let mut all = Vec::new();
    design.slub.each_slab(|slab| {
        let params = &design.clones.params[slab.cache.0 as usize];
        all.push((params.root, slab.bytes, params.memcg, slab.live));
    });
    all
}

/// The group now charged and the live objects of every slab.
fn owners(design: &Linux58) -> Vec<(Option<GroupKey>, u32)> {
    slabs(design).into_iter().map(|(_, _, group, live)| (group, live)).collect()
}

#[test]
fn ten_groups_with_one_object_take_ten_slabs() {
    let mut design = design(&[64]);
    for _ in 0..10 {
        design.alloc(HERE, FIRST, None).unwrap();
    }
    assert_eq!(design.caches(), [CacheUsage { objects: 10, slabs: 1, slab_bytes: 4096 }]);
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"] {
        let group = design.add_group(None, name).unwrap();
        design.alloc(HERE, FIRST, Some(group)).unwrap();
        assert_eq!((design.charge(group), design.pages(group)), (72, 4096));
    }
    assert_eq!(design.caches(), [CacheUsage { objects: 20, slabs: 11, slab_bytes: 11 * 4096 }]);
    assert!(slabs(&design).iter().all(|slab| (slab.0, slab.1) == (FIRST, 4096)));
    let mut owners = owners(&design);
    owners.sort();
    let expected = (0..10).map(|group| (Some(GroupKey(group)), 1));
    assert_eq!(owners, [(None, 10)].into_iter().chain(expected).collect::<Vec<_>>());
}

#[test]
fn a_removed_group_passes_its_clones_to_its_parent() {
    let mut design = design(&[4096]);
    let parent = design.add_group(None, "parent").unwrap();
    let child = design.add_group(Some(parent), "child").unwrap();
    // Eight objects a slab: two slabs, the second empty but for one object.
    let objects: Vec<_> = (0..9).map(|_| design.alloc(HERE, FIRST, Some(child)).unwrap()).collect();
    assert_eq!(design.remove_group(parent), Err(Error::GroupHasChildren(parent)));
    let before = (design.charge(parent), design.pages(parent), design.usage().metadata);
    assert_eq!((before.0, before.1), (9 * 4104, 2 * 32768));
    assert_eq!((design.charge(child), design.pages(child)), (before.0, before.1));
    design.remove_group(child).unwrap();
    assert_eq!((design.charge(parent), design.pages(parent), design.usage().metadata), before);
    assert_eq!((design.charge(child), design.pages(child), design.orphans()), (0, 0, 1));
    assert_eq!(owners(&design), [(Some(parent), 8), (Some(parent), 1)]);
    let slab_of = |i: usize| design.slab_of(objects[i]);
    assert!(slab_of(0) == slab_of(7) && slab_of(7) != slab_of(8) && slab_of(8).is_some());
    // The parent's own objects do not fill the orphan's slab; a straggler's go to the parent.
    design.alloc(HERE, FIRST, Some(parent)).unwrap();
    design.alloc(HERE, FIRST, Some(child)).unwrap();
    assert_eq!(design.caches(), [CacheUsage { objects: 11, slabs: 3, slab_bytes: 3 * 32768 }]);
    // The last object of a slab takes the slab along, the last slab the clone.
    free(&mut design, objects[8]);
    assert_eq!((design.pages(parent), design.orphans()), (2 * 32768, 1));
    for &object in &objects[..8] {
        free(&mut design, object);
    }
    assert_eq!((design.charge(parent), design.pages(parent), design.orphans()), (2 * 4104, 32768, 0));
    design.remove_group(parent).unwrap();
    // To the root: charged to no group that has a key.
    assert_eq!((owners(&design), design.orphans()), (vec![(None, 2)], 1));
}

#[test]
fn an_empty_slab_of_a_removed_group_goes_at_once() {
    let mut design = design(&[64, 192]);
    let group = design.add_group(None, "g").unwrap();
    let objects: Vec<_> =
        [0, 1].map(|cache| design.alloc(HERE, CacheKey(cache), Some(group)).unwrap()).to_vec();
    free(&mut design, objects[0]);
    assert_eq!(design.slab_bytes(), 2 * 4096, "kept near the CPU while the group lives");
    assert_eq!(design.usage().cached, 64 * 64 + 20 * 192);
    design.remove_group(group).unwrap();
    assert_eq!((design.slab_bytes(), design.orphans()), (4096, 1));
    assert_eq!(design.usage().cached, 0);
}

#[test]
fn metadata_is_the_kernels_by_formula() {
    let mut design = design(&[64, 192, 256]);
    let cache = caches::kmem_cache(2, 2);
    assert_eq!(cache, 448 + 16 + 128 + 64);
    assert_eq!(design.usage().metadata, 3 * cache);
    let groups = ["a", "b", "c", "d", "e"].map(|name| design.add_group(None, name).unwrap());
    // The fifth id makes the arrays 10 long: 96 bytes, as it happens a size class.
    assert_eq!(design.usage().metadata, 3 * cache + 3 * 96);
    for group in groups {
        design.alloc(HERE, CacheKey(1), Some(group)).unwrap();
    }
    let held = 3 * cache + 3 * 96 + 5 * (cache + 16 + 64);
    assert_eq!(design.usage().metadata, held);
    // Ids are used again: a hundred groups, one after the other, make no array grow.
    for _ in 0..100 {
        let group = design.add_group(None, "g").unwrap();
        design.alloc(HERE, FIRST, Some(group)).map(|object| free(&mut design, object)).unwrap();
        design.remove_group(group).unwrap();
    }
    assert_eq!(design.usage().metadata, held);
}

#[test]
fn misuse_is_told() {
    let mut design = design(&[64]);
    let none = GroupKey(0);
    assert_eq!(design.alloc(HERE, CacheKey(1), None), Err(Error::UnknownCache(CacheKey(1))));
    assert_eq!(design.alloc(HERE, FIRST, Some(none)), Err(Error::UnknownGroup(none)));
    assert_eq!(design.add_group(Some(none), "g"), Err(Error::UnknownGroup(none)));
    assert_eq!(design.remove_group(none), Err(Error::UnknownGroup(none)));
    let far = Place { cpu: 0, node: Some(2) };
    assert_eq!(design.alloc(far, FIRST, None), Err(Error::UnknownNode { node: 2, nodes: 2 }));
    let group = design.add_group(None, "g").unwrap();
    assert_eq!(group, none, "failed calls use up no key");
    assert!(matches!(design.add_group(None, "g"), Err(Error::Engine(_))), "a name that is taken");
    assert_eq!(design.add_group(None, "h").unwrap(), GroupKey(1));
    design.remove_group(group).unwrap();
    assert_eq!(design.remove_group(group), Err(Error::RemovedGroup(group)));
    assert_eq!(design.add_group(Some(group), "g"), Err(Error::RemovedGroup(group)));
    let object = design.alloc(HERE, FIRST, None).unwrap();
    // SAFETY: no such CPU: refused before the object is touched.
    assert_eq!(unsafe { design.free(2, object) }, Err(Error::UnknownCpu { cpu: 2, cpus: 2 }));
    let none = Machine { cpus: 2, nodes: 1, cpu_node: vec![0], page_size: 4096 };
    assert!(matches!(Linux58::new(&none), Err(Error::Machine(_))));
}

#[derive(Clone, Debug)]
enum Step {
    Group { parent: usize },
    Remove { pick: usize },
    Alloc { cpu: u16, node: u8, cache: u16, group: usize, count: usize },
    Free { cpu: u16, pick: usize, count: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => any::<usize>().prop_map(|parent| Step::Group { parent }),
        1 => any::<usize>().prop_map(|pick| Step::Remove { pick }),
        6 => (0..2u16, 0..2u8, 0..3u16, any::<usize>(), 1..40usize)
            .prop_map(|(cpu, node, cache, group, count)| Step::Alloc { cpu, node, cache, group, count }),
        5 => (0..2u16, any::<usize>(), 1..40usize)
            .prop_map(|(cpu, pick, count)| Step::Free { cpu, pick, count }),
    ];
    proptest::collection::vec(step, 1..100)
}

const SIZES: [u32; 3] = [32, 640, 4096];

/// The model: parents as first given, whether a group lives, and for each live object its size and group.
#[derive(Default)]
struct Model {
    groups: Vec<(Option<usize>, bool)>,
    objects: Vec<(NonNull<u8>, u32, Option<usize>)>,
}

impl Model {
    fn is_below(&self, mut group: Option<usize>, above: usize) -> bool {
        while let Some(at) = group {
            if at == above {
                return true;
            }
            group = self.groups[at].0;
        }
        false
    }
    fn living(&self, mut group: Option<usize>) -> Option<usize> {
        while let Some(at) = group.filter(|&at| !self.groups[at].1) {
            group = self.groups[at].0;
        }
        group
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    /// After every step: `charge` = Σ over live objects, `pages` = Σ over slabs of the group's subtree.
    #[test]
    fn who_pays_against_a_plain_model(steps in steps()) {
        let mut design = design(&SIZES);
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Group { parent } => {
                    let parent = (parent % (model.groups.len() + 1)).checked_sub(1);
                    let name = format!("g{}", model.groups.len());
                    let made = design.add_group(parent.map(|p| GroupKey(p as u32)), &name);
                    if parent.is_none_or(|p| model.groups[p].1) {
                        prop_assert_eq!(made, Ok(GroupKey(model.groups.len() as u32)));
                        model.groups.push((parent, true));
                    } else {
                        prop_assert!(made.is_err());
                    }
                }
                Step::Remove { pick } if !model.groups.is_empty() => {
                    let pick = pick % model.groups.len();
                    let leaf = !model.groups.iter().any(|&(parent, alive)| alive && parent == Some(pick));
                    let removed = design.remove_group(GroupKey(pick as u32));
                    prop_assert_eq!(removed.is_ok(), leaf && model.groups[pick].1);
                    if removed.is_ok() {
                        model.groups[pick].1 = false;
                    }
                }
                Step::Remove { .. } => {}
                Step::Alloc { cpu, node, cache, group, count } => for _ in 0..count {
                    let group = (group % (model.groups.len() + 1)).checked_sub(1);
                    let key = group.map(|g| GroupKey(g as u32));
                    let object = design.alloc(Place { cpu, node: Some(node) }, CacheKey(cache), key).unwrap();
                    model.objects.push((object, SIZES[usize::from(cache)], group));
                },
                Step::Free { cpu, pick, count } => for _ in 0..count.min(model.objects.len()) {
                    let (object, ..) = model.objects.swap_remove(pick % model.objects.len());
                    // SAFETY: live, and out of the model now.
                    unsafe { design.free(cpu, object).unwrap() }
                },
            }
            let mut sums: HashMap<Option<usize>, (u64, u64)> = HashMap::new();
            let mut empty = 0;
            for (_, bytes, group, live) in slabs(&design) {
                if live == 0 {
                    empty += bytes;
                } else {
                    let sum = sums.entry(group.map(|g| g.0 as usize)).or_default();
                    *sum = (sum.0 + u64::from(live), sum.1 + bytes);
                }
            }
            let mut counted: HashMap<Option<usize>, u64> = HashMap::new();
            for &(_, _, group) in &model.objects {
                *counted.entry(model.living(group)).or_default() += 1;
            }
            prop_assert_eq!(&counted, &sums.iter().map(|(&g, s)| (g, s.0)).collect::<HashMap<_, _>>());
            let mut charged = 0;
            for (group, &(_, alive)) in model.groups.iter().enumerate() {
                let key = GroupKey(group as u32);
                let of_group = model.objects.iter().filter(|o| model.is_below(o.2, group));
                let charge = of_group.map(|o| u64::from(o.1) + 8).sum::<u64>();
                prop_assert_eq!(design.charge(key), if alive { charge } else { 0 });
                let pages: u64 =
                    sums.iter().filter(|(g, _)| model.is_below(**g, group)).map(|(_, s)| s.1).sum();
                let is = design.pages(key);
                // Beyond the slabs with objects at most the empty ones that the group keeps.
                let most = if alive { pages + empty } else { 0 };
                prop_assert!(is <= most && (is >= pages || !alive), "{is} of {pages} to {most}");
                charged += if model.groups[group].0.is_none() { is } else { 0 };
            }
            prop_assert!(charged <= design.slab_bytes());
        }
        // All gone, from the leaves up: nothing stays charged, no orphan, and slabs only of the root caches.
        for (object, ..) in model.objects {
            // SAFETY: live.
            unsafe { design.free(1, object).unwrap() }
        }
        for group in (0..model.groups.len()).rev().filter(|&g| model.groups[g].1) {
            design.remove_group(GroupKey(group as u32)).unwrap();
        }
        prop_assert_eq!((design.orphans(), design.clones.clones), (0, 0));
        prop_assert!(slabs(&design).iter().all(|slab| slab.3 == 0));
        let roots: u64 = design.roots.iter().map(|r| design.slub.cache(r.cache).slabs()).sum();
        prop_assert_eq!(design.caches().iter().map(|c| c.slabs).sum::<u64>(), roots);
        prop_assert_eq!(design.usage().live, 0);
    }
}
