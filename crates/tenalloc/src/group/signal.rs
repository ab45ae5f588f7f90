//! Word of groups that fell to their `high`, or passed it, from the depths of a charge to where no lock is held.
//!
//! A charge or its return learns of such a group under the lock of a CPU's area, where no foreign code may run: a
//! waker, say. So it only puts the group on a queue, without memory and without a lock, and holds it there; who let go
//! of his last lock looks after the queue.

use super::knobs::Knobs;
use super::tree::Node;
use crate::controller::Inner;
use crate::sync::Event;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*, fence};

/// A group's place in one queue; lies with its knobs.
pub(crate) struct Link {
    node: AtomicPtr<Node>,
    next: AtomicPtr<Link>,
    queued: AtomicBool,
}

impl Link {
    pub(super) const fn new() -> Self {
        Self {
            node: AtomicPtr::new(null_mut()),
            next: AtomicPtr::new(null_mut()),
            queued: AtomicBool::new(false),
        }
    }
}

/// Groups, each at most once; taken all together, so that no entry can come back under a taker's hands.
struct Queue(AtomicPtr<Link>);

impl Queue {
    const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// Puts a group that is in place on the queue, which holds it from then on. False: it was there already.
    fn push(&self, inner: &Inner, node: &Node, link: &Link) -> bool {
        if link.queued.swap(true, AcqRel) {
            return false;
        }
        inner.tree.hold(node);
        link.node.store(core::ptr::from_ref(node).cast_mut(), Relaxed);
        let new = core::ptr::from_ref(link).cast_mut();
        let mut head = self.0.load(Relaxed);
        loop {
            link.next.store(head, Relaxed);
            match self.0.compare_exchange_weak(head, new, Release, Relaxed) {
                Ok(_) => return true,
                Err(now) => head = now,
            }
        }
    }

    /// Takes every group off and shows it to `each`. With no lock held. A group that comes back meanwhile is queued
    /// anew: what happened before `each` sees it is not told twice, what happens later is not lost.
    fn take(&self, inner: &Inner, mut each: impl FnMut(&Node)) -> bool {
        let mut rest = Rest { queue: self, inner, at: self.0.swap(null_mut(), AcqRel) };
        let mut any = false;
        while let Some((held, _)) = rest.next() {
            any = true;
            each(held.node());
        }
        any
    }
}

/// What was taken off a queue and not yet shown. Should a panic pass, it goes back.
struct Rest<'a> {
    queue: &'a Queue,
    inner: &'a Inner,
    at: *mut Link,
}

impl<'a> Rest<'a> {
    fn next(&mut self) -> Option<(Held<'a>, NonNull<Link>)> {
        let link = NonNull::new(self.at)?;
        // SAFETY: a queued link is in place: the queue holds its node, and so does what is returned.
        let (next, node) = unsafe { (link.as_ref().next.load(Relaxed), link.as_ref().node.load(Relaxed)) };
        self.at = next;
        // SAFETY: as above.
        unsafe { link.as_ref() }.queued.swap(false, AcqRel);
        Some((Held(self.inner, node), link))
    }
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        while let Some((held, link)) = self.next() {
            // SAFETY: in place while its node is held.
            self.queue.push(self.inner, held.node(), unsafe { link.as_ref() });
        }
    }
}

/// A node that its queue held.
struct Held<'a>(&'a Inner, *const Node);

impl Held<'_> {
    fn node(&self) -> &Node {
        // SAFETY: held until dropped.
        unsafe { &*self.1 }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.tree.release(self.0, self.node());
    }
}

/// What goes from charges to those who wait for them.
pub(crate) struct Signals {
    /// Futures that wait for a group to fall.
    pub(super) waiters: AtomicU32,
    fell: Queue,
    passed: Queue,
    /// Background reclaimers, and what they sleep on.
    pub(crate) reclaimers: AtomicU32,
    pub(crate) bell: Event,
}

impl Signals {
    pub(crate) const fn new() -> Self {
        Self {
            waiters: AtomicU32::new(0),
            fell: Queue::new(),
            passed: Queue::new(),
            reclaimers: AtomicU32::new(0),
            bell: Event::new(),
        }
    }
}

impl Inner {
    /// After bytes went out of `node` and its ancestors: queues those of them that somebody waits for. The caller
    /// holds a lock or handle that keeps the node in place.
    pub(super) fn look_below(&self, node: &Node) {
        // With the waiter's fence: either it sees the bytes gone or this sees it waiting.
        if self.signals.waiters.load(SeqCst) == 0 {
            return;
        }
        let mut at = Some(node);
        while let Some(n) = at {
            if let Some(knobs) =
                n.knobs().filter(|k| is_waited(k) && n.counter.current() <= k.high.load(Relaxed))
            {
                self.signals.fell.push(self, n, &knobs.fell);
            }
            at = n.parent();
        }
    }

    /// Whether somebody waits for `node` or an ancestor.
    pub(super) fn is_waited_for(&self, node: &Node) -> bool {
        let mut at = Some(node);
        while let Some(n) = at {
            if n.knobs().is_some_and(is_waited) {
                return true;
            }
            at = n.parent();
        }
        false
    }

    /// Wakes those who wait for a queued group. With no lock held: wakers are foreign code.
    #[inline]
    pub(crate) fn settle(&self) {
        if !self.signals.fell.0.load(Relaxed).is_null() {
            self.signals.fell.take(self, |node| super::wait::wake(self, node));
        }
    }

    /// Tells the background reclaimers of a group above its `high`. False: there are none.
    pub(crate) fn tell_reclaimers(&self, node: &Node) -> bool {
        if self.signals.reclaimers.load(Acquire) == 0 {
            return false;
        }
        if let Some(knobs) = node.knobs()
            && self.signals.passed.push(self, node, &knobs.passed)
        {
            fence(SeqCst);
            if self.signals.reclaimers.load(Relaxed) == 0 {
                self.take_passed(|_| {}); // the last one has just gone: what is queued is held
                return false;
            }
            self.signals.bell.bump();
        }
        true
    }

    /// Takes the groups that passed their `high`. False: there were none.
    pub(crate) fn take_passed(&self, each: impl FnMut(&Node)) -> bool {
        self.signals.passed.take(self, each)
    }
}

fn is_waited(knobs: &Knobs) -> bool {
    knobs.waiting.load(Relaxed) > 0
}
