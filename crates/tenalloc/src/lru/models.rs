//! Models of the life of a list, for loom: real lists behind real locks, in every order of their steps.
//!
//! The index is a flag here, "published", for one group; what [`handle`](super::handle) and [`index`](super::index) do
//! around the list is done in the same order. That the memory of a list is used again only after every CPU was visited
//! is checked by loom: each look at a list is a read of a cell that the reuse writes.

use super::list::{List, LruItem};
use crate::sync::atomic::{AtomicU32, Ordering::*};
use crate::sync::{Guard, Lock, Rank};
use core::ptr::NonNull;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::boxed::Box;

/// The lists of a group that is about to go and of its parent.
struct Bed {
    area: Lock<()>,
    published: AtomicU32,
    removed: AtomicU32,
    child: Lock<List>,
    parent: Lock<List>,
    /// Stands for the memory of the child's list.
    memory: UnsafeCell<u32>,
    /// In what order removal does it; see `remove`.
    unpublish_first: bool,
}

// SAFETY: the cell is what the models are about; all else is behind locks.
unsafe impl Sync for Bed {}

impl Bed {
    fn new(unpublish_first: bool) -> Self {
        Self {
            area: Lock::new(Rank::Cpu, ()),
            published: AtomicU32::new(1),
            removed: AtomicU32::new(0),
            child: Lock::new(Rank::List, List::new()),
            parent: Lock::new(Rank::List, List::new()),
            memory: UnsafeCell::new(0),
            unpublish_first,
        }
    }

    /// `lock_list`: the list for objects of the child.
    fn lock_list(&self) -> Guard<'_, List> {
        let _cpu = self.area.lock();
        if self.published.load(Acquire) == 1 {
            self.memory.with(|_| ());
            let list = self.child.lock();
            if !list.dead {
                return list;
            }
        }
        assert_eq!(self.removed.load(Acquire), 1, "a group that lives has its list");
        self.parent.lock()
    }

    /// `reparent_lists`, the visit of every CPU, `free_lists`.
    fn remove(&self) {
        self.removed.store(1, Release);
        if self.unpublish_first {
            self.published.store(0, Release);
        }
        {
            let mut child = self.child.lock();
            child.drain_into(&mut self.parent.lock_as(Rank::ParentList));
        }
        self.published.store(0, Release);
        drop(self.area.lock());
        self.memory.with_mut(|_| ());
    }

    fn add(&self, item: NonNull<LruItem>) {
        // SAFETY: the item is leaked, and nobody else adds or deletes it.
        assert!(unsafe { self.lock_list().push(item) });
    }

    /// `ListLru::del`; false if the item is not on the list that it must be on.
    fn del(&self, item: NonNull<LruItem>) -> bool {
        let mut list = self.lock_list();
        let mut at = list.first();
        while at.is_some_and(|i| i != item) {
            // SAFETY: on the list, which is locked.
            at = at.and_then(|i| unsafe { list.next(i) });
        }
        // SAFETY: it was just found there.
        at.is_some() && unsafe { list.remove(item) }
    }
}

fn items() -> [NonNull<LruItem>; 2] {
    core::array::from_fn(|_| NonNull::from(Box::leak(Box::new(LruItem::new()))))
}

/// An item of the child is added, and another deleted, while the group is removed: each is found where it must be, and
/// what is left is on the parent's list.
#[test]
fn add_and_del_against_reparent() {
    let [mine, theirs] = items().map(|i| i.as_ptr() as usize);
    loom::model(move || {
        let [mine, theirs] = [mine, theirs].map(|i| NonNull::new(i as *mut LruItem).unwrap());
        // SAFETY: leaked, and no thread of an earlier run is left.
        unsafe { [mine, theirs].iter().for_each(|i| i.write(LruItem::new())) };
        let bed = Arc::new(Bed::new(false));
        bed.add(theirs);
        let other = bed.clone();
        let (a, b) = (mine.as_ptr() as usize, theirs.as_ptr() as usize);
        let t = thread::spawn(move || {
            let [a, b] = [a, b].map(|i| NonNull::new(i as *mut LruItem).unwrap());
            other.add(a);
            assert!(other.del(b), "it is on some list");
        });
        bed.remove();
        t.join().unwrap();
        let (child, parent) = (bed.child.lock(), bed.parent.lock_as(Rank::ParentList));
        assert!(child.dead && child.number == 0 && child.first().is_none());
        assert_eq!((parent.number, parent.first()), (1, Some(mine)));
    });
}

/// The order of Linux 6.13 to 7.1 takes the list out of the index first: loom finds the `del` that locks the parent's
/// list for an item that is still on the child's.
#[test]
#[should_panic(expected = "it is on some list")]
fn unpublishing_first_would_be_found() {
    let [item, _] = items().map(|i| i.as_ptr() as usize);
    loom::model(move || {
        let at = |i: usize| NonNull::new(i as *mut LruItem).unwrap();
        // SAFETY: as above.
        unsafe { at(item).write(LruItem::new()) };
        let bed = Arc::new(Bed::new(true));
        bed.add(at(item));
        let other = bed.clone();
        let t = thread::spawn(move || assert!(other.del(at(item)), "it is on some list"));
        bed.remove();
        t.join().unwrap();
    });
}
