//! The group of a thread: entered and left, for allocations that name none.

use crate::error::{Failure, call};
use crate::handle::{Out, given, open, ten_group};
use core::ffi::{c_int, c_void};
use core::ptr::{NonNull, null};
use tenalloc::{current_group, swap_scope};

/// The thread allocates for `group` from now on, or for nobody in particular; returns for whom it did before.
///
/// # Safety
/// The handle stays until another is entered in its place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_scope_enter(group: Option<&ten_group>) -> *const ten_group {
    // SAFETY: the caller's promise.
    let before = unsafe { swap_scope(group.map(|group| NonNull::from(&group.0))) };
    before.map_or(null(), |group| group.as_ptr().cast::<ten_group>().cast_const())
}

/// Calls `body` as the group.
#[unsafe(no_mangle)]
pub extern "C" fn ten_scope_run(
    group: Option<&ten_group>,
    body: Option<extern "C" fn(*mut c_void)>,
    arg: *mut c_void,
) -> c_int {
    call(|| {
        let body = *given(body.as_ref(), "body")?;
        given(group, "group")?.0.scope(|| body(arg));
        Ok(())
    })
}

/// A handle to the group of the thread.
#[unsafe(no_mangle)]
pub extern "C" fn ten_scope_current(out: Out<'_, ten_group>) -> c_int {
    call(|| open(out, || current_group().ok_or(Failure::Core(tenalloc::Error::NotFound))))
}
