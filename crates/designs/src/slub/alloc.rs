//! Taking an object: from the CPU's slab, its partial slabs, the node's, or new pages, in this order.

use core::ptr::{self, NonNull};

use super::{CacheId, NONE, Slab, SlabEvents, Slub, next, set_next};
use crate::engine::PAGE;
use crate::geometry::CpuPartial;
use crate::{Error, Place};

impl Slub {
    /// `slab_alloc_node()`: an object of `cache` that lies on `place.node`, if that is told. The place was checked.
    #[inline]
    pub(crate) fn alloc(
        &mut self,
        cache: CacheId,
        place: Place,
        events: &mut impl SlabEvents,
    ) -> Result<NonNull<u8>, Error> {
        let at = self.cpu_at(cache, place.cpu);
        let cpu = &self.cpus[at];
        let object = match NonNull::new(cpu.freelist) {
            Some(object) if place.node.is_none_or(|node| self.slabs[cpu.slab as usize].node == node) => {
                object
            }
            _ => self.refill(cache, at, place, events)?,
        };
        let cpu = &mut self.cpus[at];
        // SAFETY: `object` is on a free list.
        cpu.freelist = unsafe { next(object.as_ptr()) };
        self.slabs[cpu.slab as usize].live += 1;
        let cache = &mut self.caches[cache.0 as usize];
        cache.live += 1;
        let size = u64::from(cache.cut.size);
        self.live_bytes += size;
        self.cached_bytes -= size;
        Ok(object)
    }

    /// `___slab_alloc()`, `get_freelist()`: gives the CPU a slab with free objects, on the node asked for, and returns the
    /// first.
    #[cold]
    fn refill(
        &mut self,
        cache: CacheId,
        at: usize,
        place: Place,
        events: &mut impl SlabEvents,
    ) -> Result<NonNull<u8>, Error> {
        loop {
            let cpu = &mut self.cpus[at];
            if cpu.slab == NONE {
                if cpu.partial == NONE {
                    self.new_slab_objects(cache, at, place, events)?;
                    continue;
                }
                cpu.slab = cpu.partial;
                cpu.partial = self.slabs[cpu.slab as usize].next;
            }
            let slab = &mut self.slabs[cpu.slab as usize];
            if place.node.is_some_and(|node| slab.node != node) {
                self.deactivate_slab(cache, at, events);
                continue;
            }
            if cpu.freelist.is_null() {
                // What other CPUs freed into the slab since this CPU took it.
                cpu.freelist = core::mem::replace(&mut slab.freelist, ptr::null_mut());
                slab.inuse = self.caches[cache.0 as usize].cut.objects;
            }
            if let Some(object) = NonNull::new(cpu.freelist) {
                return Ok(object);
            }
            slab.frozen = false; // full: on no list; it has no free object to be uncounted
            cpu.slab = NONE;
        }
    }

    /// `new_slab_objects()`, `get_partial()`: from the node's partial slabs, else a new slab. The CPU has no slab. Who takes
    /// any node gets one of the CPU's, and before that of a node that has partial slabs to spare.
    fn new_slab_objects(
        &mut self,
        cache: CacheId,
        at: usize,
        place: Place,
        events: &mut impl SlabEvents,
    ) -> Result<(), Error> {
        let near = self.cpu_node[usize::from(place.cpu)];
        let node = place.node.unwrap_or(near);
        if self.get_partial_node(cache, at, node, events) {
            return Ok(());
        }
        if place.node.is_none() && self.get_any_partial(cache, at, near, events) {
            return Ok(());
        }
        let index = self.new_slab(cache, node, events)?;
        self.set_frozen(index, true);
        self.take_freelist(at, index);
        Ok(())
    }

    /// `get_any_partial()`: from another node, if that has more than `min_partial`. The nodes are asked in the order of
    /// their numbers, from the CPU's own on; the kernel asks the near ones first, and in one case of 40 none.
    fn get_any_partial(&mut self, cache: CacheId, at: usize, near: u8, events: &mut impl SlabEvents) -> bool {
        let most = self.caches[cache.0 as usize].cut.min_partial;
        let others = (near + 1..self.nnodes).chain(0..near);
        let rich = others.into_iter().find(|&node| self.nodes[self.node_at(cache, node)].nr_partial > most);
        rich.is_some_and(|node| self.get_partial_node(cache, at, node, events))
    }

