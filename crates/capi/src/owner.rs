//! Charges without objects: for memory that comes from elsewhere.

use crate::error::call;
use crate::handle::{self, Out, given, open, ten_group, ten_owner};
use core::ffi::c_int;

/// The handle that objects know a group by.
#[unsafe(no_mangle)]
pub extern "C" fn ten_owner_open(group: Option<&ten_group>, out: Out<'_, ten_owner>) -> c_int {
    call(|| open(out, || Ok(given(group, "group")?.0.owner())))
}

/// One more handle.
#[unsafe(no_mangle)]
pub extern "C" fn ten_owner_dup(owner: Option<&ten_owner>, out: Out<'_, ten_owner>) -> c_int {
    call(|| open(out, || Ok(given(owner, "owner")?.0.clone())))
}

/// Ends a handle.
///
/// # Safety
/// It is NULL or a handle that is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_owner_close(owner: *mut ten_owner) {
    // SAFETY: the caller's promise.
    unsafe { handle::close(owner) }
}

/// The group that it speaks for now.
#[unsafe(no_mangle)]
pub extern "C" fn ten_owner_group(owner: Option<&ten_owner>, out: Out<'_, ten_group>) -> c_int {
    call(|| open(out, || Ok(given(owner, "owner")?.0.group())))
}

/// Charges bytes, or fails.
#[unsafe(no_mangle)]
pub extern "C" fn ten_charge(owner: Option<&ten_owner>, bytes: u64) -> c_int {
    call(|| Ok(given(owner, "owner")?.0.try_charge(bytes)?))
}

/// Charges bytes past all limits.
#[unsafe(no_mangle)]
pub extern "C" fn ten_charge_forced(owner: Option<&ten_owner>, bytes: u64) -> c_int {
    call(|| {
        given(owner, "owner")?.0.charge_forced(bytes);
        Ok(())
    })
}

/// Gives charged bytes back.
#[unsafe(no_mangle)]
pub extern "C" fn ten_uncharge(owner: Option<&ten_owner>, bytes: u64) -> c_int {
    call(|| {
        given(owner, "owner")?.0.uncharge(bytes);
        Ok(())
    })
}
