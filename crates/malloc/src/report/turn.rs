//! One report is written at a time, and whoever asks for one gets one whose figures were read after they asked.
//!
//! Who asks by a signal cannot wait: what it interrupted may be the writing. So it leaves a note, and whoever writes looks
//! for a note after each report. The note is left before the place is looked at, and the place left before the note is
//! looked at, all in one order (`SeqCst`): one of the two sees the other.

use crate::thread::Thread;
use core::mem::MaybeUninit;
use core::ptr::{from_ref, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering::SeqCst};

/// The thread that writes. Null: none.
static WRITER: AtomicPtr<Thread> = AtomicPtr::new(null_mut());
/// A signal asked, and nobody began to answer.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Seconds, and up to one more, that who can wait (at the end of the process, in `malloc_stats`) waits for another thread's
/// report: that thread may be stopped, or have left it by a longjmp.
const PATIENCE: i64 = 1;

/// Leaves a note that a report is wanted.
pub(crate) fn ask() {
    ASKED.store(true, SeqCst);
}

/// Whether there is one.
#[inline]
pub(crate) fn is_asked() -> bool {
    ASKED.load(SeqCst)
}

fn begin(me: &Thread) -> bool {
    WRITER.compare_exchange(null_mut(), from_ref(me).cast_mut(), SeqCst, SeqCst).is_ok()
}

/// Runs `write`, which reaches no point where the thread could be cancelled: the place would be taken for ever.
fn run(write: impl FnOnce()) {
    unsafe extern "C" {
        fn pthread_setcancelstate(state: i32, before: *mut i32) -> i32;
    }
    const DISABLE: i32 = 1;
    let mut before = 0;
    // SAFETY: the old state is written to a local.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
    write();
    // SAFETY: as above; it was the state before.
    unsafe { pthread_setcancelstate(before, null_mut()) };
    WRITER.store(null_mut(), SeqCst);
}

/// Runs `write` for each note that is there, unless somebody writes, who will find it.
pub(crate) fn answer(me: &Thread, mut write: impl FnMut()) {
    while is_asked() && begin(me) {
        // Before the figures are read: who asks from here on wants later ones.
        ASKED.store(false, SeqCst);
        run(&mut write);
    }
}

/// Runs `write` when it is the thread's turn. Not at all, if that does not come: the thread itself is interrupted in one,
/// or another one is stuck in it.
pub(crate) fn take(me: &Thread, write: impl FnOnce()) {
    let end = seconds() + PATIENCE;
    while !begin(me) {
        if WRITER.load(SeqCst) == from_ref(me).cast_mut() || seconds() > end {
            return;
        }
        // SAFETY: no preconditions.
        unsafe { libc::sched_yield() };
    }
    run(write);
}

/// In the child of a fork: another thread that wrote is not there, and what was asked is the parent's to answer.
pub(crate) fn forget_copied(me: &Thread) {
    if WRITER.load(SeqCst) != from_ref(me).cast_mut() {
        WRITER.store(null_mut(), SeqCst);
        ASKED.store(false, SeqCst);
    }
}

fn seconds() -> i64 {
    let mut now = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: zeros are a valid time, and the call writes one.
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr());
        now.assume_init().tv_sec
    }
}
