//! Across a fork in a program of several threads.
//!
//! A fork copies the memory of all threads but only the one that called it: a lock that another thread held at that
//! moment is held for ever in the child, and what it guards is half changed. So all locks are taken before, in the
//! order of their ranks, each with whatever else it guards at rest; the parent lets go of them, and the child makes
//! them anew, since who waited for them is not there.
//!
//! What a thread had out without a lock stays out in the child: an object that it was freeing just then stays charged.

use crate::controller::{Controller, Inner};
use crate::lru::lists::Lists;
use crate::slab::cache::Record;
use crate::sync::{Raw, this_thread};
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A call around a fork that is not this thread's turn: `fork_prepare` once, then `fork_parent` or `fork_child` once.
/// Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkOrder;

impl fmt::Display for ForkOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "not this thread's turn: first prepare, once, then parent or child, once, in the same thread",
        )
    }
}

impl core::error::Error for ForkOrder {}

/// The thread that prepared a fork, by its number; 0: none. It is the same thread in the child.
pub(crate) struct Forker(AtomicUsize);

impl Forker {
    pub(crate) const fn none() -> Self {
        Self(AtomicUsize::new(0))
    }

    fn is_me(&self) -> bool {
        self.0.load(Relaxed) == this_thread()
    }

    /// The fork is over. An error if this thread prepared none.
    fn end(&self) -> Result<(), ForkOrder> {
        if !self.is_me() {
            return Err(ForkOrder);
        }
        self.0.store(0, Relaxed);
        Ok(())
    }
}

impl Inner {
    /// Shows every lock below the areas of the CPUs but those of the depots, which only who holds an area takes.
    ///
    /// # Safety
    /// The caller has the locks above them.
    unsafe fn each_lower_lock(&self, mut each: impl FnMut(&Raw)) {
        let nodes = self.topology.nodes();
        // SAFETY: the locks of the tree, the indexes and the list of caches are held, so that everything on these lists
        // is in place; the root is the one group that has lists in every family.
        unsafe {
            self.tree.for_each_record(|_, first| {
                each_of_ring(first, |lists| {
                    (0..nodes).for_each(|node| each(Lists::list(lists, node).raw()));
                });
            });
            each(self.owners.raw_lock());
            let mut at: *const Record = self.caches.peek().first;
            while let Some(record) = at.as_ref() {
                (0..nodes).for_each(|node| each(record.raw_lock(node)));
                at = *record.next.get();
            }
            each(self.chunks.raw_lock());
            self.tree.for_each_record(|group, first| {
                if core::ptr::eq(group, self.root_node()) {
                    each_of_ring(first, |lists| each((*lists.as_ref().lru).shrinker.raw()));
                }
            });
            each(self.meta.raw_lock());
            self.tree.for_each_record(|group, _| {
                group.knobs().into_iter().flat_map(|knobs| knobs.raw_locks()).for_each(&mut each);
            });
            each(self.shrinkers.raw_lock());
        }
    }

    fn upper_locks(&self) -> [&Raw; 3] {
        [self.tree.raw_lock(), self.indexes.raw(), self.caches.raw()]
    }
}

/// # Safety
/// The lock of the indexes is held.
unsafe fn each_of_ring(first: *mut Lists, mut each: impl FnMut(NonNull<Lists>)) {
    let mut at = NonNull::new(first);
    while let Some(lists) = at {
        each(lists);
        // SAFETY: lists on a ring are in place while the lock of the indexes is held.
        at = NonNull::new(unsafe { lists.as_ref() }.next())
            .filter(|next| !core::ptr::eq(next.as_ptr(), first));
    }
}

impl Controller {
    /// Before a fork: waits until nothing is under way in this controller, and keeps it so. For `pthread_atfork`; several
    /// controllers one after the other, and after the fork in the reverse order.
    ///
    /// # Errors
    /// [`ForkOrder`]: this thread has prepared a fork already. Nothing was done.
    ///
    /// # Safety
    /// The thread holds no lock of this library (it is in no callback of it) and uses the controller for nothing until
    /// it has called [`fork_parent`](Self::fork_parent) or, in the child, [`fork_child`](Self::fork_child).
    pub unsafe fn fork_prepare(&self) -> Result<(), ForkOrder> {
        let inner = self.inner();
        if inner.forker.is_me() {
            return Err(ForkOrder);
        }
        inner.free_deferred();
        inner.upper_locks().into_iter().for_each(Raw::lock);
        inner.areas.lock_all().keep();
        // SAFETY: all locks above are held.
        unsafe { inner.each_lower_lock(Raw::lock) };
        inner.forker.0.store(this_thread(), Relaxed);
        Ok(())
    }

    /// After a fork, in the process that forked.
    ///
    /// # Errors
    /// [`ForkOrder`]: this thread did not call [`fork_prepare`](Self::fork_prepare), or ended that fork already. Nothing
    /// was done.
    pub fn fork_parent(&self) -> Result<(), ForkOrder> {
        let inner = self.inner();
        inner.forker.end()?;
        // SAFETY: all locks are held since `fork_prepare`.
        unsafe {
            inner.each_lower_lock(Raw::unlock);
            inner.areas.unlock_all();
        }
        inner.upper_locks().into_iter().for_each(Raw::unlock);
        Ok(())
    }

    /// After a fork, in the new process. Groups, limits, charges and objects are as they were, a copy. A background
    /// reclaimer is not there: its thread was not copied.
    ///
    /// # Errors
    /// [`ForkOrder`]: this thread did not call [`fork_prepare`](Self::fork_prepare) before it was copied. Nothing was
    /// done.
    ///
    /// # Safety
    /// This is the new process: what other threads hold and wait for is forgotten.
    pub unsafe fn fork_child(&self) -> Result<(), ForkOrder> {
        let inner = self.inner();
        inner.forker.end()?;
        crate::sync::forget_others();
        inner.reclaimers.reset_in_child();
        // SAFETY: all locks were held when this process was made, by the thread that is now its only one.
        unsafe { inner.each_lower_lock(Raw::reset) };
        inner.areas.reset_in_child();
        inner.upper_locks().into_iter().for_each(Raw::reset);
        inner.shrinkers.reset_in_child();
        Ok(())
    }
}
