//! Waiting for a group to fall to its `high`, without a thread and without a sleep.
//!
//! A waiter lies in its future and is linked into the list of the group that is above its `high`. Who uncharges looks
//! for waiters only where he leaves the fast path, and while there are any, bytes freed in their groups leave the fast
//! path at once instead of waiting in a stock.

use super::charge::over_high;
use super::tree::Node;
use super::{Group, throttle};
use crate::Cache;
use crate::controller::Inner;
use crate::error::Result;
use crate::sync::{Lock, Rank};
use core::cell::UnsafeCell;
use core::future::Future;
use core::marker::PhantomPinned;
use core::pin::Pin;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{Ordering::*, fence};
use core::task::{Context, Poll, Waker};
use core::time::Duration;

/// Who waits for a group; oldest first. Lies with its knobs.
pub(crate) struct Waiters {
    first: *mut Waiter,
    last: *mut Waiter,
}

// SAFETY: waiters are reached through the lock around this alone.
unsafe impl Send for Waiters {}

/// Guarded by the lock of the list that it is on.
struct Waiter {
    next: *mut Waiter,
    prev: *mut Waiter,
    /// On the list.
    linked: bool,
    waker: Option<Waker>,
    /// The group that the future is for: this one or a descendant.
    node: *const Node,
}

impl Waiters {
    pub(super) fn new() -> Lock<Self> {
        Lock::new(Rank::Leaf, Self { first: null_mut(), last: null_mut() })
    }

    /// # Safety
    /// The waiter is in place until it is unlinked, and linked nowhere.
    unsafe fn link(&mut self, waiter: *mut Waiter) {
        // SAFETY: the caller's promise; those linked are in place, and the lock is held.
        unsafe {
            (*waiter).linked = true;
            (*waiter).next = null_mut();
            (*waiter).prev = self.last;
            match self.last.as_mut() {
                Some(last) => last.next = waiter,
                None => self.first = waiter,
            }
        }
        self.last = waiter;
    }

    /// # Safety
    /// The waiter is on this list.
    unsafe fn unlink(&mut self, waiter: *mut Waiter) -> Option<Waker> {
        // SAFETY: those linked are in place, and the lock is held.
        unsafe {
            let (next, prev) = ((*waiter).next, (*waiter).prev);
            match prev.as_mut() {
                Some(prev) => prev.next = next,
                None => self.first = next,
            }
            match next.as_mut() {
                Some(next) => next.prev = prev,
                None => self.last = prev,
            }
            (*waiter).linked = false;
            (*waiter).waker.take()
        }
    }
}

/// Takes the oldest waiter of `node` that `which` picks off its list.
fn pop(inner: &Inner, node: &Node, which: impl Fn(*const Node) -> bool) -> Option<Waker> {
    let knobs = node.knobs()?;
    let mut waiters = knobs.waiters.lock();
    let mut at = waiters.first;
    // SAFETY: those linked are in place, and the lock is held.
    unsafe {
        while !at.is_null() && !which((*at).node) {
            at = (*at).next;
        }
        let waker = (!at.is_null()).then(|| waiters.unlink(at))?;
        knobs.waiting.fetch_sub(1, Relaxed);
        inner.signals.waiters.fetch_sub(1, Relaxed);
        waker
    }
}

/// Wakes those who wait for `node`, as long as it is at or below its `high`. With no lock held.
pub(super) fn wake(inner: &Inner, node: &Node) {
    let Some(knobs) = node.knobs() else { return };
    // Those who come meanwhile look for themselves.
    for _ in 0..knobs.waiting.load(Relaxed) {
        if node.counter.current() > knobs.high.load(Relaxed) {
            return; // the next fall wakes the rest
        }
        let Some(waker) = pop(inner, node, |_| true) else { return };
        waker.wake();
    }
}

/// Wakes those whose group, `node`, was just removed. With no lock held.
#[inline]
pub(super) fn wake_removed(inner: &Inner, node: &Node) {
    fence(SeqCst); // either they see the removal, or this sees them
    if inner.signals.waiters.load(Relaxed) > 0 {
        wake_some(inner, node);
    }
}

#[cold]
fn wake_some(inner: &Inner, node: &Node) {
    let mut at = Some(node);
    while let Some(n) = at {
        while let Some(waker) = pop(inner, n, |of| core::ptr::eq(of, node)) {
            waker.wake();
        }
        at = n.parent();
    }
}

/// Resolves when its group and all its ancestors are at or below their `high`, or the group was removed.
///
/// Made by [`Group::below_high`]. Dropping it at any time leaves nothing behind.
#[must_use = "futures do nothing unless polled"]
pub struct BelowHigh {
    group: Group,
    /// Whose list the waiter was put on last: the group or an ancestor, which it keeps.
    on: Option<NonNull<Node>>,
    waiter: UnsafeCell<Waiter>,
    _pin: PhantomPinned,
}

// SAFETY: the waiter is touched under the lock of its list alone, or by the future's owner while it is on none.
unsafe impl Send for BelowHigh {}
// SAFETY: nothing can be done through a shared reference.
unsafe impl Sync for BelowHigh {}

