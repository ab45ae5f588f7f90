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

/// Bytes of a chunk, at most: as a slab of kmalloc-32.
const CHUNK: usize = 4096;

/// Slots of `run` values each.
pub(crate) struct Arena<T> {
    run: usize,
    shift: u32,            // a chunk has 1 << shift places
    chunks: Vec<Box<[T]>>, // of no values: given back
    states: Vec<State>,    // of each chunk
    partial: Vec<u32>,     // chunks that are not full, each once; the last one is used
    held: usize,           // chunks with values
    used: u64,             // slots
}

/// What a chunk hands out next. Apart from its values, so that finding a value touches one table only.
#[derive(Clone, Copy)]
struct State {
    free: u16,  // among its own slots
    used: u16,  // slots
    fresh: u16, // slots from here on were never used
}

/// No free slot.
const NONE: u16 = u16::MAX;

impl<T: Value> Arena<T> {
    /// Of slots with `run` values each.
    pub(crate) fn new(run: usize) -> Self {
        let run = run.max(1);
        let shift = (CHUNK / (run * size_of::<T>())).max(4).ilog2();
        let (chunks, states, partial) = (Vec::new(), Vec::new(), Vec::new());
        Self { run, shift, chunks, states, partial, held: 0, used: 0 }
    }

    /// Slots of a chunk: one less than it has places, so that chunks fit, with what the allocator adds, into the gaps that
    /// arrays leave when they grow. Those are nearly powers of two as well, and a seventh of all memory.
    fn slots(&self) -> usize {
        (1 << self.shift) - 1
    }

    /// Chunk, and slot in it.
    #[inline]
    fn split(&self, place: usize) -> (usize, usize) {
        (place >> self.shift, place & ((1 << self.shift) - 1))
    }

    /// A slot with new values.
    #[inline]
    pub(crate) fn alloc(&mut self) -> Link {
        let at = match self.partial.last() {
            Some(&at) if !self.chunks[at as usize].is_empty() => at as usize,
            _ => self.grow(),
        };
        let (run, slots) = (self.run, self.slots());
        let state = &mut self.states[at];
        let slot = if state.free == NONE {
            state.fresh += 1;
            usize::from(state.fresh) - 1
        } else {
            let slot = usize::from(state.free);
            let values = &mut self.chunks[at][slot * run..][..run];
            state.free = values[0].free_link().place().map_or(NONE, |next| next as u16);
            values.fill(T::NEW);
            slot
        };
        state.used += 1;
        self.used += 1;
        if usize::from(state.used) == slots {
            self.partial.pop();
        }
        Link::to((at << self.shift) + slot)
    }

    /// Memory for the last of the partial chunks, or a new one.
    fn grow(&mut self) -> usize {
        let values = vec![T::NEW; self.slots() * self.run].into_boxed_slice();
        let state = State { free: NONE, used: 0, fresh: 0 };
        self.held += 1;
        match self.partial.last() {
            Some(&at) => {
                self.chunks[at as usize] = values;
                self.states[at as usize] = state;
                at as usize
            }
            None => {
                self.chunks.push(values);
                self.states.push(state);
                self.partial.push(self.chunks.len() as u32 - 1);
                self.chunks.len() - 1
            }
        }
    }

    /// Frees a slot that [`alloc`](Self::alloc) gave.
    pub(crate) fn free(&mut self, slot: Link) {
        let Some(place) = slot.place() else { return };
        let ((at, slot), slots) = (self.split(place), self.slots());
        let state = &mut self.states[at];
        if usize::from(state.used) == slots {
            self.partial.push(at as u32);
        }
        let next = if state.free == NONE { Link::NONE } else { Link::to(state.free.into()) };
        *self.chunks[at][slot * self.run].free_link() = next;
        state.free = slot as u16;
        state.used -= 1;
        self.used -= 1;
        // The last chunk stays, so that one head that comes and goes does not take its chunk along each time.
        if state.used == 0 && self.held > 1 {
            self.chunks[at] = Box::default();
            self.held -= 1;
        }
    }

    /// The values of a slot in use.
    #[inline]
    pub(crate) fn get(&self, slot: Link) -> Option<&[T]> {
        let (at, slot) = self.split(slot.place()?);
        Some(&self.chunks[at][slot * self.run..][..self.run])
    }

    /// The same, to change them.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Link) -> Option<&mut [T]> {
        let (at, slot) = self.split(slot.place()?);
        Some(&mut self.chunks[at][slot * self.run..][..self.run])
    }

    /// Values in use.
    pub(crate) fn values(&self) -> u64 {
        self.used * self.run as u64
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        let values = self.held * self.slots() * self.run * size_of::<T>();
        let tables = self.chunks.capacity() * size_of::<Box<[T]>>()
            + self.states.capacity() * size_of::<State>()
            + self.partial.capacity() * size_of::<u32>();
        (values + tables) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    proptest::proptest! {
        /// Slots in use are never given out again, keep what is written, and memory goes when they do.
        #[test]
        fn slots_against_a_map(run in 1..5_usize, steps in proptest::collection::vec((0..3_u8, 0..400_usize), 0..800)) {
            let mut arena = Arena::<One>::new(run);
            let mut plain: BTreeMap<usize, i64> = BTreeMap::new();
            for (stamp, (what, which)) in steps.into_iter().enumerate() {
                let some = plain.keys().nth(which % plain.len().max(1)).copied();
                match (what, some) {
                    (2, Some(place)) => {
                        plain.remove(&place);
                        arena.free(Link::to(place));
                    }
                    _ => {
                        let slot = arena.alloc();
                        let values = arena.get_mut(slot).unwrap();
                        proptest::prop_assert!(values.len() == run && values.iter().all(|one| one.number == 0));
                        values[run - 1].number = stamp as i64;
                        proptest::prop_assert_eq!(plain.insert(slot.place().unwrap(), stamp as i64), None);
                    }
                }
                for (&place, &stamp) in &plain {
                    proptest::prop_assert_eq!(arena.get(Link::to(place)).unwrap()[run - 1].number, stamp);
                }
                proptest::prop_assert_eq!(arena.values(), (plain.len() * run) as u64);
            }
            plain.into_keys().for_each(|place| arena.free(Link::to(place)));
            proptest::prop_assert!(arena.values() == 0 && arena.held <= 1);
        }
    }
}
