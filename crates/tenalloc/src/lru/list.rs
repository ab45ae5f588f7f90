//! One list of one group on one node, and the item that links an object into it.

use core::cell::UnsafeCell;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU32, Ordering::*};

/// What a list needs of an object: 24 bytes inside it, at the offset that the [`ListLru`](super::ListLru) was told.
///
/// To be initialised with [`LruItem::new`] before the object is used with a list. An item is on one list at most.
#[repr(C)]
pub struct LruItem {
    links: UnsafeCell<Links>,
    state: AtomicU32,
}

struct Links {
    next: *mut LruItem,
    prev: *mut LruItem,
}

const LISTED: u32 = 1;
const REFERENCED: u32 = 2;
/// On the root's list for want of one of its own.
const STRAY: u32 = 4;

// SAFETY: the links are touched under the lock of the list alone; the state is atomic.
unsafe impl Send for LruItem {}
// SAFETY: as above.
unsafe impl Sync for LruItem {}

impl LruItem {
    /// An item on no list.
    pub const fn new() -> Self {
        Self {
            links: UnsafeCell::new(Links { next: null_mut(), prev: null_mut() }),
            state: AtomicU32::new(0),
        }
    }

    /// Marks a hit: the next walk leaves the object where it is and clears the mark. A store only if the mark is
    /// not there yet; no list moves.
    #[inline]
    pub fn reference(&self) {
        if self.state.load(Relaxed) & REFERENCED == 0 {
            self.state.fetch_or(REFERENCED, Relaxed);
        }
    }

    /// Clears the mark of a hit and tells whether it was there.
    pub fn take_reference(&self) -> bool {
        self.state.load(Relaxed) & REFERENCED != 0
            && self.state.fetch_and(!REFERENCED, Relaxed) & REFERENCED != 0
    }

    pub(crate) fn is_stray(&self) -> bool {
        self.state.load(Relaxed) & STRAY != 0
    }

    /// Notes where the item is about to be put. False: it is on a list already.
    pub(crate) fn set_stray(&self, stray: bool) -> bool {
        let state = self.state.load(Relaxed);
        if state & LISTED != 0 {
            return false;
        }
        self.state.store(state & !STRAY | if stray { STRAY } else { 0 }, Relaxed);
        true
    }

    /// Puts an item that is on no list onto a stack of such.
    ///
    /// # Safety
    /// The item is the caller's alone.
    pub(crate) unsafe fn stack(item: NonNull<Self>, top: &mut *mut Self) {
        // SAFETY: the caller's promise.
        unsafe { (*item.as_ref().links.get()).next = *top };
        *top = item.as_ptr();
    }

    /// Takes the top of a stack.
    ///
    /// # Safety
    /// The stack was made by [`stack`](Self::stack), and its items are the caller's alone.
    pub(crate) unsafe fn unstack(top: &mut *mut Self) -> Option<NonNull<Self>> {
        let item = NonNull::new(*top)?;
        // SAFETY: the caller's promise.
        *top = unsafe { (*item.as_ref().links.get()).next };
        Some(item)
    }

    /// Whether it is on a list. Only a hint while others may add or delete it.
    pub fn is_listed(&self) -> bool {
        self.state.load(Relaxed) & LISTED != 0
    }
}

impl Default for LruItem {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for LruItem {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LruItem").field("listed", &self.is_listed()).finish()
    }
}

/// A list: oldest first. It lies behind a lock; the item's links belong to whoever holds it.
pub(crate) struct List {
    first: *mut LruItem,
    last: *mut LruItem,
    pub(crate) number: u32,
    /// Drained for good: look at the parent.
    pub(crate) dead: bool,
    /// Pressure not yet turned into objects, in 1/65,536 of an object.
    pub(crate) carried: u64,
}

// SAFETY: the pointers lead to items of live objects, touched under the list's lock.
unsafe impl Send for List {}

impl List {
    pub(crate) const fn new() -> Self {
        Self { first: null_mut(), last: null_mut(), number: 0, dead: false, carried: 0 }
    }

    pub(crate) fn first(&self) -> Option<NonNull<LruItem>> {
        NonNull::new(self.first)
    }

    /// Puts an item at the end. False: it is on a list already.
    ///
    /// # Safety
    /// The item lives until it is deleted, and belongs on this list.
    pub(crate) unsafe fn push(&mut self, item: NonNull<LruItem>) -> bool {
        // SAFETY: the caller's promise.
        if unsafe { item.as_ref() }.state.fetch_or(LISTED, Relaxed) & LISTED != 0 {
            return false;
        }
        // SAFETY: as above.
        unsafe { self.link_last(item) };
        self.number += 1;
        true
    }

