//! Chunks: 2 MiB of one node, cut into runs of pages.
//!
//! ```text
//!   chunk base (2 MiB aligned)                                   one descriptor a run
//!   ├─ header: node, free and dirty pages, page → descriptor ─┬─ Slab 0, Slab 1, … (dense)
//!   ├─ page 9 ─┐                                              │
//!   ├─ page 10 ├─ a run of three pages: a slab, or one large  ┘
//!   ├─ page 11 ┘  object; its pages all map to its descriptor
//!   └─ … page 511
//! ```
//!
//! address → `(address - 1) & !(CHUNK - 1)` → header → page → descriptor: three loads, no search. The `- 1` is
//! for huge objects, which have a mapping of their own and may begin right where a chunk would: their header
//! is then the chunk before. Descriptors are dense, so that only as much of the header is touched as there are
//! runs; no byte of a page is touched before somebody uses it.
//!
//! `find`: that way. `apart`: which chunk a run is cut from. `bits`: which pages are free. `decay`: when free ones are given
//! back. `links`: the lists chunks are on. `huge`: objects too large for a chunk. `held`: chunks that are kept in place while
//! somebody looks at them or empties them.

mod apart;
mod bits;
mod decay;
mod find;
mod held;
mod huge;
mod links;

pub(crate) use apart::Life;
pub(crate) use held::Held;
pub use held::Range;

use self::apart::Nodes;
use self::bits::Bits;
use self::decay::Decay;
use self::find::chunk_of;
use self::links::{link_all, rebin, unlink, unlink_all};
use super::{PAGE, Source, registry::Registry};
use crate::slab::{Kind, Slab};
use crate::sync::{Event, Lock, Rank};
use core::mem::{offset_of, size_of};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU16, Ordering::*};

/// Bytes and alignment of a chunk: one huge page.
pub(crate) const CHUNK: usize = 2 << 20;
const PAGES: usize = CHUNK / PAGE;
/// Pages in front that hold the header when every page is a run of its own.
const RESERVED: usize = (size_of::<Header>() + PAGES * size_of::<Slab>()).div_ceil(PAGE);
/// Longest run cut from a chunk; what is longer gets a mapping of its own.
pub(crate) const MAX_RUN: usize = 256;
/// Lists of chunks with runs and room, by log2 of the longest free run.
const BINS: usize = (PAGES - RESERVED).ilog2() as usize + 1;
/// The list of chunks without runs.
const EMPTY: u8 = BINS as u8;
/// The list of huge objects that were freed and are kept for a while.
const KEPT: u8 = EMPTY + 1;
const NO_BIN: u8 = u8::MAX;

#[repr(C, align(64))]
struct Header {
    node: u8,
    /// In which list of its node: log2 of the longest free run, `EMPTY`, `KEPT`, or `NO_BIN` without free pages.
    bin: u8,
    /// What its runs have in common. Without runs nothing.
    life: Life,
    huge: bool,
    /// Being emptied: no new run is cut from it.
    offline: bool,
    /// Walks that are looking at it: it is not unmapped, and descriptors are not used again.
    lookers: u16,
    free_pages: u16,
    /// Descriptors ever used, and the list of those free again (index + 1, linked by `Slab::free`).
    descs: u16,
    free_desc: u16,
    next: *mut Header,
    prev: *mut Header,
    all_next: *mut Header,
    all_prev: *mut Header,
    /// The mapping: its start and length (the chunk itself, unless huge).
    map_start: *mut u8,
    map_bytes: usize,
    free: Bits,
    /// Free pages that were used before: resident, and not zero.
    dirty: Bits,
    /// Those of them that were so at the last sweep already.
    old: Bits,
    /// Page → descriptor + 1; 0: in no run. The last is where a huge object begins: in none.
    map: [AtomicU16; PAGES + 1],
    /// What there is in front of the first descriptor: one of no run, for who does not look whether there is one.
    nothing: Slab,
}

const _: () = assert!(offset_of!(Header, nothing) + size_of::<Slab>() == size_of::<Header>());

impl Header {
    fn desc(this: *mut Self, index: u16) -> *mut Slab {
        // Descriptors follow the header; RESERVED makes room for PAGES of them.
        this.wrapping_add(1).cast::<Slab>().wrapping_add(usize::from(index))
    }

    /// To be done before anybody may find it.
    fn begin(&mut self, node: u8) {
        self.node = node;
        self.bin = NO_BIN;
        self.nothing = Slab::blank(null_mut(), 0, 0, node, Kind::Pages);
    }

    /// Bytes of the header that have been touched, in whole pages.
    fn resident(&self) -> usize {
        (size_of::<Self>() + usize::from(self.descs) * size_of::<Slab>()).next_multiple_of(PAGE)
    }
}

