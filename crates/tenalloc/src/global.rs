//! The allocator of a whole program: `#[global_allocator]` (feature `std`).
//!
//! The core has no hidden malloc, so it can be the malloc: nothing on this way allocates through `std`. The controller
//! is the process's own, made at the first allocation. Whose an allocation is, the thread's scope says
//! ([`Group::scope`], [`FutureExt::in_group`](crate::FutureExt::in_group)); outside of every scope it is the root's.

use crate::controller::Controller;
use crate::error::{Error, Result};
use crate::group::{Group, current_group};
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{NonNull, null_mut};

/// The process's own controller as the allocator of a Rust program.
///
/// ```
/// use tenalloc::{Controller, Global};
///
/// #[global_allocator]
/// static A: Global = Global;
///
/// # fn main() -> tenalloc::Result<()> {
/// let tenant = Controller::global()?.root().create("tenant-7")?;
/// let text = tenant.scope(|| String::from("the tenant's, also where it is dropped elsewhere"));
/// assert!(tenant.exact() >= text.len() as u64);
/// drop(text);
/// assert_eq!(tenant.exact(), 0);
/// # Ok(())
/// # }
/// ```
///
/// What a thread allocates inside a scope is that group's; what grows keeps its owner; whoever frees it, the owner's
/// group gets the bytes back. After the group was removed its scopes allocate for the nearest ancestor that is there.
/// A scope of a group of another controller counts as none.
///
/// At a limit the allocation fails, and most of Rust takes that for the end: `Vec::push` aborts the process. Give a
/// group that is to survive its limit room in time (`high`, shrinkers), or use what can fail (`try_reserve`,
/// [`Owned`](crate::Owned), `GroupAlloc` of the feature `allocator-api2`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Global;

impl Global {
    /// The controller that it allocates from: [`Controller::global`].
    ///
    /// # Errors
    /// [`Error::NoMemory`], the first time.
    pub fn controller() -> Result<&'static Controller> {
        Controller::global()
    }
}

/// Memory for the thread's group, or for who stands in for it.
fn allocate(ctl: &Controller, layout: Layout) -> Result<NonNull<u8>> {
    match ctl.malloc_here(layout.size(), layout.align()) {
        Err(Error::GroupRemoved | Error::NotFound) => allocate_above(ctl, layout),
        result => result,
    }
}

/// The scope's group was removed, or is another controller's.
#[cold]
fn allocate_above(ctl: &Controller, layout: Layout) -> Result<NonNull<u8>> {
    let mut at: Option<Group> = current_group().filter(|group| group.controller().is(ctl));
    while let Some(group) = at.filter(Group::is_removed) {
        at = group.parent();
        if let Some(group) = &at
            && let result @ (Ok(_) | Err(Error::Limit(_))) = ctl.malloc(group, layout.size(), layout.align())
        {
            return result;
        }
    }
    ctl.malloc(&ctl.root(), layout.size(), layout.align())
}

// SAFETY: objects are as large and as aligned as asked for, nobody else's until they are freed, and stay: the process's
// controller is never dropped. Nothing here unwinds.
unsafe impl GlobalAlloc for Global {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let object = Controller::global().and_then(|ctl| allocate(ctl, layout));
        object.map_or(null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, object: *mut u8, _: Layout) {
        if let (Ok(ctl), Some(object)) = (Controller::global(), NonNull::new(object)) {
            // SAFETY: the caller gives it up. That somebody wrote beyond it is counted; what else is wrong with it, a
            // contract says is not.
            let _ = unsafe { ctl.free(object) };
        }
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (Ok(ctl), Some(object)) = (Controller::global(), NonNull::new(object)) else { return null_mut() };
        // SAFETY: the caller's object, used by nobody meanwhile.
        unsafe { ctl.realloc(object, size, layout.align()) }.map_or(null_mut(), NonNull::as_ptr)
    }
}
