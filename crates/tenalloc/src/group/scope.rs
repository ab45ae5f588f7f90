//! The group of this thread, or of this task: sugar over the explicit group, which always wins (feature `std`).
//!
//! The thread knows its group by the address of a handle that `scope` borrows, so that entering costs two stores and
//! no counter; leaving restores what was, also when a panic passes. A task enters at each poll and when it is dropped,
//! since between polls its thread belongs to others.

mod swap;

pub use swap::swap_scope;

use super::Group;
use crate::controller::Controller;
use crate::error::Result;
use crate::slab::Cache;
use core::cell::Cell;
use core::future::Future;
use core::mem::ManuallyDrop;
use core::pin::Pin;
use core::ptr::{NonNull, null};
use core::task::{Context, Poll};

std::thread_local! {
    /// The handle that the innermost scope of this thread borrows; null: none.
    static CURRENT: Cell<*const Group> = const { Cell::new(null()) };
}

/// Restores the group of the thread.
struct Leave(*const Group);

impl Drop for Leave {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Runs `look` with the group of this thread.
fn with<R>(look: impl FnOnce(Option<&Group>) -> R) -> R {
    // SAFETY: a scope of this thread, which is still on its stack, borrows the handle; what `look` enters it leaves.
    look(unsafe { CURRENT.get().as_ref() })
}

/// The group that this thread allocates for without naming one; `None` outside of every [`Group::scope`].
pub fn current_group() -> Option<Group> {
    with(|group| group.cloned())
}

impl Group {
    /// Runs `body`; what this thread allocates meanwhile with [`Cache::alloc_here`] or [`Controller::malloc_here`] is
    /// this group's. Scopes nest, and a panic restores too. Other threads that `body` starts are not in it. Two stores.
    pub fn scope<R>(&self, body: impl FnOnce() -> R) -> R {
        let _leave = Leave(CURRENT.replace(self));
        body()
    }
}

impl Cache {
    /// As [`alloc`](Self::alloc), for the group of this thread ([`Group::scope`], [`InGroup`]); outside of every scope
    /// for the root.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc); [`Error::NotFound`](crate::Error::NotFound) if that group is of another controller.
    pub fn alloc_here(&self) -> Result<NonNull<u8>> {
        with(|group| match group {
            Some(group) => self.alloc(group),
            None => {
                let inner = self.controller().inner();
                inner.alloc_object(self.record(), inner.root_node().owner, None)
            }
        })
    }
}

impl Controller {
    /// As [`malloc`](Self::malloc), for the group of this thread ([`Group::scope`], [`InGroup`]); outside of every
    /// scope for the root.
    ///
    /// # Errors
    /// As [`malloc`](Self::malloc); [`Error::NotFound`](crate::Error::NotFound) if that group is of another controller.
    pub fn malloc_here(&self, size: usize, align: usize) -> Result<NonNull<u8>> {
        with(|group| match group {
            Some(group) => self.malloc(group, size, align),
            None => self.inner().malloc(size, align, self.inner().root_node().owner),
        })
    }
}

/// Gives every future [`in_group`](Self::in_group).
pub trait FutureExt: Future + Sized {
    /// This future with `group` as the group of its task: entered at each poll, whichever thread polls, and when it is
    /// dropped. Holds a handle to the group; 16 bytes.
    fn in_group(self, group: &Group) -> InGroup<Self> {
        InGroup { future: ManuallyDrop::new(self), group: group.clone() }
    }
}

impl<F: Future> FutureExt for F {}

/// A future that allocates for a group; see [`FutureExt::in_group`].
#[must_use = "futures do nothing unless polled"]
#[derive(Debug)]
pub struct InGroup<F> {
    /// Dropped inside the group, by `drop`.
    future: ManuallyDrop<F>,
    group: Group,
}

impl<F> InGroup<F> {
    /// The group that it allocates for.
    pub fn group(&self) -> &Group {
        &self.group
    }
}

impl<F: Future> Future for InGroup<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned as `self` is: it is moved nowhere, and dropped in place.
        unsafe {
            let this = self.get_unchecked_mut();
            let future = Pin::new_unchecked(&mut *this.future);
            this.group.scope(|| future.poll(context))
        }
    }
}

impl<F> Drop for InGroup<F> {
    fn drop(&mut self) {
        let Self { future, group } = self;
        // SAFETY: dropped here and nowhere else.
        group.scope(|| unsafe { ManuallyDrop::drop(future) });
    }
}
