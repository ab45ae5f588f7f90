//! SLUB as it was from 3.2 to 6.17, in real memory: what every design here takes its objects from.
//!
//! ```text
//! cache ─┬─ CPU 0: slab ─ its free objects, taken by this CPU alone      frozen
//!        │         partial ─ slab ─ slab ─ …                             frozen
//!        ├─ CPU 1: …
//!        ├─ node 0: partial ⇄ slab ⇄ slab ⇄ …    empty ones beyond min_partial are discarded
//!        └─ full slabs are on no list
//! ```
//! Follows Linux 5.8 `mm/slub.c`; each function names the one it follows. Left out, because they move no object to
//! another slab: locks and cmpxchg loops (a replay is one thread), debugging, `CONFIG_SLAB_FREELIST_RANDOM`, RCU delays.
//! Not modelled: the fall back to a lower order, or another node, when memory is short.
//!
//! A slab's descriptor stands for the `struct page` of its first page, and lies, like that, apart from the slab. Links
//! between free objects lie in the objects. Lists of slabs are linked by index.
//!
//! This file holds what the allocator is made of, [`alloc`] and [`free`] what it does, [`lists`] how slabs move.

mod alloc;
mod free;
mod lists;
#[cfg(test)]
mod tests;

use core::ptr::{self, NonNull};

use crate::engine::Engine;
use crate::geometry::Cut;
use crate::memmap::MemMap;
use crate::{Error, Machine, Place};

/// No slab.
const NONE: u32 = u32::MAX;

/// A `kmem_cache`: dense, reused after [`Slub::destroy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheId(pub(crate) u32);

/// Who is told of slabs that come and go: `charge_slab_page()`, `uncharge_slab_page()` of `mm/slab.h`.
pub(crate) trait SlabEvents {
    /// The cache is about to take a slab of so many bytes; an error stops it.
    fn slab_wanted(&mut self, cache: CacheId, bytes: u64) -> Result<(), Error>;
    /// A slab went back, or could not be had after all.
    fn slab_gone(&mut self, cache: CacheId, bytes: u64);
    /// This slab is about to go back: what belongs to it must go, too.
    fn slab_dies(&mut self, _slab: u32) {}
}

/// `struct kmem_cache`, without its per-CPU and per-node parts, which lie in arrays of their own.
pub(crate) struct Cache {
    cut: Cut,
    live: u64,
    slabs: u64,
    in_use: bool,
}

impl Cache {
    /// How its slabs are cut.
    pub(crate) fn cut(&self) -> &Cut {
        &self.cut
    }
    /// Bytes from one object to the next.
    pub(crate) fn size(&self) -> u32 {
        self.cut.size
    }
    /// Bytes of each slab.
    pub(crate) fn slab_bytes(&self) -> u64 {
        u64::from(self.cut.slab_bytes)
    }
    /// Objects handed out.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }
    /// Slabs.
    pub(crate) fn slabs(&self) -> u64 {
        self.slabs
    }
}

/// `struct kmem_cache_cpu`.
#[derive(Clone, Copy)]
struct CpuSlab {
    freelist: *mut u8, // free objects of `slab` that only this CPU takes
    slab: u32,
    partial: u32, // frozen slabs with free objects, linked by `next`
}

/// `struct kmem_cache_node`.
#[derive(Clone, Copy)]
struct NodeList {
    head: u32, // slabs with free objects that no CPU holds
    tail: u32,
    nr_partial: u32,
}

/// `struct page` of a slab.
struct Slab {
    base: NonNull<u8>,
    freelist: *mut u8, // free objects, but for those a CPU holds
    cache: CacheId,
    inuse: u32,    // objects not on `freelist`: live, or held by a CPU
    live: u32,     // objects handed out; the kernel cannot tell
    next: u32,     // in a node's or a CPU's partial list, or among unused descriptors
    prev: u32,     // in a node's partial list
    pobjects: u32, // free objects of this slab and those behind it, when it was put on a CPU's partial list
    node: u8,
    frozen: bool, // held by a CPU
    used: bool,   // the descriptor stands for a slab
}