impl Group {
    /// A future that resolves when this group and all its ancestors are at or below their `high`, or this group was
    /// removed: `high` without a sleep. At once if that is so already. It promises nothing for later: others may charge
    /// before its task runs.
    ///
    /// It allocates nothing, uses no thread, may be dropped at any time, and works with every executor. A task is woken
    /// by whoever uncharges, raises a `high`, or removes the group. While anybody waits, bytes freed in the groups
    /// waited for go to the tree one by one: frees there cost a locked addition for each ancestor.
    pub fn below_high(&self) -> BelowHigh {
        let node = core::ptr::from_ref(self.node());
        let waiter = Waiter { next: null_mut(), prev: null_mut(), linked: false, waker: None, node };
        BelowHigh { group: self.clone(), on: None, waiter: UnsafeCell::new(waiter), _pin: PhantomPinned }
    }
}

impl Group {
    /// How long a charge of `bytes` would be made to wait now, because this group or an ancestor is above its `high`:
    /// the longest of their waits, 10 ms to 2 s, or zero. For a server of tasks, with
    /// [`Config::sleep`](crate::Config::sleep)`(false)`: charge, then let the task sleep this long by the executor's
    /// own clock. Nothing is kept, so a task that is cancelled owes nothing. Some loads for each ancestor.
    pub fn high_delay(&self, bytes: u64) -> Duration {
        let mut longest = Duration::ZERO;
        let mut at = Some(self.node());
        while let Some(node) = at {
            if let Some(knobs) = node.knobs() {
                longest =
                    longest.max(throttle::delay(node.counter.current(), knobs.high.load(Relaxed), bytes));
            }
            at = node.parent();
        }
        longest
    }
}

impl Cache {
    /// As [`alloc`](Self::alloc), but above `high` the task waits, not the thread: once the group and its ancestors
    /// are at or below their `high` (see [`Group::below_high`]) the object is made, in the same poll. The charge may
    /// take them above again; it reclaims then as always, in this thread, and never sleeps.
    ///
    /// Dropped before it is done, the future leaves nothing behind: it never holds an object while it waits.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc); [`Error::GroupRemoved`](crate::Error::GroupRemoved) at once when the group goes.
    pub fn alloc_async(&self, group: &Group) -> impl Future<Output = Result<NonNull<u8>>> + Send {
        let below = group.below_high();
        async move {
            below.await;
            self.controller().inner().alloc_object_as(
                self.record(),
                group.owner_id(self.controller())?,
                None,
                false,
            )
        }
    }
}

impl BelowHigh {
    fn is_done(&self) -> bool {
        self.group.is_removed() || over_high(self.group.node()).is_none()
    }

    /// Takes the waiter off its list, if it is on one.
    fn forget(&mut self) {
        let Some(on) = self.on.take() else { return };
        // SAFETY: an ancestor of the group, which is held.
        let Some(knobs) = (unsafe { on.as_ref() }).knobs() else { return };
        let inner = self.group.controller().inner();
        let mut waiters = knobs.waiters.lock();
        let waiter = self.waiter.get();
        // SAFETY: the lock of the list is held.
        let waker = unsafe {
            (*waiter).linked.then(|| {
                knobs.waiting.fetch_sub(1, Relaxed);
                inner.signals.waiters.fetch_sub(1, Relaxed);
                waiters.unlink(waiter)
            })
        };
        drop(waiters);
        drop(waker); // foreign code
    }

    /// Puts the waiter, which is on no list, on that of the first group above its `high`. False: there is none.
    fn wait(&mut self, waker: Waker) -> bool {
        let inner = self.group.controller().inner();
        let found = over_high(self.group.node()).and_then(|over| Some((NonNull::from(over), over.knobs()?)));
        let Some((over, knobs)) = found else { return false };
        let mut waiters = knobs.waiters.lock();
        // SAFETY: on no list, so ours; the future is pinned, and its drop unlinks.
        unsafe {
            (*self.waiter.get()).waker = Some(waker);
            waiters.link(self.waiter.get());
        }
        knobs.waiting.fetch_add(1, Relaxed);
        inner.signals.waiters.fetch_add(1, SeqCst);
        drop(waiters);
        fence(SeqCst);
        self.on = Some(over);
        // What stocks hold is freed already: collected now, and no more kept for these groups.
        inner.drain_for_waiters();
        true
    }
}

impl Future for BelowHigh {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: nothing is moved out of the future.
        let this = unsafe { self.get_unchecked_mut() };
        this.forget();
        while !this.is_done() {
            if this.wait(context.waker().clone()) {
                // What was freed, or removed, before the waiter was seen.
                if !this.is_done() {
                    return Poll::Pending;
                }
                this.forget();
            }
        }
        Poll::Ready(())
    }
}

impl Drop for BelowHigh {
    fn drop(&mut self) {
        self.forget();
    }
}

impl core::fmt::Debug for BelowHigh {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("BelowHigh").field("group", &self.group).finish_non_exhaustive()
    }
}
