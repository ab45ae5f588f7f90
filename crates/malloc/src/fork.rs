//! Around a fork: everything at rest before, everything free after, and in the child the groups of threads that are not
//! there go, so that what they held is the process's.
//!
//! Handlers of others, registered before ours, run while we hold every lock, and the C library may work then, too. A
//! call from there steps aside: lets go of all, is served as usual, and takes all again. In the child it begins what
//! our own handler would have done next.

use crate::library;
use crate::report::{departed, turn};
use crate::settings::Grouping;
use crate::thread::{FORKS, OPEN, Thread};
use crate::{report, serve, start, thread};
use core::ffi::{c_int, c_void};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicI32, Ordering::*, compiler_fence};

unsafe extern "C" {
    /// What pthread_atfork is made of; known to every glibc.
    fn __register_atfork(
        prepare: extern "C" fn(),
        parent: extern "C" fn(),
        child: extern "C" fn(),
        dso: *mut c_void,
    ) -> c_int;
}

/// The process that forks.
static PARENT: AtomicI32 = AtomicI32::new(0);

/// Has the handlers called; as early as can be.
pub(crate) fn watch() {
    // SAFETY: handlers of the right types, in a library that is never unloaded.
    unsafe { __register_atfork(prepare, parent, child, null_mut()) };
}

extern "C" fn prepare() {
    if !start::ready() {
        return;
    }
    let me = thread::me();
    // First of all: a report that a signal asks for from here on would wait for what this thread has.
    me.group.set(null());
    me.window.store(FORKS, Relaxed);
    compiler_fence(SeqCst);
    // SAFETY: no preconditions.
    PARENT.store(unsafe { libc::getpid() }, Relaxed);
    library::TABLE.lock();
    departed::TABLE.lock();
    // SAFETY: the thread is in no callback, and steps aside before it uses the controller.
    let prepared = unsafe { start::control().fork_prepare() };
    debug_assert_eq!(prepared, Ok(()), "`window` says whose turn it is");
}

/// The window closes: all locks are free again, and what a signal asked for meanwhile is answered.
fn done(me: &Thread) {
    departed::TABLE.unlock();
    library::TABLE.unlock();
    me.window.store(OPEN, Relaxed);
    compiler_fence(SeqCst);
    report::write_if_asked(me);
}

extern "C" fn parent() {
    let me = thread::me();
    if me.window.load(Relaxed) == FORKS {
        let ended = start::control().fork_parent();
        debug_assert_eq!(ended, Ok(()), "as above");
        done(me);
    }
}

/// For one call of a thread that forks: the locks are free until this is dropped.
pub(crate) struct Aside;

impl Drop for Aside {
    fn drop(&mut self) {
        prepare();
    }
}

/// Steps aside, if the thread forks.
pub(crate) fn aside(me: &Thread) -> Option<Aside> {
    if me.window.load(Relaxed) != FORKS {
        return None;
    }
    // SAFETY: no preconditions.
    if unsafe { libc::getpid() } != PARENT.load(Relaxed) {
        child();
        return None;
    }
    parent();
    Some(Aside)
}

extern "C" fn child() {
    let me = thread::me();
    if me.window.load(Relaxed) != FORKS {
        return;
    }
    // SAFETY: in the copy of the thread that prepared it.
    let ended = unsafe { start::control().fork_child() };
    debug_assert_eq!(ended, Ok(()), "as above");
    turn::forget_copied(me);
    done(me);
    if start::settings().grouping == Grouping::Thread {
        serve::undisturbed(me, || {
            me.forget_copied();
            for group in start::process().children() {
                // Their threads hold handles for ever: the groups stay as records of some 100 bytes.
                let _ = group.remove();
            }
        });
    }
}
