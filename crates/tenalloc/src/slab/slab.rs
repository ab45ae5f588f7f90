//! One slab: a run of pages cut into objects, and its 64-byte descriptor.
//!
//! Free objects are linked through their own first two bytes by index; objects never handed out are not
//! linked at all but counted by `fresh`, so that no page is touched before somebody needs it. All but
//! `owners` is guarded by the lock of the cache's node.

use super::cache::Record;
use super::owners::Owners;
use crate::page::PAGE;
use core::ptr::null_mut;
use core::sync::atomic::AtomicBool;

/// Ends a free list.
const NIL: u16 = u16::MAX;

/// What a run of pages is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Objects of a cache.
    Slab,
    /// One object of whole pages.
    Large,
    /// Pages for the user's own purposes, without an owner.
    Pages,
}

/// Descriptor of a run of pages.
#[repr(C, align(64))]
pub(crate) struct Slab {
    base: *mut u8,
    /// Null unless `kind` is `Slab`.
    pub(crate) cache: *const Record,
    pub(crate) owners: Owners,
    /// List of slabs in the same state, on the same node of the cache.
    pub(crate) next: *mut Slab,
    pub(crate) prev: *mut Slab,
    pages: u32,
    /// Head of the free list; while the descriptor itself is free, link of the chunk's list.
    pub(crate) free: u16,
    /// Objects from here on were never handed out.
    fresh: u16,
    /// Objects handed out, to users and sheaves.
    pub(crate) out: u16,
    index: u16,
    pub(crate) node: u8,
    pub(crate) kind: Kind,
    /// Which list it is in; see `cache`.
    pub(crate) list: u8,
    /// Its chunk is being emptied: no object of it is handed out.
    pub(crate) offline: AtomicBool,
}

const _: () = assert!(core::mem::size_of::<Slab>() == 64);

impl Slab {
    pub(crate) fn blank(base: *mut u8, pages: u32, index: u16, node: u8, kind: Kind) -> Self {
        Self {
            base,
            cache: core::ptr::null(),
            owners: Owners::new(),
            next: null_mut(),
            prev: null_mut(),
            pages,
            free: NIL,
            fresh: 0,
            out: 0,
            index,
            node,
            kind,
            list: u8::MAX,
            offline: AtomicBool::new(false),
        }
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    pub(crate) fn pages(&self) -> usize {
        self.pages as usize
    }

    pub(crate) fn bytes(&self) -> usize {
        self.pages() * PAGE
    }

    pub(crate) fn index(&self) -> u16 {
        self.index
    }

    /// Takes a free object out, if there is one. `Err`: the free list was overwritten by a user after a free;
    /// what hangs on it is lost, the slab's other objects are not.
    pub(crate) fn pop(&mut self, record: &Record) -> Result<Option<*mut u8>, ()> {
        let index = if self.free != NIL {
            let index = self.free;
            // SAFETY: a free object of this slab, at least 8 bytes, aligned to 8.
            let next = unsafe { self.object(index, record).cast::<u16>().read() };
            if next != NIL && next >= self.fresh {
                self.free = NIL;
                return Err(());
            }
            self.free = next;
            index
        } else if self.fresh < record.objects {
            self.fresh += 1;
            self.fresh - 1
        } else {
            return Ok(None);
        };
        self.out += 1;
        Ok(Some(self.object(index, record)))
    }

    /// Puts an object back that was taken out.
    pub(crate) fn push(&mut self, object: *mut u8, record: &Record) {
        let index = record.index_of(object as usize - self.base as usize);
        // SAFETY: the object is free and ours, at least 8 bytes, aligned to 8.
        unsafe { object.cast::<u16>().write(self.free) };
        self.free = index as u16;
        self.out -= 1;
    }

    pub(crate) fn object(&self, index: u16, record: &Record) -> *mut u8 {
        self.base.wrapping_add(usize::from(index) * record.slot as usize)
    }

    /// Which object begins at `address`; `None` inside an object, in the tail, or beyond what was handed out.
    #[inline]
    pub(crate) fn place(&self, address: usize, record: &Record) -> Option<usize> {
        let offset = address - self.base as usize;
        let index = record.index_of(offset);
        (index * record.slot as usize == offset && index < usize::from(record.objects)).then_some(index)
    }
}
