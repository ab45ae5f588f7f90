//! Slabs taken off the lists of their node to be emptied, the sparsest first.
//!
//! Apart from `partial` because here a slab is nobody's to allocate from: while it is held, objects only come back to
//! it, it stays in place when the last one did, and its links are the holder's.

use super::{HELD, NOWHERE, Node, Record, unlist};
use crate::controller::Inner;
use crate::slab::slab::Slab;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::Relaxed;

/// Slabs of one cache and node that somebody holds.
pub(in crate::slab) struct Chain {
    first: *mut Slab,
}

impl Chain {
    pub(in crate::slab) const fn new() -> Self {
        Self { first: null_mut() }
    }

    /// Adds a slab that the caller holds.
    pub(in crate::slab) fn push(&mut self, slab: NonNull<Slab>) {
        // SAFETY: the slab is held by the caller, and from here on by the chain: its link is the holder's.
        unsafe { (*slab.as_ptr()).next = self.first };
        self.first = slab.as_ptr();
    }

    pub(in crate::slab) fn pop(&mut self) -> Option<NonNull<Slab>> {
        let slab = NonNull::new(self.first)?;
        // SAFETY: slabs in the chain are held.
        self.first = unsafe { (*slab.as_ptr()).next };
        Some(slab)
    }
}

impl Node {
    /// Free objects of slabs that are neither empty nor held. Those of slabs in chunks that are being emptied are in it
    /// though they are not handed out.
    fn room(&self, objects: u16) -> u64 {
        let slabs = (self.slabs - self.empty).saturating_sub(self.held);
        (slabs * u64::from(objects)).saturating_sub(self.out - self.held_out)
    }
}

impl Record {
    /// Takes the sparsest slab off the lists if what the others have free holds its objects and `pending` more. It is
    /// the caller's to [`release`](Self::release), and comes with the number of objects that are out of it.
    pub(in crate::slab) fn hold_sparsest(
        &self,
        inner: &Inner,
        node: u8,
        pending: u64,
    ) -> Option<(NonNull<Slab>, u64)> {
        let mut n = self.node(node).lock();
        let slab =
            NonNull::new(n.lists[n.listed.checked_ilog2().map(|_| n.listed.trailing_zeros() as usize)?])?;
        // SAFETY: slabs on our lists are ours; the lock is held.
        let out = u64::from(unsafe { slab.as_ref() }.out());
        let own_room = u64::from(self.objects) - out;
        if pending + out > n.room(self.objects).saturating_sub(own_room) {
            return None;
        }
        unlist(&mut n, slab.as_ptr());
        // SAFETY: as above.
        unsafe { (*slab.as_ptr()).list = HELD };
        n.held += 1;
        n.held_out += out;
        inner.chunks.withdraw(slab, true);
        Some((slab, out))
    }

    /// A free object of the fullest slab that is not empty.
    pub(in crate::slab) fn take_dense(&self, node: u8) -> Option<NonNull<u8>> {
        let mut n = self.node(node).lock();
        loop {
            let slab = n.fullest()?;
            // SAFETY: slabs on our lists are ours; the lock is held.
            let popped = unsafe { (*slab).pop(self) };
            match popped {
                Ok(Some(object)) => {
                    n.out += 1;
                    self.relist(&mut n, slab);
                    return NonNull::new(object);
                }
                Ok(None) => unlist(&mut n, slab), // it lost its free objects to an overwritten list
                Err(()) => {
                    self.corrupted.fetch_add(1, Relaxed);
                }
            }
        }
    }

    /// Objects out of a held slab.
    pub(in crate::slab) fn out_of_held(&self, slab: NonNull<Slab>, node: u8) -> u16 {
        let _n = self.node(node).lock();
        // SAFETY: held, so in place; the lock is held.
        unsafe { slab.as_ref() }.out()
    }

    /// Lets go of a held slab: it goes if nothing is out of it, else it is on its list again.
    pub(in crate::slab) fn release(&self, inner: &Inner, slab: NonNull<Slab>, node: u8) {
        let mut n = self.node(node).lock();
        inner.chunks.withdraw(slab, false);
        let at = slab.as_ptr();
        // SAFETY: held, so in place; the lock is held.
        let out = unsafe {
            (*at).list = NOWHERE;
            (*at).out()
        };
        n.held -= 1;
        n.held_out -= u64::from(out);
        if out > 0 {
            return self.relist(&mut n, at);
        }
        // SAFETY: as above. Nobody has an object of the slab or is on his way to one.
        unsafe { (*at).owners.reset(&inner.vectors(&*at)) };
        self.drop_slab(inner, &mut n, at);
    }
}
