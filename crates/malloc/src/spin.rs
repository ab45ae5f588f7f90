//! A lock for tables that are rarely asked. It gives the CPU away while it waits; the fork handlers hold it across a
//! fork, and a signal handler never meets it in its own thread (see `serve`).

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering::*};

pub(crate) struct Spin<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time.
unsafe impl<T: Send> Sync for Spin<T> {}

impl<T> Spin<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    pub(crate) fn lock(&self) {
        while self.held.swap(true, Acquire) {
            // SAFETY: no preconditions.
            unsafe { libc::sched_yield() };
        }
    }

    pub(crate) fn unlock(&self) {
        self.held.store(false, Release);
    }

    /// Runs `f` with the lock held.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.lock();
        // SAFETY: the lock is held, and `f` gets the only reference.
        let result = f(unsafe { &mut *self.value.get() });
        self.unlock();
        result
    }
}
