//! Lock ranks, and their check in debug builds.
//!
//! The crate has no thread-local storage, so a debug build keeps the ranks that each thread holds in a small
//! hash table of atomics, keyed by thread. A release build compiles all of this to nothing.

/// Where a lock stands in the order; see the table in [`super`]. A higher rank is taken first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Rank {
    Meta = 0,
    Chunk = 1,
    Partial = 2,
    Owners = 3,
    Cpu = 4,
    Caches = 5,
    Tree = 6,
}

#[cfg(not(debug_assertions))]
#[inline(always)]
pub(super) fn acquire(_: Rank, _: usize) {}
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(super) fn release(_: Rank, _: usize) {}

#[cfg(debug_assertions)]
pub(super) use checked::{acquire, release};

#[cfg(debug_assertions)]
mod checked {
    use super::Rank;
    use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    struct Thread {
        id: AtomicUsize,
        /// 8 bits a rank: how many locks of it the thread holds.
        held: AtomicU64,
        /// Address of the last `Cpu` lock taken: several go together only in rising order.
        cpu: AtomicUsize,
    }

    const SLOTS: usize = 4096;
    static THREADS: [Thread; SLOTS] =
        [const { Thread { id: AtomicUsize::new(0), held: AtomicU64::new(0), cpu: AtomicUsize::new(0) } };
            SLOTS];

    /// The slot of this thread; a dead thread's slot holds no locks, so its id may be taken over.
    fn me() -> Option<&'static Thread> {
        // SAFETY: pthread_self has no preconditions.
        let id = unsafe { libc::pthread_self() } as usize;
        let start = (id >> 12).wrapping_mul(0x9e37_79b9) % SLOTS;
        for i in 0..64 {
            let t = &THREADS[(start + i) % SLOTS];
            let seen = t.id.load(Ordering::Relaxed);
            if seen == id
                || seen == 0 && t.id.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                return Some(t);
            }
        }
        None // a crowded table checks nothing rather than something false
    }

    fn count(held: u64, rank: Rank) -> u64 {
        held >> (8 * rank as u32) & 0xff
    }

    pub(crate) fn acquire(rank: Rank, address: usize) {
        let Some(t) = me() else { return };
        let held = t.held.load(Ordering::Relaxed);
        let below = held & (1u64 << (8 * (rank as u32 + 1))).wrapping_sub(1);
        let rising_cpu = rank == Rank::Cpu
            && below == held & 0xff << (8 * rank as u32)
            && address > t.cpu.load(Ordering::Relaxed);
        assert!(
            below == 0 || rising_cpu,
            "lock order: {rank:?} taken while holding {held:#x} (8 bits a rank)"
        );
        if rank == Rank::Cpu {
            t.cpu.store(address, Ordering::Relaxed);
        }
        t.held.store(held + (1 << (8 * rank as u32)), Ordering::Relaxed);
    }

    pub(crate) fn release(rank: Rank, _: usize) {
        let Some(t) = me() else { return };
        let held = t.held.load(Ordering::Relaxed);
        if count(held, rank) > 0 {
            t.held.store(held - (1 << (8 * rank as u32)), Ordering::Relaxed);
        }
    }
}
