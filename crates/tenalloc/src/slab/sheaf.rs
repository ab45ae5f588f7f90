//! A sheaf: an array of free objects of one cache, taken and given without looking at a slab. A barn: a node's store of
//! full and empty ones (both words, and the idea, are V. Babka's, Linux 6.18).

use crate::meta::Meta;
use core::mem::size_of;
use core::ptr::NonNull;

#[derive(Clone, Copy)]
#[repr(C)]
struct Head {
    len: u32,
    capacity: u32,
    /// The next in the same barn.
    next: Option<Sheaf>,
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
        unsafe { head.write(Head { len: 0, capacity: capacity as u32, next: None }) };
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
            (*self.0.as_ptr()).len = len as u32;
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
            (*self.0.as_ptr()).len = len as u32 + 1;
        }
        true
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        // SAFETY: the area's lock is held, so nobody writes.
        unsafe { self.0.as_ref().len as usize }
    }

    #[inline]
    pub(crate) fn capacity(self) -> usize {
        // SAFETY: fixed since `create`.
        unsafe { self.0.as_ref().capacity as usize }
    }
}

/// Sheaves of one kind that a barn keeps at most.
const MOST: u32 = 10;

/// Sheaves of one kind, the last first.
struct Heap {
    first: Option<Sheaf>,
    number: u32,
}

impl Heap {
    fn push(&mut self, sheaf: Sheaf) -> bool {
        let has_room = self.number < MOST;
        if has_room {
            // SAFETY: the sheaf is the caller's, and the barn's from here on.
            unsafe { (*sheaf.0.as_ptr()).next = self.first.replace(sheaf) };
            self.number += 1;
        }
        has_room
    }

    fn pop(&mut self) -> Option<Sheaf> {
        let sheaf = self.first?;
        // SAFETY: sheaves in a barn are the barn's.
        self.first = unsafe { (*sheaf.0.as_ptr()).next.take() };
        self.number -= 1;
        Some(sheaf)
    }
}

/// A node's sheaves that no CPU has at hand.
pub(crate) struct Barn {
    full: Heap,
    empty: Heap,
}

impl Barn {
    pub(crate) const fn new() -> Self {
        const NONE: Heap = Heap { first: None, number: 0 };
        Self { full: NONE, empty: NONE }
    }

    /// A full sheaf for an empty one, which goes to waste if there are enough.
    pub(crate) fn full_for(&mut self, empty: Sheaf, meta: &Meta) -> Option<Sheaf> {
        let full = self.full.pop()?;
        if !self.empty.push(empty) {
            // SAFETY: it is empty, and the caller gave it away.
            unsafe { empty.destroy(meta) };
        }
        Some(full)
    }

    /// An empty sheaf for a full one. `None`: there are enough full ones, or no memory for an empty one.
    pub(crate) fn empty_for(&mut self, full: Sheaf, meta: &Meta) -> Option<Sheaf> {
        if self.full.number >= MOST {
            return None;
        }
        let empty = self.empty.pop().or_else(|| Sheaf::create(full.capacity() as u16, meta))?;
        self.full.push(full);
        Some(empty)
    }

    /// Any sheaf, full ones first, to be emptied and destroyed.
    pub(crate) fn take(&mut self) -> Option<Sheaf> {
        self.full.pop().or_else(|| self.empty.pop())
    }

    /// Objects in it.
    pub(crate) fn objects(&self) -> u64 {
        self.full.first.map_or(0, |sheaf| sheaf.len() as u64) * u64::from(self.full.number)
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::page::Os;

    #[test]
    fn a_barn_is_bounded_and_loses_no_sheaf() {
        let meta = Meta::new(&Os);
        let mut barn = Barn::new();
        let mut sheaf = Sheaf::create(4, &meta).unwrap();
        let mut kept = 0;
        loop {
            while sheaf.push(core::ptr::dangling_mut()) {}
            match barn.empty_for(sheaf, &meta) {
                Some(empty) => sheaf = empty,
                None => break,
            }
            kept += 1;
            assert_eq!(barn.objects(), 4 * kept);
        }
        assert_eq!(kept, u64::from(MOST));
        for _ in 0..3 * MOST {
            while sheaf.pop().is_some() {}
            match barn.full_for(sheaf, &meta) {
                Some(full) => sheaf = full,
                None => break,
            }
        }
        assert_eq!((sheaf.len(), barn.objects()), (0, 0));
        let mut sheaves = 1;
        while let Some(sheaf) = barn.take() {
            // SAFETY: empty, and nobody else's.
            unsafe { sheaf.destroy(&meta) };
            sheaves += 1;
        }
        assert_eq!(sheaves, 1 + MOST);
        // SAFETY: as above.
        unsafe { sheaf.destroy(&meta) };
        // SAFETY: nothing of it is used again.
        unsafe { meta.release() };
    }
}
