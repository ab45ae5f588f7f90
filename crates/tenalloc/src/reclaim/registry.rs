//! Shrinkers that stand for themselves: caches of the program that are on no list_lru.
//!
//! One list for the controller, cheapest first. Nothing is kept for a group, so that registering costs the same with
//! one group and with a million. What is less than an object cannot be carried from pass to pass then; instead each
//! call rounds at another place (multiples of the golden ratio, which spread evenly over every regular choice of
//! calls), so that over time each group gives its exact share and the smallest is reached.
//!
//! Why two traits: a [`Shrinker`](super::Shrinker) is handed the list that it is bound to, whose length and carried
//! pressure the library knows; a [`Shrink`] must say how much it has, and is asked for groups of which it may have
//! nothing.

use super::shrinker::{ONE, Scanned, pressure};
use crate::controller::{Controller, Inner};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::sync::{Event, Lock, Rank};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Gives memory of the program's own caches back. Registered with [`Controller::add_shrinker`].
///
/// Both calls run in the thread that needs the memory, with no lock held; they may allocate and free. Calls for
/// several groups, nodes, and threads may run at once. A shrinker whose objects carry no node answers for node 0 only.
pub trait Shrink: Sync {
    /// Objects of `group` itself on `node` that a scan could look at; 0 if it has none. Asked of every group with
    /// anything charged: it should be quick.
    fn count(&self, group: &Group, node: u8) -> u64;

    /// Looks at up to `number` objects of `group` on `node` and frees what can be spared.
    fn scan(&self, group: &Group, node: u8, number: u64) -> Scanned;

    /// As [`Shrinker::seeks`](super::Shrinker::seeks). Asked once, when it is registered.
    fn seeks(&self) -> u32 {
        2
    }

    /// As [`Shrinker::batch`](super::Shrinker::batch).
    fn batch(&self) -> u64 {
        128
    }
}

/// Cheapest first, then oldest first.
type Key = (u32, u64);

struct Record {
    shrink: &'static dyn Shrink,
    key: Key,
    next: *mut Record,
    /// Calls under way; guarded by the registry's lock.
    running: u32,
    /// Off the list.
    gone: bool,
    /// Nobody waits for the calls under way: the last one frees the record.
    orphan: bool,
    /// Where the next call rounds.
    phase: AtomicU64,
}

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

struct State {
    first: *mut Record,
    last_id: u64,
}

// SAFETY: records are reached through the lock, or held by a call under way.
unsafe impl Send for State {}

/// All free-standing shrinkers of a controller.
pub(crate) struct Registry {
    state: Lock<State>,
    number: AtomicU32,
    /// Counts calls of shrinkers off the list that ended; removal waits on it.
    ended: Event,
}

impl Registry {
    pub(crate) fn new() -> Self {
        let state = Lock::new(Rank::Leaf, State { first: null_mut(), last_id: 0 });
        Self { state, number: AtomicU32::new(0), ended: Event::new() }
    }

    /// Whether there is any: one load.
    pub(super) fn is_empty(&self) -> bool {
        self.number.load(Relaxed) == 0
    }

