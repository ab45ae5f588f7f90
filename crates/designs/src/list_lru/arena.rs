//! Memory of list heads and tree nodes: a slab allocator of one size, in its simplest form.
//!
//! Chunks of equal slots; a free slot holds the place of the next; a chunk without a used slot is given back to the
//! process's allocator. Apart from `slub`, the allocator of the slab designs: half a billion heads are made here in one
//! run, and what they cost beyond their own bytes would be the measure of the allocator and not of the design.

use super::link::{Link, One};

/// What lies in a slot: one value or several, the first of which can hold a link while the slot is free.
pub(crate) trait Value: Clone {
    /// As it is when new.
    const NEW: Self;

    /// Where a free slot keeps the next free one.
    fn free_link(&mut self) -> &mut Link;
}

impl Value for One {
    const NEW: Self = Self::EMPTY;

    fn free_link(&mut self) -> &mut Link {
        One::free_link(self)
    }
}

/// Bytes of a chunk, about: small beside a slab design's caches, large beside what the allocator adds to each.
const CHUNK: usize = 32 << 10;

/// Slots of `run` values each.
pub(crate) struct Arena<T> {
    run: usize,
    shift: u32, // a chunk has 1 << shift slots
    chunks: Vec<Chunk<T>>,
    partial: Vec<usize>, // chunks that are not full, each once; the last one is used
    held: usize,         // chunks with memory
    used: u64,           // slots
}

struct Chunk<T> {
    values: Box<[T]>, // empty: given back
    free: Link,       // among its own slots
    used: u32,
    fresh: u32, // slots from here on were never used
}

impl<T: Value> Arena<T> {
    /// Of slots with `run` values each.
    pub(crate) fn new(run: usize) -> Self {
        let run = run.max(1);
        let shift = (CHUNK / (run * size_of::<T>())).max(2).ilog2();
        Self { run, shift, chunks: Vec::new(), partial: Vec::new(), held: 0, used: 0 }
    }

    fn slots(&self) -> usize {
        1 << self.shift
    }

    /// Chunk, and slot in it.
    fn split(&self, place: usize) -> (usize, usize) {
        (place >> self.shift, place & (self.slots() - 1))
    }

    /// A slot with new values.
    #[inline]
    pub(crate) fn alloc(&mut self) -> Link {
        let at = match self.partial.last() {
            Some(&at) if !self.chunks[at].values.is_empty() => at,
            _ => self.grow(),
        };
        let (run, slots) = (self.run, self.slots());
        let chunk = &mut self.chunks[at];
        let slot = match chunk.free.place() {
            Some(slot) => {
                let values = &mut chunk.values[slot * run..][..run];
                chunk.free = *values[0].free_link();
                values.fill(T::NEW);
                slot
            }
            None => {
                chunk.fresh += 1;
                chunk.fresh as usize - 1
            }
        };
        chunk.used += 1;
        self.used += 1;
        if chunk.used as usize == slots {
            self.partial.pop();
        }
        Link::to(at * slots + slot)
    }

    /// Memory for the last of the partial chunks, or a new one.
    fn grow(&mut self) -> usize {
        let values = vec![T::NEW; self.slots() * self.run].into_boxed_slice();
        let chunk = Chunk { values, free: Link::NONE, used: 0, fresh: 0 };
        self.held += 1;
        match self.partial.last() {
            Some(&at) => {
                self.chunks[at] = chunk;
                at
            }
            None => {
                self.chunks.push(chunk);
                self.partial.push(self.chunks.len() - 1);
                self.chunks.len() - 1
            }
        }
    }

    /// Frees a slot that [`alloc`](Self::alloc) gave.
    pub(crate) fn free(&mut self, slot: Link) {
        let Some(place) = slot.place() else { return };
        let ((at, slot), slots, run) = (self.split(place), self.slots(), self.run);
        let chunk = &mut self.chunks[at];
        if chunk.used as usize == slots {
            self.partial.push(at);
        }
        *chunk.values[slot * run].free_link() = chunk.free;
        chunk.free = Link::to(slot);
        chunk.used -= 1;
        self.used -= 1;
        // The last chunk stays, so that one head that comes and goes does not take its chunk along each time.
        if chunk.used == 0 && self.held > 1 {
            chunk.values = Box::default();
            self.held -= 1;
        }
    }

    /// The values of a slot in use.
    #[inline]
    pub(crate) fn get(&self, slot: Link) -> Option<&[T]> {
        let (at, slot) = self.split(slot.place()?);
        Some(&self.chunks[at].values[slot * self.run..][..self.run])
    }

    /// The same, to change them.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Link) -> Option<&mut [T]> {
        let (at, slot) = self.split(slot.place()?);
        Some(&mut self.chunks[at].values[slot * self.run..][..self.run])
    }

    /// Values in use.
    pub(crate) fn values(&self) -> u64 {
        self.used * self.run as u64
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        (self.held * self.slots() * self.run * size_of::<T>()
            + self.chunks.capacity() * size_of::<Chunk<T>>()) as u64
    }
}
