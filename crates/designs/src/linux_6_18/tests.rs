//! Sheaves by hand: how many objects lie near a CPU, and what a foreign node changes.

use core::ptr::NonNull;

use super::*;
use crate::{CacheKey, CacheSpec, Design, Machine, Place};

fn design(slot_size: u32) -> Linux618 {
    let machine = Machine { cpus: 2, nodes: 2, cpu_node: vec![0, 1], page_size: 4096 };
    let mut design = Linux618::new(&machine).unwrap();
    design.add_cache(&CacheSpec { name: "t", slot_size, geometry: None }).unwrap();
    design
}

fn alloc(design: &mut Linux618, cpu: u16, node: Option<u8>) -> NonNull<u8> {
    design.alloc(Place { cpu, node }, CacheKey(0), None).unwrap()
}

fn free(design: &mut Linux618, cpu: u16, object: NonNull<u8>) {
    // SAFETY: the tests free each object once.
    unsafe { design.free(cpu, object).unwrap() }
}

#[test]
fn one_object_fills_a_sheaf_and_no_slab_is_held() {
    // 60 objects of 64 bytes, of one slab of 64.
    let mut design = design(64);
    let object = alloc(&mut design, 0, None);
    let usage = design.usage();
    assert_eq!((usage.live, usage.cached, usage.slab), (64, 59 * 64, 4096));
    free(&mut design, 0, object);
    assert_eq!(design.usage().cached, 60 * 64);
    // The last one freed comes first.
    assert_eq!(alloc(&mut design, 0, None), object);
}

#[test]
fn capacities_are_those_of_the_kernel() {
    // 64 bytes: 60; 256: 26, and two more that the kmalloc bucket has room for; 1,024: 12; a page: 4.
    for (slot_size, capacity) in [(64, 60), (256, 28), (1024, 12), (4096, 4)] {
        let mut design = design(slot_size);
        alloc(&mut design, 0, None);
        assert_eq!(design.usage().cached, u64::from(slot_size) * (capacity - 1), "{slot_size}");
    }
}

#[test]
fn a_flood_of_frees_stays_in_two_sheaves_and_ten_of_the_barn() {
    let mut design = design(4096);
    let objects: Vec<_> = (0..200).map(|_| alloc(&mut design, 0, None)).collect();
    for object in objects {
        free(&mut design, 0, object);
    }
    let held = design.usage().cached / 4096;
    // Main, spare, ten full ones; the spare is flushed when all are full.
    assert!((44..=48).contains(&held), "{held}");
    // What went back to slabs left no more than the empty ones a node keeps.
    assert!(design.usage().slab / 32768 <= 6 + 6 + 1, "{}", design.usage().slab);
}

#[test]
fn what_lies_on_a_foreign_node_goes_straight_to_its_slab() {
    let mut design = design(4096);
    let far = alloc(&mut design, 0, Some(1));
    assert_eq!(design.usage().cached, 0, "taken past the sheaves");
    free(&mut design, 0, far);
    assert_eq!(design.usage().cached, 0, "and given back past them");
    let far = alloc(&mut design, 0, Some(1));
    free(&mut design, 1, far);
    assert_eq!(design.usage().cached, 4096, "near on its own node's CPU");
}
