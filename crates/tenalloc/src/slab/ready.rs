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
//! object in use, so its owner's entry stays. A full stack refuses; it grows where what it refused was missed later, and one
//! that may not grow any more is exchanged at the node's `depot`, as a whole, when it is full and when it is empty. All that is
//! ready is a part of what is charged at most, and a stack that is not used goes.
//!
//! A stack whose owner went, or that somebody needs the charge of, is uncharged as a whole and *loose* from then on: its
//! objects go back to their cache a few at a time, whenever somebody comes along.
//!
//! (Per-CPU stacks that one sequence pops or pushes: P. Turner and A. Hunter for tcmalloc. That what is on them is
//! charged, and whose it is, is ours.)

pub(crate) mod depot;
mod gone;

use super::cache::Record;
use super::slab::Slab;
use crate::controller::{Area, Inner, Locked};
use crate::error::{Error, Result};
use crate::group::charge::over_high;
use crate::group::owner::NOBODY;
use crate::group::tree::Node;
use crate::percpu::{All, Bundle, SETS, Shelf, Slot, Stack, rounded};
use core::ptr::NonNull;
use core::sync::atomic::Ordering::*;

/// What the stacks of one CPU may hold at most, bytes of charge; and what those of all CPUs may in any case. In between it is
/// a part of all that is charged.
const ON_SHELF: u64 = 4 << 20;
const ALWAYS_ON_SHELF: u64 = 1 << 20;
/// How many times that all of them may come to if every stack were full.
const OVER: u64 = 3;
/// That part, for all CPUs together; as much again for all nodes' depots.
const SHARE: u64 = 32;
/// What is ready at most, bytes of charge for a CPU: its own, and, for there may be one CPU a node, a node's.
pub(crate) const MOST: u64 = ON_SHELF + depot::MOST;
/// Objects that a stack may hold at first, and at most; and what those are charged at most.
const FIRST: u32 = rounded(2);
const LARGEST: u32 = rounded(500);
const LARGEST_BYTES: u64 = 64 << 10;
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
/// Of those, taken from the stacks together; a divisor.
const AT_A_TIME: usize = 16;

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
        self.look_round(cpu, key);
        match cpu.shelf().find(set, key) {
            Some(stack) => {
                let note = &mut stack.note;
                if note.refused > 0 {
                    note.refused -= 1;
                    note.wanted = note.wanted.saturating_add(1);
                }
                let more = note.refill;
                note.refill = (2 * more + 1).min(REFILL);
                let more = u32::from(more).min(stack.limit());
                self.refill(cpu, record, key, more);
            }
            None => self.add_stack(cpu, record, set, key),
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
        let key = key(owner, id);
        let set = set_of(key);
        self.look_round(cpu, key);
        let Some(stack) = cpu.shelf().find(set, key) else {
            if !self.owners.get(owner).enter(cpu.cpu()) {
                return Ok(false);
            }
            self.add_stack(cpu, record, set, key);
            return Ok(cpu.shelf().find(set, key).is_some_and(|stack| stack.push(object.as_ptr())));
        };
        if stack.last() == Some(object.as_ptr()) {
            return Err(Error::DoubleFree { address: object.as_ptr() as usize });
        }
        if stack.len() == stack.limit() && !self.make_more_room(cpu, record, key) {
            self.let_go(cpu, record, key);
        }
        Ok(cpu.shelf().find(set, key).is_some_and(|stack| stack.push(object.as_ptr())))
    }

    /// Has the full stack of `key` hold more, or puts an empty one in its place. False: that is not worth it, or not allowed.
    fn make_more_room(&self, cpu: &mut Locked<'_>, record: &Record, key: u64) -> bool {
        let node = cpu.node();
        let Some(stack) = cpu.shelf().find(set_of(key), key) else { return false };
        if stack.note.wanted > 0 {
            stack.note.wanted -= 1;
        } else if !self.depots.was_missed(node, key) {
            return false;
        }
        self.may_keep(key) && (self.grow(cpu, record, key) || self.exchange_full(cpu, record, key))
    }

    /// Puts the lower half of a full stack away: if it overflows now it will again, and not at each push.
    fn let_go(&self, cpu: &mut Locked<'_>, record: &Record, key: u64) {
        let mut bytes = 0;
        let Some(stack) = cpu.shelf().find(set_of(key), key) else { return };
        let owner = owner_of(key);
        let half = stack.len().div_ceil(2);
        stack.note.refused = stack.note.refused.saturating_add(half as u8);
        for _ in 0..half {
            let Some(object) = cpu.shelf().find(set_of(key), key).and_then(Stack::pop) else { break };
            self.put_away(cpu, record, object);
            bytes += record.charge;
        }
        self.uncharge(cpu, owner, bytes);
    }

    /// Whether more may be kept ready for the owner of `key`, who is current: none of his groups is frozen or above its
    /// `high`, where what is free has to go back.
    fn may_keep(&self, key: u64) -> bool {
        // SAFETY: the CPU entered the owner, whose node is in place while its lock is held.
        let node = unsafe { &*self.owners.get(owner_of(key)).node.load(Acquire) };
        let frozen = core::iter::successors(Some(node), |node| node.parent()).any(Node::is_frozen);
        !frozen && over_high(node).is_none()
    }

    /// Has a full stack hold more. False: it may not.
    fn grow(&self, cpu: &mut Locked<'_>, record: &Record, key: u64) -> bool {
        let set = set_of(key);
        let Some(was) = cpu.shelf().find(set, key).map(|stack| stack.limit()) else { return false };
        let limit = rounded(was * 2);
        let more = u64::from(limit - was) * record.charge;
        let may = limit <= largest(record)
            && (self.may_hold(cpu, more)
                || cpu.shelf().vote(set, key) >= LEAD_OF_FULL && self.put_others_out(cpu, key, more));
        let grown = may && cpu.shelf().resize(set, key, limit, &self.meta);
        if grown {
            cpu.shelf().bytes += more;
        }
        grown
    }

    /// Leaves a full stack at the depot for an empty one.
    fn exchange_full(&self, cpu: &mut Locked<'_>, record: &Record, key: u64) -> bool {
        let (set, node) = (set_of(key), cpu.node());
        let Some((limit, of)) = cpu.shelf().find(set, key).map(|stack| (stack.limit(), stack.of)) else {
            return false;
        };
        let most = self.share(depot::ALWAYS, depot::MOST, self.topology.nodes().into());
        // Others are not put out for a few objects.
        if limit < WORTH_IT && !self.depots.have_room(node, u64::from(limit) * record.charge, most) {
            return false;
        }
        let Some(empty) = Bundle::create(limit, of, key, &self.meta) else { return false };
        let Some(full) = cpu.shelf().replace(set, key, empty) else { return false };
        let mut out = self.depots.deposit(node, full, most);
        while let Some(old) = out.take(|_| true) {
            let stack = old.stack();
            let (owner, bytes) = (owner_of(stack.key()), u64::from(stack.len()) * charge_of(stack));
            cpu.shelf().loose.push(old);
            self.uncharge(cpu, owner, bytes);
        }
        true
    }

    /// An object for `owner` out of a stack that the depot had, and that is on this CPU's shelf now.
    pub(super) fn alloc_from_depot(
        &self,
        cpu: &mut Locked<'_>,
        record: &Record,
        owner: u32,
    ) -> Option<NonNull<u8>> {
        if record.ready == NONE {
            return None;
        }
        let key = key(owner, record.ready | u32::from(cpu.node()));
        let set = set_of(key);
        let (len, limit) = cpu.shelf().find(set, key).map(|stack| (stack.len(), stack.limit()))?;
        if len == 0 {
            let full = self.depots.withdraw(cpu.node(), key, || {
                // What it holds then counts here: as much as a stack may, at worst.
                let more = u64::from(largest(record).saturating_sub(limit)) * record.charge;
                self.may_hold(cpu, more)
            })?;
            let shelf = cpu.shelf();
            if let Some(stack) = shelf.find(set, key) {
                stack.note.wanted = stack.note.wanted.saturating_add(1);
            }
            shelf.bytes += u64::from(full.stack().limit()) * record.charge;
            shelf.bytes -= u64::from(limit) * record.charge;
            shelf.replace(set, key, full)?.free(&self.meta);
        }
        cpu.shelf().find(set, key).and_then(Stack::pop).and_then(NonNull::new)
    }

    /// Whether the stacks of a CPU may hold `more` bytes.
    fn may_hold(&self, cpu: &mut Locked<'_>, more: u64) -> bool {
        let share = self.share(ALWAYS_ON_SHELF, ON_SHELF, self.topology.cpus().into());
        let shelf = cpu.shelf();
        shelf.held + more / 2 <= share && shelf.bytes + more <= OVER * share
    }

    /// As [`may_hold`](Self::may_hold), after others than that of `key` were given up, as their turn comes.
    fn put_others_out(&self, cpu: &mut Locked<'_>, key: u64, more: u64) -> bool {
        cpu.shelf().end_vote(set_of(key));
        for _ in 0..4 {
            if self.may_hold(cpu, more) {
                return true;
            }
            match cpu.shelf().turn() {
                Some(old) if old != key => self.give_up(cpu, old),
                _ => {}
            }
        }
        false
    }

    /// What one of `of` may hold ready, bytes.
    fn share(&self, least: u64, most: u64, of: u64) -> u64 {
        ((least + self.root_node().counter.current() / SHARE) / of).min(most)
    }

    /// Takes a stack off the CPU's shelf; what was charged ahead for it goes into the CPU's stock.
    fn give_up(&self, cpu: &mut Locked<'_>, key: u64) {
        if let Some(bytes) = loosen(cpu.shelf(), key) {
            self.uncharge(cpu, owner_of(key), bytes);
        }
    }

    /// Looks at the next stack on the CPU's shelf, but that of `mine`: one that was as long each of the last times was not used
    /// in between, most likely, and goes. So a group that fell idle keeps nothing for long where others are busy.
    fn look_round(&self, cpu: &mut Locked<'_>, mine: u64) {
        count(cpu.shelf(), mine);
        if let Some(stack) = cpu.shelf().find(set_of(mine), mine) {
            // A miss is a use, although it finds the stack as it was.
            stack.note.idle = 0;
        }
        let Some(key) = cpu.shelf().turn().filter(|key| *key != mine) else { return };
        let differs = count(cpu.shelf(), key);
        let Some(stack) = cpu.shelf().find(set_of(key), key) else { return };
        if differs {
            stack.note.idle = 0;
        } else if stack.note.idle < IDLE {
            stack.note.idle += 1;
        } else {
            self.give_up(cpu, key);
        }
    }

    /// Puts some objects of the CPU's loose stacks away.
    fn put_away_loose(&self, cpu: &mut Locked<'_>) {
        if cpu.shelf().loose.is_empty() {
            return;
        }
        let mut left = IN_PASSING;
        while left > 0 && !cpu.shelf().loose.is_empty() {
            // A few at a time: threads may have stacks of 16 KiB.
            let mut found = [None; AT_A_TIME];
            let mut at = found.iter_mut();
            let each = |of, object| at.next().into_iter().for_each(|place| *place = Some((of, object)));
            cpu.shelf().pick_up(AT_A_TIME, &self.meta, |_| true, each);
            for (of, object) in found.into_iter().map_while(|place| place) {
                // SAFETY: a cache takes its objects off all shelves before it goes, and this CPU's area is held.
                self.put_away(cpu, unsafe { &*of.cast() }, object);
            }
            left -= AT_A_TIME;
        }
    }

    /// Uncharges every stack for whose owner `wanted` holds, and leaves it loose; `back` is told whom to return what.
    pub(crate) fn uncharge_ready(
        &self,
        all: &mut All<'_, Area>,
        wanted: impl Fn(u32) -> bool,
        mut back: impl FnMut(u32, u64),
    ) {
        self.uncharge_stacks(all, |stack| wanted(owner_of(stack.key())), &mut back);
    }

    fn uncharge_stacks(
        &self,
        all: &mut All<'_, Area>,
        wanted: impl Fn(&Stack) -> bool,
        back: &mut impl FnMut(u32, u64),
    ) {
        for (.., shelf) in all.rows() {
            loop {
                let next = shelf.iter().find(|(_, stack)| wanted(stack)).map(|(key, _)| key);
                let Some(key) = next else { break };
                if let Some(bytes) = loosen(shelf, key) {
                    back(owner_of(key), bytes);
                }
            }
        }
        for node in 0..self.topology.nodes() {
            let mut out = self.depots.take(node, &wanted);
            let Some((.., shelf)) = all.rows().find(|row| row.1 == node) else {
                debug_assert!(out.is_empty(), "a depot is filled by CPUs of its node");
                continue;
            };
            while let Some(bundle) = out.take(|_| true) {
                let stack = bundle.stack();
                back(owner_of(stack.key()), u64::from(stack.len()) * charge_of(stack));
                shelf.loose.push(bundle);
            }
        }
    }

    /// Bytes charged ahead for ready objects of groups in `node` and below.
    pub(crate) fn ready_bytes(&self, all: &All<'_, Area>, node: &Node) -> u64 {
        let mut bytes = 0;
        let mut add = |stack: &Stack| {
            // SAFETY: the node of an owner with a stack is in place while an area is held.
            let of = unsafe { &*self.owners.get(owner_of(stack.key())).node.load(Acquire) };
            if of.is_within(node) {
                bytes += u64::from(stack.len()) * charge_of(stack);
            }
        };
        all.shelves().for_each(|shelf| shelf.iter().for_each(|(_, stack)| add(stack)));
        self.depots.look(add);
        bytes
    }

    /// Objects of `record` that are ready, or were.
    pub(super) fn ready_objects(&self, all: &All<'_, Area>, record: &Record) -> u64 {
        let mut objects = 0;
        let mut add = |stack: &Stack| {
            if is_of(stack, record) {
                objects += u64::from(stack.len());
            }
        };
        for shelf in all.shelves() {
            shelf.iter().for_each(|(_, stack)| add(stack));
            shelf.loose.iter().for_each(&mut add);
        }
        self.depots.look(add);
        objects
    }

    /// Takes all objects of `record` that are ready, or were; `back` is told whom to return what, `each` has them with
    /// their node.
    pub(super) fn take_ready(
        &self,
        all: &mut All<'_, Area>,
        record: &Record,
        mut back: impl FnMut(u32, u64),
        mut each: impl FnMut(u8, *mut u8),
    ) {
        self.uncharge_stacks(all, |stack| is_of(stack, record), &mut back);
        let of = core::ptr::from_ref(record).cast::<()>();
        for (_, node, _, shelf) in all.rows() {
            shelf.pick_up(
                usize::MAX,
                &self.meta,
                |what| core::ptr::eq(what, of),
                |_, object| {
                    self.disown(record, object);
                    each(node, object);
                },
            );
        }
    }

    /// An object that was ready is nobody's again.
    pub(super) fn disown(&self, record: &Record, object: *mut u8) {
        // SAFETY: ready objects are out of their slabs, which are in place.
        let slab = unsafe { self.chunks.run_of(object as usize).as_ref() };
        slab.owners.clear(record.index_of(object as usize - slab.base() as usize));
    }
}

