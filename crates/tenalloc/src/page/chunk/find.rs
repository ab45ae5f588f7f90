//! From an address to the descriptor of its run. Everything else of chunks is done with their lock held; this without.

use super::{CHUNK, Chunks, Header};
use crate::page::PAGE;
use crate::slab::Slab;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::*;

impl Chunks {
    /// The descriptor of the run that holds `address`, which is in one of ours, and not huge.
    ///
    /// # Safety
    /// That is so, and an object there is live or held.
    #[inline]
    pub(crate) unsafe fn run_of(&self, address: usize) -> NonNull<Slab> {
        let chunk = chunk_of(address);
        let at = chunk as *mut Header;
        // SAFETY: the caller's promise: the chunk is mapped, the page is one of a run, and its descriptor in place.
        unsafe {
            let index = (*at).map.get_unchecked((address - chunk) / PAGE).load(Relaxed);
            NonNull::new_unchecked(Header::desc(at, index).sub(1))
        }
    }

    /// The descriptor of the run that holds `address`, if it is in one of ours.
    #[inline]
    pub(crate) fn find(&self, address: usize) -> Option<NonNull<Slab>> {
        let chunk = chunk_of(address);
        if !self.registry.has(chunk) {
            return None;
        }
        let at = chunk as *mut Header;
        // SAFETY: a registered chunk is mapped and begins with a header. It stays so while any object of it
        // lives; that one does is what the caller claims by asking.
        let h = unsafe { &*at };
        let index = if h.huge { 1 } else { h.map[(address - chunk) / PAGE].load(Acquire) };
        NonNull::new(Header::desc(at, index.checked_sub(1)?))
    }

    /// The descriptor of the run of `address`, or one without a cache and an id if it is in none or a huge object's. `None`: it
    /// is in no chunk.
    #[inline(always)]
    pub(crate) fn find_small(&self, address: usize) -> Option<NonNull<Slab>> {
        let chunk = chunk_of(address);
        if !self.registry.has(chunk) {
            return None;
        }
        let at = chunk as *mut Header;
        // SAFETY: as in `find`. The map of a huge object's chunk is empty.
        unsafe {
            let index = usize::from((*at).map.get_unchecked((address - chunk) / PAGE).load(Relaxed));
            Some(NonNull::new_unchecked((&raw mut (*at).nothing).add(index)))
        }
    }
}

#[inline]
pub(super) fn chunk_of(address: usize) -> usize {
    address.wrapping_sub(1) & !(CHUNK - 1)
}
