//! A sheaf: a CPU's array of free objects of one cache, taken and given without looking at a slab.

use crate::meta::Meta;
use core::mem::size_of;
use core::ptr::NonNull;

#[derive(Clone, Copy)]
#[repr(C)]
struct Head {
    len: usize,
    capacity: usize,
    // `capacity` pointers follow.
}

/// A handle; whoever holds the lock of the CPU's area owns what it leads to.
#[derive(Clone, Copy)]
pub(crate) struct Sheaf(NonNull<Head>);

fn bytes(capacity: usize) -> usize {
    size_of::<Head>() + capacity * size_of::<*mut u8>()
}

impl Sheaf {
    pub(crate) fn create(capacity: u16, meta: &Meta) -> Option<Self> {
        let capacity = usize::from(capacity);
        let head = meta.alloc(bytes(capacity))?.cast::<Head>();
        // SAFETY: a block of ours, large enough.
        unsafe { head.write(Head { len: 0, capacity }) };
        Some(Self(head))
    }

    /// # Safety
    /// The sheaf is empty, and no copy of the handle is used again.
    pub(crate) unsafe fn destroy(self, meta: &Meta) {
        // SAFETY: made by `create` with this capacity.
        unsafe { meta.free(self.0.cast(), bytes(self.capacity())) };
    }

    fn entry(self, index: usize) -> NonNull<*mut u8> {
        // SAFETY: callers keep `index` below the capacity, so this stays inside the block.
        unsafe { self.0.add(1).cast::<*mut u8>().add(index) }
    }

    /// What [`pop`](Self::pop) would give.
    #[inline]
    pub(crate) fn last(self) -> Option<*mut u8> {
        let len = self.len().checked_sub(1)?;
        // SAFETY: the area's lock is held; entries below `len` are initialised.
        Some(unsafe { self.entry(len).read() })
    }

    #[inline]
    pub(crate) fn pop(self) -> Option<*mut u8> {
        let len = self.len().checked_sub(1)?;
        // SAFETY: the area's lock is held; entries below the old `len` are initialised.
        unsafe {
            (*self.0.as_ptr()).len = len;
            Some(self.entry(len).read())
        }
    }

    /// False: full.
    #[inline]
    pub(crate) fn push(self, object: *mut u8) -> bool {
        let len = self.len();
        if len == self.capacity() {
            return false;
        }
        // SAFETY: the area's lock is held, and `len` is below the capacity.
        unsafe {
            self.entry(len).write(object);
            (*self.0.as_ptr()).len = len + 1;
        }
        true
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        // SAFETY: the area's lock is held, so nobody writes.
        unsafe { self.0.as_ref().len }
    }

    #[inline]
    pub(crate) fn capacity(self) -> usize {
        // SAFETY: fixed since `create`.
        unsafe { self.0.as_ref().capacity }
    }
}
