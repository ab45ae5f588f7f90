//! Ready objects: free ones that have their owner and are charged to it already, a stack of them for each owner and cache
//! that a CPU serves often. An allocation pops, a free pushes; nothing else is looked at or written, and nothing locked.
//!
//! ```text
//!   key = owner | cache ──► stack on this CPU's shelf ──► object
//!                 │ misses, one of several in a row
//!                 └─► the long way, and some more for next time: 0, 1, 3, … 31 at once
//! ```
//!
//! To the tree a ready object is what a stock is: bytes charged ahead, which exact figures leave out. To its slab it is an
//! object in use, so its owner's entry stays. A full stack lets half of what it has go; it grows where that was missed later,
//! and one that may not grow any more is exchanged at the node's `depot`, as a whole, when it is full and when it is empty.
//! All that is ready is a part of what is charged (`room`), and a stack that is not used goes.
//!
//! A stack whose owner went, or that somebody needs the charge of, is uncharged as a whole and *loose* from then on: its
//! objects go back to their slabs a few at a time, whenever somebody comes along. How they come and go is in `runs`.
//!
//! (Per-CPU stacks that one sequence pops or pushes: P. Turner and A. Hunter for tcmalloc. That what is on them is
//! charged, and whose it is, is ours.)

mod back;
pub(crate) mod depot;
mod room;
mod runs;

use super::cache::Record;
use super::slab::Slab;
use crate::controller::{Inner, Locked};
use crate::error::{Error, Result};
use crate::group::owner::NOBODY;
use crate::page::MAX_NODES;
use crate::percpu::{NODE_AT, Seen, Slot, rounded};
use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::*;

/// What the stacks of one CPU may hold at most, bytes of charge; and what those of all CPUs may in any case. In between it is
/// a part of all that is charged.
const ON_SHELF: u64 = 4 << 20;
const ALWAYS_ON_SHELF: u64 = 1 << 20;
/// How many times that they may come to if every stack were full, which is not seen before the next miss.
const OVER: u64 = 2;
/// That part, for all CPUs together; as much again for all nodes' depots.
const SHARE: u64 = 32;
/// What is ready at most, bytes of charge for a CPU: its own, and, for there may be one CPU a node, a node's.
pub(crate) const MOST: u64 = ON_SHELF + depot::MOST;
/// Objects that a stack may hold at first, and at most; and what those are charged at most.
const FIRST: u32 = rounded(2);
const LARGEST: u32 = rounded(500);
const LARGEST_BYTES: u64 = 128 << 10;
/// From how many objects on a full stack takes the place of another at the depot.
const WORTH_IT: u32 = rounded(50);
/// Objects that a miss brings along at most.
const REFILL: u8 = 31;
/// By how many a key must lead in the vote of its set to get what is free, and what others have.
const LEAD: u16 = 2;
const LEAD_OF_FULL: u16 = 32;
/// Looks at a stack that was as long as before, after which it goes.
const IDLE: u8 = 1;
/// Objects of loose stacks put away in passing: as many as one stack has that made way.
const IN_PASSING: usize = 256;
/// Put away together; a divisor.
const AT_A_TIME: usize = 32;

/// A ready id has the cache's number from this bit on, below that of [`NODE_AT`]: so far up that no shift is left to be
/// done where a set is looked for. In a slab it has the node above, which must be that of the CPU on whose shelf the slab's
/// objects are.
const NUMBER_AT: u32 = 3;
/// In place of an id: there is none, and nothing is ready under this. (Not 0: a key is never 0.)
pub(crate) const NONE: u32 = 1 << 30;
/// With the id of a slab: its chunk is being emptied.
const OFFLINE: u32 = 1 << 31;
const _: () = assert!((MAX_NODES as u32) << NODE_AT <= NONE);
/// Spreads the caches of one owner over the shelf.
const STRIDE: u64 = 37;

