//! Memory for calls that come while nothing else works: from inside our own start, for which the C library may allocate.
//!
//! A fixed 256 KiB that is only ever handed out; what is not touched costs nothing. Such calls are few and small.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering::*};

const BYTES: usize = 256 << 10;

#[repr(C, align(4096))]
struct Memory(UnsafeCell<[u8; BYTES]>);

// SAFETY: each part is handed out once.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; BYTES]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// Zeroed memory; null where there is no more.
pub(crate) fn allocate(size: usize, align: usize) -> *mut u8 {
    let align = align.max(16);
    let start = MEMORY.0.get().cast::<u8>();
    let mut used = USED.load(Relaxed);
    loop {
        // In front of each block lies its size.
        let Some(at) = (start as usize + used + 16).checked_next_multiple_of(align) else {
            return core::ptr::null_mut();
        };
        let offset = at - start as usize;
        let Some(end) = offset.checked_add(size).filter(|end| *end <= BYTES) else {
            return core::ptr::null_mut();
        };
        match USED.compare_exchange_weak(used, end.next_multiple_of(16), Relaxed, Relaxed) {
            Ok(_) => {
                // SAFETY: the block with its size lies inside the memory, and is nobody else's.
                unsafe {
                    let block = start.add(offset);
                    block.sub(16).cast::<usize>().write(size);
                    return block;
                }
            }
            Err(now) => used = now,
        }
    }
}

/// The size of a block of ours.
pub(crate) fn size(block: *mut u8) -> Option<usize> {
    let offset = (block as usize).wrapping_sub(MEMORY.0.get() as usize);
    // SAFETY: blocks have their sizes in front of them.
    (16..BYTES).contains(&offset).then(|| unsafe { block.sub(16).cast::<usize>().read() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_apart_aligned_and_end_some_time() {
        let mut last = 0;
        for (bytes, align) in [(1, 1), (100, 16), (0, 64), (5000, 4096), (24, 8)] {
            let block = allocate(bytes, align);
            assert!((block as usize).is_multiple_of(align.max(16)) && block as usize >= last);
            assert_eq!(size(block), Some(bytes));
            last = block as usize + bytes;
        }
        assert!(allocate(BYTES, 16).is_null() && allocate(usize::MAX - 100, 16).is_null());
        assert_eq!(size(core::ptr::null_mut()), None);
        assert_eq!(size((&raw const last).cast_mut().cast()), None);
    }
}
