//! SLUB rule by rule; [`model`] holds it against a plain model. After each step of both, all lists are walked and compared
//! with the counters.

mod model;

use super::*;
use crate::CacheSpec;

/// Counts the bytes of slabs that it was told of.
#[derive(Default)]
struct Told {
    bytes: u64,
    refuse: bool,
}

impl SlabEvents for Told {
    fn slab_wanted(&mut self, _: CacheId, bytes: u64) -> Result<(), Error> {
        if self.refuse {
            return Err(Error::TooMany("for this test"));
        }
        self.bytes += bytes;
        Ok(())
    }
    fn slab_gone(&mut self, _: CacheId, bytes: u64) {
        self.bytes -= bytes;
    }
}

fn machine() -> Machine {
    Machine { cpus: 3, nodes: 2, cpu_node: vec![0, 1, 0], page_size: 4096 }
}

fn place(cpu: u16, node: u8) -> Place {
    Place { cpu, node: Some(node) }
}

fn slub_of(sizes: &[u32]) -> (Slub, Vec<CacheId>, Engine) {
    let machine = machine();
    let engine = Engine::new(machine.nodes, machine.cpus).unwrap();
    let mut slub = Slub::new(engine.clone(), &machine);
    let cut = |&slot_size| Cut::new(&CacheSpec { name: "t", slot_size, geometry: None }, &machine).unwrap();
    let caches = sizes.iter().map(|size| slub.create(cut(size)).unwrap()).collect();
    (slub, caches, engine)
}

impl Slub {
    /// Walks everything and compares it with the counters.
    fn verify(&self, told: &Told) {
        let mut frozen = vec![false; self.slabs.len()];
        let mut listed = vec![false; self.slabs.len()];
        let chain = |mut object: *mut u8| {
            let mut length = 0;
            while !object.is_null() {
                length += 1;
                assert!(length <= 32767, "a free list in a circle");
                // SAFETY: on a free list.
                object = unsafe { next(object) };
            }
            length
        };
        let mut held = vec![0; self.slabs.len()];
        for (at, cpu) in self.cpus.iter().enumerate() {
            let cache = CacheId((at / usize::from(self.ncpus)) as u32);
            if cpu.slab != NONE {
                assert_eq!(self.slabs[cpu.slab as usize].cache, cache);
                held[cpu.slab as usize] = chain(cpu.freelist);
                assert!(!std::mem::replace(&mut frozen[cpu.slab as usize], true));
            } else {
                assert!(cpu.freelist.is_null());
            }
            let mut index = cpu.partial;
            while index != NONE {
                assert_eq!(self.slabs[index as usize].cache, cache);
                assert!(!std::mem::replace(&mut frozen[index as usize], true));
                index = self.slabs[index as usize].next;
            }
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let (mut index, mut prev, mut count) = (node.head, NONE, 0);
            while index != NONE {
                let slab = &self.slabs[index as usize];
                assert_eq!(self.node_at(slab.cache, slab.node), at);
                assert_eq!(slab.prev, prev);
                assert!(!slab.freelist.is_null(), "a full slab on a partial list");
                assert!(!std::mem::replace(&mut listed[index as usize], true));
                (prev, index, count) = (index, slab.next, count + 1);
            }
            assert_eq!((node.tail, node.nr_partial), (prev, count));
        }
        let (mut live, mut bytes, mut cached) = (0, 0, 0);
        let mut slabs = vec![0; self.caches.len()];
        for (index, slab) in self.slabs.iter().enumerate().filter(|(_, slab)| slab.used) {
            let cut = &self.caches[slab.cache.0 as usize].cut;
            let free = chain(slab.freelist);
            assert_eq!(slab.inuse + free, cut.objects);
            assert_eq!(slab.inuse, slab.live + held[index]);
            assert_eq!(slab.frozen, frozen[index]);
            assert_eq!(listed[index], !slab.frozen && free > 0, "lists do not fit the free objects");
            live += u64::from(slab.live * cut.size);
            bytes += u64::from(cut.slab_bytes);
            cached += if slab.frozen { u64::from((cut.objects - slab.live) * cut.size) } else { 0 };
            slabs[slab.cache.0 as usize] += 1;
        }
        assert_eq!((self.live_bytes, self.slab_bytes, self.cached_bytes), (live, bytes, cached));
        assert_eq!(slabs, self.caches.iter().map(|c| c.slabs).collect::<Vec<_>>());
        assert_eq!(told.bytes, bytes);
    }
}

/// A cache of 4096-byte objects, 8 a slab, with `slabs` slabs full of live objects of node 0, in the order they came.
fn full_slabs(slabs: usize) -> (Slub, CacheId, Told, Vec<Vec<NonNull<u8>>>) {
    let (mut slub, caches, _) = slub_of(&[4096]);
    let mut told = Told::default();
    let mut one = || (0..8).map(|_| slub.alloc(caches[0], place(0, 0), &mut told).unwrap()).collect();
    let objects = (0..slabs).map(|_| one()).collect();
    assert_eq!(slub.cache(caches[0]).slabs(), slabs as u64);
    (slub, caches[0], told, objects)
}