    /// Its lock, for a fork.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn raw_lock(&self) -> &crate::sync::Raw {
        self.state.raw()
    }

    /// In the child of a fork: the calls that other threads were in will not end.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn reset_in_child(&self) {
        let s = self.state.lock();
        let mut at = s.first;
        // SAFETY: listed records are in place, and the lock is held.
        while let Some(record) = unsafe { at.as_mut() } {
            record.running = 0;
            at = record.next;
        }
    }

    fn add(&self, inner: &Inner, shrink: &'static dyn Shrink) -> Result<NonNull<Record>> {
        let seeks = shrink.seeks();
        let bytes = size_of::<Record>();
        let record = inner.meta.alloc(bytes).ok_or(Error::NoMemory { bytes })?.cast::<Record>();
        let mut s = self.state.lock();
        s.last_id += 1;
        let key = (seeks, s.last_id);
        let mut at: *mut *mut Record = &raw mut s.first;
        // SAFETY: listed records are in place, and the lock is held; the new block has the right size.
        unsafe {
            while (*at).as_ref().is_some_and(|r| r.key < key) {
                at = &raw mut (**at).next;
            }
            let phase = AtomicU64::new(0);
            record.write(Record { shrink, key, next: *at, running: 0, gone: false, orphan: false, phase });
            *at = record.as_ptr();
        }
        self.number.fetch_add(1, Relaxed);
        Ok(record)
    }

    /// Takes a record off the list and waits for its calls under way, unless the caller may be one of them.
    ///
    /// # Safety
    /// The record is on the list, and the caller's to remove.
    unsafe fn remove(&self, inner: &Inner, record: NonNull<Record>) {
        let r = record.as_ptr();
        let mut s = self.state.lock();
        let mut at: *mut *mut Record = &raw mut s.first;
        // SAFETY: listed records are in place, and the lock is held.
        unsafe {
            while !core::ptr::eq(*at, r) {
                at = &raw mut (**at).next;
            }
            *at = (*r).next;
            (*r).gone = true;
        }
        self.number.fetch_sub(1, Relaxed);
        loop {
            // SAFETY: the record goes below, or with its last call; the lock is held.
            if unsafe { (*r).running } == 0 {
                drop(s);
                // SAFETY: off the list, no call under way.
                return unsafe { Self::free(inner, record) };
            }
            if inner.reclaimers.inside() {
                // SAFETY: as above.
                unsafe { (*r).orphan = true };
                return;
            }
            let seen = self.ended.count();
            drop(s);
            self.ended.wait(seen, None);
            s = self.state.lock();
        }
    }

    /// # Safety
    /// Nobody uses the record any more.
    unsafe fn free(inner: &Inner, record: NonNull<Record>) {
        // SAFETY: made by `add` with this size.
        unsafe { inner.meta.free(record.cast(), size_of::<Record>()) };
    }

    /// The first shrinker after `after`, held against removal.
    pub(super) fn next<'a>(&'a self, inner: &'a Inner, after: Key) -> Option<Running<'a>> {
        let s = self.state.lock();
        let mut at = s.first;
        // SAFETY: listed records are in place, and the lock is held.
        unsafe {
            while let Some(record) = at.as_mut() {
                if record.key > after {
                    record.running += 1;
                    return Some(Running { inner, record: NonNull::from(record) });
                }
                at = record.next;
            }
        }
        None
    }
}

/// A shrinker that is being called.
pub(super) struct Running<'a> {
    inner: &'a Inner,
    record: NonNull<Record>,
}

impl Running<'_> {
    pub(super) fn key(&self) -> Key {
        // SAFETY: held by `running`, so in place; the key is fixed.
        unsafe { (*self.record.as_ptr()).key }
    }

    pub(super) fn shrink(&self) -> &'static dyn Shrink {
        // SAFETY: as in `key`.
        unsafe { (*self.record.as_ptr()).shrink }
    }

    /// How many of `number` objects to ask for at `priority`, when `share` (in 1/65,536) is above protection.
    pub(super) fn portion(&self, number: u64, priority: u32, share: u64) -> u64 {
        // SAFETY: in place, and atomic.
        let phase = unsafe { &(*self.record.as_ptr()).phase };
        let place = phase.fetch_add(GOLDEN, Relaxed) >> 48;
        (pressure(number, priority, self.key().0, share) + place) / ONE
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let registry = &self.inner.shrinkers;
        let r = self.record.as_ptr();
        let s = registry.state.lock();
        // SAFETY: held until here; the lock is held.
        let (last, orphan) = unsafe {
            (*r).running -= 1;
            ((*r).gone && (*r).running == 0, (*r).orphan)
        };
        drop(s);
        if last && orphan {
            // SAFETY: off the list, its last call, and nobody waits for it.
            unsafe { Registry::free(self.inner, self.record) };
        } else if last {
            registry.ended.bump();
        }
    }
}

/// A free-standing shrinker's place in its controller. Dropping it takes the shrinker away and waits until none of its
/// calls is under way; from inside a reclaim, where it could wait for itself, it does not wait. Forgotten
/// (`mem::forget`), the shrinker stays as long as the process.
#[must_use = "dropping it takes the shrinker away"]
pub struct Registration {
    ctl: Controller,
    record: NonNull<Record>,
}

// SAFETY: the record is touched under the registry's lock alone.
unsafe impl Send for Registration {}
// SAFETY: as above.
unsafe impl Sync for Registration {}

impl Controller {
    /// Registers a shrinker for a cache of the program that is on no [`ListLru`](crate::ListLru); such lists have
    /// [`ListLru::set_shrinker`](crate::ListLru::set_shrinker). Costs 80 bytes, and nothing per group.
    ///
    /// While one is registered, a reclaim looks at every group in its subtree that has anything charged, not only at
    /// those with lists.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: it is not registered then, and those that are stay so.
    pub fn add_shrinker(&self, shrink: &'static dyn Shrink) -> Result<Registration> {
        let record = self.inner().shrinkers.add(self.inner(), shrink)?;
        Ok(Registration { ctl: self.clone(), record })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let inner = self.ctl.inner();
        // SAFETY: on the list since `add`; only this takes it off.
        unsafe { inner.shrinkers.remove(inner, self.record) };
    }
}

impl core::fmt::Debug for Registration {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Registration").finish_non_exhaustive()
    }
}
