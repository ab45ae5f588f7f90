//! Ready objects: free ones that have their owner and are charged to it already, a stack of them for each owner and cache
//! that a CPU serves often. An allocation pops, a free pushes; nothing else is looked at or written, and nothing locked.
//!
//! ```text
//!   key = owner | cache and node ──► stack on this CPU's shelf ──► object
//!                 │ misses, one of several in a row
//!                 └─► the long way, and some more for next time: 0, 1, 3, … 31 at once
//! ```
//!
//! To the tree a ready object is what a stock is: bytes charged ahead, which exact figures leave out. To its slab it is an
//! object in use, so its owner's entry stays. What is kept this way is bounded on each CPU ([`MOST`]), and a stack grows
//! only while it overflows.
//!
//! A stack whose owner went, or that somebody needs the charge of, is uncharged as a whole and *loose* from then on: its
//! objects go back to their cache a few at a time, whenever somebody comes along.
//!
//! (Per-CPU stacks that one sequence pops or pushes: P. Turner and A. Hunter for tcmalloc. That what is on them is
//! charged, and whose it is, is ours.)

use super::cache::Record;
use super::slab::Slab;
use crate::controller::{Inner, Locked};
use crate::error::{Error, Result};
use crate::group::owner::NOBODY;
use crate::group::tree::Node;
use crate::percpu::{SETS, Shelf, Slot, Stack, rounded};
use core::ptr::NonNull;
use core::sync::atomic::Ordering::*;

/// What the stacks of one CPU may hold, bytes of charge.
pub(crate) const MOST: u64 = 4 << 20;
/// Objects that a stack may hold at first, and at most.
const FIRST: u32 = rounded(1);
const LARGEST: u32 = rounded(2000);
/// Objects that a miss brings along at most.
const REFILL: u32 = 31;
/// By how many a key must lead in the vote of its set to get a free place there, or one that is taken.
const LEAD: u16 = 2;
const LEAD_OF_FULL: u16 = 8;
/// Objects of loose stacks put away in passing.
const IN_PASSING: usize = 32;

/// Bits of a ready id for the node, the low ones.
const NODE_BITS: u32 = 6;
/// In place of an id: there is none, and nothing is ready under this. (Not 0: a key is never 0.)
pub(crate) const NONE: u32 = 1 << 30;
/// With the id of a slab: its chunk is being emptied.
const OFFLINE: u32 = 1 << 31;
/// Spreads the caches of one owner over the shelf.
const STRIDE: u64 = 37;

/// The id of the `number`th cache, counted from 1: the low part of its keys. [`NONE`] where there are no more.
pub(crate) fn id(number: u64) -> u32 {
    const IDS: u64 = 1 << (30 - NODE_BITS);
    if number < IDS { ((number * STRIDE % IDS) << NODE_BITS) as u32 } else { NONE }
}

/// Where `owner`'s objects of a cache are. Only the low part of the key, which is the cache's id and the node, is left out.
#[inline(always)]
fn slot(owner: u32, id: u32) -> Slot {
    Slot { set: set(owner, id), key: u64::from(owner) << 32 }
}

