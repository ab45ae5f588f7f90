//! The published and computed figures of each generation, counted from what was built.

use crate::kernel::Generation;
use crate::kernel::generation::Lists;
use crate::lists::{ListDesign, LruKey, Made, Mount, What, by_name, compose};
use crate::{GroupKey, Machine};

fn machine(nodes: u8) -> Machine {
    Machine { cpus: 1, nodes, cpu_node: vec![0], page_size: 4096 }
}

/// A machine with so many groups below the root, and nothing of shrinkers.
fn with_groups(lists: Lists, nodes: u8, groups: u32) -> Box<dyn ListDesign> {
    let mut design = compose("test", lists, None, &machine(nodes)).unwrap();
    (0..groups).for_each(|key| assert_eq!(design.add_group(None), Ok(GroupKey(key))));
    design
}

fn add_lru(design: &mut dyn ListDesign) -> LruKey {
    let shrinker = design.add_shrinker().unwrap();
    design.add_lru(shrinker).unwrap()
}

fn made(design: &dyn ListDesign, what: What, taken: u64) -> (u64, u64) {
    let rows = design.made().into_iter().filter(|m| m.what == what && m.taken == taken);
    rows.fold((0, 0), |sum, Made { made, live, .. }| (sum.0 + made, sum.1 + live))
}

const ALL: [Lists; 5] = [Lists::Eager, Lists::Transposed, Lists::Lazy, Lists::Sparse, Lists::Locked];

/// 10,000 groups, 2 nodes, one user of the list_lru: linux.md, 2.8.
#[test]
fn one_list_lru_with_one_user_at_ten_thousand_groups() {
    let bytes = ALL.map(|lists| {
        let mut design = with_groups(lists, 2, 10_000);
        let lru = add_lru(&mut *design);
        design.prepare(lru, Some(GroupKey(9_000))).unwrap();
        design.usage().kernel.total()
    });
    assert_eq!(bytes, [1_048_576, 917_504, 131_264, 1_920, 1_952]);
}

/// What each step of the series saves a list_lru without users: an array of 128 KiB, 12,286 heads of 64 bytes, an array.
#[test]
fn the_steps_of_the_series() {
    let bytes = ALL.map(|lists| {
        let mut design = with_groups(lists, 2, 10_000);
        add_lru(&mut *design);
        design.usage().kernel.total()
    });
    let saved: Vec<u64> = bytes.windows(2).map(|pair| pair[0] - pair[1]).collect();
    assert_eq!(saved, [131_072, 64 * 12_286, 131_072, 0]);
}

/// A·B·C·D of Rao's post for a mount, and 24,574 ids on 4 nodes: about 3 MB of heads a list_lru (Song).
#[test]
fn heads_of_32_bytes() {
    let mut design = with_groups(Lists::Eager, 2, 10_000);
    Mount::new(&mut *design).unwrap();
    assert_eq!(made(&*design, What::Heads, 32), (2 * 2 * 12_286, 2 * 2 * 12_286));
    assert_eq!(design.usage().kernel.heads, 1_572_608);
    assert_eq!(made(&*design, What::Index, 131_072), (4, 4));

    let mut design = with_groups(Lists::Eager, 4, 12_287);
    add_lru(&mut *design);
    assert_eq!(design.usage().kernel.heads, 3_145_472);
}

/// With the mount first, its arrays grow step by step, and each array but the last was made for nothing.
#[test]
fn growth_makes_every_array_anew_and_no_head_twice() {
    let mut design = with_groups(Lists::Eager, 2, 0);
    let mount = Mount::new(&mut *design).unwrap();
    (0..100).for_each(|_| assert!(design.add_group(None).is_ok()));
    let arrays: Vec<(u64, u64, u64)> = design
        .made()
        .iter()
        .filter(|m| m.what == What::Index)
        .map(|m| ((m.asked - 16) / 8, m.made, m.live))
        .collect();
    assert_eq!(arrays, [(4, 4, 0), (10, 4, 0), (22, 4, 0), (46, 4, 0), (94, 4, 0), (190, 4, 4)]);
    assert_eq!(made(&*design, What::Heads, 32), (4 * 190, 4 * 190));

    // Groups go, heads stay; with the mount they go.
    (0..100).for_each(|key| design.remove_group(GroupKey(key)).unwrap());
    assert_eq!(made(&*design, What::Heads, 32), (4 * 190, 4 * 190));
    mount.remove(&mut *design).unwrap();
    assert_eq!(made(&*design, What::Heads, 32), (4 * 190, 0));
    assert_eq!(design.usage().kernel.total(), 0);
    assert!(design.usage().here.total() <= 32 << 10, "{:?}", design.usage().here);
}

/// Lazy heads go with their group, and the tree's nodes with them.
#[test]
fn what_is_lazy_goes_with_its_group() {
    for lists in [Lists::Lazy, Lists::Sparse, Lists::Locked] {
        let mut design = with_groups(lists, 2, 5_000);
        let lru = add_lru(&mut *design);
        let unused = design.usage().kernel;
        for key in (0..5_000).step_by(100) {
            design.prepare(lru, Some(GroupKey(key))).unwrap();
        }
        assert!(design.usage().kernel.heads >= 50 * 64, "{lists:?}");
        (0..5_000).for_each(|key| design.remove_group(GroupKey(key)).unwrap());
        assert_eq!(design.usage().kernel, unused, "{lists:?}");
    }
}

/// 10,000 groups on 2 nodes with room for 10,000 mounts: bytes of shrinker state, linux.md 2.7. Mounts first, so that
/// nothing is made twice.
#[test]
fn shrinker_state_for_all() {
    let kernel = |name| {
        let mut design = by_name(name, &machine(2)).unwrap().unwrap();
        (0..10_000).for_each(|_| assert!(design.add_shrinker().is_ok()));
        // 100 groups stand for 10,000: each takes the same.
        (0..100).for_each(|_| assert!(design.add_group(None).is_ok()));
        design.usage().kernel.shrinkers * 100
    };
    assert_eq!(kernel("linux-5.18"), 2_500 << 20);
    assert_eq!(kernel("linux-6.18"), 20_000 * (2048 + 157 * 1024));
    assert_eq!(kernel("linux-5.9"), 20_000 * 2048);
    assert_eq!(kernel("tenalloc"), 0, "no list, no state");
}

/// No id is left after 65,535, or 65,534 where the root has one; afterwards one is free again.
#[test]
fn ids_end() {
    for (lists, most) in [(Lists::Lazy, 65_535), (Lists::Locked, 65_534)] {
        let mut design = with_groups(lists, 1, most);
        let error = design.add_group(None).unwrap_err().to_string();
        assert!(error.contains("65,535"), "{error}");
        design.remove_group(GroupKey(7)).unwrap();
        assert_eq!(design.add_group(None), Ok(GroupKey(most)));
    }
}

/// An object whose lists were never made is told, where Linux followed a null pointer.
#[test]
fn an_item_without_a_list_is_told() {
    for generation in &Generation::ALL {
        let mut design = by_name(generation.name, &machine(1)).unwrap().unwrap();
        let group = design.add_group(None).unwrap();
        let lru = add_lru(&mut *design);
        let added = design.add(lru, Some(group), 0);
        assert_eq!(added.is_ok(), matches!(generation.lists, Lists::Eager | Lists::Transposed));
        assert!(design.add(LruKey(9), None, 0).is_err());
        assert!(design.prepare(lru, Some(GroupKey(9))).is_err());
    }
}
