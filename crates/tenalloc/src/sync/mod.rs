//! The locks, each with its rank, and the atomics of the lock-free parts.
//!
//! Ranks fall: a thread that holds a lock may take only locks of a lower rank (debug builds check it). From
//! the outermost to the leaf:
//!
//! | rank | guards | why here |
//! |---|---|---|
//! | [`Rank::Tree`] | group tree: create, remove, look up | removal visits every CPU below it |
//! | [`Rank::Indexes`] | which lists there are | a drained list waits for every CPU below it |
//! | [`Rank::Caches`] | the table of caches | a walk over caches visits CPUs and nodes below it |
//! | [`Rank::Cpu`] | one CPU's stock and sheaves | refills reach partial slabs and owners below it |
//! | [`Rank::List`] | one list of one group on one node; the child's when two are held | found under the CPU's lock |
//! | [`Rank::ParentList`] | the list that a removed group's is drained into | below the child's |
//! | [`Rank::Owners`] | free and forwarded owners | taken when the last object of a removed group dies |
//! | [`Rank::Partial`] | one cache's slabs on one node | an empty slab goes back to its chunk below it |
//! | [`Rank::Chunk`] | the page runs of all chunks | the last thing above metadata |
//! | [`Rank::Meta`] | metadata blocks | everybody needs metadata |
//! | [`Rank::Leaf`] | a group's peak readers and waiters; free-standing shrinkers | a few steps, and nothing is taken below |
//!
//! Several CPUs' locks may be held together in rising order of the CPU (an exact reading does so).
//!
//! [`atomic`] is the single switch between `core` and `loom` for the lock-free protocols, `group::counter`,
//! `group::owner` and `slab::owners`; under `loom` a [`Lock`] is a lock of loom's, so that models can hold the real ones.

mod event;
#[cfg(not(feature = "loom"))]
mod futex;
#[cfg(feature = "loom")]
#[path = "loomed.rs"]
mod futex;
mod rank;
mod ticket;

pub(crate) use event::{Event, sleep, wake};
#[cfg(not(feature = "loom"))]
pub(crate) use futex::Futex as Raw;
pub(crate) use rank::Rank;
#[cfg(not(feature = "loom"))]
pub(crate) use rank::forget_others;
pub(crate) use rank::{acquire as acquired, release as released};
pub(crate) use ticket::Ticket;

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

/// The thread that asks, by a number that no other living one has, never 0. In the child of a fork it is the same.
pub(crate) fn this_thread() -> usize {
    // SAFETY: no preconditions.
    unsafe { libc::pthread_self() as usize }
}

/// `core`'s atomics, or loom's under the feature `loom`.
pub(crate) mod atomic {
    #[cfg(not(feature = "loom"))]
    pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    #[cfg(feature = "loom")]
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

/// A mutual exclusion lock of a fixed rank: 4 bytes, spins briefly, then sleeps in the kernel.
pub(crate) struct Lock<T> {
    raw: futex::Futex,
    rank: Rank,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands out `&mut T` to one thread at a time, so sharing it needs only `T: Send`.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    #[cfg(not(feature = "loom"))]
    pub(crate) const fn new(rank: Rank, value: T) -> Self {
        Self { raw: futex::Futex::new(), rank, value: UnsafeCell::new(value) }
    }

    #[cfg(feature = "loom")]
    pub(crate) fn new(rank: Rank, value: T) -> Self {
        Self { raw: futex::Futex::new(), rank, value: UnsafeCell::new(value) }
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.lock_as(self.rank)
    }

    /// The lock without its value and rank, for [`fork`](crate::Controller::fork_prepare), which takes all there are.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn raw(&self) -> &Raw {
        &self.raw
    }

    /// What it guards.
    ///
    /// # Safety
    /// The caller has the lock, by [`raw`](Self::raw), and nobody has a reference to write through.
    #[cfg(not(feature = "loom"))]
    pub(crate) unsafe fn peek(&self) -> &T {
        // SAFETY: the caller's promise.
        unsafe { &*self.value.get() }
    }

    /// Locks as if the lock had another rank: for the second of two locks of one kind.
    pub(crate) fn lock_as(&self, rank: Rank) -> Guard<'_, T> {
        rank::acquire(rank, core::ptr::from_ref(self) as usize);
        self.raw.lock();
        Guard { lock: self, rank }
    }
}

/// Holds a [`Lock`] until dropped.
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
    rank: Rank,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while its thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `&mut self` makes this the only reference.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.lock.raw.unlock();
        rank::release(self.rank);
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    extern crate std;

    #[test]
    fn a_lock_excludes() {
        let lock = Lock::new(Rank::Meta, 0u64);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..20_000).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 80_000);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "lock order")]
    fn a_rising_rank_is_caught() {
        let (leaf, tree) = (Lock::new(Rank::Meta, ()), Lock::new(Rank::Tree, ()));
        let _leaf = leaf.lock();
        let _tree = tree.lock();
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "not held")]
    fn what_is_not_held_is_not_released() {
        released(Rank::Meta);
    }
}
