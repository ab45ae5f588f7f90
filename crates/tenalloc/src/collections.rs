//! Collections in a group: the allocator of the `allocator-api2` crate (feature `allocator-api2`).
//!
//! The standard library's own allocator trait is not stable; that crate has it for stable Rust, and other crates'
//! collections (hashbrown's, for one) take it too.

use crate::group::Group;
use allocator_api2::alloc::{AllocError, Allocator};
use core::alloc::Layout;
use core::ptr::NonNull;

/// An allocator whose memory is a group's.
///
/// ```
/// use allocator_api2::vec::Vec;
/// use tenalloc::{Config, Controller, GroupAlloc};
/// # fn main() -> tenalloc::Result<()> {
/// let tenant = Controller::new(Config::new())?.root().create("tenant-7")?;
/// let mut keys = Vec::new_in(GroupAlloc::new(&tenant));
/// keys.extend(0..1000u32);
/// assert!(tenant.exact() >= 4000);
/// tenant.set_max(8192);
/// assert!(keys.try_reserve(10_000).is_err());
/// drop(keys);
/// assert_eq!(tenant.exact(), 0);
/// # Ok(())
/// # }
/// ```
///
/// What grows keeps its owner. After the group was removed, its collections are the parent's, and still grow; new ones
/// get no memory.
#[derive(Clone, Debug)]
pub struct GroupAlloc(Group);

impl GroupAlloc {
    /// For collections of `group`.
    pub fn new(group: &Group) -> Self {
        Self(group.clone())
    }

    /// The group.
    pub fn group(&self) -> &Group {
        &self.0
    }

    /// What was asked for at `object`: no more, since `realloc` is told of no more.
    fn block(object: NonNull<u8>, layout: Layout) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(object, layout.size())
    }

    /// # Safety
    /// As for [`Allocator::grow`] and [`Allocator::shrink`], which differ in nothing here.
    unsafe fn resize(
        &self,
        object: NonNull<u8>,
        old: Layout,
        new: Layout,
        zeroed: bool,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 {
            return if zeroed { self.allocate_zeroed(new) } else { self.allocate(new) };
        }
        if new.size() == 0 {
            // SAFETY: the caller's promise.
            unsafe { self.deallocate(object, old) };
            return self.allocate(new);
        }
        // SAFETY: the caller's promise.
        let moved = unsafe { self.0.controller().realloc(object, new.size(), new.align()) };
        let moved = moved.map_err(|_| AllocError)?;
        if zeroed {
            // SAFETY: inside the object, behind what it had.
            unsafe { moved.add(old.size()).write_bytes(0, new.size() - old.size()) };
        }
        Ok(Self::block(moved, new))
    }
}

// SAFETY: memory stays until it is freed: the group's handle, which clones hold too, keeps the controller in place. It is
// freed through any of them, by its address.
unsafe impl Allocator for GroupAlloc {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            // Aligned, and never looked behind.
            let dangling =
                NonNull::new(core::ptr::without_provenance_mut(layout.align())).ok_or(AllocError)?;
            return Ok(NonNull::slice_from_raw_parts(dangling, 0));
        }
        let object =
            self.0.controller().malloc(&self.0, layout.size(), layout.align()).map_err(|_| AllocError)?;
        Ok(Self::block(object, layout))
    }

    unsafe fn deallocate(&self, object: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            // SAFETY: the caller's promise. What was written beyond it is counted.
            let _ = unsafe { self.0.controller().free(object) };
        }
    }

    unsafe fn grow(
        &self,
        object: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        unsafe { self.resize(object, old, new, false) }
    }

    unsafe fn grow_zeroed(
        &self,
        object: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        unsafe { self.resize(object, old, new, true) }
    }

    unsafe fn shrink(
        &self,
        object: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        unsafe { self.resize(object, old, new, false) }
    }
}