    /// `get_partial_node()`, `acquire_slab()`: the first partial slab becomes the CPU's slab; more follow onto its
    /// partial list until half of what that may hold.
    fn get_partial_node(
        &mut self,
        cache: CacheId,
        at: usize,
        node: u8,
        events: &mut impl SlabEvents,
    ) -> bool {
        let cut = self.caches[cache.0 as usize].cut;
        let node_at = self.node_at(cache, node);
        let (mut available, mut found) = (0, false);
        loop {
            let index = self.nodes[node_at].head;
            if index == NONE {
                return found;
            }
            let free = cut.objects - self.slabs[index as usize].inuse;
            self.remove_partial(index);
            self.set_frozen(index, true);
            if found {
                self.put_cpu_partial(cache, at, index, false, events);
                available += cut.cpu_partial.weight(free);
            } else {
                self.take_freelist(at, index);
                found = true;
                // Counted by slabs, the CPU's own is none of its partial ones.
                available = if matches!(cut.cpu_partial, CpuPartial::Objects(_)) { free } else { 0 };
            }
            // Ends at once when a CPU keeps none: the list never grows under our feet.
            if cut.cpu_partial == CpuPartial::NONE || cut.cpu_partial.is_enough(available) {
                return found;
            }
        }
    }

    /// Makes a frozen slab the CPU's, with all its free objects.
    fn take_freelist(&mut self, at: usize, index: u32) {
        let slab = &mut self.slabs[index as usize];
        let cpu = &mut self.cpus[at];
        cpu.slab = index;
        cpu.freelist = core::mem::replace(&mut slab.freelist, ptr::null_mut());
        slab.inuse = self.caches[slab.cache.0 as usize].cut.objects;
    }

    /// `allocate_slab()`: pages, a descriptor, and all objects linked in the order of their addresses.
    fn new_slab(&mut self, cache: CacheId, node: u8, events: &mut impl SlabEvents) -> Result<u32, Error> {
        let cut = self.caches[cache.0 as usize].cut;
        let bytes = u64::from(cut.slab_bytes);
        events.slab_wanted(cache, bytes)?;
        let index = match self.slab_pages(cut.slab_bytes as usize, node) {
            Ok((index, base)) => {
                self.slabs[index as usize] = Slab {
                    base,
                    freelist: base.as_ptr(),
                    cache,
                    inuse: 0,
                    live: 0,
                    next: NONE,
                    prev: NONE,
                    pobjects: 0,
                    node,
                    frozen: false,
                    used: true,
                };
                index
            }
            Err(error) => {
                events.slab_gone(cache, bytes);
                return Err(error);
            }
        };
        let mut object = self.slabs[index as usize].base.as_ptr();
        for _ in 1..cut.objects {
            // SAFETY: `Cut::new` checked that all objects fit the slab, and nobody uses them yet.
            unsafe {
                let following = object.add(cut.size as usize);
                set_next(object, following);
                object = following;
            }
        }
        // SAFETY: the last object.
        unsafe { set_next(object, ptr::null_mut()) }
        self.slab_bytes += bytes;
        self.caches[cache.0 as usize].slabs += 1;
        Ok(index)
    }

    /// Pages and a descriptor that the pages lead to.
    fn slab_pages(&mut self, bytes: usize, node: u8) -> Result<(u32, NonNull<u8>), Error> {
        let base = self.engine.pages(bytes / PAGE, node)?;
        let index = match self.spare_slab {
            NONE => u32::try_from(self.slabs.len()).unwrap_or(NONE),
            spare => spare,
        };
        if let Err(error) = self.memmap.set(base.as_ptr().addr(), bytes, Some(index)) {
            // SAFETY: just got, never used.
            unsafe { self.engine.free_pages(base) }
            return Err(error);
        }
        match self.slabs.get(index as usize) {
            Some(slab) => self.spare_slab = slab.next,
            None => self.slabs.push(Slab {
                base,
                freelist: ptr::null_mut(),
                cache: CacheId(0),
                inuse: 0,
                live: 0,
                next: NONE,
                prev: NONE,
                pobjects: 0,
                node,
                frozen: false,
                used: false,
            }),
        }
        Ok((index, base))
    }
}
