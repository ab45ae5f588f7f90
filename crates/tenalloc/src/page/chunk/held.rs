//! Chunks that are being emptied or looked at: kept in place, marked, dropped when empty.
//!
//! Apart from the chunks' daily work because it is the only part that keeps a chunk in place without having a run of
//! it. What is done with a chunk meanwhile is in `crate::reclaim`.

use super::{Chunks, Header, PAGES, RESERVED, State, chunk_of, rebin, unlink};
use crate::slab::Slab;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::*;

/// A part of the address space to be taken out of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// All chunks of a node; none is made on it until it is put back.
    Node(u8),
    /// The 2 MiB chunk that holds this address.
    Chunk(usize),
}

impl Range {
    fn has(self, at: *mut Header) -> bool {
        match self {
            // SAFETY: callers pass mapped chunks and hold the lock.
            Self::Node(node) => unsafe { (*at).node == node },
            Self::Chunk(address) => chunk_of(address) == at as usize,
        }
    }
}

impl Chunks {
    /// Says that the chunks in `range` are being emptied, or that they are not any more. False: there is none, or
    /// some are being emptied already.
    pub(crate) fn set_offline(&self, range: Range, on: bool) -> bool {
        let mut s = self.state.lock();
        if on && has_offline(&s, range) {
            return false;
        }
        let mut any = matches!(range, Range::Node(_));
        if let Range::Node(node) = range {
            let bit = 1 << node;
            if on && s.offline_nodes & bit != 0 {
                return false;
            }
            s.offline_nodes = if on { s.offline_nodes | bit } else { s.offline_nodes & !bit };
        }
        let mut at = s.all;
        while !at.is_null() {
            // SAFETY: listed chunks are mapped; the lock is held.
            let h = unsafe { &mut *at };
            if range.has(at) && h.offline != on {
                any = true;
                h.offline = on;
                for index in 0..h.descs {
                    mark(Header::desc(at, index), on);
                }
                let next = h.all_next;
                if !h.huge {
                    unlink(&mut s, at);
                    if !on {
                        rebin(&mut s, at);
                    }
                } else if !on && h.descs == 0 && h.lookers == 0 {
                    self.drop_chunk(&mut s, at);
                }
                at = next;
                continue;
            }
            at = h.all_next;
        }
        any
    }

    /// Allows chunks on `node` again, unless it is still being emptied: that is for who does so to end.
    pub(crate) fn allow(&self, node: u8) {
        let mut s = self.state.lock();
        if !has_offline(&s, Range::Node(node)) {
            s.offline_nodes &= !(1 << node);
        }
    }

    /// Says of the runs in `range` alone whether their objects may be handed out. Their chunks stay as they are.
    pub(crate) fn mark_slabs(&self, range: Range, offline: bool) {
        let s = self.state.lock();
        let mut at = s.all;
        while !at.is_null() {
            // SAFETY: listed chunks are mapped; the lock is held.
            let h = unsafe { &*at };
            for index in (0..h.descs).filter(|_| range.has(at)) {
                mark(Header::desc(at, index), offline);
            }
            at = h.all_next;
        }
    }

    /// Says of one run, which stays in place meanwhile, whether its objects may be handed out; in a chunk that is being
    /// emptied none may.
    pub(crate) fn withdraw(&self, run: NonNull<Slab>, on: bool) {
        let _s = self.state.lock();
        let run = run.as_ptr();
        // SAFETY: the run is in place, and so is its chunk; the lock is held.
        unsafe {
            (*run).withdrawn = on;
            mark(run, (*(chunk_of((*run).base() as usize) as *mut Header)).offline);
        }
    }

    /// Unmaps the chunks in `range` that are empty, and counts what the others hold: (bytes given back, chunks left).
    pub(crate) fn drop_empty(&self, range: Range) -> (usize, usize) {
        let mut s = self.state.lock();
        let (mut bytes, mut left) = (0, 0);
        let mut at = s.all;
        while !at.is_null() {
            // SAFETY: listed chunks are mapped; the lock is held.
            let h = unsafe { &mut *at };
            let next = h.all_next;
            if range.has(at) && h.offline {
                let empty = if h.huge { h.descs == 0 } else { usize::from(h.free_pages) == PAGES - RESERVED };
                if empty && h.lookers == 0 {
                    bytes += h.map_bytes;
                    self.drop_chunk(&mut s, at);
                } else {
                    left += 1;
                }
            }
            at = next;
        }
        (bytes, left)
    }