/// The allocator.
pub(crate) struct Slub {
    engine: Engine,
    ncpus: u16,
    nnodes: u8,
    cpu_node: Vec<u8>,
    caches: Vec<Cache>,
    spare_caches: Vec<CacheId>,
    cpus: Vec<CpuSlab>,   // [cache][cpu]
    nodes: Vec<NodeList>, // [cache][node]
    slabs: Vec<Slab>,
    spare_slab: u32,
    memmap: MemMap,
    live_bytes: u64,
    slab_bytes: u64,
    cached_bytes: u64, // free objects in frozen slabs
}

/// An object found by its address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) object: NonNull<u8>,
    /// Its slab, by a number that is dense and used again.
    pub(crate) slab: u32,
    /// Its cache.
    pub(crate) cache: CacheId,
}

/// What a slab looks like from outside.
#[cfg(test)]
pub(crate) struct SlabInfo {
    /// Its cache.
    pub(crate) cache: CacheId,
    /// Bytes of its pages.
    pub(crate) bytes: u64,
    /// Objects handed out.
    pub(crate) live: u32,
}

impl Slub {
    /// An allocator without caches.
    pub(crate) fn new(engine: Engine, machine: &Machine) -> Self {
        Self {
            engine,
            ncpus: machine.cpus,
            nnodes: machine.nodes,
            cpu_node: machine.cpu_node.clone(),
            caches: Vec::new(),
            spare_caches: Vec::new(),
            cpus: Vec::new(),
            nodes: Vec::new(),
            slabs: Vec::new(),
            spare_slab: NONE,
            memmap: MemMap::default(),
            live_bytes: 0,
            slab_bytes: 0,
            cached_bytes: 0,
        }
    }

    /// `kmem_cache_create()`.
    pub(crate) fn create(&mut self, cut: Cut) -> Result<CacheId, Error> {
        let cache = Cache { cut, live: 0, slabs: 0, in_use: true };
        if let Some(id) = self.spare_caches.pop() {
            // The lists of a destroyed cache are empty: it had no slab left.
            self.caches[id.0 as usize] = cache;
            return Ok(id);
        }
        let id = u32::try_from(self.caches.len()).map_err(|_| Error::TooMany("caches"))?;
        self.caches.push(cache);
        let cpu = CpuSlab { freelist: ptr::null_mut(), slab: NONE, partial: NONE };
        self.cpus.extend((0..self.ncpus).map(|_| cpu));
        let node = NodeList { head: NONE, tail: NONE, nr_partial: 0 };
        self.nodes.extend((0..self.nnodes).map(|_| node));
        Ok(CacheId(id))
    }

    /// Gives the descriptor of a cache without slabs back; false when it still has some.
    pub(crate) fn destroy(&mut self, id: CacheId) -> bool {
        let cache = &mut self.caches[id.0 as usize];
        let gone = cache.in_use && cache.slabs == 0;
        if gone {
            cache.in_use = false;
            self.spare_caches.push(id);
        }
        gone
    }

    /// A cache.
    pub(crate) fn cache(&self, id: CacheId) -> &Cache {
        &self.caches[id.0 as usize]
    }

    /// The object at this address: `virt_to_head_page()`, and the check that it is the start of an object.
    #[inline]
    pub(crate) fn find(&self, object: NonNull<u8>) -> Result<Spot, Error> {
        let addr = object.as_ptr().addr();
        let foreign = || Error::ForeignPointer(addr);
        let index = self.memmap.get(addr).ok_or_else(foreign)?;
        let slab = &self.slabs[index as usize];
        let cut = &self.caches[slab.cache.0 as usize].cut;
        // Below the size of a slab, at most 64 KiB << 10.
        let offset = (addr - slab.base.as_ptr().addr()) as u32;
        if !offset.is_multiple_of(cut.size) || offset / cut.size >= cut.objects {
            return Err(foreign());
        }
        Ok(Spot { object, slab: index, cache: slab.cache })
    }

    /// Where the slab of an object begins.
    pub(crate) fn base_of(&self, spot: &Spot) -> NonNull<u8> {
        self.slabs[spot.slab as usize].base
    }

    /// The same as a number.
    pub(crate) fn address_of(&self, spot: &Spot) -> usize {
        self.slabs[spot.slab as usize].base.as_ptr().addr()
    }

