//! The way of an object: charge, take, write its owner; and back: read its owner, put away, uncharge.
//!
//! A step that fails undoes those before it, so the caller gets an error and no byte stays charged.

use super::cache::Record;
use super::owners::Vectors;
use super::ready::NONE;
use super::sheaf::Sheaf;
use super::slab::{Kind, Slab};
use crate::controller::{Controller, Inner, Locked};
use crate::error::{Error, Result};
use crate::group::owner::NOBODY;
use crate::group::tree::Node;
use crate::group::{Group, OWNER_BYTES};
use crate::page::PAGE;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering::*};

/// Makes the owner vectors of one slab out of metadata, counted.
pub(crate) struct SlabVectors<'a> {
    inner: &'a Inner,
    objects: usize,
}

impl Vectors for SlabVectors<'_> {
    fn make(&self) -> Option<NonNull<crate::sync::atomic::AtomicU32>> {
        let bytes = self.objects * size_of::<AtomicU32>();
        let block = self.inner.meta.alloc(bytes)?;
        self.inner.vector_bytes.fetch_add(crate::meta::Meta::rounded(bytes) as u64, Relaxed);
        Some(block.cast())
    }

    unsafe fn unmake(&self, vector: NonNull<crate::sync::atomic::AtomicU32>) {
        let bytes = self.objects * size_of::<AtomicU32>();
        self.inner.vector_bytes.fetch_sub(crate::meta::Meta::rounded(bytes) as u64, Relaxed);
        // SAFETY: made by `make` with the same length.
        unsafe { self.inner.meta.free(vector.cast(), bytes) };
    }

    fn len(&self) -> usize {
        self.objects
    }
}

