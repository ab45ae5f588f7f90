//! Giving an object back, to the slab it lies in; and giving slabs back.

use core::cmp::Reverse;

use super::{CacheId, NONE, SlabEvents, Slub, Spot, set_next};
use crate::Error;
use crate::geometry::CpuPartial;

/// `SHRINK_PROMOTE_MAX`: slabs with at most so many free objects are put first by a shrink.
const SHRINK_PROMOTE_MAX: u32 = 32;

impl Slub {
    /// `do_slab_free()`, `__slab_free()`: the object goes back on `cpu`, which was checked.
    ///
    /// A double free is seen when it is the last object freed into its slab or when nothing of the slab is live, as
    /// `CONFIG_SLAB_FREELIST_HARDENED` does; others are not.
    ///
    /// # Safety
    /// The object is live and nobody uses it any more.
    #[inline]
    pub(crate) unsafe fn free(
        &mut self,
        cpu: u16,
        spot: Spot,
        events: &mut impl SlabEvents,
    ) -> Result<(), Error> {
        let Spot { object, slab: index, cache } = spot;
        let object = object.as_ptr();
        let at = self.cpu_at(cache, cpu);
        let cpu = &mut self.cpus[at];
        let slab = &mut self.slabs[index as usize];
        let mine = cpu.slab == index;
        let head = if mine { cpu.freelist } else { slab.freelist };
        if slab.live == 0 || head == object {
            return Err(Error::DoubleFree(object.addr()));
        }
        slab.live -= 1;
        let counts = &mut self.caches[cache.0 as usize];
        counts.live -= 1;
        let size = u64::from(counts.cut.size);
        self.live_bytes -= size;
        // SAFETY: the caller gives up the object.
        unsafe { set_next(object, head) }
        if mine {
            cpu.freelist = object;
            self.cached_bytes += size;
            return Ok(());
        }
        slab.freelist = object;
        slab.inuse -= 1;
        if slab.frozen {
            self.cached_bytes += size; // some other CPU's slab, or on a CPU's partial list
        } else if head.is_null() {
            // It was full and on no list.
            self.set_frozen(index, true);
            self.put_cpu_partial(cache, at, index, true, events);
        } else if slab.inuse == 0 {
            let node_at = self.node_at(cache, self.slabs[index as usize].node);
            if self.nodes[node_at].nr_partial >= self.caches[cache.0 as usize].cut.min_partial {
                self.remove_partial(index);
                self.discard_slab(index, events);
            }
        }
        Ok(())
    }

    /// `__kmem_cache_shrink()`: no CPU holds a slab, no slab is empty, the fullest slabs come first.
    pub(crate) fn shrink(&mut self, cache: CacheId, events: &mut impl SlabEvents) {
        for cpu in 0..self.ncpus {
            self.flush_cpu(cache, cpu, events);
        }
        let objects = self.caches[cache.0 as usize].cut.objects;
        for node in 0..self.nnodes {
            let node_at = self.node_at(cache, node);
            let mut partial = Vec::new();
            while self.nodes[node_at].head != NONE {
                let index = self.nodes[node_at].head;
                self.remove_partial(index);
                match objects - self.slabs[index as usize].inuse {
                    free if free == objects => self.discard_slab(index, events),
                    free => partial.push((index, free)),
                }
            }
            // list_move() turns the order within each count round; the rest stays as it was.
            let mut sorted: Vec<_> = partial.iter().enumerate().collect();
            sorted.sort_by_key(|&(place, &(_, free))| match free {
                ..=SHRINK_PROMOTE_MAX => (free, Reverse(place)),
                _ => (SHRINK_PROMOTE_MAX + 1, Reverse(usize::MAX - place)),
            });
            for (_, &(index, _)) in sorted {
                self.add_partial(index, true);
            }
        }
    }

    /// `__kmemcg_cache_deactivate()` and, after it, `__kmemcg_cache_deactivate_after_rcu()`: from now on the cache keeps
    /// no empty slab.
    pub(crate) fn deactivate(&mut self, cache: CacheId, events: &mut impl SlabEvents) {
        let cut = &mut self.caches[cache.0 as usize].cut;
        cut.cpu_partial = CpuPartial::NONE;
        cut.min_partial = 0;
        self.shrink(cache, events);
    }

    /// `discard_slab()`: the slab is on no list and has no live object.
    pub(super) fn discard_slab(&mut self, index: u32, events: &mut impl SlabEvents) {
        events.slab_dies(index);
        let slab = &mut self.slabs[index as usize];
        let (cache, base) = (slab.cache, slab.base);
        slab.used = false;
        slab.next = self.spare_slab;
        self.spare_slab = index;
        let counts = &mut self.caches[cache.0 as usize];
        counts.slabs -= 1;
        let bytes = counts.slab_bytes();
        self.slab_bytes -= bytes;
        // The same pages were entered before, so that this cannot fail.
        let _ = self.memmap.set(base.as_ptr().addr(), bytes as usize, None);
        // SAFETY: the run of this slab, and no object of it is live.
        unsafe { self.engine.free_pages(base) }
        events.slab_gone(cache, bytes);
    }
}