fn free(slub: &mut Slub, cpu: u16, object: NonNull<u8>, told: &mut Told) {
    let spot = slub.find(object).unwrap();
    // SAFETY: the tests free each object once.
    unsafe { slub.free(cpu, spot, told).unwrap() }
    slub.verify(told);
}

fn nr_partial(slub: &Slub, cache: CacheId, node: u8) -> u32 {
    slub.nodes[slub.node_at(cache, node)].nr_partial
}

#[test]
fn a_long_cpu_partial_list_drains_to_the_node() {
    // cpu_partial of objects of a page is 2: the list drains when a fourth slab comes onto three free objects.
    let (mut slub, cache, mut told, objects) = full_slabs(5);
    for slab in &objects[..3] {
        free(&mut slub, 0, slab[0], &mut told);
        assert_eq!(nr_partial(&slub, cache, 0), 0);
    }
    free(&mut slub, 0, objects[3][0], &mut told);
    assert_eq!(nr_partial(&slub, cache, 0), 3);
    assert_eq!(slub.cpus[slub.cpu_at(cache, 0)].partial, slub.find(objects[3][0]).unwrap().slab);
}

#[test]
fn a_cpu_takes_partial_slabs_until_it_has_half_of_cpu_partial() {
    let (mut slub, cache, mut told, objects) = full_slabs(5);
    for slab in &objects {
        free(&mut slub, 1, slab[0], &mut told);
    }
    // Three slabs lie at the node, one free object each; half of cpu_partial is 1, and 2 is the first number above.
    assert_eq!(nr_partial(&slub, cache, 0), 3);
    slub.alloc(cache, place(2, 0), &mut told).unwrap();
    slub.verify(&told);
    assert_eq!(nr_partial(&slub, cache, 0), 1);
    let cpu = slub.cpus[slub.cpu_at(cache, 2)];
    assert!(cpu.slab != NONE && cpu.partial != NONE && slub.slabs[cpu.partial as usize].next == NONE);
}

#[test]
fn empty_slabs_are_kept_up_to_min_partial() {
    let (mut slub, cache, mut told, objects) = full_slabs(12);
    assert_eq!(slub.cache(cache).cut.min_partial, 6);
    // One free object each: all but the last few drain to the node.
    for slab in &objects {
        free(&mut slub, 1, slab[0], &mut told);
    }
    for slab in &objects[..9] {
        slab[1..].iter().for_each(|&object| free(&mut slub, 1, object, &mut told));
    }
    // Nine slabs went to the node; emptied one by one, each was discarded while six were listed, itself among them.
    assert_eq!((nr_partial(&slub, cache, 0), slub.cache(cache).slabs()), (5, 8));
    slub.shrink(cache, &mut told);
    slub.verify(&told);
    assert_eq!((nr_partial(&slub, cache, 0), slub.cache(cache).slabs()), (3, 3));
    assert_eq!(slub.cached_bytes(), 0);
}

#[test]
fn a_drain_discards_an_empty_slab_when_the_node_has_min_partial() {
    let (mut slub, cache, mut told, objects) = full_slabs(12);
    // Six slabs at the node; on the CPU three, the newest of them empty.
    for slab in &objects[..9] {
        free(&mut slub, 1, slab[0], &mut told);
    }
    objects[8][1..].iter().for_each(|&object| free(&mut slub, 1, object, &mut told));
    assert_eq!((nr_partial(&slub, cache, 0), slub.cache(cache).slabs()), (6, 12));
    free(&mut slub, 1, objects[9][0], &mut told);
    assert_eq!((nr_partial(&slub, cache, 0), slub.cache(cache).slabs()), (8, 11));
}

#[test]
fn a_deactivated_cache_keeps_no_empty_slab() {
    let (mut slub, cache, mut told, objects) = full_slabs(3);
    slub.deactivate(cache, &mut told);
    for (gone, slab) in objects.iter().enumerate() {
        assert_eq!(slub.cache(cache).slabs(), 3 - gone as u64);
        slab.iter().for_each(|&object| free(&mut slub, 2, object, &mut told));
    }
    assert_eq!(slub.slab_bytes(), 0);
    assert!(slub.destroy(cache) && !slub.destroy(cache));
}

#[test]
fn another_node_takes_the_slab_off_the_cpu() {
    let (mut slub, caches, _) = slub_of(&[64]);
    let (cache, mut told) = (caches[0], Told::default());
    let near = slub.alloc(cache, place(0, 0), &mut told).unwrap();
    slub.alloc(cache, place(0, 1), &mut told).unwrap();
    slub.verify(&told);
    assert_eq!((nr_partial(&slub, cache, 0), nr_partial(&slub, cache, 1)), (1, 0));
    // Back again: from the partial list of node 0, not from new pages.
    let again = slub.alloc(cache, place(0, 0), &mut told).unwrap();
    assert_eq!(slub.find(near).unwrap().slab, slub.find(again).unwrap().slab);
    assert_eq!(slub.cache(cache).slabs(), 2);
    slub.verify(&told);
}

