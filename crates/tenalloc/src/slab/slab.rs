//! One slab: a run of pages cut into objects, and its 64-byte descriptor.
//!
//! Free objects are linked by index through their own first two bytes (or two behind a red zone: see `debug`); objects never handed out are not
//! linked at all but counted by `fresh`, so that no page is touched before somebody needs it; where all are free again it is
//! as if none ever was. All but `owners` is guarded by the lock of the cache's node.

use super::cache::Record;
use super::owners::Owners;
use super::ready::NONE;
use crate::page::PAGE;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering::Relaxed};

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
    /// Objects from here on were never handed out, since the slab was last empty.
    fresh: u16,
    /// Objects handed out, to users and sheaves. Changed under the lock, read also without.
    out: AtomicU16,
    index: u16,
    pub(crate) node: u8,
    pub(crate) kind: Kind,
    /// Which list it is in; see `cache`.
    pub(crate) list: u8,
    /// It, or its chunk, is being emptied: no object of it is handed out, and none that comes back is kept in a sheaf.
    pub(crate) offline: AtomicBool,
    /// Free objects of it are not on the list: it was overwritten, or they were. Made good when it is empty.
    pub(crate) broken: bool,
    /// It is being emptied, whatever becomes of its chunk. Guarded by the lock of the chunks.
    pub(crate) withdrawn: bool,
    /// Its pages held zeros when they were cut: nobody had used them since the system gave them.
    pub(crate) zero: bool,
    /// Under which id its objects are made ready. See `ready`.
    pub(crate) ready: AtomicU32,
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
            out: AtomicU16::new(0),
            index,
            node,
            kind,
            list: u8::MAX,
            offline: AtomicBool::new(false),
            broken: false,
            withdrawn: false,
            zero: false,
            ready: AtomicU32::new(NONE),
        }
    }

    /// The run lies elsewhere now, or has another length.
    pub(crate) fn moved(&mut self, base: *mut u8, pages: u32) {
        self.base = base;
        self.pages = pages;
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

    /// Objects handed out, to users and sheaves; without the lock, about so many.
    pub(crate) fn out(&self) -> u16 {
        self.out.load(Relaxed)
    }

    /// Says how many objects are out. The lock is held.
    pub(crate) fn set_out(&self, objects: u16) {
        self.out.store(objects, Relaxed);
    }

    /// Takes a free object out, if there is one. `Err`: the free list was overwritten by a user after a free;
    /// what hangs on it is lost, the slab's other objects are not.
    pub(crate) fn pop(&mut self, record: &Record) -> Result<Option<*mut u8>, ()> {
        let index = if self.free != NIL {
            let index = self.free;
            // SAFETY: a free object of this slab, at least 8 bytes, aligned to 8.
            let next = unsafe { record.link(self.object(index, record)).cast::<u16>().read() };
            if next != NIL && next >= self.fresh {
                self.free = NIL;
                self.broken = true;
                return Err(());
            }
            self.free = next;
            index
        } else if self.fresh < record.objects {
            self.fresh += 1;
            if record.is_debug() {
                record.cut(self.object(self.fresh - 1, record));
            }
            self.fresh - 1
        } else {
            return Ok(None);
        };
        self.set_out(self.out() + 1);
        Ok(Some(self.object(index, record)))
    }

    /// Puts an object back that was taken out. Returns its index.
    pub(crate) fn push(&mut self, object: *mut u8, record: &Record) -> usize {
        let index = record.index_of(object as usize - self.base as usize);
        if self.out() == 1 && !record.is_debug() {
            // All of it is free: as it was at first, but for what its pages hold.
            (self.free, self.fresh, self.broken) = (NIL, 0, false);
            self.set_out(0);
            return index;
        }
        // SAFETY: the object is free and ours, at least 8 bytes, aligned to 8.
        unsafe { record.link(object).cast::<u16>().write(self.free) };
        self.free = index as u16;
        self.set_out(self.out() - 1);
        index
    }

    /// The slab is empty: what was lost of it is free again.
    pub(crate) fn renew(&mut self) {
        if self.broken {
            (self.free, self.fresh, self.broken) = (NIL, 0, false);
        }
    }

    /// Objects that were ever handed out: those with lower indices than this.
    pub(crate) fn cut(&self) -> u16 {
        self.fresh
    }

    /// Follows the free list, and ends it at a link that leads nowhere. Returns the object with that link, and the link.
    pub(crate) fn mend_list(&mut self, record: &Record) -> Option<(*mut u8, u16)> {
        let mut last = core::ptr::null_mut();
        let mut at = self.free;
        // A list that is longer than there are free objects leads in a circle.
        for _ in 0..=self.fresh - self.out() {
            if at == NIL {
                return None;
            }
            if at >= self.fresh {
                break;
            }
            last = self.object(at, record);
            // SAFETY: a free object of this slab, at least 8 bytes, aligned to 8.
            at = unsafe { record.link(last).cast::<u16>().read() };
        }
        self.broken = true;
        // SAFETY: as above; there is a last one, since the head lies in the descriptor, where no program writes.
        unsafe { record.link(last).cast::<u16>().write(NIL) };
        Some((last, at))
    }

    pub(crate) fn object(&self, index: u16, record: &Record) -> *mut u8 {
        self.base.wrapping_add(usize::from(index) * record.slot as usize + record.left as usize)
    }

    /// Which object begins at `address`; `None` inside an object, in the tail, or beyond what was handed out.
    #[inline]
    pub(crate) fn place(&self, address: usize, record: &Record) -> Option<usize> {
        let offset = address - self.base as usize;
        let index = record.index_of(offset);
        let begins = index * record.slot as usize + record.left as usize == offset;
        (begins && index < usize::from(record.objects)).then_some(index)
    }
}
