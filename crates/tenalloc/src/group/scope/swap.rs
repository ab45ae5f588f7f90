//! Entering and leaving a scope in two calls, for languages without closures that unwind.

use super::{CURRENT, Group};
use core::ptr::{NonNull, null};

/// Makes `group` the one that this thread allocates for without naming one, and returns the one it was before: what
/// [`Group::scope`] does at its beginning and, with what this returned, at its end. For bindings to other languages.
///
/// # Safety
/// `group` stays in place, unmoved, until this thread has another; what was returned is put back in the reverse order.
pub unsafe fn swap_scope(group: Option<NonNull<Group>>) -> Option<NonNull<Group>> {
    let before = CURRENT.replace(group.map_or(null(), |group| group.as_ptr().cast_const()));
    NonNull::new(before.cast_mut())
}
