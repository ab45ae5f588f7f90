//! Owners: the small handles between objects and their group (`obj_cgroup`).
//!
//! Objects name their owner by a 32-bit id. While its group lives, an owner leads to the group's node. When
//! the group is removed the owner is *forwarded* to the parent's owner: one store, whatever the number of
//! objects or of owners forwarded to this one before. A chain of forwards is shortened when it is walked
//! (union-find, path compression: Tarjan 1975), so it stays near one step. Linux instead splices a list and
//! rewrites every inherited handle.
//!
//! `charged` counts the bytes that went into the tree through an owner. A forwarded owner keeps no stock, so
//! when its `charged` falls to zero its last object is gone, and so is it.

#[cfg(feature = "loom")]
mod loomed;
mod record;

use self::record::FORWARDED;
pub(crate) use self::record::{Entered, Record, Used};
use super::tree::Node;
use crate::error::{Error, Result};
use crate::meta::Meta;
use crate::sync::atomic::AtomicU32;
use crate::sync::{Guard, Lock, Rank};
#[cfg(not(feature = "loom"))]
use crate::table::Table;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::*;
#[cfg(feature = "loom")]
use loomed::Table;

/// "This object is live and owned by no group." (0 in an owner vector: the object is free.)
pub(crate) const NOBODY: u32 = 1;
const FIRST: u32 = 2;

/// Behind a lock of the caller's, since only who makes and removes groups needs them.
pub(crate) struct Ids {
    /// To be given out.
    free: u32,
    /// How many owners were ever forwarded.
    forwarded: u32,
}

impl Ids {
    pub(crate) const fn new() -> Self {
        Self { free: 0, forwarded: 0 }
    }
}

pub(crate) struct Owners {
    table: Table<Record>,
    /// How many forwarded owners are gone; guards what forwards lead to, but for the first step of each.
    state: Lock<u32>,
    /// Free records, as a stack that is only ever taken whole.
    freed: AtomicU32,
    /// The first id that was never used. Changed with the [`Ids`].
    high: AtomicU32,
    /// The highest number of a cache that there were ready objects of.
    caches: AtomicU32,
}

impl Owners {
    pub(crate) fn new() -> Self {
        let (freed, high, caches) = (AtomicU32::new(0), AtomicU32::new(FIRST), AtomicU32::new(0));
        Self { table: Table::new(), state: Lock::new(Rank::Owners, 0), freed, high, caches }
    }

