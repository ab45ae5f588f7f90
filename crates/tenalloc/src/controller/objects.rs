//! What a controller does with single objects: sizes of any kind, and what is found from an address alone.

use super::Controller;
use crate::error::{Error, Result};
use crate::group::{Group, Owner};
use crate::page::PAGE;
use crate::slab::Kind;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::*;

impl Controller {
    /// `size` bytes owned by and charged to `group`, aligned to `align`, from the size class that fits or, above
    /// 8 KiB, in whole pages. Not initialised.
    ///
    /// # Errors
    /// [`Error::Limit`], [`Error::NoMemory`], [`Error::BadSize`], [`Error::BadAlign`], [`Error::GroupRemoved`].
    #[inline]
    pub fn malloc(&self, group: &Group, size: usize, align: usize) -> Result<NonNull<u8>> {
        if let Some(object) = self.inner().malloc_ready(size, align, group.ready_owner(self)) {
            return Ok(object);
        }
        self.inner().malloc(size, align, group.owner_id(self)?)
    }

    /// Frees any object of this controller, from [`malloc`](Self::malloc) or a cache.
    ///
    /// # Errors
    /// See [`Cache::free`](crate::Cache::free).
    ///
    /// # Safety
    /// Nobody uses the object any more.
    #[inline]
    pub unsafe fn free(&self, object: NonNull<u8>) -> Result<()> {
        if self.inner().free_ready(object, None) {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { self.inner().free_slowly(object, None) }
    }

    /// As [`malloc`](Self::malloc), and every byte that [`usable_size`](Self::usable_size) tells of is zero.
    ///
    /// # Errors
    /// As [`malloc`](Self::malloc).
    pub fn malloc_zeroed(&self, group: &Group, size: usize, align: usize) -> Result<NonNull<u8>> {
        let object = self.malloc(group, size, align)?;
        let (slab, _) = self.inner().locate(object.as_ptr() as usize)?;
        // Whole pages that nobody used since the system gave them hold zeros; to write them would make them resident.
        // SAFETY: the run of an object that is live; both fields are fixed.
        let zero = unsafe { slab.as_ref().kind == Kind::Large && slab.as_ref().zero };
        if !zero {
            let usable = self.usable_size(object)?;
            // SAFETY: new, and as large as that.
            unsafe { object.write_bytes(0, usable) };
        }
        Ok(object)
    }

    /// The object of [`malloc`](Self::malloc) at `object` with `size` bytes instead, aligned to `align`: in place if its
    /// size class or its pages fit, else moved. It keeps its owner, who is charged for both while it moves; of its
    /// contents as many bytes stay as both sizes have. That somebody wrote beyond an object that was moved is counted in
    /// [`Stat::corrupted`](crate::Stat::corrupted).
    ///
    /// # Errors
    /// As [`malloc`](Self::malloc); [`Error::Foreign`], [`Error::Interior`], [`Error::DoubleFree`] where it shows,
    /// [`Error::WrongCache`] for an object of a cache. The object is as it was then.
    ///
    /// # Safety
    /// Nobody else uses the object meanwhile, and after `Ok` nobody uses the old address.
    pub unsafe fn realloc(&self, object: NonNull<u8>, size: usize, align: usize) -> Result<NonNull<u8>> {
        if self.inner().stays(object, size, align) {
            return Ok(object);
        }
        // SAFETY: the caller's promise.
        unsafe { self.inner().realloc(object, size, align, false) }
    }

    /// As [`realloc`](Self::realloc) for an object that was made, and is kept, zeroed: bytes that it grows by are zero.
    ///
    /// # Errors
    /// As [`realloc`](Self::realloc).
    ///
    /// # Safety
    /// As [`realloc`](Self::realloc).
    pub unsafe fn realloc_zeroed(
        &self,
        object: NonNull<u8>,
        size: usize,
        align: usize,
    ) -> Result<NonNull<u8>> {
        // SAFETY: the caller's promise.
        unsafe { self.inner().realloc(object, size, align, true) }
    }

    /// Bytes that may be used of the object at `address`.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Interior`].
    pub fn usable_size(&self, object: NonNull<u8>) -> Result<usize> {
        self.inner().usable_size(object)
    }

    /// The group that a live object is charged to now; `None` if nobody owns it. Found from its address alone.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Interior`], [`Error::DoubleFree`] if it is known not to be live.
    pub fn group_of_object(&self, object: NonNull<u8>) -> Result<Option<Group>> {
        let address = object.as_ptr() as usize;
        let (slab, index) = self.inner().locate(address)?;
        // SAFETY: `locate` found a run in use.
        let id = unsafe { slab.as_ref() }.owners.get(index).ok_or(Error::DoubleFree { address })?;
        Ok((id != crate::group::owner::NOBODY).then(|| self.group_of(id)))
    }

    /// The pages that a live object shares with others: their first address and their bytes.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Interior`].
    pub fn slab_of(&self, object: NonNull<u8>) -> Result<(usize, usize)> {
        let (slab, _) = self.inner().locate(object.as_ptr() as usize)?;
        // SAFETY: `locate` found a run in use.
        let slab = unsafe { slab.as_ref() };
        Ok((slab.base() as usize, slab.bytes()))
    }

    /// How full the slab of a live object is: objects handed out of it (live, or kept free near a CPU), and those that fit.
    /// For whoever chooses what to free: pages come back when the last object of a slab is freed. Takes no lock, and may be
    /// called while a list is walked.
    ///
    /// # Errors
    /// [`Error::Foreign`].
    pub fn fill_of(&self, object: NonNull<u8>) -> Result<(u32, u32)> {
        let address = object.as_ptr() as usize;
        self.inner().fill_of(address).ok_or(Error::Foreign { address })
    }

    pub(crate) fn group_of(&self, owner: u32) -> Group {
        let inner = self.inner();
        let cpu = inner.lock_cpu();
        let owner = inner.owners.get(inner.owners.enter(owner, cpu.cpu()));
        // SAFETY: the node of an owner that this CPU entered is in place while its lock is held, and is held from here on.
        unsafe {
            let node = NonNull::new_unchecked(owner.node.load(Acquire));
            inner.tree.hold(node.as_ref());
            Group::from_held(self, node)
        }
    }

    /// The owner handle of a live object; `None` if nobody owns it.
    ///
    /// # Errors
    /// As [`group_of_object`](Self::group_of_object).
    pub fn owner_of_object(&self, object: NonNull<u8>) -> Result<Option<Owner>> {
        let address = object.as_ptr() as usize;
        let (slab, index) = self.inner().locate(address)?;
        // SAFETY: `locate` found a run in use.
        let id = unsafe { slab.as_ref() }.owners.get(index).ok_or(Error::DoubleFree { address })?;
        if id == crate::group::owner::NOBODY {
            return Ok(None);
        }
        self.inner().owners.hold(id);
        Ok(Some(Owner::from_held(self, id)))
    }

    /// `count` pages of 4 KiB on `node`, zeroed or not, aligned to their size rounded up to a power of two (at
    /// most 64 KiB); owned and paid for by nobody. For memory that the caller divides himself.
    ///
    /// # Errors
    /// [`Error::NoMemory`], [`Error::BadSize`], [`Error::BadNode`].
    pub fn pages(&self, count: usize, node: u8) -> Result<NonNull<u8>> {
        let inner = self.inner();
        inner.check_node(node)?;
        if count == 0 || count > u32::MAX as usize / 2 {
            return Err(Error::BadSize { size: count.saturating_mul(PAGE) });
        }
        let align = (count * PAGE).next_power_of_two().min(16 * PAGE);
        let bytes = count * PAGE;
        let slab = inner.chunks.alloc(count, align, node, Kind::Pages).ok_or(Error::NoMemory { bytes })?;
        inner.raw_bytes.fetch_add(bytes as u64, Relaxed);
        // SAFETY: just made.
        NonNull::new(unsafe { slab.as_ref() }.base()).ok_or(Error::NoMemory { bytes })
    }

    /// Gives pages back.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Interior`].
    ///
    /// # Safety
    /// Nobody uses the pages any more.
    pub unsafe fn free_pages(&self, pages: NonNull<u8>) -> Result<()> {
        let inner = self.inner();
        let address = pages.as_ptr() as usize;
        let slab = inner.chunks.find(address).ok_or(Error::Foreign { address })?;
        // SAFETY: a run in use.
        let s = unsafe { slab.as_ref() };
        if s.kind != Kind::Pages {
            return Err(Error::Foreign { address });
        }
        if s.base() as usize != address {
            return Err(Error::Interior { address });
        }
        inner.raw_bytes.fetch_sub(s.bytes() as u64, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { inner.chunks.free(slab) };
        Ok(())
    }
}
