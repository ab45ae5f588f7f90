//! Slabs shared by all groups: what Linux 5.9 and every release since have in common.
//!
//! One set of caches serves everybody. A slab holds objects of any groups, and beside it lies a vector that names the
//! owner of each; the owner is charged by the byte. [`linux_5_9`](crate::linux_5_9) and
//! [`linux_6_18`](crate::linux_6_18) differ in what stands between a CPU and SLUB, and in where the vectors find room:
//! that is a [`Front`]; all the rest is here.
//! ```text
//! alloc  Front::take ─► object ─► charge its owner's handle ─► vector of its slab, made if it is the first ─► owner in
//! free   vector: owner out ─► uncharge ─► Front::give
//! ```
//! A failed step undoes those before it. Follows Linux 5.9 `mm/slab.h`: `memcg_slab_pre_alloc_hook()`,
//! `memcg_slab_post_alloc_hook()`, `memcg_slab_free_hook()`. There the charge comes before the object is taken and a vector
//! that cannot be had leaves the object unaccounted; here it is an error, since nothing is to go unseen.

pub(crate) mod obj_cgroup;
#[cfg(test)]
mod tests;
pub(crate) mod vector;

use core::ptr::NonNull;

use self::obj_cgroup::{Handle, Handles};
use self::vector::{Room, Vectors};
use crate::engine::Engine;
use crate::geometry::Cut;
use crate::groups::Groups;
use crate::kernel::groups::handle;
use crate::kernel::{Kmalloc, caches};
use crate::slub::{CacheId, Slub, Spot};
use crate::{CacheKey, CacheSpec, CacheUsage, Design, Error, GroupKey, Machine, Place, Usage};

/// What a generation has between its CPUs and SLUB.
pub(crate) trait Front {
    /// Name of the design.
    const NAME: &'static str;
    /// One sentence on how it works.
    const SUMMARY: &'static str;

    /// On such a machine.
    fn new(machine: &Machine) -> Self;

    /// How SLUB keeps the slabs of a cache below it.
    fn cut(&self, cut: Cut) -> Cut;

    /// Where vectors of a cache find room.
    fn room(cut: &Cut, object_size: Option<u32>) -> Room;

    /// A cache of SLUB was made; their numbers are dense.
    fn cache_made(&mut self, cache: CacheId, cut: &Cut);

    /// Takes an object. The place was checked.
    ///
    /// # Errors
    /// No memory.
    fn take(
        &mut self,
        slub: &mut Slub,
        cache: CacheId,
        place: Place,
        events: &mut Vectors,
    ) -> Result<NonNull<u8>, Error>;

    /// Gives an object back on `cpu`, which was checked.
    ///
    /// # Safety
    /// It is live and nobody uses it any more.
    ///
    /// # Errors
    /// [`Error::DoubleFree`], where that is seen.
    unsafe fn give(
        &mut self,
        slub: &mut Slub,
        cpu: u16,
        spot: Spot,
        events: &mut Vectors,
    ) -> Result<(), Error>;

    /// Free objects of a cache that it holds.
    fn held(&self, cache: CacheId) -> u64;

    /// Bytes of all of them.
    fn held_bytes(&self) -> u64;

    /// What the kernel's structures for it would take, bytes.
    fn metadata(&self) -> u64;
}

/// How `kmalloc` rounds on a machine that was checked.
pub(crate) fn kmalloc(machine: &Machine) -> Kmalloc {
    Kmalloc::with_pages(machine.page_size.into()).unwrap_or(Kmalloc::X86)
}

/// A design with shared slabs.
pub(crate) struct Shared<F> {
    machine: Machine,
    front: F,
    slub: Slub,
    groups: Groups,
    handles: Handles,
    vectors: Vectors,
    caches: Vec<Member>, // [cache]
}

/// A cache of the trace.
struct Member {
    cache: CacheId,
    room: Room,
}

impl<F: Front> Shared<F> {
    /// A machine without caches and groups.
    ///
    /// # Errors
    /// [`Error::Machine`]; or the engine refuses.
    pub(crate) fn new(machine: &Machine) -> Result<Self, Error> {
        Self::with(machine, F::new(machine))
    }

    /// The same with this front.
    pub(crate) fn with(machine: &Machine, front: F) -> Result<Self, Error> {
        machine.check()?;
        let engine = Engine::new(machine.nodes, machine.cpus)?;
        Ok(Self {
            machine: machine.clone(),
            front,
            groups: Groups::new(&engine),
            slub: Slub::new(engine, machine),
            handles: Handles::new(machine.page_size, machine.cpus),
            vectors: Vectors::new(machine),
            caches: Vec::new(),
        })
    }

    /// Writes the owner of an object that was just taken, and charges it.
    fn own(&mut self, cpu: u16, spot: &Spot, room: Room, handle: Handle) -> Result<(), Error> {
        let size = self.slub.cache(spot.cache).size();
        self.handles.charge(cpu, handle, size)?;
        if !self.vectors.has(spot.slab) {
            let made = self.vectors.make(&mut self.slub, &mut self.front, cpu, spot, room);
            if let Err(error) = made {
                self.handles.uncharge(cpu, handle, size);
                return Err(error);
            }
        }
        self.vectors.set(spot.slab, self.slub.place_in(spot), Some(handle));
        Ok(())
    }

    fn live_of(&self, cache: CacheId) -> u64 {
        self.slub.cache(cache).live() - self.front.held(cache) - self.vectors.in_cache(cache).0
    }