    /// Its lock, for a fork.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn raw_lock(&self) -> &crate::sync::Raw {
        self.state.raw()
    }

    /// The record of an id that is in use.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> &Record {
        let record = self.table.get(id).expect("an owner id in use has a record");
        // SAFETY: records are never unmapped before the controller goes; all fields are atomic.
        unsafe { record.as_ref() }
    }

    /// A new owner for `node`, which holds it.
    pub(crate) fn create(&self, ids: &mut Ids, node: NonNull<Node>, meta: &Meta) -> Result<u32> {
        if ids.free == 0 && self.freed.load(Relaxed) != 0 {
            ids.free = self.freed.swap(0, Acquire);
        }
        let high = self.high.load(Relaxed);
        let id = if ids.free == 0 { high } else { ids.free };
        if id >= FORWARDED {
            return Err(Error::Full { table: "owners" });
        }
        let record = self.table.grow(id, meta, "owners")?;
        // SAFETY: as in `get`.
        let r = unsafe { record.as_ref() };
        if ids.free == 0 {
            self.high.store(high + 1, Relaxed);
        } else {
            ids.free = r.refs.load(Relaxed);
        }
        r.node.store(node.as_ptr(), Relaxed);
        r.refs.store(1, Relaxed);
        r.state.store(0, Release);
        // Last: who has the id from an entry that he read too late looks at this first.
        r.charged.store(0, Release);
        Ok(id)
    }

    /// From now on `to`, which is current and stays that meanwhile, speaks for `id`. The caller then drains `id` where it
    /// was entered. Without the lock: nobody goes this step before it is there, `to` is counted on before, and both stay since
    /// their nodes hold them.
    #[inline]
    pub(crate) fn forward(&self, ids: &mut Ids, id: u32, to: u32) -> Used {
        ids.forwarded = ids.forwarded.wrapping_add(1);
        self.get(to).refs.fetch_add(1, Relaxed);
        let state = self.get(id).state.swap(FORWARDED | to, AcqRel);
        Used::new(state, self.caches.load(Relaxed))
    }

    /// As [`Record::note`], for the owner `id`.
    pub(crate) fn note(&self, id: u32, number: u64) -> bool {
        let number = number as u32; // those of caches with ready objects have 24 bits
        // Before it is noted: who reads the note reads this, too.
        if self.caches.load(Relaxed) < number {
            self.caches.fetch_max(number, Relaxed);
        }
        self.get(id).note(number)
    }

    /// The owner that now speaks for `id`. An id is current until a forward is seen; seeing it late is
    /// harmless while the caller holds its CPU's lock (see [`super`]).
    #[inline]
    pub(crate) fn resolve(&self, id: u32) -> u32 {
        if self.get(id).is_forwarded() { self.resolve_locked(&mut self.state.lock(), id) } else { id }
    }

    /// As [`resolve`](Self::resolve), and `cpu`, whose lock the caller holds, has entered that owner: its node is in place.
    #[inline]
    pub(crate) fn enter(&self, mut id: u32, cpu: u16) -> u32 {
        while !self.get(id).enter(cpu) {
            id = self.resolve(id);
        }
        id
    }

    fn resolve_locked(&self, s: &mut Guard<'_, u32>, id: u32) -> u32 {
        let mut end = id;
        loop {
            match self.get(end).forward() {
                0 => break,
                next => end = next,
            }
        }
        // Shorten: everyone on the way now points at the end.
        let mut at = id;
        while at != end {
            let record = self.get(at);
            let next = record.forward();
            if next != end {
                record.set_forward(end);
                self.get(end).refs.fetch_add(1, Relaxed);
                self.get(next).refs.fetch_sub(1, Relaxed);
                self.free_if_done(s, next);
            }
            at = if next == end { end } else { next };
            if self.get(at).charged.load(Relaxed) == FREED {
                break; // it went with the shortening; so did everything before it on the way
            }
        }
        end
    }

    /// As [`resolve`](Self::resolve), for an id that nobody holds: read from the entry of an object that may be dying.
    /// `None`: it was freed meanwhile. (One that is in use again by now is its new group's.)
    pub(crate) fn resolve_loose(&self, id: u32) -> Option<u32> {
        let mut s = self.state.lock();
        let freed = self.get(id).charged.load(Acquire) == FREED;
        // The way from a freed owner is not to be followed: it does not count on it any more.
        (!freed).then(|| self.resolve_locked(&mut s, id))
    }

    /// Moves `bytes` of charge from a forwarded owner to the one that speaks for it, and returns that one. The
    /// counters of the tree stay as they are: an ancestor's counter holds its descendants' bytes already.
    pub(crate) fn hand_over(&self, id: u32, bytes: u64) -> u32 {
        let mut s = self.state.lock();
        let to = self.resolve_locked(&mut s, id);
        if to != id {
            self.get(id).charged.fetch_sub(bytes, Relaxed);
            self.get(to).charged.fetch_add(bytes, Relaxed);
            self.free_if_done(&mut s, id);
        }
        to
    }

    /// The reverse, for bytes that were just charged to `to` because it speaks for `id`.
    pub(crate) fn hand_back(&self, id: u32, to: u32, bytes: u64) {
        let mut s = self.state.lock();
        self.get(id).charged.fetch_add(bytes, Relaxed);
        self.get(to).charged.fetch_sub(bytes, Relaxed);
        self.free_if_done(&mut s, to);
    }

    /// One more holder of an owner that somebody holds already.
    pub(crate) fn hold(&self, id: u32) {
        self.get(id).refs.fetch_add(1, Relaxed);
    }

    /// A holder lets go.
    pub(crate) fn release(&self, id: u32) {
        let mut s = self.state.lock();
        self.get(id).refs.fetch_sub(1, Relaxed);
        self.free_if_done(&mut s, id);
    }

    /// Frees a forwarded owner that nothing refers to, and then those it was forwarded to, if that was their
    /// last reference.
    fn free_if_done(&self, s: &mut Guard<'_, u32>, mut id: u32) {
        loop {
            let r = self.get(id);
            let next = r.forward();
            let done = next != 0 && r.charged.load(Acquire) == 0 && r.refs.load(Relaxed) == 0;
            if !done {
                return;
            }
            r.charged.store(FREED, Relaxed);
            **s = s.wrapping_add(1);
            let mut first = self.freed.load(Relaxed);
            loop {
                r.refs.store(first, Relaxed);
                match self.freed.compare_exchange(first, id, Release, Relaxed) {
                    Ok(_) => break,
                    Err(now) => first = now,
                }
            }
            self.get(next).refs.fetch_sub(1, Relaxed);
            id = next;
        }
    }

    /// Whether `id` is the owner of a removed group that still has something charged.
    pub(crate) fn is_orphan(&self, id: u32) -> bool {
        let _s = self.state.lock();
        let record = self.get(id);
        record.is_forwarded() && !matches!(record.charged.load(Relaxed), 0 | FREED)
    }

    /// Owners whose group was removed.
    pub(crate) fn forwarded(&self, ids: &Ids) -> u32 {
        ids.forwarded.wrapping_sub(*self.state.lock())
    }

    /// Gives back the memory of records behind the last owner in use. Bytes.
    pub(crate) fn trim(&self, ids: &mut Ids, meta: &Meta) -> usize {
        let _no_more = self.state.lock();
        let touched = self.high.load(Relaxed);
        let mut high = touched;
        while high > FIRST && self.get(high - 1).charged.load(Relaxed) == FREED {
            high -= 1;
        }
        let mut kept = 0;
        for first in [core::mem::take(&mut ids.free), self.freed.swap(0, Acquire)] {
            let mut at = first;
            while at != 0 {
                let next = self.get(at).refs.load(Relaxed);
                if at < high {
                    self.get(at).refs.store(kept, Relaxed);
                    kept = at;
                }
                at = next;
            }
        }
        ids.free = kept;
        self.high.store(high, Relaxed);
        // SAFETY: free records. Who has the id of one from an entry that he read too late (`resolve_loose`) finds an owner
        // that nobody took over, without a node.
        unsafe { self.table.shrink(high, touched, meta) }
    }

    /// Bytes of the records that are resident.
    pub(crate) fn resident(&self) -> usize {
        self.table.resident(self.high.load(Relaxed))
    }

    /// # Safety
    /// No owner is used again.
    pub(crate) unsafe fn drop_table(&self, meta: &Meta) {
        // SAFETY: the caller's promise.
        unsafe { self.table.release(meta) };
    }
}

