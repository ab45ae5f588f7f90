//! How slabs move between the CPUs, which hold them *frozen*, and the partial lists of the nodes.

use core::ptr;

use crate::geometry::CpuPartial;

use super::{CacheId, NONE, SlabEvents, Slub, next, set_next};

impl Slub {
    /// `deactivate_slab()`: takes the CPU's slab away from it and puts it where its free objects say.
    pub(super) fn deactivate_slab(&mut self, cache: CacheId, at: usize, events: &mut impl SlabEvents) {
        let cpu = &mut self.cpus[at];
        let index = core::mem::replace(&mut cpu.slab, NONE);
        let mut object = core::mem::replace(&mut cpu.freelist, ptr::null_mut());
        let slab = &mut self.slabs[index as usize];
        // A slab into which other CPUs free goes to the end.
        let tail = !slab.freelist.is_null();
        while !object.is_null() {
            // SAFETY: `object` is on the CPU's free list; it moves to the slab's.
            unsafe {
                let following = next(object);
                set_next(object, slab.freelist);
                slab.freelist = object;
                object = following;
            }
            slab.inuse -= 1;
        }
        let (inuse, full) = (slab.inuse, slab.freelist.is_null());
        self.set_frozen(index, false);
        if inuse == 0 && self.enough_partial(cache, index) {
            self.discard_slab(index, events);
        } else if !full {
            self.add_partial(index, tail);
        }
    }

    /// `put_cpu_partial()`: adds a slab, just frozen, to the CPU's partial list. When `drain` is set and the list is
    /// already too long, all of it first goes to the nodes.
    pub(super) fn put_cpu_partial(
        &mut self,
        cache: CacheId,
        at: usize,
        index: u32,
        drain: bool,
        events: &mut impl SlabEvents,
    ) {
        let cut = self.caches[cache.0 as usize].cut;
        let mut behind = self.cpus[at].partial;
        let mut pobjects = 0;
        if behind != NONE {
            // As counted when the head was put there: objects freed since do not count.
            pobjects = self.slabs[behind as usize].pobjects;
            if drain && cut.cpu_partial.is_full(pobjects) {
                self.unfreeze_partials(cache, at, events);
                (behind, pobjects) = (NONE, 0);
            }
        }
        let slab = &mut self.slabs[index as usize];
        slab.pobjects = pobjects + cut.cpu_partial.weight(cut.objects - slab.inuse);
        slab.next = behind;
        self.cpus[at].partial = index;
        if cut.cpu_partial == CpuPartial::NONE {
            self.unfreeze_partials(cache, at, events);
        }
    }

    /// Takes everything of a cache away from a CPU: `flush_slab()`, `unfreeze_partials()`.
    pub(crate) fn flush_cpu(&mut self, cache: CacheId, cpu: u16, events: &mut impl SlabEvents) {
        let at = self.cpu_at(cache, cpu);
        if self.cpus[at].slab != NONE {
            self.deactivate_slab(cache, at, events);
        }
        self.unfreeze_partials(cache, at, events);
    }

    /// `unfreeze_partials()`: the CPU's partial slabs go to their nodes, the empty ones beyond `min_partial` away.
    pub(super) fn unfreeze_partials(&mut self, cache: CacheId, at: usize, events: &mut impl SlabEvents) {
        loop {
            let index = self.cpus[at].partial;
            if index == NONE {
                return;
            }
            self.cpus[at].partial = self.slabs[index as usize].next;
            self.set_frozen(index, false);
            if self.slabs[index as usize].inuse == 0 && self.enough_partial(cache, index) {
                self.discard_slab(index, events);
            } else {
                self.add_partial(index, true);
            }
        }
    }

    /// Whether the node of this slab has `min_partial` slabs without it.
    fn enough_partial(&self, cache: CacheId, index: u32) -> bool {
        let node = &self.nodes[self.node_at(cache, self.slabs[index as usize].node)];
        node.nr_partial >= self.caches[cache.0 as usize].cut.min_partial
    }

    /// Marks a slab as held by a CPU, or not, and counts its free objects as cached, or not.
    pub(super) fn set_frozen(&mut self, index: u32, frozen: bool) {
        let slab = &mut self.slabs[index as usize];
        let cut = &self.caches[slab.cache.0 as usize].cut;
        let free = u64::from(cut.objects - slab.live) * u64::from(cut.size);
        slab.frozen = frozen;
        if frozen {
            self.cached_bytes += free;
        } else {
            self.cached_bytes -= free;
        }
    }

    /// `add_partial()`: to the list of the slab's node, at its head or its tail.
    pub(super) fn add_partial(&mut self, index: u32, tail: bool) {
        let slab = &self.slabs[index as usize];
        let at = self.node_at(slab.cache, slab.node);
        let list = &mut self.nodes[at];
        list.nr_partial += 1;
        let (prev, next) = if tail { (list.tail, NONE) } else { (NONE, list.head) };
        match self.slabs.get_mut(prev as usize) {
            Some(before) => before.next = index,
            None => list.head = index,
        }
        match self.slabs.get_mut(next as usize) {
            Some(after) => after.prev = index,
            None => list.tail = index,
        }
        let slab = &mut self.slabs[index as usize];
        (slab.prev, slab.next) = (prev, next);
    }

    /// `remove_partial()`.
    pub(super) fn remove_partial(&mut self, index: u32) {
        let slab = &self.slabs[index as usize];
        let (prev, next) = (slab.prev, slab.next);
        let at = self.node_at(slab.cache, slab.node);
        let list = &mut self.nodes[at];
        list.nr_partial -= 1;
        match self.slabs.get_mut(prev as usize) {
            Some(before) => before.next = next,
            None => list.head = next,
        }
        match self.slabs.get_mut(next as usize) {
            Some(after) => after.prev = prev,
            None => list.tail = prev,
        }
    }
}
