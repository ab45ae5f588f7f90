//! The lists of one group in one ListLru, and the ring that links all that a group has.

use super::index::{Indexes, Record};
use super::list::List;
use crate::meta::Meta;
use crate::sync::{Guard, Lock, Rank};
use core::mem::size_of;
use core::ptr::{NonNull, null_mut};

/// The lists of one group in one ListLru: this head, then a list for each node.
pub(crate) struct Lists {
    /// The group's owner.
    pub(crate) owner: u32,
    nodes: u32,
    pub(crate) lru: *const Record,
    /// The group's chain, in a ring; guarded by the lock of the indexes.
    next: *mut Lists,
    prev: *mut Lists,
}

impl Lists {
    pub(super) fn bytes(nodes: u8) -> usize {
        size_of::<Self>() + usize::from(nodes) * size_of::<Lock<List>>()
    }

    pub(super) fn create(lru: &Record, owner: u32, nodes: u8, meta: &Meta) -> Option<NonNull<Self>> {
        let this = meta.alloc(Self::bytes(nodes))?.cast::<Self>();
        // SAFETY: a fresh block with room for the head and a list a node; both are aligned to 8.
        unsafe {
            this.write(Self { owner, nodes: nodes.into(), lru, next: null_mut(), prev: null_mut() });
            for node in 0..nodes {
                this.add(1).cast::<Lock<List>>().add(node.into()).write(Lock::new(Rank::List, List::new()));
            }
        }
        Some(this)
    }

    /// The next of the group's ring. The caller has the lock of the indexes.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn next(&self) -> *mut Self {
        self.next
    }

    /// # Safety
    /// `this` is in place, and `node` one of the topology's.
    pub(crate) unsafe fn list<'a>(this: NonNull<Self>, node: u8) -> &'a Lock<List> {
        // SAFETY: there is a list a node behind the head.
        unsafe { this.add(1).cast::<Lock<List>>().add(node.into()).as_ref() }
    }

    /// # Safety
    /// Nobody uses it any more.
    pub(super) unsafe fn destroy(this: NonNull<Self>, meta: &Meta) {
        // SAFETY: made by `create` with as many nodes.
        unsafe { meta.free(this.cast(), Self::bytes(this.as_ref().nodes as u8)) };
    }
}

/// A ring of lists through their `next` and `prev`; null is empty.
pub(crate) fn chain_in(head: &mut *mut Lists, lists: NonNull<Lists>) {
    let new = lists.as_ptr();
    // SAFETY: lists on a chain are in place, and the lock of the indexes is held.
    unsafe {
        match NonNull::new(*head) {
            None => {
                (*new).next = new;
                (*new).prev = new;
                *head = new;
            }
            Some(first) => {
                let last = first.as_ref().prev;
                (*new).next = first.as_ptr();
                (*new).prev = last;
                (*last).next = new;
                (*first.as_ptr()).prev = new;
            }
        }
    }
}

pub(crate) fn chain_out(head: &mut *mut Lists, lists: NonNull<Lists>) {
    let old = lists.as_ptr();
    // SAFETY: as in `chain_in`.
    unsafe {
        let (next, prev) = ((*old).next, (*old).prev);
        if next == old {
            *head = null_mut();
            return;
        }
        (*prev).next = next;
        (*next).prev = prev;
        if *head == old {
            *head = next;
        }
    }
}

/// The next lists of the ring, which begins one further from now on.
pub(crate) fn chain_turn(head: &mut *mut Lists) -> Option<NonNull<Lists>> {
    let lists = NonNull::new(*head)?;
    // SAFETY: as in `chain_in`.
    *head = unsafe { lists.as_ref() }.next;
    Some(lists)
}

/// All lists of a ring, from `first` on.
pub(super) fn ring<'a>(
    first: NonNull<Lists>,
    _held: &'a Guard<'_, Indexes>,
) -> impl Iterator<Item = NonNull<Lists>> + use<'a> {
    core::iter::successors(Some(first), move |lists| {
        // SAFETY: lists on a chain are in place while the lock of the indexes is held.
        NonNull::new(unsafe { lists.as_ref() }.next).filter(|next| *next != first)
    })
}