fn is_of(stack: &Stack, record: &Record) -> bool {
    core::ptr::eq(stack.of, core::ptr::from_ref(record).cast())
}

/// What an object of a stack is charged.
fn charge_of(stack: &Stack) -> u64 {
    // SAFETY: a cache takes its stacks back before it goes, and whoever sees one holds an area, or all.
    unsafe { &*stack.of.cast::<Record>() }.charge
}

/// Objects of `record` that a stack may hold.
fn largest(record: &Record) -> u32 {
    let mut limit = LARGEST;
    while limit > FIRST && u64::from(limit) * record.charge > LARGEST_BYTES {
        limit = rounded(limit / 4);
    }
    limit
}

/// Takes note of how long the stack of `key` is now. Whether that is another length than last time.
fn count(shelf: &mut Shelf, key: u64) -> bool {
    let Some(stack) = shelf.find(set_of(key), key) else { return false };
    let len = stack.len();
    let counted = core::mem::replace(&mut stack.note.counted, len);
    let charge = charge_of(stack);
    shelf.held = shelf.held + u64::from(len) * charge - u64::from(counted) * charge;
    len != counted
}

/// Takes the stack of `key` off its place; what its objects are charged.
fn loosen(shelf: &mut Shelf, key: u64) -> Option<u64> {
    let stack = shelf.loosen(set_of(key), key)?;
    let charge = charge_of(stack);
    let (len, limit) = (u64::from(stack.len()), u64::from(stack.limit()));
    let counted = u64::from(stack.note.counted);
    shelf.bytes -= limit * charge;
    shelf.held -= counted * charge;
    Some(len * charge)
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
