//! A futex lock: 0 free, 1 held, 2 held with sleepers (U. Drepper, "Futexes Are Tricky", mutex 3).

use super::event;
use core::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct Futex(AtomicU32);

/// Spins before sleeping: critical sections here last tens of ns.
const SPINS: u32 = 100;

impl Futex {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    #[inline]
    pub(crate) fn lock(&self) {
        if self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_contended();
        }
    }

    #[cold]
    fn lock_contended(&self) {
        for _ in 0..SPINS {
            if self.0.load(Ordering::Relaxed) == 0
                && self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            core::hint::spin_loop();
        }
        while self.0.swap(2, Ordering::Acquire) != 0 {
            event::sleep(&self.0, 2, None);
        }
    }

    #[inline]
    pub(crate) fn unlock(&self) {
        if self.0.swap(0, Ordering::Release) == 2 {
            event::wake(&self.0, 1);
        }
    }

    /// Free again, whoever waits: those threads are not in this process.
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Release);
    }
}
