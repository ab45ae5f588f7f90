//! Owner → lists, beyond the owners that stand in the index itself: an open-addressing table.
//!
//! Who looks holds the lock of his CPU's area; who changes, that of the indexes.

use super::lists::Lists;
use core::mem::size_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU32};

/// An owner and its lists. The key is written last and cleared first.
pub(super) struct Entry {
    pub(super) owner: AtomicU32,
    pub(super) lists: AtomicPtr<Lists>,
}

/// Never was an owner; was one (its place may be used again).
pub(super) const FREE: u32 = 0;
pub(super) const GONE: u32 = u32::MAX;

/// An open-addressing table: this head, then `capacity` (a power of two) entries.
pub(super) struct Hash {
    pub(super) capacity: usize,
    /// Entries that are not `FREE`.
    pub(super) filled: usize,
}

impl Hash {
    pub(super) fn bytes(capacity: usize) -> usize {
        size_of::<Self>() + capacity * size_of::<Entry>()
    }

    /// # Safety
    /// `this` is in place; `at` is below its capacity.
    pub(super) unsafe fn entry<'a>(this: NonNull<Self>, at: usize) -> &'a Entry {
        // SAFETY: the caller's promise.
        unsafe { this.add(1).cast::<Entry>().add(at).as_ref() }
    }

    pub(super) fn start(owner: u32, capacity: usize) -> usize {
        owner.wrapping_mul(0x9e37_79b9) as usize >> 7 & (capacity - 1)
    }
}
