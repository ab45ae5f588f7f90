//! `linux-5.8`: a set of caches for each group. The last generation before slabs were shared (5.9, August 2020).
//!
//! For every cache that a group uses the kernel made a *clone*, a whole `kmem_cache` with its own slabs, per-CPU and
//! per-node lists. A slab thus belongs to one group, and its pages are charged whole, when they are taken:
//! ```text
//! dentry ── memcg_cache_array, by kmem id:  [ -, clone, -, clone, … ]
//!    │                                          │         └─ slabs of group 3
//!    └─ slabs of unaccounted objects            └─ slabs of group 1
//! ```
//! When a group goes, its clones are deactivated (they keep no empty slab), passed to the parent, and each is freed with
//! its last slab. Their free space can be used by nobody.
//!
//! Follows Linux 5.8 (the reparenting: 5.3 to 5.8): `mm/slab_common.c` `memcg_create_kmem_cache()`,
//! `memcg_deactivate_kmem_caches()`, `update_memcg_params()`, `kmemcg_cache_shutdown()`; `mm/memcontrol.c`
//! `memcg_kmem_get_cache()`, `memcg_offline_kmem()`; `mm/slab.h` `memcg_charge_slab()`.
//!
//! One thing is not as it was: the kernel made a clone in a worker, and until it was ready served the group's first
//! objects from the root cache, charged to nobody. How many depends on timing that a recording does not hold; here the
//! clone is made at once, which is what the kernel strove for.
//!
//! Groups have no state of their own here beyond the kernel's `struct mem_cgroup`, which all generations have: it is not
//! in `metadata`.

pub(crate) mod ids;
#[cfg(test)]
mod tests;

use core::ptr::NonNull;

use crate::engine::{Engine, Owner};
use crate::geometry::Cut;
use crate::groups::Groups;
use crate::kernel::{Kmalloc, caches};
use crate::slub::{CacheId, SlabEvents, Slub};
use crate::{CacheKey, CacheSpec, CacheUsage, Design, Error, GroupKey, Machine, Place, Usage};

use self::ids::KmemIds;

/// What the kernel adds to the size of an object when it charges by object, since 5.9: a pointer to its owner.
const OWNER_POINTER: u64 = 8;

/// The design.
pub struct Linux58 {
    machine: Machine,
    slub: Slub,
    groups: Groups,
    members: Vec<Member>, // [group]
    roots: Vec<Root>,     // [cache]
    clones: Clones,
    ids: KmemIds,
}

/// The kmem part of `struct mem_cgroup`.
struct Member {
    kmem_id: u32,         // meaningless once removed
    caches: Vec<CacheId>, // `kmem_caches`: its clones, and the orphans of dead groups below it
}

/// A root cache.
struct Root {
    cache: CacheId,
    cut: Cut,
    clones: Vec<Option<CacheId>>, // `memcg_cache_array`, by kmem id
}

/// The `memcg_params` of every cache of the allocator, and who pays for slabs.
#[derive(Default)]
struct Clones {
    params: Vec<Params>, // by `CacheId`
    clones: u64,
    orphans: u64,
}

/// `struct memcg_cache_params`.
#[derive(Clone)]
struct Params {
    root: CacheKey,
    owner: Option<Owner>,    // who is charged; none: a root cache
    memcg: Option<GroupKey>, // the same by key; none: the root group too
    place: usize,            // in the `caches` of `memcg`
    orphan: bool,            // `dying`: its group was removed
}

impl SlabEvents for Clones {
    /// `memcg_charge_slab()`: the whole slab at once.
    fn slab_wanted(&mut self, cache: CacheId, bytes: u64) -> Result<(), Error> {
        match &self.params[cache.0 as usize].owner {
            Some(owner) => Ok(owner.try_charge(bytes)?),
            None => Ok(()),
        }
    }

    /// `memcg_uncharge_slab()`.
    fn slab_gone(&mut self, cache: CacheId, bytes: u64) {
        if let Some(owner) = &self.params[cache.0 as usize].owner {
            owner.uncharge(bytes);
        }
    }
}

impl Clones {
    /// Says what the allocator's cache `id`, new or made again, stands for.
    fn enter(&mut self, id: CacheId, params: Params) {
        let at = id.0 as usize;
        match self.params.get_mut(at) {
            Some(old) => *old = params,
            None => self.params.resize(at + 1, params), // ids are dense
        }
    }
}

