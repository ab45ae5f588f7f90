//! A counter to wait on, and the two system calls below it and the lock.

use core::ptr::null;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

/// Counts what happened; who waits is woken each time.
pub(crate) struct Event(AtomicU32);

impl Event {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// The count, to be given to [`wait`](Self::wait).
    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Counts one and wakes all who wait.
    pub(crate) fn bump(&self) {
        self.0.fetch_add(1, Ordering::Release);
        wake(&self.0, i32::MAX as u32);
    }

    /// Waits until the count is another than `seen`, at most `time` if given, or for nothing at all: ask again.
    pub(crate) fn wait(&self, seen: u32, time: Option<Duration>) {
        sleep(&self.0, seen, time);
    }
}

/// Sleeps while `word` is `value`; may return for no reason.
pub(crate) fn sleep(word: &AtomicU32, value: u32, time: Option<Duration>) {
    call(word, libc::FUTEX_WAIT, value, time);
}

/// Wakes up to `number` who sleep on `word`.
pub(crate) fn wake(word: &AtomicU32, number: u32) {
    call(word, libc::FUTEX_WAKE, number, None);
}

fn call(word: &AtomicU32, op: i32, value: u32, time: Option<Duration>) {
    let time = time.map(|t| libc::timespec {
        tv_sec: t.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: t.subsec_nanos().into(),
    });
    // SAFETY: the address is that of a live, aligned u32; both operations read only it and the time. A spurious
    // return of WAIT is handled by the callers' loops, so the result does not matter.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            op | libc::FUTEX_PRIVATE_FLAG,
            value,
            time.as_ref().map_or(null(), core::ptr::from_ref),
        );
    }
}
