//! A shelf: one CPU's stacks of pointers, each under a key. A stack is popped or pushed in one restartable sequence that
//! commits with the store of its length, so nothing is locked; everything else is done by who holds the CPU's area.
//!
//! What the pointers are, and when a stack comes and goes, is for the shelf's owner to say.

use super::stack::{Bundle, Piles, Stack};
use crate::meta::Meta;
use crate::page::PAGE;
use core::mem::offset_of;
use core::ptr::{NonNull, null_mut};

/// Sets of a shelf; a key has its place in one of them.
pub(crate) const SETS: usize = 1024;
const WAYS: usize = 2;
const STACKS: usize = SETS * WAYS;

#[derive(Clone, Copy)]
#[repr(C)]
struct Entry {
    /// 0: nobody's.
    key: u64,
    stack: *mut Stack,
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
    votes: [Vote; SETS],
    /// Which places are taken, a bit each.
    taken: [u64; STACKS / 64],
    stacks: u32,
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
    pub(in crate::percpu) const SET_SHIFT: u32 = size_of::<[Entry; WAYS]>().trailing_zeros();
    pub(in crate::percpu) const ENTRY: usize = size_of::<Entry>();
    pub(in crate::percpu) const STACK: usize = offset_of!(Entry, stack);
    pub(in crate::percpu) const LIMIT: usize = offset_of!(Stack, limit);
    pub(in crate::percpu) const POINTERS: usize = size_of::<Stack>();

    const _: () = assert!(offset_of!(Shelf, last) == 0 && offset_of!(Entry, key) == 0 && WAYS == 2);
    const _: () = assert!(
        offset_of!(Stack, next) + size_of::<usize>() == POINTERS,
        "before the first pointer is no other"
    );
    const _: () = assert!(offset_of!(Stack, len) == 0 && size_of::<[Entry; WAYS]>().is_power_of_two());
}

impl Shelf {
    /// Ready for sequences.
    pub(super) fn begin(&mut self) {
        self.last = &raw mut self.sets[0][0];
    }

    fn find_entry(&mut self, set: usize, key: u64) -> Option<&mut Entry> {
        self.sets[set].iter_mut().find(|entry| entry.key == key)
    }

    /// The stack under `key`.
    pub(crate) fn find(&mut self, set: usize, key: u64) -> Option<&mut Stack> {
        // SAFETY: an entry with a key has a stack, which is this shelf's alone.
        self.find_entry(set, key).map(|entry| unsafe { &mut *entry.stack })
    }

    /// What a sequence does, for who holds the area.
    pub(super) fn pop(&mut self, set: usize, key: u64) -> Option<NonNull<u8>> {
        self.find(set, key).and_then(Stack::pop).and_then(NonNull::new)
    }

    /// The same for a push.
    pub(super) fn push(&mut self, set: usize, key: u64, pointer: NonNull<u8>) -> bool {
        let differs = |stack: &&mut Stack| stack.last() != Some(pointer.as_ptr());
        self.find(set, key).filter(differs).is_some_and(|stack| stack.push(pointer.as_ptr()))
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
    ) -> Option<&mut Stack> {
        let way = self.sets[set].iter().position(|entry| entry.key == 0)?;
        let bundle = Bundle::create(limit, of, key, meta)?;
        let place = (set * WAYS + way) as u32;
        self.taken[place as usize / 64] |= 1 << (place % 64);
        self.stacks += 1;
        self.touch(layout::SETS + set * size_of::<[Entry; WAYS]>());
        self.touch(offset_of!(Shelf, taken));
        self.sets[set][way] = Entry { key, stack: null_mut() };
        self.exchange(set, key, bundle, place);
        self.find(set, key)
    }

    /// Puts `bundle` in the place of the stack under `key`.
    fn exchange(&mut self, set: usize, key: u64, mut bundle: Bundle, place: u32) -> Option<Bundle> {
        let entry = self.find_entry(set, key)?;
        let stack = bundle.stack_mut();
        stack.place = place;
        stack.key = key;
        NonNull::new(core::mem::replace(&mut entry.stack, bundle.0.as_ptr())).map(Bundle)
    }

