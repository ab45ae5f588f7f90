//! Runs that go together lie together: which chunk a run is cut from.
//!
//! A chunk comes back when its last run goes. Slabs whose objects can be reclaimed all go when they are; one slab of
//! lasting objects among them would keep their chunk. So each chunk has runs of one [`Life`], as each block of pages in Linux has
//! a migrate type. That is a wish and no rule:
//!
//! 1. a chunk of the run's own life that has room, or the one that a node began with, which has runs of any life: a small
//!    program has one chunk, not two. Of these the one with the shortest free run that will do, as without lives;
//! 2. a chunk without runs, or a new one. It is of that life from now on, until it is without runs again;
//! 3. without memory for one, a chunk of the other life that has room, the emptiest first.
//!
//! Apart from the chunks' own file because nothing else there asks what a run is for.

use super::links::{push, unlink};
use super::{BINS, Chunks, EMPTY, Header, PAGES, State};
use crate::page::{PAGE, Source, topology::MAX_NODES};
use core::ptr::NonNull;

/// How long what lies in a run will stay there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Life {
    /// Of a chunk: it has runs of any life.
    Any,
    /// As long as the program likes.
    Lasting,
    /// Until it is reclaimed, all of it if need be.
    Reclaimable,
}

impl Life {
    fn other(self) -> Self {
        if self == Self::Reclaimable { Self::Lasting } else { Self::Reclaimable }
    }
}

const LIVES: usize = 3;

/// The chunks of a node that have room.
pub(super) struct Lists {
    /// By life, and by the log2 of the longest free run.
    room: [[*mut Header; BINS]; LIVES],
    empty: *mut Header,
    /// Huge objects that were freed and are kept for a while.
    kept: *mut Header,
    /// The one that has runs of any life, if there is one.
    any: *mut Header,
}

const BYTES: usize = (MAX_NODES as usize * size_of::<Lists>()).next_multiple_of(PAGE);

/// The lists of all nodes, in a mapping of their own: of those of nodes that are not there no byte is touched.
pub(super) struct Nodes(NonNull<Lists>);

impl Nodes {
    pub(super) fn new(source: &dyn Source) -> Option<Self> {
        Some(Self(source.map(BYTES, PAGE, None)?.cast()))
    }

    pub(super) fn of(&mut self, node: u8) -> &mut Lists {
        // SAFETY: zeroed memory for so many nodes, and zeros are empty lists; callers pass nodes of the topology.
        unsafe { self.0.add(node.into()).as_mut() }
    }

    /// # Safety
    /// Nothing of it is used again.
    pub(super) unsafe fn release(&self, source: &dyn Source) {
        // SAFETY: the mapping made by `new`, whole.
        unsafe { source.unmap(self.0.cast(), BYTES) };
    }
}

impl Lists {
    /// The list with this number, see `Header::bin`, of chunks of a life.
    pub(super) fn head(&mut self, life: Life, bin: u8) -> &mut *mut Header {
        match bin {
            EMPTY => &mut self.empty,
            bin if usize::from(bin) < BINS => &mut self.room[life as usize][usize::from(bin)],
            _ => &mut self.kept,
        }
    }

    /// A chunk has no runs any more, whatever it had, or goes.
    pub(super) fn forget(&mut self, at: *mut Header) {
        if self.any == at {
            self.any = core::ptr::null_mut();
        }
    }
}

/// A chunk, and the first page of a place there.
type Place = (*mut Header, usize);

impl Chunks {
    /// A place for a run, which has to be taken before the lock is let go of.
    pub(super) fn place(
        &self,
        s: &mut State,
        pages: usize,
        step: usize,
        node: u8,
        life: Life,
    ) -> Option<Place> {
        let least = pages.ilog2() as u8;
        let bins = least..BINS as u8;
        let near = bins.clone().flat_map(|bin| [Life::Any, life].map(|life| (life, bin)));
        find(s, node, pages, step, near).or_else(|| {
            let unused = find(s, node, pages, step, [(life, EMPTY)].into_iter());
            let Some(at) = unused.map(|(at, _)| at).or_else(|| self.new_chunk(s, node)) else {
                return find(s, node, pages, step, bins.rev().map(|bin| (life.other(), bin)));
            };
            adopt(s, at, life);
            // SAFETY: a chunk of ours; the lock is held.
            Some((at, unsafe { (*at).free.find_run(pages, step) }?))
        })
    }
}

/// The first place on these lists.
fn find(
    s: &mut State,
    node: u8,
    pages: usize,
    step: usize,
    lists: impl Iterator<Item = (Life, u8)>,
) -> Option<Place> {
    for (life, bin) in lists {
        let mut at = *s.nodes.of(node).head(life, bin);
        while !at.is_null() {
            // SAFETY: chunks on a list are mapped and ours; the lock is held.
            let h = unsafe { &*at };
            let has_desc = usize::from(h.descs) < PAGES || h.free_desc > 0 && h.lookers == 0;
            if let Some(first) = h.free.find_run(pages, step).filter(|_| has_desc) {
                return Some((at, first));
            }
            at = h.next;
        }
    }
    None
}

/// A chunk without runs gets one of this life.
fn adopt(s: &mut State, at: *mut Header, life: Life) {
    unlink(s, at);
    // SAFETY: a chunk of ours; the lock is held.
    let h = unsafe { &mut *at };
    let lists = s.nodes.of(h.node);
    h.life = life;
    if lists.any.is_null() {
        lists.any = at;
        h.life = Life::Any;
    }
    push(s, at, BINS as u8 - 1);
}