    /// The kernel's bytes for what is neither slabs nor vectors: caches, handles, and what the front has.
    fn metadata(&self) -> u64 {
        let (nodes, cpus) = (u64::from(self.machine.nodes), u64::from(self.machine.cpus));
        self.caches.len() as u64 * caches::kmem_cache(nodes, cpus)
            + self.handles.count() * handle(cpus, kmalloc(&self.machine))
            + self.front.metadata()
    }
}

impl<F: Front> Design for Shared<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn summary(&self) -> &'static str {
        F::SUMMARY
    }

    fn add_cache(&mut self, spec: &CacheSpec<'_>) -> Result<CacheKey, Error> {
        let key = CacheKey(u16::try_from(self.caches.len()).map_err(|_| Error::TooMany("caches"))?);
        let cut = self.front.cut(Cut::new(spec, &self.machine)?);
        let cache = self.slub.create(cut)?;
        self.front.cache_made(cache, &cut);
        self.vectors.cache_made(spec, cache);
        let room = F::room(&cut, spec.geometry.map(|g| g.object_size));
        self.caches.push(Member { cache, room });
        Ok(key)
    }

    fn add_group(&mut self, parent: Option<GroupKey>, name: &str) -> Result<GroupKey, Error> {
        let key = self.groups.add(parent, name)?;
        self.handles.add(self.groups.owner(key)?);
        Ok(key)
    }

    fn remove_group(&mut self, group: GroupKey) -> Result<(), Error> {
        let heir = self.groups.heir(group)?;
        self.groups.remove(group)?;
        self.handles.pass(Handle(group.0), heir);
        Ok(())
    }

    #[inline]
    fn alloc(
        &mut self,
        place: Place,
        cache: CacheKey,
        group: Option<GroupKey>,
    ) -> Result<NonNull<u8>, Error> {
        self.slub.check_place(place)?;
        let Member { cache, room } =
            *self.caches.get(usize::from(cache.0)).ok_or(Error::UnknownCache(cache))?;
        let group = match group {
            Some(group) => self.groups.living(group)?,
            None => None,
        };
        let object = self.front.take(&mut self.slub, cache, place, &mut self.vectors)?;
        if let Some(group) = group {
            let spot = self.slub.find(object)?;
            if let Err(error) = self.own(place.cpu, &spot, room, Handle(group.0)) {
                // SAFETY: taken above and given to nobody.
                unsafe { self.front.give(&mut self.slub, place.cpu, spot, &mut self.vectors)? }
                return Err(error);
            }
        }
        // A CPU that takes another slab may have let an empty one go.
        self.vectors.bury(&mut self.slub, &mut self.front, place.cpu)?;
        Ok(object)
    }

    #[inline]
    unsafe fn free(&mut self, cpu: u16, object: NonNull<u8>) -> Result<(), Error> {
        self.slub.check_cpu(cpu)?;
        let spot = self.slub.find(object)?;
        let (place, size) = (self.slub.place_in(&spot), self.slub.cache(spot.cache).size());
        let owner = self.vectors.owner(spot.slab, place);
        if owner.is_some() {
            self.vectors.set(spot.slab, place, None);
        }
        // SAFETY: the caller's promise.
        if let Err(error) = unsafe { self.front.give(&mut self.slub, cpu, spot, &mut self.vectors) } {
            self.vectors.set(spot.slab, place, owner);
            return Err(error);
        }
        if let Some(owner) = owner {
            self.handles.uncharge(cpu, owner, size);
        }
        self.vectors.bury(&mut self.slub, &mut self.front, cpu)
    }

    fn slab_bytes(&self) -> u64 {
        self.slub.slab_bytes() - self.vectors.beside()
    }

    fn usage(&mut self) -> Usage {
        // Free places near CPUs that only a vector could take are nobody's objects.
        let hidden = |&cache: &CacheId| {
            self.slub.cached_of(cache) + self.front.held(cache) * u64::from(self.slub.cache(cache).size())
        };
        let hidden: u64 = self.vectors.hidden().iter().map(hidden).sum();
        Usage {
            live: self.slub.live_bytes() - self.front.held_bytes() - self.vectors.bytes(),
            slab: self.slab_bytes(),
            owners: self.vectors.beside(),
            metadata: self.metadata(),
            cached: self.slub.cached_bytes() + self.front.held_bytes() - hidden,
        }
    }

    fn charge(&mut self, group: GroupKey) -> u64 {
        self.groups.sum(group, &|group| self.handles.bytes(group))
    }

    fn pages(&mut self, group: GroupKey) -> u64 {
        self.groups.exact(group)
    }

    fn caches(&mut self) -> Vec<CacheUsage> {
        let usage = |member: &Member| {
            let cache = self.slub.cache(member.cache);
            let vectors = self.vectors.in_cache(member.cache).1;
            let slab_bytes = cache.slabs() * cache.slab_bytes() - vectors;
            CacheUsage { objects: self.live_of(member.cache), slabs: cache.slabs(), slab_bytes }
        };
        self.caches.iter().map(usage).collect()
    }

    fn slab_of(&self, object: NonNull<u8>) -> Option<usize> {
        self.slub.find(object).ok().map(|spot| self.slub.address_of(&spot))
    }

    fn orphans(&mut self) -> u64 {
        self.handles.orphans()
    }
}
