//! Allocating and freeing where nothing may be waited for: in a signal handler, on a thread that may hold any lock of
//! this library at that moment (Linux: `kmalloc_nolock`, 6.18).
//!
//! An allocation takes what this CPU has at hand or fails. A free that cannot go leaves the object on a stack, which whoever next
//! leaves the fast way takes and frees: a handler only pushes, and only the whole stack is ever taken, so a place that
//! comes back (ABA) does no harm.

use super::cache::Record;
use super::{Cache, Kind};
use crate::controller::{Controller, Inner};
use crate::error::{Error, Result};
use crate::group::Group;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::*;

impl Inner {
    /// An object of `record` that is ready for `owner`, or out of this CPU's sheaf and charged to this CPU's stock. It
    /// looks at everything first and changes nothing until it is sure.
    fn alloc_at_hand(&self, record: &Record, owner: u32) -> Option<NonNull<u8>> {
        if !record.plain {
            return None;
        }
        if let Some(object) = self.alloc_ready(record.ready, owner) {
            return Some(object);
        }
        let mut cpu = self.try_lock_cpu_from_anywhere()?;
        // SAFETY: the area of this CPU is held.
        let sheaf = unsafe { record.sheaf(cpu.cpu()) }?;
        let object = sheaf.last()?;
        // An owner with a slot is current: removal empties the slots of those it forwards.
        let slot = cpu.stock.slot(owner).filter(|slot| u64::from(slot.bytes) >= record.charge)?;
        // SAFETY: objects in sheaves are out of their slabs, which are in place.
        let slab = unsafe { self.chunks.run_of(object as usize).as_ref() };
        let index = || record.index_of(object as usize - slab.base() as usize);
        if !slab.owners.set_soon(index, owner) {
            return None;
        }
        slot.bytes -= record.charge as u32;
        sheaf.pop();
        NonNull::new(object)
    }

    /// The reverse. `None`: nothing was done.
    fn free_at_hand(&self, object: NonNull<u8>) -> Option<()> {
        if self.free_ready(object, None) {
            return Some(());
        }
        let address = object.as_ptr() as usize;
        let slab = self.chunks.find(address)?;
        // SAFETY: `find` found a run in use; it stays while the object is live.
        let s = unsafe { slab.as_ref() };
        if s.kind != Kind::Slab {
            return None;
        }
        // SAFETY: a slab's cache outlives it.
        let record = unsafe { &*s.cache };
        if !record.plain {
            return None;
        }
        let index = s.place(address, record)?;
        let owner = s.owners.get(index)?;
        let mut cpu = self.try_lock_cpu_from_anywhere()?;
        if s.node != cpu.node() || s.offline.load(Acquire) || cpu.waited {
            return None;
        }
        // SAFETY: the area of this CPU is held.
        let sheaf = unsafe { record.sheaf(cpu.cpu()) }?;
        let most = cpu.stock.most();
        let slot = cpu.stock.slot(owner)?;
        let bytes = u64::from(slot.bytes) + record.charge;
        if bytes > most || sheaf.len() == sheaf.capacity() {
            return None;
        }
        if record.strict {
            // Of two who free an object at the same time one is told.
            s.owners.take(index)?;
        } else {
            s.owners.clear(index);
        }
        slot.bytes = bytes as u32;
        sheaf.push(object.as_ptr());
        Some(())
    }

    /// Leaves an object to whoever comes next.
    fn defer(&self, object: NonNull<u8>) {
        let mut first = self.deferred.load(Relaxed);
        loop {
            // SAFETY: the object is the caller's to give, at least 8 bytes, aligned to 8.
            unsafe { object.cast::<*mut u8>().write(first) };
            match self.deferred.compare_exchange_weak(first, object.as_ptr(), Release, Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Frees what was left. With no lock held.
    #[inline]
    pub(crate) fn free_deferred(&self) {
        if !self.deferred.load(Relaxed).is_null() {
            self.free_all_deferred();
        }
    }

    #[cold]
    fn free_all_deferred(&self) {
        let mut first = self.deferred.swap(null_mut(), Acquire);
        while let Some(object) = NonNull::new(first) {
            // SAFETY: written by `defer`; the object is ours now. A mistake was told when it was left here.
            unsafe {
                first = object.cast::<*mut u8>().read();
                let _ = self.free_object(object, None);
            }
        }
    }
}

impl Cache {
    /// As [`alloc`](Self::alloc), without waiting for anything: for signal handlers. It serves what this CPU has at hand,
    /// and fails where that is nothing: memory charged in advance for `group`, and a free object. Retry outside.
    ///
    /// # Errors
    /// [`Error::Busy`], always for a cache with [`debug`](crate::CacheConfig::debug) or a node policy of its own;
    /// [`Error::GroupRemoved`].
    pub fn alloc_nolock(&self, group: &Group) -> Result<NonNull<u8>> {
        let owner = group.owner_id(self.controller())?;
        self.controller().inner().alloc_at_hand(self.record(), owner).ok_or(Error::Busy)
    }
}

impl Controller {
    /// As [`free`](Self::free), without waiting for anything: for signal handlers. Where the object cannot be freed at
    /// once it is left to the next call that does not go the fast way, or reads sums; until then it counts as live.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Interior`], [`Error::DoubleFree`] where it shows.
    ///
    /// # Safety
    /// Nobody uses the object any more.
    pub unsafe fn free_nolock(&self, object: NonNull<u8>) -> Result<()> {
        let inner = self.inner();
        if inner.free_at_hand(object).is_some() {
            return Ok(());
        }
        let address = object.as_ptr() as usize;
        let (slab, index) = inner.locate(address)?;
        // SAFETY: `locate` found a run in use.
        unsafe { slab.as_ref() }.owners.get(index).ok_or(Error::DoubleFree { address })?;
        inner.defer(object);
        Ok(())
    }
}
