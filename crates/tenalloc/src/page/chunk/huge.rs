//! Objects beyond the longest run: each in a mapping of its own, with a header in front like a chunk's.

use super::{CHUNK, Chunks, Header, NO_BIN, chunk_of, link_all};
use crate::page::PAGE;
use crate::slab::{Kind, Slab};
use core::ptr::NonNull;

impl Chunks {
    pub(super) fn alloc_huge(&self, pages: usize, align: usize, node: u8) -> Option<NonNull<Slab>> {
        let bytes = pages.checked_mul(PAGE)?;
        // In front of the object: its header page and what alignment asks for.
        let lead = align.max(PAGE);
        let want = bytes.checked_add(lead)?;
        let start = self.source.map(want, align.max(CHUNK), Some(node))?;
        let base = start.as_ptr().wrapping_add(lead);
        let at = chunk_of(base as usize) as *mut Header;
        if !self.registry.insert(at as usize) {
            // SAFETY: the mapping just made.
            unsafe { self.source.unmap(start, want) };
            return None;
        }
        let mut s = self.state.lock();
        if s.offline_nodes >> node & 1 == 1 {
            self.registry.remove(at as usize);
            drop(s);
            // SAFETY: the mapping just made, of which nobody knows.
            unsafe { self.source.unmap(start, want) };
            return None;
        }
        // SAFETY: `at` lies in the lead of the new zeroed mapping (it is its start, or a chunk before the
        // object), and the header with one descriptor fits into a page.
        let h = unsafe { &mut *at };
        h.node = node;
        h.bin = NO_BIN;
        h.huge = true;
        h.map_start = start.as_ptr();
        h.map_bytes = want;
        h.descs = 1;
        let desc = Header::desc(at, 0);
        // SAFETY: as above.
        unsafe {
            desc.write(Slab::blank(base, pages as u32, 0, node, Kind::Large));
            (*desc).zero = true; // the mapping is new
        }
        s.totals.mapped += want;
        s.totals.headers += h.resident();
        s.totals.runs += bytes;
        link_all(&mut s, at);
        NonNull::new(desc)
    }

    /// # Safety
    /// `at` is the header of a huge object that nobody uses any more.
    pub(super) unsafe fn free_huge(&self, at: *mut Header) {
        let mut s = self.state.lock();
        // SAFETY: the caller's promise.
        let h = unsafe { &mut *at };
        // SAFETY: descriptor 0 is the object's.
        s.totals.runs -= unsafe { (*Header::desc(at, 0)).pages() } * PAGE;
        s.totals.headers -= h.resident();
        h.descs = 0;
        s.totals.headers += h.resident();
        self.registry.remove(at as usize);
        if h.offline || h.lookers > 0 {
            // Somebody is looking at the chunk, and drops it when he is done.
            drop(s);
            return self.departures.bump();
        }
        self.drop_chunk(&mut s, at);
    }
}