    /// The first chunk in `range` above `after` that is being emptied. It stays mapped until
    /// [`drop_empty`](Self::drop_empty): the caller is the one who empties it.
    pub(crate) fn next_offline(&self, range: Range, after: usize) -> Option<Held> {
        let s = self.state.lock();
        let mut found: *mut Header = null_mut();
        let mut at = s.all;
        while !at.is_null() {
            // SAFETY: listed chunks are mapped; the lock is held.
            let h = unsafe { &*at };
            let better = found.is_null() || at < found;
            if range.has(at) && h.offline && at as usize > after && better {
                found = at;
            }
            at = h.all_next;
        }
        // SAFETY: as above.
        (!found.is_null()).then(|| Held { header: found, huge: unsafe { (*found).huge } })
    }

    /// The first chunk above `after`, which stays in place until it is given to [`looked`](Self::looked).
    pub(crate) fn look(&self, after: usize) -> Option<Held> {
        let s = self.state.lock();
        let mut found: *mut Header = null_mut();
        let mut at = s.all;
        while !at.is_null() {
            if at as usize > after && (found.is_null() || at < found) {
                found = at;
            }
            // SAFETY: listed chunks are mapped; the lock is held.
            at = unsafe { (*at).all_next };
        }
        if found.is_null() {
            return None;
        }
        // SAFETY: as above.
        let h = unsafe { &mut *found };
        h.lookers += 1;
        Some(Held { header: found, huge: h.huge })
    }

    /// Ends a look.
    pub(crate) fn looked(&self, chunk: Held) {
        let mut s = self.state.lock();
        // SAFETY: it was kept in place for the look.
        let h = unsafe { &mut *chunk.header };
        h.lookers -= 1;
        let offline = h.offline;
        if h.lookers == 0 && h.huge && h.descs == 0 && !offline {
            self.drop_chunk(&mut s, chunk.header);
        }
        drop(s);
        if offline {
            self.departures.bump();
        }
    }
}

/// Notes in a run whether its chunk is being emptied. The lock of the chunks is held.
fn mark(run: *mut Slab, offline: bool) {
    // SAFETY: callers pass descriptors that were initialised; the flags are atomic, or behind the lock.
    unsafe { (*run).set_offline(offline || (*run).withdrawn) };
}

/// Whether a chunk in `range` is being emptied.
fn has_offline(s: &State, range: Range) -> bool {
    let mut at = s.all;
    while !at.is_null() {
        // SAFETY: listed chunks are mapped; the lock is held.
        let h = unsafe { &*at };
        if h.offline && range.has(at) {
            return true;
        }
        at = h.all_next;
    }
    false
}

/// A chunk that is being emptied, or looked at: it stays mapped, and descriptors are not used again meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    header: *mut Header,
    huge: bool,
}

impl Held {
    pub(crate) fn address(&self) -> usize {
        self.header as usize
    }

    /// The address behind its last byte.
    pub(crate) fn end(&self) -> usize {
        // SAFETY: the chunk stays mapped while it is being emptied; its mapping is fixed.
        unsafe { (*self.header).map_start as usize + (*self.header).map_bytes }
    }

    pub(crate) fn node(&self) -> u8 {
        // SAFETY: as above.
        unsafe { (*self.header).node }
    }

    /// The first run at or after page `from`, and the page after it. Its descriptor is in place; whether the run
    /// still is must be asked under the lock of its cache.
    pub(crate) fn next_run(&self, from: usize) -> Option<(NonNull<Slab>, usize)> {
        if self.huge {
            // SAFETY: the chunk stays mapped while it is being emptied.
            let live = from == 0 && unsafe { (*self.header).descs } > 0;
            return live.then(|| Some((NonNull::new(Header::desc(self.header, 0))?, PAGES)))?;
        }
        // SAFETY: the chunk stays mapped while it is being emptied.
        let map = unsafe { &(*self.header).map };
        // Read once: the run may go meanwhile, and those behind it are still to be shown.
        let (page, index) = (from..PAGES).find_map(|page| match map[page].load(Acquire) {
            0 => None,
            index => Some((page, index)),
        })?;
        let end = (page..PAGES).find(|p| map[*p].load(Acquire) != index).unwrap_or(PAGES);
        Some((NonNull::new(Header::desc(self.header, index.checked_sub(1)?))?, end))
    }
}
