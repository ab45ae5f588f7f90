//! Sheaves and barns: free objects in arrays, two near each CPU, up to twenty at each node.
//!
//! ```text
//! CPU   main  [ o o o o o · · · ]  ⇄  spare [ o o o o o o o o ]
//!                    │ empty or full, and the spare cannot help
//! node  barn  full: ≤ 10 sheaves   empty: ≤ 10 sheaves
//!                    │ no full one, or too many
//! SLUB  the partial slabs of the node, new slabs
//! ```
//! Follows `mm/slub.c` of 6.18 and 7.0: `alloc_from_pcs()`, `__pcs_replace_empty_main()`, `free_to_pcs()`,
//! `__pcs_replace_full_main()`, `barn_*()`, `calculate_sheaf_capacity()`.

use core::ptr::NonNull;

use crate::geometry::{CpuPartial, Cut};
use crate::kernel::Kmalloc;
use crate::shared::Front;
use crate::shared::vector::{Room, Vectors};
use crate::slub::{CacheId, Slub, Spot};
use crate::{Error, Machine, Place};

/// `MAX_FULL_SHEAVES`, `MAX_EMPTY_SHEAVES`.
const BARN_MOST: usize = 10;

/// `struct slab_sheaf` before its objects, bytes.
const SHEAF_HEAD: u64 = 32;
/// `struct slub_percpu_sheaves` of a cache, bytes a CPU.
const PERCPU_SHEAVES: u64 = 32;
/// `struct node_barn` of a cache, bytes a node: a lock, two lists, two counts, on a cache line of its own.
const BARN: u64 = 64;

/// Bytes of a sheaf for so many objects.
fn sheaf(objects: u64, kmalloc: Kmalloc) -> u64 {
    kmalloc.round(SHEAF_HEAD + 8 * objects)
}

/// Free objects of one cache, last in, first out.
type Sheaf = Vec<NonNull<u8>>;

/// `struct slub_percpu_sheaves`.
#[derive(Default)]
struct Pcs {
    main: Sheaf,
    spare: Option<Sheaf>,
}

/// `struct node_barn`.
#[derive(Default)]
struct Barn {
    full: Vec<Sheaf>,
    empty: Vec<Sheaf>,
}

/// Sheaves and barns of one cache.
struct Of {
    size: u64,
    capacity: usize,
    pcs: Vec<Pcs>,    // [cpu]
    barns: Vec<Barn>, // [node]
    held: u64,        // objects in all sheaves
}

impl Of {
    /// `__pcs_replace_empty_main()` as far as there are full sheaves: the spare, else one of the barn. Whether there was.
    fn replace_empty(&mut self, cpu: u16, near: u8) -> bool {
        let (pcs, barn) = (&mut self.pcs[usize::from(cpu)], &mut self.barns[usize::from(near)]);
        if let Some(spare) = pcs.spare.as_mut().filter(|spare| !spare.is_empty()) {
            core::mem::swap(&mut pcs.main, spare);
            return true;
        }
        let Some(full) = barn.full.pop() else { return false };
        let empty = core::mem::replace(&mut pcs.main, full);
        if barn.empty.len() < BARN_MOST {
            barn.empty.push(empty);
        }
        true
    }

    /// `__pcs_replace_full_main()` as far as there is room: in the spare, else the barn takes the full sheaf for an empty
    /// one. Whether there was.
    fn replace_full(&mut self, cpu: u16, near: u8) -> bool {
        let (pcs, barn) = (&mut self.pcs[usize::from(cpu)], &mut self.barns[usize::from(near)]);
        let spare = pcs.spare.get_or_insert_default();
        if spare.len() < self.capacity {
            core::mem::swap(&mut pcs.main, spare);
            return true;
        }
        let room = barn.full.len() < BARN_MOST;
        if room {
            let empty = barn.empty.pop().unwrap_or_default();
            barn.full.push(core::mem::replace(&mut pcs.main, empty));
        }
        room
    }
}

/// What stands between CPUs and SLUB.
pub(crate) struct Sheaves {
    page: u32,
    kmalloc: Kmalloc,
    cpus: u16,
    nodes: u8,
    caches: Vec<Of>, // by `CacheId`
    held_bytes: u64,
}

/// `calculate_sheaf_capacity()`: by size, and what the kmalloc bucket of the sheaf has room for beyond that.
fn capacity(size: u32, page: u32, kmalloc: Kmalloc) -> usize {
    let wanted = match size {
        _ if size >= page => 4,
        1024.. => 12,
        256.. => 26,
        _ => 60,
    };
    ((sheaf(wanted, kmalloc) - SHEAF_HEAD) / 8) as usize
}

impl Front for Sheaves {
    const NAME: &'static str = "linux-6.18";
    const SUMMARY: &'static str = "As 5.9, with arrays of free objects near each CPU for every cache, and the owners in the slack of a slab where they fit: what 6.18 began and 7.0 finished.";

    fn new(machine: &Machine) -> Self {
        let Machine { cpus, nodes, page_size: page, .. } = *machine;
        let kmalloc = crate::shared::kmalloc(machine);
        Self { page, kmalloc, cpus, nodes, caches: Vec::new(), held_bytes: 0 }
    }

    fn cut(&self, cut: Cut) -> Cut {
        Cut { cpu_partial: CpuPartial::NONE, ..cut }
    }

    fn room(cut: &Cut, object_size: Option<u32>) -> Room {
        Room::in_slab(cut, object_size)
    }

