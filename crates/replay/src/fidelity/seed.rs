//! A machine that has been running: each cache begins with the slabs and the live objects that the kernel had.
//!
//! The kernel tells how many objects of how many places are in use. Which places those are it does not tell; a place is
//! left free here with the same chance everywhere. What the kernel calls in use has the free objects of the CPUs' own slabs
//! in it, so that there is less free room here than there was.

use core::ptr::NonNull;
use tenalloc_designs::{CacheKey, Design, Error, Place};
use tenalloc_trace::Program;
use tenalloc_trace::slabinfo::CacheUse;

/// Objects that no step of the trace frees.
pub(super) fn seed(program: &Program, before: &[CacheUse], design: &mut dyn Design) -> Result<(), Error> {
    // Any number does: what counts is that it is the same in every run.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |n: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % n.max(1) as u64) as usize
    };
    for (key, cache) in program.caches.iter().enumerate() {
        let Some(line) = super::recorded::of(cache, before) else { continue };
        let places = line.slabs * u64::from(line.objects_per_slab);
        let mut objects: Vec<(u16, NonNull<u8>)> = Vec::new();
        for n in 0..places {
            // Slab by slab on the CPUs in turn.
            let slab = n / u64::from(line.objects_per_slab.max(1));
            let cpu = (slab % u64::from(program.cpus.max(1))) as u16;
            let object = design.alloc(Place { cpu, node: None }, CacheKey(key as u16), None)?;
            objects.push((cpu, object));
        }
        for _ in 0..places.saturating_sub(line.active_objects) {
            if objects.is_empty() {
                break;
            }
            let (cpu, object) = objects.swap_remove(below(objects.len()));
            // SAFETY: from `alloc` above, and out of the list now.
            unsafe { design.free(cpu, object)? }
        }
    }
    Ok(())
}