    /// Puts `bundle` in the place of the stack under `key`, which there is, and returns that.
    pub(crate) fn replace(&mut self, set: usize, key: u64, bundle: Bundle) -> Option<Bundle> {
        let (place, note) = self.find(set, key).map(|stack| (stack.place, stack.note))?;
        let old = self.exchange(set, key, bundle, place);
        self.find(set, key)?.note = note;
        old
    }

    /// Gives the stack under `key` another limit, not below its length. False: no memory, and nothing was done.
    pub(crate) fn resize(&mut self, set: usize, key: u64, limit: u32, meta: &Meta) -> bool {
        let Some(of) = self.find(set, key).map(|stack| stack.of) else { return false };
        let Some(mut bundle) = Bundle::create(limit, of, key, meta) else { return false };
        if let Some(stack) = self.find(set, key) {
            bundle.fill_from(stack);
        }
        if let Some(old) = self.replace(set, key, bundle) {
            debug_assert_eq!(old.stack().len, 0);
            old.free(meta);
        }
        true
    }

    /// Takes the stack under `key` off its place and lays it to the loose ones. Nothing is done with its pointers.
    pub(crate) fn loosen(&mut self, set: usize, key: u64) -> Option<&Stack> {
        let entry = self.find_entry(set, key)?;
        let bundle = Bundle(NonNull::new(entry.stack)?);
        *entry = Entry { key: 0, stack: null_mut() };
        let place = bundle.stack().place;
        self.taken[place as usize / 64] &= !(1 << (place % 64));
        self.stacks -= 1;
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
            if stack.len > 0 {
                return self.loose.push(bundle);
            }
            bundle.free(meta);
        }
    }

    /// Gives the memory of all stacks back, with nothing done for their pointers: nothing of them is used again.
    pub(crate) fn forget(&mut self, meta: &Meta) {
        loop {
            let next = self.iter().next().map(|(key, stack)| (stack.place as usize / WAYS, key));
            let Some((set, key)) = next else { break };
            self.loosen(set, key);
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

    /// Every key and its stack.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Stack)> {
        let mut left = self.stacks;
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
            .map(|place| {
                let entry = &self.sets[place / WAYS][place % WAYS];
                // SAFETY: a place that is taken has a stack.
                (entry.key, unsafe { &*entry.stack })
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
mod tests {
    use super::super::stack::rounded;
    use super::*;
    use crate::page::Os;
    extern crate std;
    use std::{boxed::Box, collections::HashMap, vec::Vec};

    fn empty() -> Box<Shelf> {
        let layout = core::alloc::Layout::new::<Shelf>();
        // SAFETY: the layout is not empty, and zeroed memory is a shelf.
        let mut shelf = unsafe { Box::from_raw(std::alloc::alloc_zeroed(layout).cast::<Shelf>()) };
        shelf.begin();
        shelf
    }

    fn pointer(n: usize) -> NonNull<u8> {
        NonNull::new(core::ptr::without_provenance_mut(n * 64 + 64)).unwrap()
    }

    proptest::proptest! {
        #[test]
        fn matches_a_map_of_vectors(steps in proptest::collection::vec((0..9u8, 0..40u64), 0..400)) {
            let (mut shelf, meta) = (empty(), Meta::new(&Os));
            let mut plain: HashMap<u64, Vec<NonNull<u8>>> = HashMap::new();
            let mut loose = 0;
            for (n, (step, key)) in steps.into_iter().enumerate() {
                let (set, key) = (key as usize % 8, key + 1);
                match step {
                    0 if shelf.has_room(set) && !plain.contains_key(&key) => {
                        shelf.add(set, key, rounded(1), core::ptr::null(), &meta).unwrap();
                        plain.insert(key, Vec::new());
                    }
                    1 => {
                        let popped = plain.get_mut(&key).and_then(Vec::pop);
                        proptest::prop_assert_eq!(shelf.pop(set, key), popped);
                    }
                    2 => {
                        let len = shelf.find(set, key).map(|stack| stack.len());
                        proptest::prop_assert_eq!(len, plain.get(&key).map(|v| v.len() as u32));
                        if plain.remove(&key).is_some() {
                            loose += len.unwrap_or(0);
                            let stack = shelf.loosen(set, key).unwrap();
                            proptest::prop_assert_eq!((stack.key(), Some(stack.len())), (key, len));
                        }
                    }
                    3 if plain.contains_key(&key) => {
                        let limit = shelf.find(set, key).map_or(0, |stack| stack.limit());
                        proptest::prop_assert!(shelf.resize(set, key, rounded(limit + 1), &meta));
                    }
                    5 => {
                        let mut two = [null_mut(); 2];
                        let taken = shelf.find(set, key).is_some_and(|stack| stack.take_lowest(&mut two));
                        let all = plain.get_mut(&key).filter(|all| all.len() >= 2);
                        let lowest = all.map(|all| all.drain(..2).collect::<Vec<_>>());
                        proptest::prop_assert_eq!(taken.then(|| two.map(|p| NonNull::new(p).unwrap()).to_vec()), lowest);
                    }
                    4 => shelf.pick_up(3, &meta, |_| true, |_, _| loose -= 1),
                    _ => {
                        let room = shelf.find(set, key).is_some_and(|stack| stack.len() < stack.limit());
                        proptest::prop_assert_eq!(shelf.push(set, key, pointer(n)), room);
                        if room {
                            plain.entry(key).or_default().push(pointer(n));
                        }
                    }
                }
                let mut keys: Vec<_> = shelf.iter().map(|(key, stack)| (key, stack.len() as usize)).collect();
                let mut want: Vec<_> = plain.iter().map(|(key, v)| (*key, v.len())).collect();
                keys.sort_unstable();
                want.sort_unstable();
                proptest::prop_assert_eq!(keys, want);
                proptest::prop_assert_eq!(shelf.loose.iter().map(Stack::len).sum::<u32>(), loose);
            }
            shelf.forget(&meta);
            proptest::prop_assert_eq!((shelf.iter().count(), shelf.loose.iter().count()), (0, 0));
            // SAFETY: all blocks are back.
            unsafe { meta.release() };
        }
    }

    #[test]
    fn the_same_pointer_twice_in_a_row_is_refused() {
        let (mut shelf, meta) = (empty(), Meta::new(&Os));
        shelf.add(3, 5, rounded(4), core::ptr::null(), &meta).unwrap();
        assert!(shelf.push(3, 5, pointer(1)) && !shelf.push(3, 5, pointer(1)));
        assert!(shelf.push(3, 5, pointer(2)) && shelf.push(3, 5, pointer(1)));
        shelf.forget(&meta);
        // SAFETY: all blocks are back.
        unsafe { meta.release() };
    }

    #[test]
    fn who_misses_most_leads_and_everybody_has_his_turn() {
        let (mut shelf, meta) = (empty(), Meta::new(&Os));
        assert_eq!([7, 7, 8, 7].map(|key| shelf.vote(1, key)), [1, 2, 0, 2]);
        shelf.end_vote(1);
        assert_eq!(shelf.vote(1, 8), 1);
        assert_eq!(shelf.turn(), None);
        for key in [10, 20, 30] {
            shelf.add(key as usize, key, 4, core::ptr::null(), &meta).unwrap();
        }
        let turns: Vec<_> = (0..6).map(|_| shelf.turn().unwrap()).collect();
        assert_eq!(turns, [10, 20, 30, 10, 20, 30]);
        assert_eq!(shelf.resident(), 3 * PAGE, "a page of sets, one of votes, the last");
        shelf.forget(&meta);
        // SAFETY: all blocks are back.
        unsafe { meta.release() };
    }
}
