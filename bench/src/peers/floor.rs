//! A plain counted allocation: not an allocator, a measure of the machine.
//!
//! One thread, one size, no limit, never a slow path: a stack of free objects is popped and pushed, a 4-byte owner is
//! written and read beside the objects, and the group's counter is changed without a locked instruction. What it takes is
//! what the workload itself takes, and the cache lines of an owner and a counter. A measure, no proof: less can be faster.

use super::Peer;
use super::hand::Place;
use std::cell::UnsafeCell;
use std::ptr::NonNull;

/// More than any workload has live at once.
const OBJECTS: usize = (64 << 10) + 1024;

struct State {
    free: Vec<NonNull<u8>>,
    owners: Vec<u32>,
    /// One counter a line, as all who count here have them.
    counters: Vec<[u64; 8]>,
}

pub(crate) struct Floor {
    base: NonNull<u8>,
    shift: u32,
    bytes: usize,
    state: UnsafeCell<State>,
}

// SAFETY: its entry says that threads may not share it; the trait asks for Sync of all alike.
unsafe impl Sync for Floor {}

impl Floor {
    pub(crate) fn new(size: usize, groups: usize) -> Self {
        // A place is found by a shift: a multiplication, as unrounded slots need it, takes no cache line more.
        let step = size.next_power_of_two();
        let bytes = step * OBJECTS;
        // SAFETY: an anonymous mapping has no preconditions.
        let base = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        assert_ne!(base, libc::MAP_FAILED, "no memory for the measure");
        let base = NonNull::new(base.cast::<u8>()).expect("a mapping is not at 0");
        // SAFETY: all places lie in the mapping.
        let free = (0..OBJECTS).rev().map(|i| unsafe { base.add(i * step) }).collect();
        let state = State { free, owners: vec![0; OBJECTS], counters: vec![[0; 8]; groups] };
        Self { base, shift: step.trailing_zeros(), bytes, state: UnsafeCell::new(state) }
    }

    fn place(&self, object: NonNull<u8>) -> usize {
        (object.as_ptr() as usize - self.base.as_ptr() as usize) >> self.shift
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and no object of it is used any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

impl Peer for Floor {
    type Object = Place;

    #[inline]
    fn alloc(&self, group: usize, size: usize) -> Place {
        // SAFETY: one thread only, and no reference outlives a call.
        let state = unsafe { &mut *self.state.get() };
        let object = state.free.pop().expect("no workload has more live");
        state.owners[self.place(object)] = group as u32 + 1;
        state.counters[group][0] += size as u64;
        Place(object)
    }

    #[inline]
    fn address(object: Place) -> NonNull<u8> {
        object.0
    }

    #[inline]
    unsafe fn free(&self, object: Place, size: usize) {
        // SAFETY: as in `alloc`.
        let state = unsafe { &mut *self.state.get() };
        let owner = std::mem::take(&mut state.owners[self.place(object.0)]);
        state.counters[owner as usize - 1][0] -= size as u64;
        state.free.push(object.0);
    }
}