/// The id of the `number`th cache, counted from 1: the low part of its keys. [`NONE`] where there are no more.
pub(crate) fn id(number: u64) -> u32 {
    const IDS: u64 = 1 << (NODE_AT - NUMBER_AT);
    if number < IDS { ((number * STRIDE % IDS) << NUMBER_AT) as u32 } else { NONE }
}

/// Where `owner`'s objects of a cache are. Only the low half of the key, which is the cache's id, is left out.
#[inline(always)]
fn slot(owner: u32, id: u32) -> Slot {
    const { assert!(1 << NUMBER_AT == Slot::STEP) };
    Slot::in_steps((owner << NUMBER_AT).wrapping_add(id), u64::from(owner) << 32)
}

fn set(owner: u32, id: u32) -> usize {
    slot(owner, id).set()
}

/// Whether an id is one, and not crossed out.
#[inline(always)]
fn may_be_ready(id: u32) -> bool {
    id < NONE
}

fn key(owner: u32, id: u32) -> u64 {
    u64::from(owner) << 32 | u64::from(id)
}

fn owner_of(key: u64) -> u32 {
    (key >> 32) as u32
}

fn set_of(key: u64) -> usize {
    set(owner_of(key), key as u32)
}

impl Inner {
    /// A ready object of the cache with this `id` for `owner`. There is none under [`NONE`] or for owner 0.
    #[inline(always)]
    pub(crate) fn alloc_ready(&self, id: u32, owner: u32) -> Option<NonNull<u8>> {
        self.areas.pop(slot(owner, id).with_low(id), || self.topology.here(&self.pretended_cpu))
    }

    /// Makes an object of `expected`, or of any cache, ready for its owner's next. False: nothing was done.
    #[inline(always)]
    pub(crate) fn free_ready(&self, object: NonNull<u8>, expected: Option<&Record>) -> bool {
        let address = object.as_ptr() as usize;
        let Some(slab) = self.chunks.find_small(address) else { return false };
        // SAFETY: a descriptor, of a run in use, which stays while the object is live, or of no cache and no run.
        let s = unsafe { slab.as_ref() };
        let id = s.ready.load(Relaxed);
        let record = match expected {
            Some(record) if core::ptr::eq(record, s.cache) => record,
            // SAFETY: a slab with an id has a cache, which outlives it.
            None if may_be_ready(id) => unsafe { &*s.cache },
            _ => return false,
        };
        let (index, begins) = record.place_of(address - s.base() as usize);
        if !begins {
            return false;
        }
        // Of a cache with an id all the slab's memory is objects, but for less than one.
        let owner = s.owners.peek(index);
        // SAFETY: `ready` lies there, in a descriptor that stays.
        unsafe {
            let here = || self.topology.here(&self.pretended_cpu);
            self.areas.push::<{ offset_of!(Slab, ready) }>(slot(owner, id), slab.cast(), object, here)
        }
    }

    /// Whether there is an object, and not known to be free, of the cache with this `id`, if ids are given to that.
    #[inline(always)]
    pub(super) fn is_under(&self, object: NonNull<u8>, id: u32) -> bool {
        const NODES: u32 = (MAX_NODES as u32 - 1) << NODE_AT;
        let address = object.as_ptr() as usize;
        let Some(slab) = self.chunks.find_small(address) else { return false };
        // SAFETY: as in `free_ready`.
        let s = unsafe { slab.as_ref() };
        if !may_be_ready(id) || s.ready.load(Relaxed) & !NODES != id {
            return false;
        }
        // SAFETY: a slab with an id has a cache, which outlives it.
        let (index, begins) = unsafe { &*s.cache }.place_of(address - s.base() as usize);
        begins && s.owners.peek(index) != 0
    }

    /// Whether objects of `record` may be made ready for `owner`.
    fn makes_ready(&self, cpu: &Locked<'_>, record: &Record, owner: u32) -> bool {
        record.ready != NONE && owner != NOBODY && !self.config.exact_charges && !cpu.waited
    }