    /// Calls `each` with every slab.
    #[cfg(test)]
    pub(crate) fn each_slab(&self, mut each: impl FnMut(SlabInfo)) {
        for slab in self.slabs.iter().filter(|slab| slab.used) {
            let bytes = self.cache(slab.cache).slab_bytes();
            each(SlabInfo { cache: slab.cache, bytes, live: slab.live });
        }
    }

    /// Bytes of all live objects.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }
    /// Bytes of all slabs.
    pub(crate) fn slab_bytes(&self) -> u64 {
        self.slab_bytes
    }
    /// Bytes of free objects in slabs that a CPU holds.
    pub(crate) fn cached_bytes(&self) -> u64 {
        self.cached_bytes
    }

    /// The place of an object in its slab, from 0.
    #[inline]
    pub(crate) fn place_in(&self, spot: &Spot) -> u32 {
        let offset = (spot.object.as_ptr().addr() - self.address_of(spot)) as u32;
        offset / self.caches[spot.cache.0 as usize].cut.size
    }

    /// The node of an object's memory.
    #[inline]
    pub(crate) fn node_of(&self, spot: &Spot) -> u8 {
        self.slabs[spot.slab as usize].node
    }

    /// The node of a CPU, which exists.
    #[inline]
    pub(crate) fn node_of_cpu(&self, cpu: u16) -> u8 {
        self.cpu_node[usize::from(cpu)]
    }

    /// The part of [`cached_bytes`](Self::cached_bytes) that is one cache's.
    pub(crate) fn cached_of(&self, cache: CacheId) -> u64 {
        let cut = &self.cache(cache).cut;
        let free = |slab: &Slab| u64::from(cut.objects - slab.live) * u64::from(cut.size);
        let (mut bytes, first) = (0, self.cpu_at(cache, 0));
        for cpu in &self.cpus[first..first + usize::from(self.ncpus)] {
            bytes += self.slabs.get(cpu.slab as usize).map_or(0, free);
            let mut partial = self.slabs.get(cpu.partial as usize);
            while let Some(slab) = partial {
                bytes += free(slab);
                partial = self.slabs.get(slab.next as usize);
            }
        }
        bytes
    }

    /// Checks that the machine has this CPU.
    #[inline]
    pub(crate) fn check_cpu(&self, cpu: u16) -> Result<(), Error> {
        if cpu < self.ncpus { Ok(()) } else { Err(Error::UnknownCpu { cpu, cpus: self.ncpus }) }
    }

    /// Checks that the machine has this CPU and this node.
    #[inline]
    pub(crate) fn check_place(&self, place: Place) -> Result<(), Error> {
        self.check_cpu(place.cpu)?;
        match place.node {
            Some(node) if node >= self.nnodes => Err(Error::UnknownNode { node, nodes: self.nnodes }),
            _ => Ok(()),
        }
    }

    #[inline]
    fn cpu_at(&self, cache: CacheId, cpu: u16) -> usize {
        cache.0 as usize * usize::from(self.ncpus) + usize::from(cpu)
    }

    #[inline]
    fn node_at(&self, cache: CacheId, node: u8) -> usize {
        cache.0 as usize * usize::from(self.nnodes) + usize::from(node)
    }
}

impl Drop for Slub {
    fn drop(&mut self) {
        for slab in self.slabs.iter().filter(|slab| slab.used) {
            // SAFETY: the run of this slab; with the allocator go all ways to its objects.
            unsafe { self.engine.free_pages(slab.base) }
        }
    }
}

/// `get_freepointer()`.
///
/// # Safety
/// `object` is a free object that [`set_next`] wrote.
#[inline]
unsafe fn next(object: *mut u8) -> *mut u8 {
    // SAFETY: at least 8 bytes, see `Cut::new`, holding a link.
    unsafe { object.cast::<*mut u8>().read_unaligned() }
}

/// `set_freepointer()`. The kernel has the link in the middle of the object since 5.7, against overflows: no matter here.
///
/// # Safety
/// `object` is a free object of a slab.
#[inline]
unsafe fn set_next(object: *mut u8, next: *mut u8) {
    // SAFETY: at least 8 bytes that nobody uses, see `Cut::new`.
    unsafe { object.cast::<*mut u8>().write_unaligned(next) }
}
