//! The tree of groups: made, found, walked, removed.

use crate::error::{Failure, call, figure, length};
use crate::handle::{self, Out, Transparent, controller, given, open, string, ten_controller, ten_group};
use crate::text;
use core::ffi::{c_char, c_int, c_void};
use tenalloc::Error;

/// The root of a controller.
#[unsafe(no_mangle)]
pub extern "C" fn ten_root(ctl: Option<&ten_controller>, out: Out<'_, ten_group>) -> c_int {
    call(|| open(out, || Ok(controller(ctl)?.root())))
}

/// Makes a child of a group.
///
/// # Safety
/// `name` is NULL or ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_group_create(
    parent: Option<&ten_group>,
    name: *const c_char,
    out: Out<'_, ten_group>,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| open(out, || Ok(given(parent, "parent")?.0.create(unsafe { string(name, "name") }?)?)))
}

/// Finds the group at a path below another.
///
/// # Safety
/// `path` is NULL or ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_group_lookup(
    from: Option<&ten_group>,
    path: *const c_char,
    out: Out<'_, ten_group>,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| open(out, || Ok(given(from, "from")?.0.lookup(unsafe { string(path, "path") }?)?)))
}

/// One more handle.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_dup(group: Option<&ten_group>, out: Out<'_, ten_group>) -> c_int {
    call(|| open(out, || Ok(given(group, "group")?.0.clone())))
}

/// Ends a handle; the group stays.
///
/// # Safety
/// It is NULL or a handle that is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_group_close(group: *mut ten_group) {
    // SAFETY: the caller's promise.
    unsafe { handle::close(group) }
}

/// Removes a group; the handle stays.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_remove(group: Option<&ten_group>) -> c_int {
    call(|| Ok(given(group, "group")?.0.remove()?))
}

/// Whether it was removed.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_is_removed(group: Option<&ten_group>) -> bool {
    figure(false, || Ok(given(group, "group")?.0.is_removed()))
}

/// Whether two handles are of one group.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_same(a: Option<&ten_group>, b: Option<&ten_group>) -> bool {
    figure(false, || Ok(given(a, "a")?.0 == given(b, "b")?.0))
}

/// Its name.
///
/// # Safety
/// `buffer` has `size` bytes; it may be NULL if `size` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_group_name(group: Option<&ten_group>, buffer: *mut c_char, size: usize) -> i64 {
    // SAFETY: the caller's promise.
    length(|| unsafe { text::into(buffer, size, given(group, "group")?.0.name()) })
}

/// Its path.
///
/// # Safety
/// As for [`ten_group_name`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_group_path(group: Option<&ten_group>, buffer: *mut c_char, size: usize) -> i64 {
    // SAFETY: the caller's promise.
    length(|| unsafe { text::into(buffer, size, given(group, "group")?.0.path()) })
}

/// Its parent.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_parent(group: Option<&ten_group>, out: Out<'_, ten_group>) -> c_int {
    call(|| open(out, || given(group, "group")?.0.parent().ok_or(Failure::Core(Error::NotFound))))
}

/// Its controller.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_controller(group: Option<&ten_group>, out: Out<'_, ten_controller>) -> c_int {
    call(|| open(out, || Ok(given(group, "group")?.0.controller().clone())))
}

/// Shows its children, newest first, until `each` says false.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_children(
    group: Option<&ten_group>,
    each: Option<extern "C" fn(&ten_group, *mut c_void) -> bool>,
    arg: *mut c_void,
) -> c_int {
    call(|| {
        let each = *given(each.as_ref(), "each")?;
        given(group, "group")?.0.children().all(|child| each(ten_group::lend(&child), arg));
        Ok(())
    })
}