/// What all chunks of a controller hold, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Address space mapped.
    pub(crate) mapped: usize,
    /// Headers and descriptors, as far as touched.
    pub(crate) headers: usize,
    /// In runs.
    pub(crate) runs: usize,
    /// Free but resident.
    pub(crate) dirty: usize,
}

struct State {
    /// Nodes on which no chunk may be made.
    offline_nodes: u64,
    nodes: Nodes,
    all: *mut Header,
    totals: Totals,
    decay: Decay,
}

// SAFETY: the pointers lead to chunks that belong to this state alone; it is reached through its lock.
unsafe impl Send for State {}

/// Every chunk of a controller.
pub(crate) struct Chunks {
    source: &'static dyn Source,
    registry: Registry,
    state: Lock<State>,
    /// Runs that left a chunk which is being emptied: a counter to wait on.
    departures: Event,
    /// How long free pages are kept, ns; `u64::MAX`: for ever.
    period: u64,
    clock: fn() -> u64,
}

impl Chunks {
    pub(crate) fn new(source: &'static dyn Source) -> Option<Self> {
        let registry = Registry::new(source)?;
        let Some(nodes) = Nodes::new(source) else {
            // SAFETY: made just above, not used again.
            unsafe { registry.release(source) };
            return None;
        };
        let state = State {
            offline_nodes: 0,
            nodes,
            all: null_mut(),
            totals: Totals::default(),
            decay: Decay::new(),
        };
        Some(Self {
            source,
            registry,
            state: Lock::new(Rank::Chunk, state),
            departures: Event::new(),
            period: u64::MAX,
            clock: decay::coarse_clock,
        })
    }

    /// A run of `pages`, aligned to `align` bytes (a power of two ≥ `PAGE`), on `node`. Its descriptor has
    /// `base`, `pages`, `node` and `kind` set and is otherwise blank.
    pub(crate) fn alloc(&self, pages: usize, align: usize, node: u8, kind: Kind) -> Option<NonNull<Slab>> {
        if pages > MAX_RUN || align > MAX_RUN * PAGE {
            return if self.admits(pages) { self.alloc_huge(pages, align, node) } else { None };
        }
        self.cut(pages, align / PAGE, node, kind, Life::Lasting)
    }

    /// A run of at most `MAX_RUN` pages for the objects of a cache, if possible beside others of this life.
    pub(crate) fn alloc_slab(&self, pages: usize, node: u8, life: Life) -> Option<NonNull<Slab>> {
        self.cut(pages, 1, node, Kind::Slab, life)
    }

    fn admits(&self, pages: usize) -> bool {
        pages.checked_mul(PAGE).is_some_and(|bytes| self.source.admit(bytes))
    }

    fn cut(&self, pages: usize, step: usize, node: u8, kind: Kind, life: Life) -> Option<NonNull<Slab>> {
        if !self.admits(pages) {
            return None;
        }
        let mut s = self.state.lock();
        let place = self.place(&mut s, pages, step, node, life);
        let run = place.map(|(at, first)| self.take(&mut s, at, first, pages, kind));
        self.pass(&mut s);
        run
    }

    fn new_chunk(&self, s: &mut State, node: u8) -> Option<*mut Header> {
        if s.offline_nodes >> node & 1 == 1 {
            return None;
        }
        let start = self.source.map(CHUNK, CHUNK, Some(node))?;
        let at = start.as_ptr().cast::<Header>();
        // SAFETY: zeroed memory of the right size and alignment; zeros are a valid `Header`.
        let h = unsafe { &mut *at };
        h.begin(node);
        if !self.registry.insert(start.as_ptr() as usize) {
            // SAFETY: the mapping just made.
            unsafe { self.source.unmap(start, CHUNK) };
            return None;
        }
        h.map_start = start.as_ptr();
        h.map_bytes = CHUNK;
        h.free.set(RESERVED, PAGES - RESERVED, true);
        h.free_pages = (PAGES - RESERVED) as u16;
        s.totals.mapped += CHUNK;
        s.totals.headers += h.resident();
        link_all(s, at);
        rebin(s, at);
        Some(at)
    }