impl Linux58 {
    /// A machine without caches and groups.
    ///
    /// # Errors
    /// [`Error::Machine`]; or the engine refuses.
    pub fn new(machine: &Machine) -> Result<Self, Error> {
        machine.check()?;
        let engine = Engine::new(machine.nodes, machine.cpus)?;
        Ok(Self {
            machine: machine.clone(),
            groups: Groups::new(&engine),
            slub: Slub::new(engine, machine),
            members: Vec::new(),
            roots: Vec::new(),
            clones: Clones::default(),
            ids: KmemIds::default(),
        })
    }

    /// `memcg_kmem_get_cache()`: the clone that serves the group, made on first use.
    #[inline]
    fn cache_for(&mut self, key: CacheKey, group: Option<GroupKey>) -> Result<CacheId, Error> {
        let root = self.roots.get(usize::from(key.0)).ok_or(Error::UnknownCache(key))?;
        let Some(group) = group else { return Ok(root.cache) };
        let Some(group) = self.groups.living(group)? else { return Ok(root.cache) };
        let kmem_id = self.members[group.0 as usize].kmem_id as usize;
        match root.clones[kmem_id] {
            Some(clone) => Ok(clone),
            None => self.create_clone(key, group, kmem_id),
        }
    }

    /// `memcg_create_kmem_cache()`.
    #[cold]
    fn create_clone(&mut self, key: CacheKey, group: GroupKey, kmem_id: usize) -> Result<CacheId, Error> {
        let owner = self.groups.owner(group)?;
        let root = &mut self.roots[usize::from(key.0)];
        let clone = self.slub.create(root.cut)?;
        root.clones[kmem_id] = Some(clone);
        let caches = &mut self.members[group.0 as usize].caches;
        let place = caches.len();
        caches.push(clone);
        let params = Params { root: key, owner: Some(owner), memcg: Some(group), place, orphan: false };
        self.clones.enter(clone, params);
        self.clones.clones += 1;
        Ok(clone)
    }

    /// `memcg_deactivate_kmem_caches()`: the clones of `group` take no more allocations, keep no empty slab, and pass to
    /// `heir`. The orphans it had itself inherited only pass on.
    fn deactivate_clones(&mut self, group: GroupKey, heir: Option<GroupKey>) {
        let kmem_id = self.members[group.0 as usize].kmem_id as usize;
        for clone in core::mem::take(&mut self.members[group.0 as usize].caches) {
            let params = &mut self.clones.params[clone.0 as usize];
            let was_orphan = core::mem::replace(&mut params.orphan, true);
            params.memcg = heir;
            if let Some(heir) = heir {
                let caches = &mut self.members[heir.0 as usize].caches;
                params.place = caches.len();
                caches.push(clone);
            }
            if !was_orphan {
                self.roots[usize::from(params.root.0)].clones[kmem_id] = None;
                self.clones.orphans += 1;
                self.slub.deactivate(clone, &mut self.clones);
                self.shutdown_if_empty(clone);
            }
        }
    }

    /// `kmemcg_cache_shutdown()`: an orphan goes with its last slab.
    #[inline]
    fn shutdown_if_empty(&mut self, clone: CacheId) {
        if self.clones.params[clone.0 as usize].orphan && self.slub.destroy(clone) {
            self.shutdown(clone);
        }
    }

    #[cold]
    fn shutdown(&mut self, clone: CacheId) {
        let params = &mut self.clones.params[clone.0 as usize];
        (params.owner, params.orphan) = (None, false);
        let place = params.place;
        if let Some(heir) = params.memcg.take() {
            let caches = &mut self.members[heir.0 as usize].caches;
            caches.swap_remove(place);
            if let Some(&moved) = caches.get(place) {
                self.clones.params[moved.0 as usize].place = place;
            }
        }
        self.clones.clones -= 1;
        self.clones.orphans -= 1;
    }

