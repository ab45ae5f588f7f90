//! Around a fork, for `pthread_atfork`: the controller at rest before, whole again after.

use crate::error::call;
use crate::handle::{controller, ten_controller};
use core::ffi::c_int;

/// Before a fork: waits until nothing is under way in the controller, and keeps it so.
///
/// # Safety
/// The thread is in no callback of the controller, and uses it for nothing before one of the other two was called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_fork_prepare(ctl: Option<&ten_controller>) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        unsafe { controller(ctl)?.fork_prepare()? };
        Ok(())
    })
}

/// After a fork, in the process that forked. An error if this thread did not prepare it.
#[unsafe(no_mangle)]
pub extern "C" fn ten_fork_parent(ctl: Option<&ten_controller>) -> c_int {
    call(|| Ok(controller(ctl)?.fork_parent()?))
}

/// After a fork, in the new process. An error if this thread did not prepare it.
///
/// # Safety
/// This is the new process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_fork_child(ctl: Option<&ten_controller>) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        unsafe { controller(ctl)?.fork_child()? };
        Ok(())
    })
}
