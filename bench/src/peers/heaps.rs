//! A heap, an arena or a context for each group, where the allocator has such a thing. Nothing is counted and no limit
//! holds (but in talloc), and who asks for a group's bytes asks the allocator.

use super::Peer;
use super::hand::Place;
use super::table::Heaps;
use std::ptr::NonNull;

/// One heap a group.
pub(crate) struct Heaped {
    heaps: Heaps,
    /// By group; 0 where there is none.
    pub(crate) each: Vec<usize>,
}

/// Makes heaps until there are `groups` or the allocator has no more of them.
pub(crate) fn make(heaps: &Heaps, groups: usize) -> Vec<usize> {
    // SAFETY: making a heap has no preconditions.
    (0..groups).map(|_| unsafe { (heaps.create)() }).take_while(|heap| *heap != 0).collect()
}

impl Heaped {
    pub(crate) fn new(heaps: &Heaps, each: Vec<usize>) -> Self {
        Self { heaps: *heaps, each }
    }
}

impl Peer for Heaped {
    type Object = Place;

    #[inline]
    fn alloc(&self, group: usize, size: usize) -> Place {
        // SAFETY: the heap exists.
        let object = unsafe { (self.heaps.malloc)(self.each[group], size) };
        Place(NonNull::new(object.cast()).expect("the peer has no memory"))
    }

    #[inline]
    fn address(object: Place) -> NonNull<u8> {
        object.0
    }

    #[inline]
    unsafe fn free(&self, object: Place, _: usize) {
        // SAFETY: the caller's promise.
        unsafe { (self.heaps.free)(object.0.as_ptr().cast()) };
    }
}