    fn take(&self, s: &mut State, at: *mut Header, first: usize, pages: usize, kind: Kind) -> NonNull<Slab> {
        // SAFETY: `at` is a mapped chunk of ours and the lock is held.
        let h = unsafe { &mut *at };
        let was = h.resident();
        let index = if h.free_desc > 0 && h.lookers == 0 {
            let index = h.free_desc - 1;
            // SAFETY: a descriptor on the free list was initialised when it was first used.
            h.free_desc = unsafe { (*Header::desc(at, index)).free };
            index
        } else {
            h.descs += 1;
            h.descs - 1
        };
        let desc = Header::desc(at, index);
        let base = at.cast::<u8>().wrapping_add(first * PAGE);
        // SAFETY: there is room for PAGES descriptors, one a page at most; this one is free.
        unsafe { desc.write(Slab::blank(base, pages as u32, index, h.node, kind)) };
        h.free.set(first, pages, false);
        let dirty = h.dirty.count(first, pages);
        // SAFETY: just written.
        unsafe { (*desc).zero = dirty == 0 };
        s.totals.dirty -= dirty * PAGE;
        h.dirty.set(first, pages, false);
        h.old.set(first, pages, false);
        h.free_pages -= pages as u16;
        for entry in &h.map[first..first + pages] {
            entry.store(index + 1, Release); // who reads it sees the descriptor
        }
        s.totals.headers += h.resident() - was;
        s.totals.runs += pages * PAGE;
        rebin(s, at);
        NonNull::new(desc).expect("a descriptor lies inside a chunk")
    }

    /// Gives a run back. A chunk without runs is unmapped unless it is the only such one of its node.
    ///
    /// # Safety
    /// The run is one of ours, and nobody uses its memory or descriptor any more.
    pub(crate) unsafe fn free(&self, desc: NonNull<Slab>) {
        // SAFETY: the caller gives the descriptor of a live run.
        let (base, pages, index) =
            unsafe { (desc.as_ref().base(), desc.as_ref().pages(), desc.as_ref().index()) };
        let at = chunk_of(base as usize) as *mut Header;
        // SAFETY: the run's chunk is mapped while the run lives.
        if unsafe { (*at).huge } {
            // SAFETY: as the caller promises.
            return unsafe { self.free_huge(at) };
        }
        let mut s = self.state.lock();
        // SAFETY: as above, and the lock is held.
        let h = unsafe { &mut *at };
        let first = (base as usize - at as usize) / PAGE;
        for entry in &h.map[first..first + pages] {
            entry.store(0, Relaxed);
        }
        // SAFETY: the descriptor is in this chunk and unused from here on.
        unsafe { (*desc.as_ptr()).free = h.free_desc };
        h.free_desc = index + 1;
        h.free.set(first, pages, true);
        h.dirty.set(first, pages, true);
        h.free_pages += pages as u16;
        s.totals.runs -= pages * PAGE;
        s.totals.dirty += pages * PAGE;
        rebin(&mut s, at);
        if h.offline {
            drop(s);
            return self.departures.bump();
        }
        if h.bin == EMPTY && h.lookers == 0 && (!h.next.is_null() || !h.prev.is_null()) {
            self.drop_chunk(&mut s, at); // not the only one
        }
        self.pass(&mut s);
    }

    fn drop_chunk(&self, s: &mut State, at: *mut Header) {
        // SAFETY: a chunk without runs; the lock is held.
        let h = unsafe { &mut *at };
        if h.bin == KEPT {
            // SAFETY: the descriptor of the object that was there.
            s.totals.dirty -= unsafe { (*Header::desc(at, 0)).pages() } * PAGE;
        }
        unlink(s, at);
        s.nodes.of(h.node).forget(at);
        Self::unlist(s, at);
        s.totals.mapped -= h.map_bytes;
        s.totals.headers -= h.resident();
        s.totals.dirty -= h.dirty.count(0, PAGES) * PAGE;
        self.registry.remove(at as usize);
        // SAFETY: the whole mapping, unused.
        unsafe { self.source.unmap(NonNull::new_unchecked(h.map_start), h.map_bytes) };
    }

    /// Its lock, for a fork.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn raw_lock(&self) -> &crate::sync::Raw {
        self.state.raw()
    }

    pub(crate) fn departures(&self) -> &Event {
        &self.departures
    }

    pub(crate) fn totals(&self) -> Totals {
        self.state.lock().totals
    }

    /// Unmaps everything.
    ///
    /// # Safety
    /// Nothing of this is used again.
    pub(crate) unsafe fn release(&self) {
        let s = self.state.lock();
        let mut at = s.all;
        while !at.is_null() {
            // SAFETY: each chunk is unmapped once, after its links were read.
            unsafe {
                let (next, start, bytes) = ((*at).all_next, (*at).map_start, (*at).map_bytes);
                self.source.unmap(NonNull::new_unchecked(start), bytes);
                at = next;
            }
        }
        // SAFETY: the caller's promise.
        unsafe {
            s.nodes.release(self.source);
            self.registry.release(self.source);
        }
    }
}

#[cfg(test)]
mod tests;