impl Inner {
    pub(crate) fn vectors(&self, slab: &Slab) -> SlabVectors<'_> {
        // SAFETY: a slab's cache outlives it.
        let objects = unsafe { slab.cache.as_ref() }.map_or(1, |record| usize::from(record.objects));
        SlabVectors { inner: self, objects }
    }

    /// The area of this CPU, with `bytes` charged to `owner` unless it is nobody.
    #[inline]
    pub(super) fn pay(&self, owner: u32, bytes: u64) -> Result<(Locked<'_>, u32)> {
        self.pay_on(self.lock_cpu(), owner, bytes)
    }

    /// As [`pay`](Self::pay), for who has the area already.
    #[inline]
    fn pay_on<'a>(&'a self, cpu: Locked<'a>, owner: u32, bytes: u64) -> Result<(Locked<'a>, u32)> {
        if owner == NOBODY { Ok((cpu, owner)) } else { self.charge_on(cpu, owner, bytes) }
    }

    #[inline]
    pub(super) fn pay_back(&self, cpu: &mut Locked<'_>, owner: u32, bytes: u64) {
        if owner != NOBODY {
            self.uncharge(cpu, owner, bytes);
        }
    }

    /// An object of `record` for `owner`. `node`: instead of what the cache's policy says.
    #[inline]
    pub(crate) fn alloc_object(&self, record: &Record, owner: u32, node: Option<u8>) -> Result<NonNull<u8>> {
        self.alloc_object_as(record, owner, node, true)
    }

    /// As [`alloc_object`](Self::alloc_object); `sleep`: whether the thread may be made to wait above `high`.
    pub(crate) fn alloc_object_as(
        &self,
        record: &Record,
        owner: u32,
        node: Option<u8>,
        sleep: bool,
    ) -> Result<NonNull<u8>> {
        self.free_deferred();
        let mut cpu = self.lock_cpu();
        if node.is_none()
            && let Some(object) = self.alloc_from_depot(&mut cpu, record, owner)
        {
            return Ok(object);
        }
        self.put_away_loose(&mut cpu);
        if node.is_none()
            && let Some(object) = self.alloc_run(&mut cpu, record, owner)
        {
            self.see_to(cpu, sleep);
            return Ok(object);
        }
        let (mut cpu, owner) = self.pay_on(cpu, owner, record.charge)?;
        let object = self.take_owned(&cpu, record, owner, node);
        match object {
            Ok(_) => self.make_ready(&mut cpu, record, owner),
            Err(_) => self.pay_back(&mut cpu, owner, record.charge),
        }
        self.see_to(cpu, sleep);
        object
    }

    /// A free object of `record`, made `owner`'s, who has paid for it.
    #[inline]
    pub(super) fn take_owned(
        &self,
        cpu: &Locked<'_>,
        record: &Record,
        owner: u32,
        node: Option<u8>,
    ) -> Result<NonNull<u8>> {
        if record.is_destroyed() {
            return Err(Error::CacheDestroyed);
        }
        self.take_clean(cpu, record, owner, node).and_then(|object| {
            let slab = self.chunks.find(object.as_ptr() as usize).ok_or(Error::Foreign { address: 0 })?;
            // SAFETY: the object is out, so its slab is in place; `owners` is made for sharing.
            let slab = unsafe { slab.as_ref() };
            let index = record.index_of(object.as_ptr() as usize - slab.base() as usize);
            let vectors = self.vectors(slab);
            if slab.owners.set(index, owner, record.strict, &vectors) {
                return Ok(object);
            }
            record.put_back(self, NonNull::from(slab), object.as_ptr());
            Err(Error::NoMemory { bytes: vectors.len() * size_of::<u32>() })
        })
    }

    /// What a charge left to do, once its area is unlocked.
    #[inline]
    pub(crate) fn see_to(&self, mut cpu: Locked<'_>, sleep: bool) {
        if cpu.returned {
            cpu.returned = false;
            let over = cpu.over_high.take();
            drop(cpu);
            self.see_to_rest(over, sleep);
        }
    }

    #[cold]
    fn see_to_rest(&self, over: Option<(NonNull<Node>, u64)>, sleep: bool) {
        self.settle();
        if let Some((node, charged)) = over {
            self.throttle((Group::from_held(&Controller::of(self), node), charged), sleep);
        }
    }

    /// A free object that nobody wrote to since its free, as far as its cache can tell.
    #[inline]
    fn take_clean(
        &self,
        cpu: &Locked<'_>,
        record: &Record,
        owner: u32,
        node: Option<u8>,
    ) -> Result<NonNull<u8>> {
        loop {
            let object = self.take_object(cpu, record, owner, node)?;
            if !record.is_debug() || record.is_clean(object.as_ptr()) {
                return Ok(object);
            }
            // Whoever wrote there may write again: nobody gets it before its slab was empty.
            if let Some(slab) = self.chunks.find(object.as_ptr() as usize) {
                record.withhold(slab);
            }
        }
    }

    /// Whether free objects that are, or were, `owner`'s wait in sheaves. Not those that may be made ready: in sheaves objects of
    /// many groups mix, and what comes next gets some of each slab.
    fn in_sheaves(&self, record: &Record, owner: u32) -> bool {
        let ready = record.ready != NONE && owner != NOBODY && !self.config.exact_charges;
        record.sheaf_capacity() > 0 && !ready
    }

    /// A free object for `owner`: from the sheaf if it is of the CPU's node, or from a slab.
    fn take_object(
        &self,
        cpu: &Locked<'_>,
        record: &Record,
        owner: u32,
        node: Option<u8>,
    ) -> Result<NonNull<u8>> {
        let nodes = self.topology.nodes();
        let (node, elsewhere) =
            node.map_or_else(|| record.wanted_node(cpu.node(), nodes), |node| (node, true));
        let mut object = None;
        if node == cpu.node() && self.in_sheaves(record, owner) {
            object = self.at_hand(cpu, record);
            if object.is_none() {
                // SAFETY: the area of this CPU is locked.
                let sheaf = unsafe { record.sheaf(cpu.cpu()) };
                // What is not needed now fills half the sheaf: frees are as likely to follow.
                let sheaf = sheaf.or_else(|| self.new_sheaf(cpu, record));
                let spare = sheaf.map_or(0, |s| s.capacity() / 2);
                record.take_out(self, node, NOBODY, 1 + spare, |taken| match (object, sheaf) {
                    (None, _) => object = Some(taken),
                    (Some(_), Some(sheaf)) => drop(sheaf.push(taken)),
                    (Some(_), None) => {}
                });
            }
        } else {
            record.take_out(self, node, owner, 1, |taken| object = Some(taken));
        }
        for other in (0..nodes).filter(|n| elsewhere && *n != node) {
            if object.is_some() {
                break;
            }
            record.take_out(self, other, owner, 1, |taken| object = Some(taken));
        }
        // Nobody's objects, where there is no memory for more.
        if object.is_none() && (node == cpu.node() || elsewhere) {
            object = self.at_hand(cpu, record);
        }
        object.and_then(NonNull::new).ok_or(Error::NoMemory { bytes: record.slab_bytes() as usize })
    }

    /// A free object of the CPU's node that no slab must be looked for: from its sheaf, or a full one of the barn.
    pub(super) fn at_hand(&self, cpu: &Locked<'_>, record: &Record) -> Option<*mut u8> {
        // SAFETY: the area of this CPU is locked.
        let sheaf = unsafe { record.sheaf(cpu.cpu()) }?;
        if let Some(object) = sheaf.pop() {
            return Some(object);
        }
        let full = record.full_for(self, cpu.node(), sheaf)?;
        // SAFETY: as above.
        unsafe { record.set_sheaf(cpu.cpu(), Some(full)) };
        full.pop()
    }

    fn new_sheaf(&self, cpu: &Locked<'_>, record: &Record) -> Option<Sheaf> {
        let sheaf = Sheaf::create(record.sheaf_capacity(), &self.meta)?;
        // SAFETY: the area of this CPU is locked.
        unsafe { record.set_sheaf(cpu.cpu(), Some(sheaf)) };
        Some(sheaf)
    }

    /// Puts a free object away that was `owner`'s: into the sheaf if it is of the CPU's node, or into its slab.
    fn put_object(
        &self,
        cpu: &Locked<'_>,
        record: &Record,
        owner: u32,
        slab: NonNull<Slab>,
        object: NonNull<u8>,
    ) {
        // SAFETY: the object is out, so its slab is in place; `node` is fixed and `offline` atomic.
        let local = unsafe { slab.as_ref().node == cpu.node() && !slab.as_ref().offline.load(Acquire) };
        if local && self.in_sheaves(record, owner) && !record.is_destroyed() {
            // SAFETY: the area of this CPU is locked.
            let sheaf = unsafe { record.sheaf(cpu.cpu()) }.or_else(|| self.new_sheaf(cpu, record));
            if let Some(mut sheaf) = sheaf {
                if sheaf.len() == sheaf.capacity() {
                    match record.empty_for(self, cpu.node(), sheaf) {
                        Some(empty) => {
                            // SAFETY: as above.
                            unsafe { record.set_sheaf(cpu.cpu(), Some(empty)) };
                            sheaf = empty;
                        }
                        None => self.flush(record, cpu.node(), sheaf, sheaf.capacity() / 2),
                    }
                }
                if sheaf.push(object.as_ptr()) {
                    return;
                }
            }
        }
        record.put_back(self, slab, object.as_ptr());
    }

    /// As [`free_object`](Self::free_object), out of the way.
    ///
    /// # Safety
    /// As there.
    #[cold]
    pub(crate) unsafe fn free_slowly(&self, object: NonNull<u8>, expected: Option<&Record>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.free_object(object, expected) }
    }

    /// Frees an object found by its address; `expected`: the cache that it must belong to.
    ///
    /// # Safety
    /// Nobody uses the object any more.
    pub(crate) unsafe fn free_object(&self, object: NonNull<u8>, expected: Option<&Record>) -> Result<()> {
        self.free_deferred();
        let address = object.as_ptr() as usize;
        // Its slab's list of free objects goes through it.
        crate::ahead::fetch(object.as_ptr());
        let (slab, index) = self.locate(address)?;
        // SAFETY: `locate` found a run in use.
        let s = unsafe { slab.as_ref() };
        // SAFETY: a slab's cache outlives it; large objects have none.
        let record = unsafe { s.cache.as_ref() };
        if expected.is_some_and(|e| !record.is_some_and(|r| core::ptr::eq(r, e))) {
            return Err(Error::WrongCache { address });
        }
        let mut damage = None;
        if let Some(record) = record.filter(|record| record.is_debug()) {
            // Poison first: once it has no owner, it is a free object for whoever looks.
            s.owners.get(index).ok_or(Error::DoubleFree { address })?;
            damage = record.retire(object.as_ptr());
        }
        let mut cpu = self.lock_cpu();
        if let Some(record) = record
            && self.free_with_room(&mut cpu, record, s, index, object)?
        {
            return Ok(());
        }
        let owner = s.owners.take(index).ok_or(Error::DoubleFree { address })?;
        match record {
            Some(record) => {
                // Read first: once its last object is back the cache may be destroyed by another thread.
                let charge = record.charge;
                self.put_object(&cpu, record, owner, slab, object);
                self.pay_back(&mut cpu, owner, charge);
                self.see_to(cpu, true);
            }
            None => {
                let bytes = s.bytes() as u64;
                self.pay_back(&mut cpu, owner, bytes + u64::from(OWNER_BYTES));
                self.see_to(cpu, true);
                self.large_bytes.fetch_sub(bytes, Relaxed);
                self.large_objects.fetch_sub(1, Relaxed);
                // SAFETY: the caller's promise; its owner is gone from it.
                unsafe { self.chunks.free(slab) };
            }
        }
        damage.map_or(Ok(()), |damage| Err(Error::Overwritten { address, at: damage.at }))
    }

    /// The run of an object's address, and which object of it begins there.
    pub(crate) fn locate(&self, address: usize) -> Result<(NonNull<Slab>, usize)> {
        let slab = self.chunks.find(address).ok_or(Error::Foreign { address })?;
        // SAFETY: a run in use.
        let s = unsafe { slab.as_ref() };
        let index = match s.kind {
            // SAFETY: a slab's cache outlives it.
            Kind::Slab => unsafe { s.cache.as_ref() }.and_then(|record| s.place(address, record)),
            Kind::Large => (s.base() as usize == address).then_some(0),
            Kind::Pages => return Err(Error::Foreign { address }),
        };
        Ok((slab, index.ok_or(Error::Interior { address })?))
    }

    /// An object of whole pages for `owner`, on the caller's node.
    pub(crate) fn alloc_large(&self, size: usize, align: usize, owner: u32) -> Result<NonNull<u8>> {
        let pages = u32::try_from(size.div_ceil(PAGE)).map_err(|_| Error::BadSize { size })? as usize;
        let bytes = (pages * PAGE) as u64;
        let (mut cpu, owner) = self.pay(owner, bytes + u64::from(OWNER_BYTES))?;
        // As for slabs: here if possible, else elsewhere.
        let others = (0..self.topology.nodes()).filter(|n| *n != cpu.node());
        let slab = core::iter::once(cpu.node())
            .chain(others)
            .find_map(|node| self.chunks.alloc(pages, align.max(PAGE), node, Kind::Large));
        let Some(slab) = slab else {
            self.pay_back(&mut cpu, owner, bytes + u64::from(OWNER_BYTES));
            self.see_to(cpu, true);
            return Err(Error::NoMemory { bytes: pages * PAGE });
        };
        self.see_to(cpu, true);
        self.large_bytes.fetch_add(bytes, Relaxed);
        self.large_objects.fetch_add(1, Relaxed);
        // SAFETY: just made and ours.
        let slab = unsafe { slab.as_ref() };
        // One object: one owner, never a vector.
        slab.owners.set(0, owner, false, &self.vectors(slab));
        NonNull::new(slab.base()).ok_or(Error::NoMemory { bytes: pages * PAGE })
    }
}
