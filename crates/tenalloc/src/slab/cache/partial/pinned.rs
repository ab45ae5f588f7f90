//! Slabs of a chunk that is being emptied or looked at: found from the chunk, not from a list.
//!
//! Apart from `partial` because whoever comes from the chunk has no object of the slab and did not find it under the
//! node's lock: it may have gone meanwhile, which must be looked at first.

use super::{GONE, HELD, Record, cache_of};
use crate::controller::Inner;
use crate::page::chunk::Held;
use crate::slab::slab::{Kind, Slab};
use core::ptr::NonNull;
use core::sync::atomic::Ordering::*;

impl Record {
    /// Takes the slabs of chunks that are being emptied off the lists of `node`, or puts those back that no longer are.
    pub(crate) fn isolate(&self, inner: &Inner, chunk: Held, node: u8) {
        let mut page = 0;
        while let Some((slab, next)) = chunk.next_run(page) {
            page = next;
            let mut n = self.node(node).lock();
            if self.owns(slab) {
                let slab = slab.as_ptr();
                self.relist(&mut n, slab);
                // SAFETY: the lock is held.
                let (out, offline) = unsafe { ((*slab).out(), (*slab).offline.load(Acquire)) };
                // SAFETY: as above.
                if out == 0 && offline && unsafe { (*slab).list } != HELD {
                    self.drop_slab(inner, &mut n, slab);
                }
            }
        }
    }

    /// Whether a run of a chunk that is held is a slab of this cache. The lock of its node is held.
    fn owns(&self, slab: NonNull<Slab>) -> bool {
        // SAFETY: descriptors of such a chunk are not used again; while the lock is held a slab of
        // this cache stays one. It may have gone between the look at the chunk and the lock. One that is not of this
        // cache may be in the making: its kind is fixed by then, its cache is not.
        unsafe {
            (*slab.as_ptr()).kind == Kind::Slab
                && core::ptr::eq(cache_of(slab.as_ptr()).load(Acquire), self)
                && (*slab.as_ptr()).list != GONE
        }
    }

    /// Runs `look` on a slab of this cache in a chunk that is held, with the lock of its node; 0 if it is none.
    pub(in crate::slab) fn with_slab(
        &self,
        slab: NonNull<Slab>,
        node: u8,
        look: impl FnOnce(&mut Slab) -> u64,
    ) -> u64 {
        let _n = self.node(node).lock();
        // SAFETY: a slab of this cache stays one while the lock is held, and only `owners` is touched without it.
        if self.owns(slab) { look(unsafe { &mut *slab.as_ptr() }) } else { 0 }
    }

    /// Keeps a slab of this cache in a chunk that is held from going. False: it is none, or went.
    pub(crate) fn pin(&self, slab: NonNull<Slab>, node: u8) -> bool {
        let mut n = self.node(node).lock();
        // An empty slab may be on its way out, and one in the list of empty ones must not be counted as used.
        // SAFETY: as in `owns`.
        let owned = self.owns(slab) && unsafe { (*slab.as_ptr()).out() } > 0;
        if owned {
            // SAFETY: the lock is held.
            let held = unsafe {
                (*slab.as_ptr()).set_out((*slab.as_ptr()).out() + 1);
                (*slab.as_ptr()).list == HELD
            };
            n.out += 1;
            n.held_out += u64::from(held);
        }
        owned
    }

    /// Objects handed out of a pinned slab, without the pin.
    pub(crate) fn out(&self, slab: NonNull<Slab>, node: u8) -> u32 {
        let _n = self.node(node).lock();
        // SAFETY: pinned, so in place; the lock is held.
        u32::from(unsafe { (*slab.as_ptr()).out() }) - 1
    }

    /// The reverse of [`pin`](Self::pin).
    pub(crate) fn unpin(&self, inner: &Inner, slab: NonNull<Slab>, node: u8) {
        let mut n = self.node(node).lock();
        let slab = slab.as_ptr();
        // SAFETY: pinned, so in place; the lock is held.
        unsafe {
            (*slab).set_out((*slab).out() - 1);
            n.came_back(&*slab);
        }
        // SAFETY: as above.
        if unsafe { (*slab).out() == 0 && (*slab).list != HELD } {
            // SAFETY: as above; nobody has an object of the slab.
            unsafe { (*slab).owners.reset(&inner.vectors(&*slab)) };
            self.drop_slab(inner, &mut n, slab);
        } else {
            self.relist(&mut n, slab);
        }
    }
}
