//! Allocating and freeing where nothing may be waited for: in a signal handler, on a thread that may hold any lock of
//! this library at that moment (Linux: `kmalloc_nolock`, 6.18).
//!
//! An allocation goes the fast way or fails. A free that cannot go it leaves the object on a stack, which whoever next
//! leaves the fast way takes and frees: a handler only pushes, and only the whole stack is ever taken, so a place that
//! comes back (ABA) does no harm.

use super::Cache;
use crate::controller::{Controller, Inner};
use crate::error::{Error, Result};
use crate::group::Group;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::*;

impl Inner {
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
        self.controller().inner().alloc_nolock(self.record(), owner).ok_or(Error::Busy)
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
        if inner.free_nolock(object) {
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