    /// # Safety
    /// As for [`push`](Self::push); the item is in no list's links.
    unsafe fn link_last(&mut self, item: NonNull<LruItem>) {
        // SAFETY: the lock is held; `last` is an item of this list.
        unsafe {
            *item.as_ref().links.get() = Links { next: null_mut(), prev: self.last };
            match self.last.as_ref() {
                Some(last) => (*last.links.get()).next = item.as_ptr(),
                None => self.first = item.as_ptr(),
            }
        }
        self.last = item.as_ptr();
    }

    /// # Safety
    /// The item is on this list.
    unsafe fn unlink(&mut self, item: NonNull<LruItem>) {
        // SAFETY: the lock is held, and so do the neighbours belong to this list.
        unsafe {
            let Links { next, prev } = *item.as_ref().links.get();
            match prev.as_ref() {
                Some(prev) => (*prev.links.get()).next = next,
                None => self.first = next,
            }
            match next.as_ref() {
                Some(next) => (*next.links.get()).prev = prev,
                None => self.last = prev,
            }
        }
    }

    /// Takes an item off. False: it is on no list.
    ///
    /// # Safety
    /// If the item is on a list, it is this one.
    pub(crate) unsafe fn remove(&mut self, item: NonNull<LruItem>) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            if item.as_ref().state.fetch_and(!LISTED, Relaxed) & LISTED == 0 {
                return false;
            }
            self.unlink(item);
        }
        self.number -= 1;
        true
    }

    /// Moves an item of this list to its end.
    ///
    /// # Safety
    /// The item is on this list.
    pub(crate) unsafe fn rotate(&mut self, item: NonNull<LruItem>) {
        // SAFETY: the caller's promise.
        unsafe {
            self.unlink(item);
            self.link_last(item);
        }
    }

    /// The item after `item`.
    ///
    /// # Safety
    /// The item is on this list.
    pub(crate) unsafe fn next(&self, item: NonNull<LruItem>) -> Option<NonNull<LruItem>> {
        // SAFETY: the caller's promise.
        NonNull::new(unsafe { (*item.as_ref().links.get()).next })
    }

    /// Moves everything to the end of `heir`, with the pressure carried, and marks this list dead.
    pub(crate) fn drain_into(&mut self, heir: &mut List) {
        if let Some(first) = NonNull::new(self.first) {
            // SAFETY: both locks are held; the ends are items of the two lists.
            unsafe {
                (*first.as_ref().links.get()).prev = heir.last;
                match heir.last.as_ref() {
                    Some(last) => (*last.links.get()).next = first.as_ptr(),
                    None => heir.first = first.as_ptr(),
                }
            }
            heir.last = self.last;
            heir.number += self.number;
            heir.carried += self.carried;
        }
        *self = Self { dead: true, ..Self::new() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::{boxed::Box, collections::VecDeque, vec::Vec};

    fn order(list: &List) -> Vec<NonNull<LruItem>> {
        let mut all = Vec::new();
        let mut at = list.first();
        while let Some(item) = at {
            all.push(item);
            // SAFETY: on the list.
            at = unsafe { list.next(item) };
        }
        all
    }

    proptest::proptest! {
        #[test]
        fn matches_a_plain_queue(steps in proptest::collection::vec((0u8..4, 0usize..12), 0..120)) {
            let items: Vec<Box<LruItem>> = (0..12).map(|_| Box::new(LruItem::new())).collect();
            let (mut list, mut heir) = (List::new(), List::new());
            let mut plain: VecDeque<NonNull<LruItem>> = VecDeque::new();
            for (what, which) in steps {
                let item = NonNull::from(&*items[which]);
                let at = plain.iter().position(|i| *i == item);
                // SAFETY: items live to the end of the test and are on this list only.
                unsafe {
                    match what {
                        0 => {
                            proptest::prop_assert_eq!(list.push(item), at.is_none());
                            if at.is_none() {
                                plain.push_back(item);
                            }
                        }
                        1 => {
                            proptest::prop_assert_eq!(list.remove(item), at.is_some());
                            at.map(|at| plain.remove(at));
                        }
                        _ => if let Some(at) = at {
                            list.rotate(item);
                            plain.remove(at);
                            plain.push_back(item);
                        }
                    }
                }
                proptest::prop_assert_eq!(&order(&list), &plain.iter().copied().collect::<Vec<_>>());
                proptest::prop_assert_eq!(list.number as usize, plain.len());
            }
            list.drain_into(&mut heir);
            proptest::prop_assert!(list.dead && list.number == 0 && list.first().is_none());
            proptest::prop_assert_eq!(order(&heir), plain.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_hit_is_a_mark() {
        let item = LruItem::new();
        assert!(!item.take_reference());
        item.reference();
        item.reference();
        assert!(item.take_reference() && !item.take_reference());
    }
}
