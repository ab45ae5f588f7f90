//! A shelf: one CPU's stacks of pointers, each under a key. A stack is popped or pushed in one restartable sequence that
//! commits with the store of its length, so nothing is locked; everything else is done by who holds the CPU's area.
//!
//! What the pointers are, and when a stack comes and goes, is for the owner of the shelf to say.

use crate::meta::Meta;
use crate::page::PAGE;
use core::mem::offset_of;
use core::ptr::{NonNull, null_mut};

/// Sets of a shelf; a key has its place in one of them.
pub(crate) const SETS: usize = 1024;
const WAYS: usize = 2;
const STACKS: usize = SETS * WAYS;

/// A stack: this header, and `limit` pointers behind it.
#[repr(C)]
pub(crate) struct Stack {
    len: u32,
    limit: u32,
    /// The shelf's owner's.
    pub(crate) note: u32,
    /// Which place of the shelf it has.
    place: u32,
    /// The shelf's owner's: what the pointers are.
    pub(crate) of: *const (),
    /// The next of the loose ones.
    next: *mut Stack,
}

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
    /// The shelf's owner's: what its stacks may hold all together.
    pub(crate) bytes: u64,
    /// Stacks under no key any more, whose pointers are to be put away.
    loose: *mut Stack,
    /// Which pages of this were written to, a bit each.
    touched: u16,
}

const _: () = assert!(size_of::<Shelf>() < 16 * PAGE);

/// What the sequences need to know of the layout, in bytes.
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

impl Stack {
    fn pointer(&self, index: u32) -> NonNull<*mut u8> {
        // SAFETY: `limit` pointers follow the header, and callers stay below it.
        unsafe { NonNull::from(self).add(1).cast::<*mut u8>().add(index as usize) }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    pub(crate) fn last(&self) -> Option<*mut u8> {
        // SAFETY: pointers below `len` are initialised.
        self.len.checked_sub(1).map(|last| unsafe { self.pointer(last).read() })
    }

    pub(crate) fn pop(&mut self) -> Option<*mut u8> {
        let last = self.last()?;
        self.len -= 1;
        Some(last)
    }

    /// False: full.
    pub(crate) fn push(&mut self, pointer: *mut u8) -> bool {
        if self.len == self.limit {
            return false;
        }
        // SAFETY: below the limit.
        unsafe { self.pointer(self.len).write(pointer) };
        self.len += 1;
        true
    }
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
        let block = meta.alloc(bytes(limit))?.cast::<Stack>();
        let place = (set * WAYS + way) as u32;
        self.taken[place as usize / 64] |= 1 << (place % 64);
        self.stacks += 1;
        self.touch(layout::SETS + set * size_of::<[Entry; WAYS]>());
        self.touch(offset_of!(Shelf, taken));
        let entry = &mut self.sets[set][way];
        *entry = Entry { key, stack: block.as_ptr() };
        // SAFETY: a block of ours, large enough.
        unsafe {
            block.write(Stack { len: 0, limit, note: 0, place, of, next: null_mut() });
            Some(&mut *entry.stack)
        }
    }

    /// Gives the stack under `key` another limit, not below its length. False: no memory, and nothing was done.
    pub(crate) fn resize(&mut self, set: usize, key: u64, limit: u32, meta: &Meta) -> bool {
        let Some(entry) = self.find_entry(set, key) else { return false };
        // SAFETY: an entry with a key has a stack, which is this shelf's alone.
        let old = unsafe { &mut *entry.stack };
        let Some(block) = meta.alloc(bytes(limit)) else { return false };
        debug_assert!(old.len <= limit);
        let (was, used) = (old.limit, size_of::<Stack>() + old.len as usize * size_of::<*mut u8>());
        // SAFETY: both blocks hold `used` bytes; the old one is given back as it was made.
        unsafe {
            block.copy_from_nonoverlapping(NonNull::from(&mut *old).cast(), used);
            entry.stack = block.as_ptr().cast();
            (*entry.stack).limit = limit;
            meta.free(NonNull::from(old).cast(), bytes(was));
        }
        true
    }

