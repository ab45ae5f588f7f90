//! Lock ranks, and their check in debug builds.
//!
//! The crate has no thread-local storage, so a debug build keeps the ranks that each thread holds in a small
//! hash table of atomics, keyed by thread. A release build compiles all of this to nothing, and so does a model, whose
//! threads all run on one of the system's.

/// Where a lock stands in the order; see the table in [`super`]. A higher rank is taken first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Rank {
    Leaf = 0,
    Meta = 1,
    Chunk = 2,
    Partial = 3,
    Owners = 4,
    ParentList = 5,
    List = 6,
    Cpu = 7,
    Caches = 8,
    Indexes = 9,
    Tree = 10,
}

#[cfg(any(not(debug_assertions), feature = "loom"))]
#[inline(always)]
pub(crate) fn acquire(_: Rank, _: usize) {}
#[cfg(any(not(debug_assertions), feature = "loom"))]
#[inline(always)]
pub(crate) fn release(_: Rank) {}
#[cfg(all(not(debug_assertions), not(feature = "loom")))]
pub(crate) fn forget_others() {}

#[cfg(all(debug_assertions, not(feature = "loom")))]
pub(crate) use checked::{acquire, forget_others, release};

#[cfg(all(debug_assertions, not(feature = "loom")))]
mod checked {
    use super::Rank;
    use crate::sync::this_thread;
    use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

    struct Thread {
        id: AtomicUsize,
        /// A bit a rank.
        held: AtomicU64,
        /// How many `Cpu` locks are held: the only ones of which several go together.
        cpus: AtomicU64,
        /// Address of the last `Cpu` lock taken: several go together only in rising order.
        cpu: AtomicUsize,
    }

    const SLOTS: usize = 4096;
    static THREADS: [Thread; SLOTS] = [const {
        Thread {
            id: AtomicUsize::new(0),
            held: AtomicU64::new(0),
            cpus: AtomicU64::new(0),
            cpu: AtomicUsize::new(0),
        }
    }; SLOTS];

    /// The slot of this thread; a dead thread's slot holds no locks, so its id may be taken over.
    fn me() -> Option<&'static Thread> {
        let id = this_thread();
        let start = (id >> 12).wrapping_mul(0x9e37_79b9) % SLOTS;
        for i in 0..64 {
            let t = &THREADS[(start + i) % SLOTS];
            let seen = t.id.load(Relaxed);
            if seen == id || seen == 0 && t.id.compare_exchange(0, id, Relaxed, Relaxed).is_ok() {
                return Some(t);
            }
        }
        None // a crowded table checks nothing rather than something false
    }

    pub(crate) fn acquire(rank: Rank, address: usize) {
        let Some(t) = me() else { return };
        let (held, bit) = (t.held.load(Relaxed), 1u64 << rank as u32);
        let not_above = held & (bit << 1).wrapping_sub(1);
        let rising_cpu = rank == Rank::Cpu && not_above == bit && address > t.cpu.load(Relaxed);
        assert!(not_above == 0 || rising_cpu, "lock order: {rank:?} taken while holding ranks {held:#b}");
        if rank == Rank::Cpu {
            t.cpu.store(address, Relaxed);
            t.cpus.fetch_add(1, Relaxed);
        }
        t.held.store(held | bit, Relaxed);
    }

    pub(crate) fn release(rank: Rank) {
        let Some(t) = me() else { return };
        assert!(t.held.load(Relaxed) & (1 << rank as u32) != 0, "lock order: {rank:?} released and not held");
        if rank == Rank::Cpu && t.cpus.fetch_sub(1, Relaxed) > 1 {
            return;
        }
        t.held.fetch_and(!(1 << rank as u32), Relaxed);
    }

    /// In the child of a fork: the other threads are not there, and who has their ids next holds nothing.
    pub(crate) fn forget_others() {
        let me = this_thread();
        for t in THREADS.iter().filter(|t| !matches!(t.id.load(Relaxed), id if id == 0 || id == me)) {
            t.held.store(0, Relaxed);
            t.cpus.store(0, Relaxed);
        }
    }
}
