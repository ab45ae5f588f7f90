//! Memory for our own bookkeeping, every byte of it counted.
//!
//! Small blocks come in steps of 16 bytes and are cut from 256 KiB regions, never touched ahead of use; a
//! freed block waits in the list of its size. Large blocks (tables) are mappings of their own. Metadata never
//! comes from the slabs that it describes: a slab could otherwise hold the vector that keeps it alive.

use crate::page::{PAGE, Source};
use crate::sync::{Lock, Rank};
use core::ptr::{NonNull, null_mut};

const STEP: usize = 16;
const SMALL: usize = 4096;
const REGION: usize = 256 << 10;

struct Free {
    next: *mut Free,
}

struct State {
    lists: [*mut Free; SMALL / STEP],
    /// The part of the newest region that was never handed out.
    fresh: *mut u8,
    left: usize,
    /// Every region, linked through its first word.
    regions: *mut *mut u8,
    /// Bytes resident: regions as far as touched, and whole large blocks.
    resident: usize,
    /// Bytes in small blocks that wait in lists.
    free: usize,
}

// SAFETY: the pointers lead to memory that belongs to this state alone; it is reached through its lock.
unsafe impl Send for State {}

pub(crate) struct Meta {
    source: &'static dyn Source,
    state: Lock<State>,
}

impl Meta {
    pub(crate) fn new(source: &'static dyn Source) -> Self {
        let state = State {
            lists: [null_mut(); SMALL / STEP],
            fresh: null_mut(),
            left: 0,
            regions: null_mut(),
            resident: 0,
            free: 0,
        };
        Self { source, state: Lock::new(Rank::Meta, state) }
    }

