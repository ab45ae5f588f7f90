//! A cache's slabs on one node: which have free objects, how full they are, when one is made and when it goes.
//!
//! `runs`: which slab objects are best taken from. `sparse`: slabs that are taken off the lists to be emptied. `pinned`:
//! slabs of a chunk that somebody goes through.

mod pinned;
mod runs;
mod sparse;

use self::runs::Runs;
pub(super) use self::runs::inverse;
pub(in crate::slab) use self::sparse::Chain;
use super::Record;
use crate::controller::Inner;
use crate::group::owner::NOBODY;
use crate::slab::sheaf::{Barn, Sheaf};
use crate::slab::slab::Slab;
use crate::sync::{Guard, Lock};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// Lists of slabs with free objects: 0 to 31 by how full they are, and the empty ones. With up to 32 objects a slab each
/// number of them has a list of its own.
const FULLNESS: usize = 32;
const EMPTY: u8 = FULLNESS as u8;
/// A slab without free objects is in no list.
const NOWHERE: u8 = u8::MAX;
/// It was given back: its descriptor may still be found in a chunk that is held, but is nobody's slab.
const GONE: u8 = u8::MAX - 1;
/// Somebody is emptying it (`sparse`): it is in no list, and does not go before he lets go of it.
const HELD: u8 = u8::MAX - 2;

/// A slab with fewer objects than this has few.
const FEW: u16 = 16;

/// A cache's slabs on one node.
pub(crate) struct Node {
    lists: [*mut Slab; FULLNESS + 1],
    /// Which of the lists of partly filled slabs have any.
    listed: u32,
    slabs: u64,
    empty: u64,
    /// Slabs that are held, and objects out of them.
    held: u64,
    held_out: u64,
    /// Objects out: with users and in sheaves.
    out: u64,
    barn: Barn,
    runs: Runs,
}

impl Node {
    pub(super) const fn new() -> Self {
        Self {
            lists: [null_mut(); FULLNESS + 1],
            listed: 0,
            slabs: 0,
            empty: 0,
            held: 0,
            held_out: 0,
            out: 0,
            barn: Barn::new(),
            runs: Runs::new(),
        }
    }

    /// The partly filled slab with the fewest free objects, as far as the lists tell.
    fn fullest(&self) -> Option<*mut Slab> {
        let list = self.listed.checked_ilog2()?;
        Some(self.lists[list as usize])
    }

    /// One object of `slab` less is out.
    fn came_back(&mut self, slab: &Slab) {
        self.out -= 1;
        self.held_out -= u64::from(slab.list == HELD);
    }
}

// SAFETY: the pointers lead to slabs of this cache and node alone; they are reached through the lock.
unsafe impl Send for Node {}

impl Record {
    fn node(&self, node: u8) -> &Lock<Node> {
        // SAFETY: there is one a node, and callers pass nodes of the topology.
        unsafe { self.nodes.add(node.into()).as_ref() }
    }

