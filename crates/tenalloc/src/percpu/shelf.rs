//! A shelf: one CPU's stacks of pointers, each under a key, and beside the key where its top is. A stack is popped or pushed
//! in one restartable sequence that commits with the store of that, so nothing is locked; everything else is done by who
//! holds the CPU's area.
//!
//! What the pointers are, and when a stack comes and goes, is for the shelf's owner to say.

use super::place::Place;
use super::stack::{Bundle, Piles, Seen, Stack};
use crate::meta::Meta;
use crate::page::PAGE;
use core::mem::offset_of;
use core::ptr::{NonNull, null_mut};

/// Sets of a shelf; a key has its place in one of them.
pub(crate) const SETS: usize = 1024;
const WAYS: usize = 2;
const STACKS: usize = SETS * WAYS;

/// What is in one place of a set, as the sequences see it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Entry {
    /// 0: nobody's.
    pub(super) key: u64,
    /// Behind the last pointer of its stack.
    pub(super) top: *mut *mut u8,
}

impl Entry {
    pub(super) const NONE: Self = Self { key: 0, top: null_mut() };
}

/// A vote on which key deserves a place in a set: the one that most misses are of (R. Boyer and J. Moore's majority
/// vote, 1981).
#[derive(Clone, Copy)]
#[repr(C)]
struct Vote {
    tag: u16,
    lead: u16,
}

/// Zeroed memory is an empty shelf, and only those pages of it are touched whose sets are in use.
#[repr(C, align(64))]
pub(crate) struct Shelf {
    /// Where the last pop found its key. A push looks there first: what it has in its hand was mostly popped with the same
    /// key, and the address of that stack does not have to wait for the object's owner to be read. 0 at first.
    last: *mut Entry,
    _apart: [u64; 7],
    sets: [[Entry; WAYS]; SETS],
    /// The stack of each place, for who holds the area.
    stacks: [[Option<NonNull<Stack>>; WAYS]; SETS],
    votes: [Vote; SETS],
    /// Which places are taken, a bit each.
    taken: [u64; STACKS / 64],
    taken_in_all: u32,
    /// The place that was last looked at for something to give up.
    hand: u32,
    /// The shelf's owner's: what its stacks may hold all together, and what they held when each was looked at last.
    pub(crate) bytes: u64,
    pub(crate) held: u64,
    /// Stacks under no key any more, whose pointers are to be put away.
    pub(crate) loose: Piles,
    /// Which pages of this were written to, a bit each.
    touched: u16,
}

const _: () = assert!(size_of::<Shelf>() < 16 * PAGE);

/// What the sequences need to know of the layout, in bytes.
#[allow(dead_code, reason = "not all of it where there are no sequences")]
pub(super) mod layout {
    use super::*;

    pub(in crate::percpu) const SETS: usize = offset_of!(Shelf, sets);
    pub(in crate::percpu) const SET: usize = size_of::<[Entry; WAYS]>();
    pub(in crate::percpu) const ENTRY: usize = size_of::<Entry>();
    pub(in crate::percpu) const TOP: usize = offset_of!(Entry, top);

    const _: () = assert!(offset_of!(Shelf, last) == 0 && offset_of!(Entry, key) == 0 && WAYS == 2);
}

impl Shelf {
    /// Ready for sequences.
    pub(super) fn begin(&mut self) {
        self.last = &raw mut self.sets[0][0];
    }

    fn way_of(&self, set: usize, key: u64) -> Option<usize> {
        self.sets[set].iter().position(|entry| entry.key == key)
    }