#[test]
fn a_slab_into_which_others_free_goes_to_the_end_of_the_list() {
    for first in [0, 1] {
        let (mut slub, caches, _) = slub_of(&[4096]);
        let (cache, mut told) = (caches[0], Told::default());
        let quiet = slub.alloc(cache, place(0, 0), &mut told).unwrap();
        slub.alloc(cache, place(1, 0), &mut told).unwrap();
        let remote = slub.alloc(cache, place(1, 0), &mut told).unwrap();
        free(&mut slub, 0, remote, &mut told);
        // Both CPUs lose their slabs to the other node, in either order.
        for cpu in [first, 1 - first] {
            slub.alloc(cache, place(cpu, 1), &mut told).unwrap();
        }
        let taken = slub.alloc(cache, place(2, 0), &mut told).unwrap();
        assert_eq!(slub.find(taken).unwrap().slab, slub.find(quiet).unwrap().slab);
        slub.verify(&told);
    }
}

#[test]
fn frees_of_other_cpus_come_back_when_the_slab_runs_dry() {
    let (mut slub, caches, _) = slub_of(&[4096]);
    let (cache, mut told) = (caches[0], Told::default());
    let first = slub.alloc(cache, place(0, 0), &mut told).unwrap();
    free(&mut slub, 1, first, &mut told);
    let seven: Vec<_> = (0..7).map(|_| slub.alloc(cache, place(0, 0), &mut told).unwrap()).collect();
    assert!(!seven.contains(&first), "the CPU's own list comes first");
    assert_eq!(slub.alloc(cache, place(0, 0), &mut told).unwrap(), first);
    assert_eq!(slub.cache(cache).slabs(), 1);
}

#[test]
fn a_shrink_puts_the_fullest_slab_first() {
    let (mut slub, cache, mut told, objects) = full_slabs(3);
    for (slab, count) in [(0, 5), (1, 2), (2, 4)] {
        objects[slab][..count].iter().for_each(|&object| free(&mut slub, 0, object, &mut told));
    }
    slub.shrink(cache, &mut told);
    slub.verify(&told);
    let from = slub.alloc(cache, place(1, 0), &mut told).unwrap();
    assert!(objects[1].contains(&from));
}

#[test]
fn misuse_is_told_and_changes_nothing() {
    let (mut slub, caches, _) = slub_of(&[64]);
    let (cache, mut told) = (caches[0], Told::default());
    let object = slub.alloc(cache, place(0, 0), &mut told).unwrap();
    let stack = NonNull::from(&told).cast();
    assert!(matches!(slub.find(stack), Err(Error::ForeignPointer(_))));
    let spot = slub.find(object).unwrap();
    free(&mut slub, 0, object, &mut told);
    for cpu in 0..3 {
        // SAFETY: not live: exactly what must be refused.
        let twice = unsafe { slub.free(cpu, spot, &mut told) };
        assert_eq!(twice, Err(Error::DoubleFree(object.as_ptr().addr())));
        slub.verify(&told);
    }
    assert_eq!(slub.check_place(place(3, 0)), Err(Error::UnknownCpu { cpu: 3, cpus: 3 }));
    assert_eq!(slub.check_place(place(0, 2)), Err(Error::UnknownNode { node: 2, nodes: 2 }));
}

#[test]
fn a_refused_slab_leaves_nothing_behind() {
    let (mut slub, caches, engine) = slub_of(&[64]);
    let mut told = Told { refuse: true, ..Told::default() };
    assert!(slub.alloc(caches[0], place(0, 0), &mut told).is_err());
    slub.verify(&told);
    assert_eq!((slub.slab_bytes(), engine.bytes_out()), (0, 0));
    told.refuse = false;
    slub.alloc(caches[0], place(0, 0), &mut told).unwrap();
    assert_eq!(engine.bytes_out(), 4096);
    drop(slub);
    assert_eq!(engine.bytes_out(), 0, "an allocator that goes takes its pages along");
}

#[test]
fn a_slab_that_cannot_be_had_is_not_charged() {
    // The engine has a node fewer than the machine: it has no pages there.
    let machine = machine();
    let engine = Engine::new(1, machine.cpus).unwrap();
    let mut slub = Slub::new(engine.clone(), &machine);
    let cut = Cut::new(&CacheSpec { name: "t", slot_size: 64, geometry: None }, &machine).unwrap();
    let (cache, mut told) = (slub.create(cut).unwrap(), Told::default());
    assert!(matches!(slub.alloc(cache, place(0, 1), &mut told), Err(Error::Engine(_))));
    slub.verify(&told);
    slub.alloc(cache, place(0, 0), &mut told).unwrap();
    slub.verify(&told);
}