    fn cache_made(&mut self, _: CacheId, cut: &Cut) {
        self.caches.push(Of {
            size: cut.size.into(),
            capacity: capacity(cut.size, self.page, self.kmalloc),
            pcs: (0..self.cpus).map(|_| Pcs::default()).collect(),
            barns: (0..self.nodes).map(|_| Barn::default()).collect(),
            held: 0,
        });
    }

    #[inline]
    fn take(
        &mut self,
        slub: &mut Slub,
        cache: CacheId,
        place: Place,
        events: &mut Vectors,
    ) -> Result<NonNull<u8>, Error> {
        let near = slub.node_of_cpu(place.cpu);
        if place.node.is_some_and(|node| node != near) {
            // alloc_from_pcs(): a sheaf is for the CPU's own node.
            return Self::straight(slub, cache, place, events);
        }
        let of = &mut self.caches[cache.0 as usize];
        if of.pcs[usize::from(place.cpu)].main.is_empty() && !of.replace_empty(place.cpu, near) {
            self.refill(slub, cache, place.cpu, events)?;
        }
        let of = &mut self.caches[cache.0 as usize];
        let main = &mut of.pcs[usize::from(place.cpu)].main;
        let Some(&object) = main.last() else { return Self::straight(slub, cache, place, events) };
        if place.node.is_some() && slub.node_of(&slub.find(object)?) != near {
            return Self::straight(slub, cache, place, events);
        }
        main.pop();
        of.held -= 1;
        self.held_bytes -= of.size;
        Ok(object)
    }

    #[inline]
    unsafe fn give(
        &mut self,
        slub: &mut Slub,
        cpu: u16,
        spot: Spot,
        events: &mut Vectors,
    ) -> Result<(), Error> {
        let near = slub.node_of_cpu(cpu);
        if slub.node_of(&spot) != near {
            // SAFETY: the caller's promise.
            return unsafe { slub.free(cpu, spot, events) };
        }
        let of = &mut self.caches[spot.cache.0 as usize];
        // As CONFIG_SLAB_FREELIST_HARDENED: the object freed last is seen to be free.
        if of.pcs[usize::from(cpu)].main.last() == Some(&spot.object) {
            return Err(Error::DoubleFree(spot.object.as_ptr().addr()));
        }
        if of.pcs[usize::from(cpu)].main.len() >= of.capacity && !of.replace_full(cpu, near) {
            self.flush(slub, spot.cache, cpu, events)?;
        }
        let of = &mut self.caches[spot.cache.0 as usize];
        of.pcs[usize::from(cpu)].main.push(spot.object);
        of.held += 1;
        self.held_bytes += of.size;
        Ok(())
    }

    fn held(&self, cache: CacheId) -> u64 {
        self.caches[cache.0 as usize].held
    }

    fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Each CPU has a main sheaf of each cache from the start; spares and those in barns come with use.
    fn metadata(&self) -> u64 {
        let of = |of: &Of| {
            let spares = of.pcs.iter().filter(|pcs| pcs.spare.is_some()).count();
            let barns: usize = of.barns.iter().map(|barn| barn.full.len() + barn.empty.len()).sum();
            let sheaves = (of.pcs.len() + spares + barns) as u64;
            sheaves * sheaf(of.capacity as u64, self.kmalloc)
                + of.pcs.len() as u64 * PERCPU_SHEAVES
                + of.barns.len() as u64 * BARN
        };
        self.caches.iter().map(of).sum()
    }
}

impl Sheaves {
    /// From SLUB; the CPU keeps no slab.
    fn straight(
        slub: &mut Slub,
        cache: CacheId,
        place: Place,
        events: &mut Vectors,
    ) -> Result<NonNull<u8>, Error> {
        let object = slub.alloc(cache, place, events);
        slub.flush_cpu(cache, place.cpu, events);
        object
    }

    /// The end of `__pcs_replace_empty_main()`: as many objects of SLUB as fit into the main sheaf, at least one.
    #[cold]
    fn refill(
        &mut self,
        slub: &mut Slub,
        cache: CacheId,
        cpu: u16,
        events: &mut Vectors,
    ) -> Result<(), Error> {
        let of = &mut self.caches[cache.0 as usize];
        let mut filled = Vec::with_capacity(of.capacity);
        let place = Place { cpu, node: None };
        let mut end = Ok(());
        while filled.len() < of.capacity {
            match slub.alloc(cache, place, events) {
                Ok(object) => filled.push(object),
                Err(error) => {
                    end = Err(error);
                    break;
                }
            }
        }
        slub.flush_cpu(cache, cpu, events);
        if filled.is_empty() {
            return end;
        }
        // The object taken first is the one to be used first.
        filled.reverse();
        of.held += filled.len() as u64;
        self.held_bytes += of.size * filled.len() as u64;
        of.pcs[usize::from(cpu)].main = filled;
        Ok(())
    }

    /// The end of `__pcs_replace_full_main()`: the spare's objects go back to their slabs, and it is the main sheaf.
    #[cold]
    fn flush(
        &mut self,
        slub: &mut Slub,
        cache: CacheId,
        cpu: u16,
        events: &mut Vectors,
    ) -> Result<(), Error> {
        let of = &mut self.caches[cache.0 as usize];
        let pcs = &mut of.pcs[usize::from(cpu)];
        let spare = pcs.spare.get_or_insert_default();
        for object in core::mem::take(spare) {
            let spot = slub.find(object)?;
            // SAFETY: free, in a sheaf until now.
            unsafe { slub.free(cpu, spot, events)? }
            of.held -= 1;
            self.held_bytes -= of.size;
        }
        core::mem::swap(&mut pcs.main, spare);
        Ok(())
    }
}
