//! Objects beyond the longest run: each in a mapping of its own, with a header in front like a chunk's.
//!
//! What is freed is kept as other free pages are, within the same bound, and goes by the same decay (`decay`): a program
//! that makes and frees such an object all the time gets new pages from the system once, not each time.

use super::links::push;
use super::{CHUNK, Chunks, Header, KEPT, Life, MAX_RUN, State, chunk_of, link_all, unlink, unlink_all};
use crate::page::PAGE;
use crate::slab::{Kind, Slab};
use core::ptr::NonNull;

impl Chunks {
    pub(super) fn alloc_huge(&self, pages: usize, align: usize, node: u8) -> Option<NonNull<Slab>> {
        if let Some(kept) = self.take_kept(pages, align, node) {
            return Some(kept);
        }
        let bytes = pages.checked_mul(PAGE)?;
        // In front of the object: its header page and what alignment asks for.
        let lead = align.max(PAGE);
        let want = bytes.checked_add(lead)?;
        let start = self.source.map(want, align.max(CHUNK), Some(node))?;
        let base = start.as_ptr().wrapping_add(lead);
        let at = chunk_of(base as usize) as *mut Header;
        // SAFETY: `at` lies in the lead of the new zeroed mapping (it is its start, or a chunk before the object), and the
        // header with one descriptor fits into a page.
        let h = unsafe { &mut *at };
        h.begin(node);
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

    /// Whether the object at `address`, a live one, has a mapping of its own.
    pub(crate) fn is_huge(&self, address: usize) -> bool {
        let at = chunk_of(address) as *const Header;
        // SAFETY: a registered chunk is mapped and begins with a header; it stays so while the object is live.
        self.registry.has(at as usize) && unsafe { (*at).huge }
    }

    /// Makes a huge object one of `pages` pages, without copying it; its descriptor may be elsewhere afterwards. `None`: it
    /// is as it was, because it is not huge or would not be, is being looked at, or the source cannot.
    ///
    /// # Safety
    /// The object is live, the caller's, and used by nobody meanwhile.
    pub(crate) unsafe fn resize_huge(
        &self,
        desc: NonNull<Slab>,
        pages: usize,
        align: usize,
    ) -> Option<NonNull<Slab>> {
        // SAFETY: the caller's promise.
        let (base, had) = unsafe { (desc.as_ref().base(), desc.as_ref().pages()) };
        let at = chunk_of(base as usize) as *mut Header;
        let mut s = self.state.lock();
        // SAFETY: the header of a live object's chunk; the lock is held.
        let h = unsafe { &mut *at };
        if !h.huge || h.offline || h.lookers > 0 || pages <= MAX_RUN {
            return None;
        }
        let (start, lead) = (h.map_start, base as usize - h.map_start as usize);
        let (old, new) = (h.map_bytes, lead.checked_add(pages.checked_mul(PAGE)?)?);
        // Wherever it goes it is aligned to a chunk, and lies as far behind the start as it does now.
        if !lead.is_multiple_of(align)
            || align > CHUNK
            || pages > had && !self.source.admit((pages - had) * PAGE)
        {
            return None;
        }
        unlink_all(&mut s, at);
        // SAFETY: the whole mapping of an object that nobody uses meanwhile.
        let moved = unsafe { self.source.remap(NonNull::new_unchecked(start), old, new, CHUNK) };
        let to = moved.map_or(start, NonNull::as_ptr);
        let base = to.wrapping_add(lead);
        let at = to.wrapping_add(at as usize - start as usize).cast::<Header>();
        link_all(&mut s, at);
        moved?;
        if to != start {
            self.registry.remove(chunk_of(start as usize + lead));
            // It was below the limit of what is covered, as all that the system gives unasked.
            self.registry.insert(at as usize);
        }
        // SAFETY: the header, moved with the mapping; the lock is held.
        unsafe {
            (*at).map_start = to;
            (*at).map_bytes = new;
        }
        s.totals.mapped = s.totals.mapped + new - old;
        s.totals.runs = s.totals.runs + pages * PAGE - had * PAGE;
        let desc = Header::desc(at, 0);
        // SAFETY: the object's descriptor, in its header.
        unsafe { (*desc).moved(base, pages as u32) };
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
        // SAFETY: as above.
        let bytes = unsafe { (*Header::desc(at, 0)).pages() } * PAGE;
        if !s.has_room(bytes) {
            return self.drop_chunk(&mut s, at);
        }
        h.old.set(0, 1, false);
        push(&mut s, at, KEPT);
        s.totals.dirty += bytes;
        self.pass(&mut s);
    }

    /// A kept object with as many pages, or a fifth more at most, whose end goes back to the system.
    fn take_kept(&self, pages: usize, align: usize, node: u8) -> Option<NonNull<Slab>> {
        let mut s = self.state.lock();
        let mut at = *s.nodes.of(node).head(Life::Lasting, KEPT);
        while !at.is_null() {
            // SAFETY: chunks on a list are mapped; the lock is held. Their objects' descriptors are as they were left.
            let (h, base, had) = unsafe {
                let desc = Header::desc(at, 0);
                (&mut *at, (*desc).base(), (*desc).pages())
            };
            let fits = (pages..=pages + pages / 5).contains(&had) && (base as usize).is_multiple_of(align);
            if !fits || h.offline || h.lookers > 0 || s.offline_nodes >> node & 1 == 1 {
                at = h.next;
                continue;
            }
            if !self.registry.insert(at as usize) {
                return None;
            }
            unlink(&mut s, at);
            if had > pages {
                let end = base.wrapping_add(pages * PAGE);
                // SAFETY: the end of the object's pages, which are free.
                unsafe { self.source.purge(NonNull::new_unchecked(end), (had - pages) * PAGE) };
            }
            s.totals.dirty -= had * PAGE;
            s.totals.runs += pages * PAGE;
            s.totals.headers -= h.resident();
            h.descs = 1;
            s.totals.headers += h.resident();
            let desc = Header::desc(at, 0);
            // SAFETY: the header's one descriptor, of no object.
            unsafe { desc.write(Slab::blank(base, pages as u32, 0, node, Kind::Large)) };
            return NonNull::new(desc);
        }
        None
    }

    /// Whether a chunk has a freed object that is kept, and may go.
    pub(super) fn is_kept(h: &Header) -> bool {
        h.bin == KEPT && !h.offline && h.lookers == 0
    }
}

impl State {
    /// Whether so many free bytes more are within the bound.
    fn has_room(&self, bytes: usize) -> bool {
        self.totals.dirty + bytes <= self.bound()
    }
}
