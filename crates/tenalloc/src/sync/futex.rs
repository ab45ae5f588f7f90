//! A futex lock: 0 free, 1 held, 2 held with sleepers (U. Drepper, "Futexes Are Tricky", mutex 3).

use core::sync::atomic::{AtomicU32, Ordering};

pub(super) struct Futex(AtomicU32);

/// Spins before sleeping: critical sections here last tens of ns.
const SPINS: u32 = 100;

impl Futex {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    #[inline]
    pub(super) fn lock(&self) {
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
            wait(&self.0, 2);
        }
    }

    #[inline]
    pub(super) fn unlock(&self) {
        if self.0.swap(0, Ordering::Release) == 2 {
            call(&self.0, libc::FUTEX_WAKE, 1);
        }
    }
}

/// Sleeps while `word` is `value`, until woken; may return for no reason.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    call(word, libc::FUTEX_WAIT, value);
}

/// Wakes everybody who waits for `word` to change.
pub(crate) fn wake_all(word: &AtomicU32) {
    call(word, libc::FUTEX_WAKE, i32::MAX as u32);
}

fn call(word: &AtomicU32, op: i32, value: u32) {
    // SAFETY: the address is that of a live, aligned u32; both operations read only it. A spurious return of WAIT is
    // handled by the callers' loops, so the result does not matter.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            op | libc::FUTEX_PRIVATE_FLAG,
            value,
            core::ptr::null::<libc::timespec>(),
        );
    }
}
