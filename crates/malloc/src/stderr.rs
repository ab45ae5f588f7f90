//! Standard error as it was at the start, and writing that harms nobody: all of it, no signal for a pipe without a
//! reader or a file that may not grow, `errno` kept.
//!
//! Where it was closed at the start, nothing is said: a file that the program opens has its number then.

use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering::*};

/// A copy, if one was made: at exit many programs have closed theirs. Below 0: it was closed at the start.
static KEPT: AtomicI32 = AtomicI32::new(2);
/// What it was then: device and file.
static FILE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

fn file_of(fd: i32) -> Option<[u64; 2]> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: written by the call where it succeeds.
    unsafe {
        (libc::fstat(fd, stat.as_mut_ptr()) == 0).then(|| {
            let stat = stat.assume_init();
            [stat.st_dev, stat.st_ino]
        })
    }
}

/// At the start: whether it is there.
pub(crate) fn look() {
    // SAFETY: no preconditions.
    if unsafe { libc::fcntl(2, libc::F_GETFD) } < 0 {
        KEPT.store(-1, Relaxed);
    }
}

/// Keeps a copy, for reports.
pub(crate) fn keep() {
    if KEPT.load(Relaxed) == 2
        && let Some(file) = file_of(2)
    {
        // SAFETY: no preconditions; far from the numbers that programs count on.
        let fd = unsafe { libc::fcntl(2, libc::F_DUPFD_CLOEXEC, 700) };
        FILE.iter().zip(file).for_each(|(to, value)| to.store(value, Relaxed));
        KEPT.store(if fd < 0 { 2 } else { fd }, Relaxed);
    }
}

/// Standard error as it was at the start, if that was kept and nobody closed it, else as it is now. Below 0: none.
pub(crate) fn descriptor() -> i32 {
    match KEPT.load(Relaxed) {
        kept if kept > 2 && file_of(kept) != Some(FILE.each_ref().map(|n| n.load(Relaxed))) => 2,
        kept => kept,
    }
}

/// Writes a line for the user of the program: to standard error as it is now, else to the copy.
pub(crate) fn say(line: &[u8]) {
    if KEPT.load(Relaxed) >= 0 && !write_all(2, line) {
        write_all(descriptor(), line);
    }
}

/// Writes all of it. False: not all of it could be.
pub(crate) fn write_all(fd: i32, bytes: &[u8]) -> bool {
    if fd < 0 {
        return false;
    }
    // SAFETY: the sets are initialised before they are read; the buffer is ours; the thread's own errno and mask.
    unsafe {
        let errno = libc::__errno_location();
        let kept = *errno;
        let mut sets = MaybeUninit::<[libc::sigset_t; 3]>::zeroed().assume_init();
        let [ours, before, pending] = &mut sets;
        libc::sigemptyset(ours);
        libc::sigaddset(ours, libc::SIGPIPE);
        libc::sigaddset(ours, libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, ours, before);
        libc::sigpending(pending);
        let done = write_on(fd, bytes);
        // The signal of our own write is taken away; one that waited before is the program's.
        let caused = match *errno {
            libc::EPIPE => libc::SIGPIPE,
            libc::EFBIG => libc::SIGXFSZ,
            _ => 0,
        };
        if !done && caused > 0 && libc::sigismember(pending, caused) == 0 {
            libc::sigdelset(ours, libc::SIGPIPE + libc::SIGXFSZ - caused);
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(ours, null_mut(), &raw const now);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, before, null_mut());
        *errno = kept;
        done
    }
}

/// Writes until all is written or nothing more can be, with `errno` set.
fn write_on(fd: i32, mut left: &[u8]) -> bool {
    while !left.is_empty() {
        // SAFETY: the buffer is ours.
        let n = unsafe { libc::write(fd, left.as_ptr().cast(), left.len()) };
        if n > 0 {
            left = &left[n as usize..];
            continue;
        }
        // SAFETY: the thread's own errno.
        match unsafe { *libc::__errno_location() } {
            libc::EINTR if n < 0 => {}
            libc::EAGAIN if n < 0 => {
                // Somebody made it so that writes do not wait: this one does, for a second.
                let mut room = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
                // SAFETY: one entry, a live one.
                if unsafe { libc::poll(&raw mut room, 1, 1000) } < 1 {
                    return false;
                }
            }
            _ => return false,
        }
    }
    true
}
