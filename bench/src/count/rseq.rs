//! The area for restartable sequences that valgrind does not let glibc register, made here, so that what is counted is
//! the fast way and not the fallback.
//!
//! tenalloc looks for `__rseq_offset` and `__rseq_size`, glibc's; a program's own symbols come first. The area says CPU 0
//! for ever, and the kernel knows nothing of it.
//!
//! Why that is sound in this program and in no other: a sequence must not be interrupted by somebody who works on the
//! same CPU's data. Here is one thread and no signal handler, so there is nobody; if the thread is preempted or moved in
//! the middle of a sequence, it goes on where it was, and nothing has changed.

#![allow(non_upper_case_globals, reason = "glibc's names")]

use std::arch::asm;
use std::sync::atomic::{AtomicIsize, AtomicU32, AtomicU64, Ordering::Relaxed};

/// linux/rseq.h: `struct rseq`, as in Linux 4.18.
#[repr(C, align(32))]
struct Area {
    cpu_id_start: AtomicU32,
    cpu_id: AtomicU32,
    /// The sequence that was entered last.
    rseq_cs: AtomicU64,
    flags: AtomicU32,
}

static AREA: Area = Area {
    cpu_id_start: AtomicU32::new(0),
    cpu_id: AtomicU32::new(0),
    rseq_cs: AtomicU64::new(0),
    flags: AtomicU32::new(0),
};

/// From the thread pointer to the area: glibc's type is `ptrdiff_t`.
#[unsafe(no_mangle)]
static __rseq_offset: AtomicIsize = AtomicIsize::new(0);
/// Bytes of the area; 0 until it is in place.
#[unsafe(no_mangle)]
static __rseq_size: AtomicU32 = AtomicU32::new(0);

/// The CPU, as glibc finds it where sequences are registered. Without this the way through the lock would be another
/// CPU's now and then.
#[unsafe(no_mangle)]
extern "C" fn sched_getcpu() -> libc::c_int {
    AREA.cpu_id.load(Relaxed) as libc::c_int
}

/// Puts the area in place: before the first controller is made, and before there is any other thread.
pub(crate) fn begin() {
    let thread: usize;
    // SAFETY: the first word of the thread's control block is its own address (x86-64 psABI).
    unsafe { asm!("mov {}, fs:0", out(reg) thread, options(nostack, pure, readonly, preserves_flags)) };
    let offset = (&raw const AREA).addr().wrapping_sub(thread);
    __rseq_offset.store(offset.cast_signed(), Relaxed);
    __rseq_size.store(size_of::<Area>() as u32, Relaxed);
}

/// Whether `f` enters a sequence.
pub(crate) fn is_entered_by(f: impl FnOnce()) -> bool {
    AREA.rseq_cs.store(0, Relaxed);
    f();
    AREA.rseq_cs.load(Relaxed) != 0
}
