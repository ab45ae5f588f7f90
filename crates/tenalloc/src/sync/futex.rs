//! A futex: as a lock (0 free, 1 held, 2 held with sleepers: U. Drepper, "Futexes Are Tricky", mutex 3), and as a
//! counter to wait on.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

pub(crate) struct Futex(AtomicU32);

/// Spins before sleeping: critical sections here last tens of ns.
const SPINS: u32 = 100;

impl Futex {
    pub(crate) const fn new() -> Self {
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
            self.call(libc::FUTEX_WAIT, 2, None);
        }
    }

    #[inline]
    pub(super) fn unlock(&self) {
        if self.0.swap(0, Ordering::Release) == 2 {
            self.call(libc::FUTEX_WAKE, 1, None);
        }
    }

    /// The count, to be given to [`wait`](Self::wait).
    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Counts one and wakes all who wait.
    pub(crate) fn bump(&self) {
        self.0.fetch_add(1, Ordering::Release);
        self.call(libc::FUTEX_WAKE, i32::MAX as u32, None);
    }

    /// Waits until the count is another than `seen`, or for `time`, or for nothing at all: ask again.
    pub(crate) fn wait(&self, seen: u32, time: Duration) {
        self.call(libc::FUTEX_WAIT, seen, Some(time));
    }

    fn call(&self, op: i32, value: u32, time: Option<Duration>) {
        let time = time.map(|t| libc::timespec {
            tv_sec: t.as_secs().min(i32::MAX as u64) as libc::time_t,
            tv_nsec: t.subsec_nanos().into(),
        });
        // SAFETY: the address is that of a live, aligned u32; both operations read only it and the time. A spurious
        // return of WAIT is handled by the callers' loops, so the result does not matter.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                op | libc::FUTEX_PRIVATE_FLAG,
                value,
                time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref),
            );
        }
    }
}
