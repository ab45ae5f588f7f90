//! Around a fork: everything at rest before, everything free after, and in the child the groups of threads that are not
//! there go, so that what they held is the process's.

use crate::library;
use crate::report::departed;
use crate::settings::Grouping;
use crate::{serve, start, thread};
use core::ffi::{c_int, c_void};
use core::ptr::{null, null_mut};
use core::sync::atomic::Ordering::Relaxed;

unsafe extern "C" {
    /// What pthread_atfork is made of; known to every glibc.
    fn __register_atfork(
        prepare: extern "C" fn(),
        parent: extern "C" fn(),
        child: extern "C" fn(),
        dso: *mut c_void,
    ) -> c_int;
}

/// Has the handlers called. As early as can be: those that came before us run while we hold all locks, and are served
/// by `early` then.
pub(crate) fn watch() {
    // SAFETY: handlers of the right types, in a library that is never unloaded.
    unsafe { __register_atfork(prepare, parent, child, null_mut()) };
}

extern "C" fn prepare() {
    if !start::ready() {
        return;
    }
    let me = thread::me();
    library::TABLE.lock();
    departed::TABLE.lock();
    // SAFETY: the thread is in no callback; until the fork is done its calls are served by `early`.
    unsafe { start::control().fork_prepare() };
    me.group.set(null());
    me.window.store(true, Relaxed);
}

fn unlock() {
    departed::TABLE.unlock();
    library::TABLE.unlock();
}

extern "C" fn parent() {
    let me = thread::me();
    if !me.window.load(Relaxed) {
        return;
    }
    // SAFETY: after `prepare`, in the same thread.
    unsafe { start::control().fork_parent() };
    unlock();
    me.window.store(false, Relaxed);
}

extern "C" fn child() {
    let me = thread::me();
    if !me.window.load(Relaxed) {
        return;
    }
    // SAFETY: after `prepare`, in the copy of that thread.
    unsafe { start::control().fork_child() };
    unlock();
    me.window.store(false, Relaxed);
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