/// Mark of a record on the free list.
const FREED: u64 = u64::MAX;

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::page::Os;
    extern crate std;
    use std::vec::Vec;

    fn told(used: &Used) -> Vec<u64> {
        let mut numbers = Vec::new();
        used.each_cache(|number| numbers.push(number));
        numbers
    }

    /// An id that was read a moment ago is asked for when its owner is gone, and its parent's group too.
    #[test]
    fn a_freed_owner_leads_nowhere() {
        let (owners, mut ids, meta) = (Owners::new(), Ids::new(), Meta::new(&Os));
        let [root, parent, child] =
            [(); 3].map(|()| owners.create(&mut ids, NonNull::dangling(), &meta).unwrap());
        owners.forward(&mut ids, child, parent);
        assert_eq!(owners.resolve_loose(child), Some(parent));
        owners.release(child); // its last reference
        assert_eq!(owners.resolve_loose(child), None);
        owners.forward(&mut ids, parent, root);
        assert_eq!(owners.resolve_loose(child), None);
        assert_eq!((owners.resolve_loose(parent), owners.forwarded(&ids)), (Some(root), 1));
        owners.release(parent);
        assert_eq!(owners.forwarded(&ids), 0, "it went with its last reference");
        let again = [(); 3].map(|()| owners.create(&mut ids, NonNull::dangling(), &meta).unwrap());
        assert_eq!(again, [parent, child, child + 1], "what went last is used first");
        // SAFETY: nobody uses them any more.
        unsafe {
            owners.drop_table(&meta);
            meta.release();
        }
    }

    #[test]
    fn an_owner_knows_where_it_was_used() {
        let (owners, mut ids, meta) = (Owners::new(), Ids::new(), Meta::new(&Os));
        let make = |ids: &mut Ids| owners.create(ids, NonNull::dangling(), &meta).unwrap();
        let (root, used) = (make(&mut ids), [&[][..], &[0], &[65_535, 65_535], &[3, 4], &[0, 1, 0]]);
        let entered = used.map(|cpus| {
            let id = make(&mut ids);
            assert!(cpus.iter().all(|cpu| owners.enter(id, *cpu) == id));
            let used = owners.forward(&mut ids, id, root);
            assert!(!owners.get(id).enter(0) && owners.enter(id, 7) == root);
            assert!(told(&used).is_empty() && !owners.note(id, 1));
            used.entered
        });
        let (one, last) = (Entered::Only(0), Entered::Only(65_535));
        assert_eq!(entered, [Entered::Nowhere, one, last, Entered::Anywhere, Entered::Anywhere]);
        // SAFETY: nobody uses them any more.
        unsafe {
            owners.drop_table(&meta);
            meta.release();
        }
    }

    /// Whatever else it is told, an owner that was used for a cache says so, and hardly any others.
    #[test]
    fn an_owner_knows_its_caches() {
        let (owners, mut ids, meta) = (Owners::new(), Ids::new(), Meta::new(&Os));
        let make = |ids: &mut Ids| owners.create(ids, NonNull::dangling(), &meta).unwrap();
        let root = make(&mut ids);
        for numbers in [&[][..], &[1], &[2, 3, 2], &[8, 16], &[1, 70_000], &[1, 2, 3, 4, 5, 6, 7, 8]] {
            let id = make(&mut ids);
            for number in numbers {
                assert!(owners.note(id, *number) && owners.enter(id, 65_535) == id);
            }
            let used = owners.forward(&mut ids, id, root);
            let told = told(&used);
            assert!(numbers.iter().all(|number| told.contains(number)), "{numbers:?}: {told:?}");
            assert!(told.iter().all(|told| numbers.iter().any(|number| told % 8 == number % 8)));
            assert_eq!(used.entered == Entered::Nowhere, numbers.is_empty());
        }
        // SAFETY: nobody uses them any more.
        unsafe {
            owners.drop_table(&meta);
            meta.release();
        }
    }
}
