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

    fn take(&self, layout: Layout, zeroed: bool) -> Result<NonNull<[u8]>, AllocError> {
        let (size, align, ctl) = (layout.size(), layout.align(), self.0.controller());
        let object = match (size, zeroed) {
            // Aligned, and never looked behind.
            (0, _) => NonNull::new(core::ptr::without_provenance_mut(align)).ok_or(AllocError)?,
            (_, false) => ctl.malloc(&self.0, size, align).map_err(|_| AllocError)?,
            (_, true) => ctl.malloc_zeroed(&self.0, size, align).map_err(|_| AllocError)?,
        };
        // No more than was asked for, since `realloc` is told of no more.
        Ok(NonNull::slice_from_raw_parts(object, size))
    }

    /// The block with `new`'s size, larger or smaller, and alignment; contents are kept as far as both sizes go.
    ///
    /// # Safety
    /// `object` is a block that `self` or a clone of it gave out for `old` and that was not given back. If this succeeds,
    /// nobody uses it any more.
    unsafe fn resize(
        &self,
        object: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 || new.size() == 0 {
            let block = self.take(new, false)?;
            // SAFETY: of no bytes, or given back as the caller promises; there is nothing to be copied.
            unsafe { self.deallocate(object, old) };
            return Ok(block);
        }
        // SAFETY: `old` is not empty, so `object` came from `malloc` or `realloc` of this controller, and is live.
        let moved = unsafe { self.0.controller().realloc(object, new.size(), new.align()) };
        moved.map(|object| NonNull::slice_from_raw_parts(object, new.size())).map_err(|_| AllocError)
    }
}

// SAFETY: a block is an object of the group's controller. It stays where it is until it is freed, as the controller does:
// the group's handle in each clone keeps it. Any clone frees and resizes it, since both find it by its address. A block of
// no bytes is not looked behind.
unsafe impl Allocator for GroupAlloc {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.take(layout, false)
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.take(layout, true)
    }

    unsafe fn deallocate(&self, object: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            // SAFETY: not empty, so it came from `malloc` or `realloc` of this controller; the caller gives it back. That
            // somebody wrote beyond it is counted.
            let _ = unsafe { self.0.controller().free(object) };
        }
    }

    unsafe fn grow(
        &self,
        object: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: what the trait asks of the caller is what `resize` asks.
        unsafe { self.resize(object, old, new) }
    }

    unsafe fn grow_zeroed(
        &self,
        object: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: as for `grow`.
        let block = unsafe { self.resize(object, old, new)? };
        // SAFETY: the block has `new.size()` bytes, of which the trait's caller promises that they are no fewer than before.
        unsafe { block.cast::<u8>().add(old.size()).write_bytes(0, new.size() - old.size()) };
        Ok(block)
    }

    unsafe fn shrink(
        &self,
        object: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: what the trait asks of the caller is what `resize` asks.
        unsafe { self.resize(object, old, new) }
    }
}