#[inline(always)]
fn set(owner: u32, id: u32) -> usize {
    owner.wrapping_add(id >> NODE_BITS) as usize & (SETS - 1)
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

/// # Safety
/// The area of the stack's shelf is held.
unsafe fn record_of<'a>(stack: &Stack) -> &'a Record {
    // SAFETY: a cache takes its stacks off all shelves before it goes.
    unsafe { &*stack.of.cast() }
}

impl Inner {
    /// A ready object of the cache with this `id` for `owner`. There is none under [`NONE`] or for owner 0.
    #[inline(always)]
    pub(crate) fn alloc_ready(&self, id: u32, owner: u32) -> Option<NonNull<u8>> {
        let Slot { set, key } = slot(owner, id);
        let slot = Slot { set, key: key | u64::from(id) };
        self.areas.pop(slot, || self.topology.here(&self.pretended_cpu))
    }

    /// Makes an object of `expected`, or of any cache, ready for its owner's next. False: nothing was done.
    #[inline(always)]
    pub(crate) fn free_ready(&self, object: NonNull<u8>, expected: Option<&Record>) -> bool {
        let address = object.as_ptr() as usize;
        let Some(slab) = self.chunks.find_small(address) else { return false };
        // SAFETY: `find_small` found a run in use; it stays while the object is live.
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
        let Some(owner) = s.owners.peek(index) else { return false };
        self.areas.push(slot(owner, id), &s.ready, object, || self.topology.here(&self.pretended_cpu))
    }

    /// After an object of `record` was charged to `owner`, who is current, the long way: has some ready for next time, if
    /// there were enough of those.
    pub(super) fn make_ready(&self, cpu: &mut Locked<'_>, record: &Record, owner: u32) {
        if record.ready == NONE || owner == NOBODY || self.config.exact_charges || cpu.waited {
            return;
        }
        self.put_away_loose(cpu);
        let key = key(owner, record.ready | u32::from(cpu.node()));
        let set = set_of(key);
        match cpu.shelf().find(set, key) {
            Some(stack) => {
                let wanted = stack.note.min(stack.limit());
                stack.note = (2 * wanted + 1).min(REFILL);
                self.refill(cpu, record, key, wanted);
            }
            None => self.add_stack(cpu, record, set, key),
        }
    }

    #[cold]
    fn add_stack(&self, cpu: &mut Locked<'_>, record: &Record, set: usize, key: u64) {
        let lead = cpu.shelf().vote(set, key);
        let has_room = cpu.shelf().has_room(set);
        if lead < if has_room { LEAD } else { LEAD_OF_FULL } {
            return;
        }
        cpu.shelf().end_vote(set);
        if !has_room {
            let Some(old) = cpu.shelf().one_of(set) else { return };
            self.give_up(cpu, old);
        }
        let bytes = u64::from(FIRST) * record.charge;
        if self.may_hold(cpu, key, bytes)
            && cpu.shelf().add(set, key, FIRST, core::ptr::from_ref(record).cast(), &self.meta).is_some()
        {
            cpu.shelf().bytes += bytes;
        }
    }

    /// Fills the stack of `key` with up to `wanted` objects that are at hand.
    fn refill(&self, cpu: &mut Locked<'_>, record: &Record, key: u64, wanted: u32) {
        let owner = owner_of(key);
        if wanted == 0 || !self.charge_ahead(cpu, owner, u64::from(wanted) * record.charge) {
            return;
        }
        let mut got = 0;
        while got < wanted {
            let Some(object) = self.at_hand(cpu, record) else { break };
            // SAFETY: objects in sheaves are out of their slabs, which are in place.
            let slab = unsafe { self.chunks.run_of(object as usize) };
            // SAFETY: as above.
            let s = unsafe { slab.as_ref() };
            let index = record.index_of(object as usize - s.base() as usize);
            let owned = s.owners.set(index, owner, false, &self.vectors(s));
            if !owned || !cpu.shelf().find(set_of(key), key).is_some_and(|stack| stack.push(object)) {
                s.owners.clear(index);
                record.put_back(self, slab, object);
                break;
            }
            got += 1;
        }
        self.uncharge(cpu, owner, u64::from(wanted - got) * record.charge);
    }

    /// Has a full stack hold more, if it may; then the object, which was its owner's, is on it. `Err`: it is there already.
    pub(super) fn free_with_growth(
        &self,
        cpu: &mut Locked<'_>,
        record: &Record,
        slab: &Slab,
        index: usize,
        object: NonNull<u8>,
    ) -> Result<bool> {
        let id = slab.ready.load(Relaxed);
        if !may_be_ready(id) || slab.node != cpu.node() || cpu.waited {
            return Ok(false);
        }
        let Some(owner) = slab.owners.get(index) else { return Ok(false) };
        let key = key(owner, id);
        let set = set_of(key);
        let Some(stack) = cpu.shelf().find(set, key) else { return Ok(false) };
        if stack.last() == Some(object.as_ptr()) {
            return Err(Error::DoubleFree { address: object.as_ptr() as usize });
        }
        if stack.push(object.as_ptr()) {
            return Ok(true); // somebody had the area
        }
        let (was, limit) = (stack.limit(), rounded(stack.limit() * 2).min(LARGEST));
        let more = u64::from(limit - was) * record.charge;
        if limit == was || cpu.shelf().vote(set, key) < LEAD || !self.may_hold(cpu, key, more) {
            return Ok(false);
        }
        let shelf = cpu.shelf();
        shelf.end_vote(set);
        if !shelf.resize(set, key, limit, &self.meta) {
            return Ok(false);
        }
        shelf.bytes += more;
        Ok(shelf.find(set, key).is_some_and(|stack| stack.push(object.as_ptr())))
    }

    /// Whether the stacks of a CPU may hold `more` bytes, after others than that of `key` were given up for it.
    fn may_hold(&self, cpu: &mut Locked<'_>, key: u64, more: u64) -> bool {
        for _ in 0..4 {
            if cpu.shelf().bytes + more <= MOST {
                return true;
            }
            match cpu.shelf().turn() {
                Some(old) if old != key => self.give_up(cpu, old),
                _ => {}
            }
        }
        false
    }

    /// Takes a stack off the CPU's shelf; what was charged ahead for it goes into the CPU's stock.
    fn give_up(&self, cpu: &mut Locked<'_>, key: u64) {
        if let Some(bytes) = loosen(cpu.shelf(), key) {
            self.uncharge(cpu, owner_of(key), bytes);
        }
    }

    /// Puts some objects of the CPU's loose stacks away.
    fn put_away_loose(&self, cpu: &mut Locked<'_>) {
        if cpu.shelf().loose().next().is_none() {
            return;
        }
        let mut found = [None; IN_PASSING];
        let mut at = found.iter_mut();
        cpu.shelf().pick_up(
            IN_PASSING,
            &self.meta,
            |_| true,
            |of, object| {
                at.next().into_iter().for_each(|place| *place = Some((of, object)));
            },
        );
        for (of, object) in found.into_iter().flatten() {
            // SAFETY: a cache takes its objects off all shelves before it goes, and this CPU's area is held.
            self.put_away(cpu, unsafe { &*of.cast() }, object);
        }
    }

    /// Uncharges every stack whose owner is in `node` or below, and leaves it loose. All areas are held.
    pub(crate) fn uncharge_ready(
        &self,
        shelf: &mut Shelf,
        mut wanted: impl FnMut(u32) -> bool,
        mut back: impl FnMut(u32, u64),
    ) {
        loop {
            let next = shelf.iter().map(|(key, _)| key).find(|key| wanted(owner_of(*key)));
            let Some(key) = next else { break };
            if let Some(bytes) = loosen(shelf, key) {
                back(owner_of(key), bytes);
            }
        }
    }

    /// Bytes charged ahead for ready objects of groups in `node` and below. All areas are held.
    pub(crate) fn ready_bytes(&self, shelf: &Shelf, node: Option<&Node>) -> u64 {
        // SAFETY: the node of an owner with a stack is in place while an area is held.
        let node_of = |key| unsafe { &*self.owners.get(owner_of(key)).node.load(Acquire) };
        let counts = |key| node.is_none_or(|node| node_of(key).is_within(node));
        // SAFETY: the shelf's area is held.
        let bytes = |stack: &Stack| u64::from(stack.len()) * unsafe { record_of(stack) }.charge;
        shelf.iter().filter(|(key, _)| counts(*key)).map(|(_, stack)| bytes(stack)).sum()
    }

    /// Takes all objects of `record` off a shelf; `back` is told what to uncharge. All areas are held.
    pub(super) fn take_ready(
        &self,
        shelf: &mut Shelf,
        record: &Record,
        mut back: impl FnMut(u32, u64),
        mut each: impl FnMut(*mut u8),
    ) {
        let of = core::ptr::from_ref(record).cast::<()>();
        loop {
            let next = shelf.iter().find(|(_, stack)| core::ptr::eq(stack.of, of)).map(|(key, _)| key);
            let Some(key) = next else { break };
            if let Some(bytes) = loosen(shelf, key) {
                back(owner_of(key), bytes);
            }
        }
        shelf.pick_up(
            usize::MAX,
            &self.meta,
            |what| core::ptr::eq(what, of),
            |_, object| {
                self.disown(record, object);
                each(object);
            },
        );
    }

    /// An object that was ready is nobody's again.
    pub(super) fn disown(&self, record: &Record, object: *mut u8) {
        // SAFETY: ready objects are out of their slabs, which are in place.
        let slab = unsafe { self.chunks.run_of(object as usize).as_ref() };
        slab.owners.clear(record.index_of(object as usize - slab.base() as usize));
    }
}

/// Objects of `record` on a shelf.
pub(super) fn on_shelf(shelf: &Shelf, record: &Record) -> u64 {
    let of = core::ptr::from_ref(record).cast::<()>();
    let stacks = shelf.iter().map(|(_, stack)| stack).chain(shelf.loose());
    stacks.filter(|stack| core::ptr::eq(stack.of, of)).map(|stack| u64::from(stack.len())).sum()
}

/// Takes the stack of `key` off its place; what its objects are charged.
fn loosen(shelf: &mut Shelf, key: u64) -> Option<u64> {
    let stack = shelf.loosen(set_of(key), key)?;
    // SAFETY: the caller holds the shelf's area, since he has a mutable reference.
    let record = unsafe { record_of(stack) };
    let (len, limit) = (u64::from(stack.len()), u64::from(stack.limit()));
    shelf.bytes -= limit * record.charge;
    Some(len * record.charge)
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
            self.ready.fetch_xor(NONE | record.ready | u32::from(self.node), Relaxed);
        }
    }
}