    /// Takes the stack under `key` off its place and lays it to the loose ones. Nothing is done with its pointers.
    pub(crate) fn loosen(&mut self, set: usize, key: u64) -> Option<&Stack> {
        let loose = self.loose;
        let entry = self.find_entry(set, key)?;
        let stack = NonNull::new(entry.stack)?.as_ptr();
        *entry = Entry { key: 0, stack: null_mut() };
        // SAFETY: the entry's stack, which is this shelf's alone.
        let stack = unsafe { &mut *stack };
        stack.next = loose;
        self.loose = stack;
        self.taken[stack.place as usize / 64] &= !(1 << (stack.place % 64));
        self.stacks -= 1;
        Some(stack)
    }

    /// The loose stacks.
    pub(crate) fn loose(&self) -> impl Iterator<Item = &Stack> {
        // SAFETY: those in the list are this shelf's alone.
        let mut at = unsafe { self.loose.as_ref() };
        core::iter::from_fn(move || {
            let stack = at?;
            // SAFETY: as above.
            at = unsafe { stack.next.as_ref() };
            Some(stack)
        })
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
        let mut link = &raw mut self.loose;
        // SAFETY: those in the list are this shelf's alone, and so are the links.
        while let Some(mut stack) = NonNull::new(unsafe { *link }) {
            // SAFETY: as above.
            let s = unsafe { stack.as_mut() };
            if !of(s.of) {
                link = &raw mut s.next;
                continue;
            }
            while most > 0
                && let Some(pointer) = s.pop()
            {
                each(s.of, pointer);
                most -= 1;
            }
            if s.len > 0 {
                return;
            }
            // SAFETY: as above; the stack was made with this limit.
            unsafe {
                *link = s.next;
                meta.free(stack.cast(), bytes(s.limit));
            }
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
                (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
            })
            .map(|place| {
                let entry = &self.sets[place / WAYS][place % WAYS];
                // SAFETY: a place that is taken has a stack.
                (entry.key, unsafe { &*entry.stack })
            })
    }

    /// The next key of those on the shelf, round and round.
    pub(crate) fn turn(&mut self) -> Option<u64> {
        let after = self.hand;
        let (place, key) = {
            let mut all = self.iter().map(|(key, stack)| (stack.place, key));
            let first = all.next()?;
            if first.0 > after { first } else { all.find(|(place, _)| *place > after).unwrap_or(first) }
        };
        self.hand = place;
        Some(key)
    }
}

fn bytes(limit: u32) -> usize {
    size_of::<Stack>() + limit as usize * size_of::<*mut u8>()
}

/// The largest limit not below `limit` whose stack takes no larger block of metadata.
pub(crate) const fn rounded(limit: u32) -> u32 {
    let bytes = (size_of::<Stack>() + limit as usize * size_of::<*mut u8>()).next_power_of_two();
    ((bytes - size_of::<Stack>()) / size_of::<*mut u8>()) as u32
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
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
        fn matches_a_map_of_vectors(steps in proptest::collection::vec((0..7u8, 0..40u64), 0..400)) {
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
                            shelf.loosen(set, key).unwrap();
                        }
                    }
                    3 if plain.contains_key(&key) => {
                        let limit = shelf.find(set, key).map_or(0, |stack| stack.limit());
                        proptest::prop_assert!(shelf.resize(set, key, rounded(limit + 1), &meta));
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
                proptest::prop_assert_eq!(shelf.loose().map(Stack::len).sum::<u32>(), loose);
            }
            shelf.forget(&meta);
            proptest::prop_assert_eq!((shelf.iter().count(), shelf.loose().count()), (0, 0));
            // SAFETY: all blocks are back.
            unsafe { meta.release() };
        }
    }

    #[test]
    fn the_same_pointer_twice_in_a_row_is_refused() {
        let (mut shelf, meta) = (empty(), Meta::new(&Os));
        shelf.add(3, 5, rounded(1), core::ptr::null(), &meta).unwrap();
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