    /// After an object of `record` was charged to `owner`, who is current, the long way: has some ready from now on, if there
    /// were enough of those.
    pub(super) fn make_ready(&self, cpu: &mut Locked<'_>, record: &Record, owner: u32) {
        if !self.makes_ready(cpu, record, owner) {
            return;
        }
        let key = key(owner, record.ready);
        let set = set_of(key);
        if cpu.shelf().find(set, key).is_none() {
            self.look_round(cpu, key);
            self.add_stack(cpu, record, set, key);
        }
    }

    /// Gives `key` a stack, if it misses often, and its owner may grow.
    #[cold]
    fn add_stack(&self, cpu: &mut Locked<'_>, record: &Record, set: usize, key: u64) {
        if !self.may_keep(key) {
            return;
        }
        let bytes = u64::from(FIRST) * record.charge;
        let has_room = cpu.shelf().has_room(set);
        let lead = if has_room && self.may_hold(cpu, bytes) { LEAD } else { LEAD_OF_FULL };
        if cpu.shelf().vote(set, key) < lead {
            return;
        }
        cpu.shelf().end_vote(set);
        if !self.owners.note(owner_of(key), record.number) {
            return;
        }
        if !has_room {
            let Some(old) = cpu.shelf().one_of(set) else { return };
            self.give_up(cpu, old);
        }
        if self.put_others_out(cpu, key, bytes)
            && cpu.shelf().add(set, key, FIRST, core::ptr::from_ref(record).cast(), &self.meta).is_some()
        {
            cpu.shelf().bytes += bytes;
        }
    }

    /// Makes an object ready that found no room, if room can be made: it is its owner's already. `Err`: it is ready.
    pub(super) fn free_with_room(
        &self,
        cpu: &mut Locked<'_>,
        record: &Record,
        slab: &Slab,
        index: usize,
        object: NonNull<u8>,
    ) -> Result<bool> {
        let id = slab.ready.load(Relaxed);
        if !may_be_ready(id) || slab.node != cpu.node() || cpu.waited || self.config.exact_charges {
            return Ok(false);
        }
        let Some(owner) = slab.owners.get(index).filter(|owner| *owner != NOBODY) else { return Ok(false) };
        self.put_away_loose(cpu);
        let key = key(owner, record.ready);
        let set = set_of(key);
        self.look_round(cpu, key);
        let Some(stack) = cpu.shelf().find(set, key) else {
            if !self.owners.get(owner).enter(cpu.cpu()) {
                return Ok(false);
            }
            self.add_stack(cpu, record, set, key);
            return Ok(cpu.shelf().find(set, key).is_some_and(|mut stack| stack.push(object.as_ptr())));
        };
        if stack.last() == Some(object.as_ptr()) {
            return Err(Error::DoubleFree { address: object.as_ptr() as usize });
        }
        if stack.len() == stack.limit() && !self.make_more_room(cpu, record, key) {
            self.let_go(cpu, record, key);
        }
        Ok(cpu.shelf().find(set, key).is_some_and(|mut stack| stack.push(object.as_ptr())))
    }
}

/// What an object is charged of a stack that is `of` a record.
fn charge_of(of: *const ()) -> u64 {
    // SAFETY: a cache takes its stacks back before it goes, and whoever sees one holds an area, or all.
    unsafe { &*of.cast::<Record>() }.charge
}

/// What the objects of a stack are charged.
fn bytes_of(stack: Seen) -> u64 {
    u64::from(stack.len()) * charge_of(stack.of)
}

impl Slab {
    /// Says whether its objects may be handed out again.
    pub(crate) fn set_offline(&self, on: bool) {
        self.offline.store(on, Release);
        if on {
            self.ready.fetch_or(OFFLINE, Relaxed)
        } else {
            self.ready.fetch_and(!OFFLINE, Relaxed)
        };
    }

    /// It is a new slab of `record`.
    pub(super) fn allow_ready(&self, record: &Record) {
        if record.ready != NONE {
            self.ready.fetch_xor(NONE | record.ready | u32::from(self.node) << NODE_AT, Relaxed);
        }
    }
}