    /// The lock of a node, for a fork.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn raw_lock(&self, node: u8) -> &crate::sync::Raw {
        self.node(node).raw()
    }

    /// A full sheaf from the node's barn for an empty one.
    pub(in crate::slab) fn full_for(&self, inner: &Inner, node: u8, empty: Sheaf) -> Option<Sheaf> {
        self.node(node).lock().barn.full_for(empty, &inner.meta)
    }

    /// An empty sheaf for a full one, which the node's barn keeps.
    pub(in crate::slab) fn empty_for(&self, inner: &Inner, node: u8, full: Sheaf) -> Option<Sheaf> {
        self.node(node).lock().barn.empty_for(full, &inner.meta)
    }

    /// A sheaf of the node's barn, to be emptied and destroyed.
    pub(in crate::slab) fn take_from_barn(&self, node: u8) -> Option<Sheaf> {
        self.node(node).lock().barn.take()
    }

    /// Objects in the barns of all nodes.
    pub(super) fn in_barns(&self, inner: &Inner) -> u64 {
        (0..inner.topology.nodes()).map(|node| self.node(node).lock().barn.objects()).sum()
    }

    /// Takes free objects of `node` out of its slabs, up to `want`, making a slab if none has any. Less than one: the page source
    /// gave nothing. For an `owner` they are all of one slab, and fewer if that has no more; but of as many as it takes
    /// where slabs have few objects.
    pub(crate) fn take_out(
        &self,
        inner: &Inner,
        node: u8,
        owner: u32,
        want: usize,
        mut each: impl FnMut(*mut u8),
    ) -> usize {
        let mut n = self.node(node).lock();
        let few = self.objects < FEW;
        let (before, mut got) = (n.slabs, 0);
        while got < want && (got == 0 || few || owner == NOBODY) {
            let slab = match n.best(owner, want - got, self) {
                Some(slab) => slab,
                // Mostly only for the first object: a refill does not grow the cache for its tail.
                None if got == 0 || few && owner != NOBODY => match self.new_slab(inner, &mut n, node) {
                    Some(slab) => slab,
                    None => break,
                },
                None => break,
            };
            // SAFETY: slabs on our lists are ours; the lock is held.
            let s = unsafe { &mut *slab };
            let mut exhausted = false;
            while got < want && !exhausted {
                match s.pop(self) {
                    Ok(Some(object)) => {
                        n.out += 1;
                        got += 1;
                        each(object);
                    }
                    Ok(None) => exhausted = true,
                    Err(()) => {
                        self.corrupted.fetch_add(1, Relaxed);
                    }
                }
            }
            if exhausted && s.out() < self.objects {
                unlist(&mut n, slab); // it lost objects to an overwritten list: none left that we know of
            } else {
                self.relist(&mut n, slab);
            }
            if !few {
                n.runs.remember(owner, slab);
            }
        }
        if n.slabs > before {
            inner.slab_bytes.fetch_add((n.slabs - before) * self.slab_bytes(), Relaxed);
        }
        got
    }

    /// A free object of the node that its policy says for this CPU, or of another.
    pub(crate) fn take_anywhere(&self, inner: &Inner) -> Option<NonNull<u8>> {
        let nodes = inner.topology.nodes();
        let (wanted, elsewhere) = self.wanted_node(inner.lock_cpu().node(), nodes);
        let others = (0..nodes).filter(|node| elsewhere && *node != wanted);
        core::iter::once(wanted).chain(others).find_map(|node| {
            let mut object = None;
            self.take_out(inner, node, NOBODY, 1, |taken| object = NonNull::new(taken));
            object
        })
    }

    /// A slab that is in no list before something was taken out of it, and whose bytes the caller counts.
    fn new_slab(&self, inner: &Inner, n: &mut Guard<'_, Node>, node: u8) -> Option<*mut Slab> {
        let slab = inner.chunks.alloc_slab(self.pages.into(), node, self.life())?.as_ptr();
        // SAFETY: just made and ours; who walks over the chunk may be looking (`owns`).
        unsafe { cache_of(slab) }.store(core::ptr::from_ref(self).cast_mut(), Release);
        // SAFETY: as above.
        unsafe { (*slab).allow_ready(self) };
        n.slabs += 1;
        Some(slab)
    }

    /// Puts an object back into its slab. An empty slab goes back to its chunk unless it is all that the node
    /// has free.
    pub(crate) fn put_back(&self, inner: &Inner, slab: NonNull<Slab>, object: *mut u8) {
        // SAFETY: the object is out, so its slab is in place; the lock is taken below, `node` is fixed.
        let node = unsafe { slab.as_ref().node };
        self.put_all_back(inner, node, false, core::iter::once(object));
    }

    /// As [`put_back`](Self::put_back), for objects of this cache, all of `node`; `owned`: they have owners still. Those of
    /// one slab are best next to each other.
    pub(crate) fn put_all_back(
        &self,
        inner: &Inner,
        node: u8,
        owned: bool,
        objects: impl Iterator<Item = *mut u8>,
    ) {
        let mut n = self.node(node).lock();
        let (before, mut last) = (n.slabs, null_mut());
        for object in objects {
            // SAFETY: the object is out, so its slab is in place.
            let slab = unsafe { inner.chunks.run_of(object as usize) }.as_ptr();
            if slab != last {
                self.see_to(inner, &mut n, last);
                last = slab;
            }
            // SAFETY: as above; the lock is held.
            unsafe {
                let index = (*slab).push(object, self);
                if owned {
                    (*slab).owners.clear(index);
                }
                n.came_back(&*slab);
            }
        }
        self.see_to(inner, &mut n, last);
        if n.slabs < before {
            inner.slab_bytes.fetch_sub((before - n.slabs) * self.slab_bytes(), Relaxed);
        }
    }

    /// Sees to a slab, or to none, to which objects came back.
    fn see_to(&self, inner: &Inner, n: &mut Guard<'_, Node>, slab: *mut Slab) {
        if slab.is_null() {
            return;
        }
        // SAFETY: the lock is held.
        if unsafe { (*slab).out() == 0 && (*slab).list != HELD } {
            self.emptied(inner, n, slab);
        } else {
            self.relist(n, slab);
        }
    }

    /// Sees to a slab from which no object is out any more, nor will come back.
    fn emptied(&self, inner: &Inner, n: &mut Guard<'_, Node>, slab: *mut Slab) {
        // SAFETY: the lock is held. Nobody has an object of the slab or is on his way to one.
        unsafe {
            (*slab).owners.reset(&inner.vectors(&*slab));
            (*slab).renew();
        }
        unlist(n, slab);
        // SAFETY: as above.
        let unwanted = unsafe { (*slab).offline.load(Acquire) };
        if n.empty > 0 || n.listed != 0 || unwanted {
            self.unmake(inner, n, slab);
        } else {
            self.relist(n, slab);
        }
    }

    /// An object that was taken out of a slab is given neither to anybody nor back, until the last other one of the
    /// slab is back.
    pub(in crate::slab) fn withhold(&self, slab: NonNull<Slab>) {
        // SAFETY: the object is out, so its slab is in place; `node` is fixed.
        let mut n = self.node(unsafe { slab.as_ref().node }).lock();
        let slab = slab.as_ptr();
        // SAFETY: the lock is held.
        unsafe {
            (*slab).set_out((*slab).out() - 1);
            (*slab).broken = true;
            n.came_back(&*slab);
        }
        self.relist(&mut n, slab);
    }

    fn drop_slab(&self, inner: &Inner, n: &mut Guard<'_, Node>, slab: *mut Slab) {
        inner.slab_bytes.fetch_sub(self.slab_bytes(), Relaxed);
        self.unmake(inner, n, slab);
    }

    /// Gives an empty slab back, whose bytes the caller counts.
    fn unmake(&self, inner: &Inner, n: &mut Guard<'_, Node>, slab: *mut Slab) {
        unlist(n, slab);
        // SAFETY: a slab of ours until the chunk has it; the lock is held.
        unsafe { (*slab).list = GONE };
        if self.objects >= FEW {
            n.runs.forget(slab);
        }
        n.slabs -= 1;
        // SAFETY: an empty slab, in no list, with no vector.
        unsafe { inner.chunks.free(NonNull::new_unchecked(slab)) };
    }

    /// Gives back every empty slab. Returns their bytes.
    pub(crate) fn shrink(&self, inner: &Inner) -> u64 {
        let mut bytes = 0;
        for node in 0..inner.topology.nodes() {
            let mut n = self.node(node).lock();
            while !n.lists[usize::from(EMPTY)].is_null() {
                let slab = n.lists[usize::from(EMPTY)];
                self.drop_slab(inner, &mut n, slab);
                bytes += self.slab_bytes();
            }
        }
        bytes
    }

    fn relist(&self, n: &mut Guard<'_, Node>, slab: *mut Slab) {
        // SAFETY: a slab of ours; the lock is held.
        let s = unsafe { &mut *slab };
        let list = match s.out() {
            _ if s.list == HELD => return,
            _ if s.offline.load(Acquire) => NOWHERE,
            0 => EMPTY,
            out if out >= self.objects => NOWHERE,
            out => self.fullness_of(out) as u8,
        };
        if list == s.list {
            return;
        }
        unlist(n, slab);
        if list != NOWHERE {
            let head = &mut n.lists[usize::from(list)];
            s.prev = null_mut();
            s.next = *head;
            if !head.is_null() {
                // SAFETY: as above.
                unsafe { (**head).prev = slab };
            }
            *head = slab;
            n.empty += u64::from(list == EMPTY);
            n.listed |= 1u32.checked_shl(list.into()).unwrap_or(0);
            s.list = list;
        }
    }

    /// Slabs and objects out, all nodes together.
    pub(crate) fn sums(&self, inner: &Inner) -> (u64, u64) {
        (0..inner.topology.nodes()).fold((0, 0), |(slabs, out), node| {
            let n = self.node(node).lock();
            (slabs + n.slabs, out + n.out)
        })
    }
}

/// The cache of a slab, where it may be told just now.
///
/// # Safety
/// The descriptor is in place.
unsafe fn cache_of<'a>(slab: *mut Slab) -> &'a AtomicPtr<Record> {
    // SAFETY: a pointer in a descriptor in place; it is written here alone, and read otherwise by who has an object.
    unsafe { AtomicPtr::from_ptr((&raw mut (*slab).cache).cast()) }
}

fn unlist(n: &mut Guard<'_, Node>, slab: *mut Slab) {
    // SAFETY: a slab of this node; the lock is held.
    unsafe {
        let s = &mut *slab;
        if s.list >= HELD {
            return;
        }
        if s.prev.is_null() {
            n.lists[usize::from(s.list)] = s.next;
            if s.next.is_null() {
                n.listed &= !1u32.checked_shl(s.list.into()).unwrap_or(0);
            }
        } else {
            (*s.prev).next = s.next;
        }
        if !s.next.is_null() {
            (*s.next).prev = s.prev;
        }
        n.empty -= u64::from(s.list == EMPTY);
        s.list = NOWHERE;
    }
}