    /// The kernel's bytes for what is not slabs: see [`caches`].
    fn metadata(&self) -> u64 {
        let (nodes, cpus) = (u64::from(self.machine.nodes), u64::from(self.machine.cpus));
        let roots = self.roots.len() as u64;
        let arrays = roots * caches::memcg_cache_array(u64::from(self.ids.size()), Kmalloc::X86);
        arrays
            + (roots + self.clones.clones) * caches::kmem_cache(nodes, cpus)
            + self.clones.clones * caches::clone_extra(cpus)
    }
}

impl Design for Linux58 {
    fn name(&self) -> &'static str {
        "linux-5.8"
    }

    fn summary(&self) -> &'static str {
        "A set of caches for each group: no slab is shared, and its pages are charged whole."
    }

    fn add_cache(&mut self, spec: &CacheSpec<'_>) -> Result<CacheKey, Error> {
        let key = CacheKey(u16::try_from(self.roots.len()).map_err(|_| Error::TooMany("caches"))?);
        let cut = Cut::new(spec, &self.machine)?;
        let cache = self.slub.create(cut)?;
        self.clones.enter(cache, Params { root: key, owner: None, memcg: None, place: 0, orphan: false });
        self.roots.push(Root { cache, cut, clones: vec![None; self.ids.size() as usize] });
        Ok(key)
    }

    fn add_group(&mut self, parent: Option<GroupKey>, name: &str) -> Result<GroupKey, Error> {
        let kmem_id = self.ids.take()?;
        let key = match self.groups.add(parent, name) {
            Ok(key) => key,
            Err(error) => {
                self.ids.put(kmem_id);
                return Err(error);
            }
        };
        self.members.push(Member { kmem_id, caches: Vec::new() });
        // update_memcg_params(): all arrays at once.
        let size = self.ids.size() as usize;
        for root in self.roots.iter_mut().filter(|root| root.clones.len() < size) {
            root.clones.resize(size, None);
        }
        Ok(key)
    }

    fn remove_group(&mut self, group: GroupKey) -> Result<(), Error> {
        let heir = self.groups.heir(group)?;
        self.deactivate_clones(group, heir);
        self.groups.remove(group)?;
        self.ids.put(self.members[group.0 as usize].kmem_id);
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
        let cache = self.cache_for(cache, group)?;
        self.slub.alloc(cache, place, &mut self.clones)
    }

    #[inline]
    unsafe fn free(&mut self, cpu: u16, object: NonNull<u8>) -> Result<(), Error> {
        self.slub.check_cpu(cpu)?;
        let spot = self.slub.find(object)?;
        // SAFETY: the caller's promise.
        unsafe { self.slub.free(cpu, spot, &mut self.clones)? }
        self.shutdown_if_empty(spot.cache);
        Ok(())
    }

    fn slab_bytes(&self) -> u64 {
        self.slub.slab_bytes()
    }

    fn usage(&mut self) -> Usage {
        Usage {
            live: self.slub.live_bytes(),
            slab: self.slub.slab_bytes(),
            owners: 0, // the cache tells the owner
            metadata: self.metadata(),
            cached: self.slub.cached_bytes(),
        }
    }

    fn charge(&mut self, group: GroupKey) -> u64 {
        self.groups.sum(group, &|group| {
            let bytes = |&id| {
                let cache = self.slub.cache(id);
                cache.live() * (u64::from(cache.size()) + OWNER_POINTER)
            };
            self.members[group.0 as usize].caches.iter().map(bytes).sum()
        })
    }

    fn pages(&mut self, group: GroupKey) -> u64 {
        self.groups.exact(group)
    }

    fn caches(&mut self) -> Vec<CacheUsage> {
        let mut usage = vec![CacheUsage::default(); self.roots.len()];
        for (id, params) in self.clones.params.iter().enumerate() {
            let cache = self.slub.cache(CacheId(id as u32)); // 0 objects, 0 slabs when it is gone
            if let Some(sum) = usage.get_mut(usize::from(params.root.0)) {
                sum.objects += cache.live();
                sum.slabs += cache.slabs();
                sum.slab_bytes += cache.slabs() * cache.slab_bytes();
            }
        }
        usage
    }

    fn slab_of(&self, object: NonNull<u8>) -> Option<usize> {
        self.slub.find(object).ok().map(|spot| self.slub.address_of(&spot))
    }

    fn orphans(&mut self) -> u64 {
        self.clones.orphans
    }
}