    fn place(&mut self, set: usize, way: usize) -> Option<Place<'_>> {
        let stack = self.stacks[set][way].as_mut()?;
        // SAFETY: a stack is in one place, and its entry is that of the same number.
        Some(unsafe { Place::new(&mut self.sets[set][way], stack) })
    }

    /// The stack under `key`.
    pub(crate) fn find(&mut self, set: usize, key: u64) -> Option<Place<'_>> {
        let way = self.way_of(set, key)?;
        self.place(set, way)
    }

    /// What a sequence does, for who holds the area.
    pub(super) fn pop(&mut self, set: usize, key: u64) -> Option<NonNull<u8>> {
        self.find(set, key)?.pop()
    }

    /// The same for a push.
    pub(super) fn push(&mut self, set: usize, key: u64, pointer: NonNull<u8>) -> bool {
        let stack = self.find(set, key).filter(|stack| stack.last() != Some(pointer.as_ptr()));
        stack.is_some_and(|mut stack| stack.push(pointer.as_ptr()))
    }

    /// Counts a miss of `key`; how far it leads by now.
    pub(crate) fn vote(&mut self, set: usize, key: u64) -> u16 {
        let tag = (key ^ key >> 16 ^ key >> 32 ^ key >> 48) as u16;
        self.touch(offset_of!(Shelf, votes) + set * size_of::<Vote>());
        let vote = &mut self.votes[set];
        if vote.lead == 0 {
            *vote = Vote { tag, lead: 1 };
        } else if vote.tag == tag {
            vote.lead = vote.lead.saturating_add(1);
        } else {
            vote.lead -= 1;
            return 0;
        }
        vote.lead
    }

    /// Forgets who led.
    pub(crate) fn end_vote(&mut self, set: usize) {
        self.votes[set].lead = 0;
    }

    /// Whether a set has a place free.
    pub(crate) fn has_room(&self, set: usize) -> bool {
        self.sets[set].iter().any(|entry| entry.key == 0)
    }

    /// The key and stack of a place of a full set, to make room there.
    pub(crate) fn one_of(&mut self, set: usize) -> Option<u64> {
        self.hand = self.hand.wrapping_add(1);
        Some(self.sets[set][self.hand as usize % WAYS].key).filter(|key| *key != 0)
    }

    /// A new stack under `key`, in a set that has room. `None`: no memory.
    pub(crate) fn add(
        &mut self,
        set: usize,
        key: u64,
        limit: u32,
        of: *const (),
        meta: &Meta,
    ) -> Option<Place<'_>> {
        let way = self.way_of(set, 0)?;
        let bundle = Bundle::create(limit, of, key, meta)?;
        let place = set * WAYS + way;
        self.taken[place / 64] |= 1 << (place % 64);
        self.taken_in_all += 1;
        self.touch(offset_of!(Shelf, sets) + set * size_of::<[Entry; WAYS]>());
        self.touch(offset_of!(Shelf, stacks) + place * size_of::<Option<NonNull<Stack>>>());
        self.touch(offset_of!(Shelf, taken));
        self.sets[set][way] = Entry { key, top: bundle.stack().top(0) };
        self.stacks[set][way] = Some(bundle.0);
        self.place(set, way)
    }

    /// Puts `bundle` in the place of the stack under `key`, which there is, and returns that.
    pub(crate) fn replace(&mut self, set: usize, key: u64, bundle: Bundle) -> Option<Bundle> {
        Some(self.find(set, key)?.exchange(bundle))
    }

    /// Gives the stack under `key` another limit, not below its length. False: no memory, and nothing was done.
    pub(crate) fn resize(&mut self, set: usize, key: u64, limit: u32, meta: &Meta) -> bool {
        let Some(mut place) = self.find(set, key) else { return false };
        let Some(mut bundle) = Bundle::create(limit, place.of, key, meta) else { return false };
        bundle.copy_from(&place, place.len());
        place.exchange(bundle).free(meta);
        true
    }

    /// Takes the stack under `key` off its place and lays it to the loose ones. Nothing is done with its pointers.
    pub(crate) fn loosen(&mut self, set: usize, key: u64) -> Option<&Stack> {
        let way = self.way_of(set, key)?;
        let bundle = self.place(set, way)?.take();
        self.stacks[set][way] = None;
        let place = set * WAYS + way;
        self.taken[place / 64] &= !(1 << (place % 64));
        self.taken_in_all -= 1;
        let stack = bundle.0;
        self.loose.push(bundle);
        // SAFETY: on a pile of this shelf.
        Some(unsafe { stack.as_ref() })
    }

    /// Pops up to `most` pointers of the loose stacks for which `of` holds, and gives the memory of those that are empty
    /// back.
    pub(crate) fn pick_up(
        &mut self,
        mut most: usize,
        meta: &Meta,
        of: impl Fn(*const ()) -> bool,
        mut each: impl FnMut(*const (), *mut u8),
    ) {
        while let Some(mut bundle) = self.loose.take(|stack| of(stack.of)) {
            let stack = bundle.stack_mut();
            while most > 0
                && let Some(pointer) = stack.pop()
            {
                each(stack.of, pointer);
                most -= 1;
            }
            if stack.len() > 0 {
                return self.loose.push(bundle);
            }
            bundle.free(meta);
        }
    }

    /// Gives the memory of all stacks back, with nothing done for their pointers: nothing of them is used again.
    pub(crate) fn forget(&mut self, meta: &Meta) {
        loop {
            let next = self.places().next().map(|place| (place / WAYS, place % WAYS));
            let Some((set, way)) = next else { break };
            self.loosen(set, self.sets[set][way].key);
        }
        self.pick_up(usize::MAX, meta, |_| true, |_, _| {});
    }

    /// Bytes of it that are resident.
    pub(crate) fn resident(&self) -> usize {
        self.touched.count_ones() as usize * PAGE
    }

    /// The byte at `offset` is written to.
    fn touch(&mut self, offset: usize) {
        self.touched |= 1 << (offset / PAGE);
    }

    /// The places that are taken.
    fn places(&self) -> impl Iterator<Item = usize> {
        let mut left = self.taken_in_all;
        let words = self.taken.iter().enumerate();
        words
            .map_while(move |(at, word)| {
                let go_on = left > 0;
                left -= word.count_ones().min(left);
                go_on.then_some((at, *word))
            })
            .flat_map(|(at, word)| {
                // Its lowest bit that is set, and then without that.
                let words = core::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)));
                words.take_while(|word| *word != 0).map(move |word| at * 64 + word.trailing_zeros() as usize)
            })
    }

    /// Every stack.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Seen> {
        self.places().filter_map(|place| {
            let (set, way) = (place / WAYS, place % WAYS);
            // SAFETY: the stacks of places are this shelf's alone.
            let stack = unsafe { self.stacks[set][way]?.as_ref() };
            Some(stack.seen(stack.below(self.sets[set][way].top)))
        })
    }

    /// The next key of those on the shelf, round and round.
    pub(crate) fn turn(&mut self) -> Option<u64> {
        // From the place after the last one round to that itself.
        let (mut word, from) = ((self.hand as usize + 1) / 64 % self.taken.len(), (self.hand + 1) % 64);
        let mut bits = self.taken[word] & u64::MAX << from;
        for _ in 0..=self.taken.len() {
            if bits != 0 {
                break;
            }
            word = (word + 1) % self.taken.len();
            bits = self.taken[word];
        }
        if bits == 0 {
            return None;
        }
        let place = word * 64 + bits.trailing_zeros() as usize;
        self.hand = place as u32;
        let key = self.sets[place / WAYS][place % WAYS].key;
        Some(key)
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests;
