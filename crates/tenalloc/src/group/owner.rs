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

use super::tree::Node;
use crate::error::{Error, Result};
use crate::meta::Meta;
use crate::sync::atomic::{AtomicU32, AtomicU64};
use crate::sync::{Guard, Lock, Rank};
#[cfg(not(feature = "loom"))]
use crate::table::Table;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering::*};
#[cfg(feature = "loom")]
use loomed::Table;

/// "This object is live and owned by no group." (0 in an owner vector: the object is free.)
pub(crate) const NOBODY: u32 = 1;
const FIRST: u32 = 2;

/// 24 bytes; at most 64 may stay behind for a removed group.
pub(crate) struct Record {
    /// The node it charges. Once forwarded it is only for stocks not yet drained.
    pub(crate) node: AtomicPtr<Node>,
    /// Bytes in the tree through this owner, stocks included.
    pub(crate) charged: AtomicU64,
    /// Id of the owner that took over; 0: none, this one is current.
    forward: AtomicU32,
    /// Owners forwarded to this one, and who else holds it (its node, `Owner` handles): it falls under the lock. While
    /// the record is free: the next such.
    refs: AtomicU32,
}

#[cfg(not(feature = "loom"))]
const _: () = assert!(core::mem::size_of::<Record>() == 24);

impl Record {
    #[inline]
    pub(crate) fn is_forwarded(&self) -> bool {
        self.forward.load(Acquire) != 0
    }
}

pub(crate) struct Free {
    list: u32,
    high: u32,
    live: u32,
    forwarded: u32,
}

pub(crate) struct Owners {
    table: Table<Record>,
    state: Lock<Free>,
}

