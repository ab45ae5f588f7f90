//! The way of most objects: one area taken in a sequence, no atomic instruction, no line that another CPU writes.
//!
//! Each way looks at everything first and changes nothing until it is sure; where anything is not as it mostly is, it
//! says so, and `path` goes the whole way from the start.

use super::Kind;
use super::cache::Record;
use crate::controller::{Inner, Locked};
use core::ptr::NonNull;
use core::sync::atomic::Ordering::*;

impl Inner {
    /// An object of `record` for `owner` out of this CPU's sheaf, charged to this CPU's stock.
    #[inline(always)]
    pub(crate) fn alloc_fast(&self, record: &Record, owner: u32) -> Option<NonNull<u8>> {
        if !record.plain {
            return None;
        }
        self.alloc_with(self.try_lock_cpu()?, record, owner)
    }

    /// As [`alloc_fast`](Self::alloc_fast), also in a signal handler.
    pub(crate) fn alloc_nolock(&self, record: &Record, owner: u32) -> Option<NonNull<u8>> {
        if !record.plain {
            return None;
        }
        self.alloc_with(self.try_lock_cpu_from_anywhere()?, record, owner)
    }

    #[inline(always)]
    fn alloc_with(&self, mut cpu: Locked<'_>, record: &Record, owner: u32) -> Option<NonNull<u8>> {
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

    /// Frees an object of `expected`, or of any cache, into this CPU's sheaf. False: nothing was done.
    #[inline(always)]
    pub(crate) fn free_fast(&self, object: NonNull<u8>, expected: Option<&Record>) -> bool {
        self.free_with(|| self.try_lock_cpu(), object, expected).is_some()
    }

    /// As [`free_fast`](Self::free_fast), also in a signal handler.
    pub(crate) fn free_nolock(&self, object: NonNull<u8>) -> bool {
        self.free_with(|| self.try_lock_cpu_from_anywhere(), object, None).is_some()
    }

    #[inline(always)]
    fn free_with<'a>(
        &self,
        cpu: impl FnOnce() -> Option<Locked<'a>>,
        object: NonNull<u8>,
        expected: Option<&Record>,
    ) -> Option<()> {
        let address = object.as_ptr() as usize;
        let slab = self.chunks.find(address)?;
        // SAFETY: `find` found a run in use; it stays while the object is live.
        let s = unsafe { slab.as_ref() };
        if s.kind != Kind::Slab {
            return None;
        }
        // SAFETY: a slab's cache outlives it.
        let record = unsafe { &*s.cache };
        if !record.plain || expected.is_some_and(|e| !core::ptr::eq(e, record)) {
            return None;
        }
        let index = s.place(address, record)?;
        let owner = s.owners.get(index)?;
        let mut cpu = cpu()?;
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
}
