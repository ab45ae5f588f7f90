//! The first step of an allocation and of a free, alone: for those who call from outside of Rust.
//!
//! [`Cache::alloc`] is this and, where it fails, the long way. A boundary that splits the two keeps the long way's frame,
//! saved registers and errors out of the function that is called a thousand times more often.

use super::Cache;
use crate::controller::Controller;
use crate::group::Group;
use core::ptr::NonNull;

impl Cache {
    /// An object as [`alloc`](Self::alloc) gives it, if this CPU has one ready for `group`; else `alloc` has to be called.
    /// Never waits, and has no error to tell.
    #[inline(always)]
    pub fn alloc_ready(&self, group: &Group) -> Option<NonNull<u8>> {
        let ctl = self.controller();
        ctl.inner().alloc_ready(self.ready, group.ready_owner(ctl))
    }

    /// As [`free`](Self::free), if that needs no more than to make the object ready for its owner's next. False: nothing
    /// was done, and `free` has to be called.
    ///
    /// # Safety
    /// As for [`free`](Self::free).
    #[inline(always)]
    pub unsafe fn free_ready(&self, object: NonNull<u8>) -> bool {
        self.controller().inner().free_ready(object, Some(self.record()))
    }
}

impl Controller {
    /// As [`Cache::alloc_ready`], in the place of [`malloc`](Self::malloc).
    #[inline(always)]
    pub fn malloc_ready(&self, group: &Group, size: usize, align: usize) -> Option<NonNull<u8>> {
        self.inner().malloc_ready(size, align, group.ready_owner(self))
    }

    /// As [`Cache::free_ready`], in the place of [`free`](Self::free).
    ///
    /// # Safety
    /// As for [`free`](Self::free).
    #[inline(always)]
    pub unsafe fn free_ready(&self, object: NonNull<u8>) -> bool {
        self.inner().free_ready(object, None)
    }
}