impl Owners {
    pub(crate) fn new() -> Self {
        let free = Free { list: 0, high: FIRST, live: 0, forwarded: 0 };
        Self { table: Table::new(), state: Lock::new(Rank::Owners, free) }
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
    pub(crate) fn create(&self, node: NonNull<Node>, meta: &Meta) -> Result<u32> {
        let mut s = self.state.lock();
        let id = match s.list {
            0 => s.high,
            id => id,
        };
        let record = self.table.grow(id, meta, "owners")?;
        if s.list == 0 {
            s.high = id.checked_add(1).ok_or(Error::Full { table: "owners" })?;
        } else {
            s.list = self.get(id).refs.load(Relaxed);
        }
        // SAFETY: as in `get`.
        let r = unsafe { record.as_ref() };
        r.node.store(node.as_ptr(), Relaxed);
        r.charged.store(0, Relaxed);
        r.refs.store(1, Relaxed);
        r.forward.store(0, Release);
        s.live += 1;
        Ok(id)
    }

    /// From now on `to` speaks for `id`. The caller then drains `id` from every CPU's stock.
    pub(crate) fn forward(&self, id: u32, to: u32) {
        let mut s = self.state.lock();
        let to = self.resolve_locked(&mut s, to);
        self.get(to).refs.fetch_add(1, Relaxed);
        self.get(id).forward.store(to, Release);
        s.forwarded += 1;
    }

    /// The owner that now speaks for `id`. An id is current until a forward is seen; seeing it late is
    /// harmless while the caller holds its CPU's lock (see [`super`]).
    #[inline]
    pub(crate) fn resolve(&self, id: u32) -> u32 {
        if self.get(id).is_forwarded() { self.resolve_locked(&mut self.state.lock(), id) } else { id }
    }

    fn resolve_locked(&self, s: &mut Guard<'_, Free>, id: u32) -> u32 {
        let mut end = id;
        loop {
            match self.get(end).forward.load(Relaxed) {
                0 => break,
                next => end = next,
            }
        }
        // Shorten: everyone on the way now points at the end.
        let mut at = id;
        while at != end {
            let record = self.get(at);
            let next = record.forward.load(Relaxed);
            if next != end {
                record.forward.store(end, Relaxed);
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
        let freed = self.get(id).charged.load(Relaxed) == FREED;
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
    fn free_if_done(&self, s: &mut Guard<'_, Free>, mut id: u32) {
        loop {
            let r = self.get(id);
            let next = r.forward.load(Relaxed);
            let done = next != 0 && r.charged.load(Acquire) == 0 && r.refs.load(Relaxed) == 0;
            if !done {
                return;
            }
            r.charged.store(FREED, Relaxed);
            r.refs.store(s.list, Relaxed);
            s.list = id;
            s.live -= 1;
            s.forwarded -= 1;
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

    /// Owners, and those of them whose group was removed.
    pub(crate) fn counts(&self) -> (u32, u32) {
        let s = self.state.lock();
        (s.live, s.forwarded)
    }

    /// Gives back the memory of records behind the last owner in use. Bytes.
    pub(crate) fn trim(&self, meta: &Meta) -> usize {
        let mut s = self.state.lock();
        let touched = s.high;
        while s.high > FIRST && self.get(s.high - 1).charged.load(Relaxed) == FREED {
            s.high -= 1;
        }
        let (mut at, mut kept) = (s.list, 0);
        while at != 0 && s.high < touched {
            let next = self.get(at).refs.load(Relaxed);
            if at < s.high {
                self.get(at).refs.store(kept, Relaxed);
                kept = at;
            }
            at = next;
        }
        if s.high < touched {
            s.list = kept;
        }
        // SAFETY: free records. Who has the id of one from an entry that he read too late (`resolve_loose`) finds an owner
        // that nobody took over, without a node.
        unsafe { self.table.shrink(s.high, touched, meta) }
    }

    /// Bytes of the records that are resident.
    pub(crate) fn resident(&self) -> usize {
        self.table.resident(self.state.lock().high)
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

/// A table of a few records made in advance: loom's atomics cannot begin as zeroed memory.
#[cfg(feature = "loom")]
mod loomed {
    use super::*;

    pub(super) struct Table<T>([T; 8]);

    impl Table<Record> {
        pub(super) fn new() -> Self {
            Self(core::array::from_fn(|_| Record {
                node: AtomicPtr::new(core::ptr::null_mut()),
                charged: AtomicU64::new(0),
                forward: AtomicU32::new(0),
                refs: AtomicU32::new(0),
            }))
        }

        pub(super) fn get(&self, id: u32) -> Option<NonNull<Record>> {
            self.0.get(id as usize).map(NonNull::from)
        }

        pub(super) fn grow(&self, id: u32, _meta: &Meta, table: &'static str) -> Result<NonNull<Record>> {
            self.get(id).ok_or(Error::Full { table })
        }

        pub(super) fn resident(&self, used: u32) -> usize {
            used as usize * size_of::<Record>()
        }

        pub(super) unsafe fn shrink(&self, _used: u32, _touched: u32, _meta: &Meta) -> usize {
            0
        }

        pub(super) unsafe fn release(&self, _meta: &Meta) {}
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::page::Os;

    /// An id that was read a moment ago is asked for when its owner is gone, and its parent's group too.
    #[test]
    fn a_freed_owner_leads_nowhere() {
        let (owners, meta) = (Owners::new(), Meta::new(&Os));
        let [root, parent, child] = [(); 3].map(|()| owners.create(NonNull::dangling(), &meta).unwrap());
        owners.forward(child, parent);
        assert_eq!(owners.resolve_loose(child), Some(parent));
        owners.release(child); // its last reference
        assert_eq!(owners.resolve_loose(child), None);
        owners.forward(parent, root);
        assert_eq!(owners.resolve_loose(child), None);
        assert_eq!((owners.resolve_loose(parent), owners.counts()), (Some(root), (2, 1)));
        owners.release(parent);
        assert_eq!(owners.counts(), (1, 0), "it went with its last reference");
        // SAFETY: nobody uses them any more.
        unsafe {
            owners.drop_table(&meta);
            meta.release();
        }
    }
}