    /// Its lock, for a fork.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn raw_lock(&self) -> &crate::sync::Raw {
        self.state.raw()
    }

    /// Bytes that a block of `bytes` takes.
    pub(crate) fn rounded(bytes: usize) -> usize {
        if bytes <= SMALL { bytes.max(1).next_multiple_of(STEP) } else { bytes.next_multiple_of(PAGE) }
    }

    /// A block of zeroed bytes, aligned to 16; one of more than 4 KiB to [`PAGE`].
    pub(crate) fn alloc(&self, bytes: usize) -> Option<NonNull<u8>> {
        let bytes = Self::rounded(bytes);
        if !self.source.admit(bytes) {
            return None;
        }
        let mut s = self.state.lock();
        if bytes > SMALL {
            let block = self.source.map(bytes, PAGE, None)?;
            s.resident += bytes;
            return Some(block);
        }
        let list = bytes / STEP - 1;
        if let Some(block) = NonNull::new(s.lists[list]) {
            // SAFETY: a block in the list is free, of this size, and begins with its link.
            unsafe {
                s.lists[list] = block.read().next;
                block.cast::<u8>().write_bytes(0, bytes);
            }
            s.free -= bytes;
            return Some(block.cast());
        }
        if s.left < bytes {
            self.new_region(&mut s)?;
        }
        let before = (REGION - s.left).next_multiple_of(PAGE);
        let block = s.fresh;
        s.fresh = block.wrapping_add(bytes);
        s.left -= bytes;
        s.resident += (REGION - s.left).next_multiple_of(PAGE) - before;
        NonNull::new(block)
    }

    fn new_region(&self, s: &mut State) -> Option<()> {
        let region = self.source.map(REGION, PAGE, None)?;
        // What is left of the old region goes to the list of its size.
        if s.left >= STEP {
            let (rest, bytes) = (s.fresh.cast::<Free>(), s.left);
            // SAFETY: the rest is ours, unused, aligned to 16, and at least 16 bytes.
            unsafe { rest.write(Free { next: s.lists[bytes / STEP - 1] }) };
            s.lists[bytes / STEP - 1] = rest;
            s.free += bytes;
        }
        // SAFETY: a new region of ours; its first word links the regions.
        unsafe { region.cast::<*mut *mut u8>().write(s.regions) };
        s.regions = region.as_ptr().cast();
        s.fresh = region.as_ptr().wrapping_add(STEP);
        s.left = REGION - STEP;
        s.resident += PAGE;
        Some(())
    }

    /// As [`alloc`](Self::alloc) for a large block that will be touched bit by bit: whoever has it counts what is
    /// resident. To be given back by [`free_lazy`](Self::free_lazy).
    pub(crate) fn alloc_lazy(&self, bytes: usize) -> Option<NonNull<u8>> {
        let bytes = bytes.next_multiple_of(PAGE);
        if self.source.admit(bytes) { self.source.map(bytes, PAGE, None) } else { None }
    }

    /// # Safety
    /// `block` came from `alloc_lazy(bytes)` of this, and nobody uses it any more.
    pub(crate) unsafe fn free_lazy(&self, block: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise: a whole mapping.
        unsafe { self.source.unmap(block, bytes.next_multiple_of(PAGE)) };
    }

    /// Gives back the memory behind whole pages of a lazy block, which read zeros from then on.
    ///
    /// # Safety
    /// `start..start + bytes` are such pages, and nobody needs what they hold.
    pub(crate) unsafe fn purge_lazy(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.source.purge(start, bytes) };
    }

    /// Gives a block back.
    ///
    /// # Safety
    /// `block` came from `alloc(bytes)` of this, and nobody uses it any more.
    pub(crate) unsafe fn free(&self, block: NonNull<u8>, bytes: usize) {
        let bytes = Self::rounded(bytes);
        let mut s = self.state.lock();
        if bytes > SMALL {
            s.resident -= bytes;
            // SAFETY: a large block is a whole mapping.
            return unsafe { self.source.unmap(block, bytes) };
        }
        let free = block.cast::<Free>();
        let list = &mut s.lists[bytes / STEP - 1];
        // SAFETY: the block is the caller's to give, and holds at least 16 bytes.
        unsafe { free.write(Free { next: *list }) };
        *list = free.as_ptr();
        s.free += bytes;
    }

    /// Bytes resident, and those of them that wait in free lists.
    pub(crate) fn totals(&self) -> (usize, usize) {
        let s = self.state.lock();
        (s.resident, s.free)
    }

    /// Unmaps all regions. Large blocks are their owners' to give back.
    ///
    /// # Safety
    /// No block is used again.
    pub(crate) unsafe fn release(&self) {
        let s = self.state.lock();
        let mut region = s.regions;
        while let Some(at) = NonNull::new(region) {
            // SAFETY: the first word of a region links to the one before it.
            unsafe {
                region = at.read().cast();
                self.source.unmap(at.cast(), REGION);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Simulated;
    extern crate std;
    use std::{boxed::Box, vec::Vec};

    #[test]
    fn blocks_are_zeroed_apart_and_counted() {
        let source: &'static Simulated = Box::leak(Box::new(Simulated::new()));
        let meta = Meta::new(source);
        let sizes = [1, 16, 17, 400, 4096, 4097, 20_000];
        let mut blocks = Vec::new();
        for round in 0..200 {
            for &n in &sizes {
                let b = meta.alloc(n).unwrap();
                // SAFETY: the block is ours, `n` bytes long.
                unsafe {
                    assert!((0..n).all(|i| b.add(i).read() == 0), "zeroed");
                    b.write_bytes(round as u8 | 1, n);
                }
                blocks.push((b, n, round as u8 | 1));
            }
            if round % 3 == 0 {
                for (b, n, mark) in blocks.drain(..) {
                    // SAFETY: as above; given back once.
                    unsafe {
                        assert!((0..n).all(|i| b.add(i).read() == mark), "nobody else wrote here");
                        meta.free(b, n);
                    }
                }
            }
        }
        for (b, n, _) in blocks.drain(..) {
            // SAFETY: given back once.
            unsafe { meta.free(b, n) };
        }
        let (resident, free) = meta.totals();
        assert!(free <= resident && resident < 8 * REGION);
        // SAFETY: all blocks are back.
        unsafe { meta.release() };
        assert_eq!(source.total(), 0);
    }

    #[test]
    fn no_pages_no_block() {
        let source: &'static Simulated = Box::leak(Box::new(Simulated::new()));
        let meta = Meta::new(source);
        source.fail_from(0);
        assert!(meta.alloc(10).is_none() && meta.alloc(10_000).is_none());
        source.heal();
        assert!(meta.alloc(10).is_some());
    }
}
