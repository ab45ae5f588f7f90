//! A cache's slabs on one node: which have free objects, how full they are, when one is made and when it goes.

use super::Record;
use crate::controller::Inner;
use crate::page::PAGE;
use crate::page::chunk::Held;
use crate::slab::sheaf::{Barn, Sheaf};
use crate::slab::slab::{Kind, Slab};
use crate::sync::{Guard, Lock};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// Lists of slabs with free objects: 0 to 3 by how full they are, and the empty ones.
const FULLNESS: usize = 4;
const EMPTY: u8 = FULLNESS as u8;
/// A slab without free objects is in no list.
const NOWHERE: u8 = u8::MAX;
/// It was given back: its descriptor may still be found in a chunk that is held, but is nobody's slab.
const GONE: u8 = u8::MAX - 1;

/// A cache's slabs on one node.
pub(crate) struct Node {
    lists: [*mut Slab; FULLNESS + 1],
    slabs: u64,
    empty: u64,
    /// Objects out: with users and in sheaves.
    out: u64,
    barn: Barn,
}

impl Node {
    pub(super) const fn new() -> Self {
        Self { lists: [null_mut(); FULLNESS + 1], slabs: 0, empty: 0, out: 0, barn: Barn::new() }
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

    /// Takes free objects of `node` out of its slabs, up to `want`, making a slab if none has any. Less than
    /// one: the page source gave nothing.
    pub(crate) fn take_out(
        &self,
        inner: &Inner,
        node: u8,
        want: usize,
        mut each: impl FnMut(*mut u8),
    ) -> usize {
        let mut n = self.node(node).lock();
        let mut got = 0;
        while got < want {
            // The fullest slabs first: what is nearly empty gets a chance to go.
            let list = (0..=FULLNESS)
                .rev()
                .map(|l| (l + FULLNESS) % (FULLNESS + 1))
                .find(|l| !n.lists[*l].is_null());
            let slab = match list {
                Some(list) => n.lists[list],
                // A new slab only for the first object: a refill does not grow the cache for its tail.
                None if got == 0 => match self.new_slab(inner, &mut n, node) {
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
            if exhausted && s.out < self.objects {
                unlist(&mut n, slab); // it lost objects to an overwritten list: none left that we know of
            } else {
                self.relist(&mut n, slab);
            }
        }
        got
    }

    fn new_slab(&self, inner: &Inner, n: &mut Guard<'_, Node>, node: u8) -> Option<*mut Slab> {
        let slab = inner.chunks.alloc(self.pages.into(), PAGE, node, Kind::Slab)?.as_ptr();
        // SAFETY: just made and ours; who walks over the chunk may be looking (`owns`).
        unsafe { cache_of(slab) }.store(core::ptr::from_ref(self).cast_mut(), Release);
        inner.slab_bytes.fetch_add(self.slab_bytes(), Relaxed);
        n.slabs += 1;
        self.relist(n, slab);
        Some(slab)
    }

    /// Puts an object back into its slab. An empty slab goes back to its chunk unless it is all that the node
    /// has free.
    pub(crate) fn put_back(&self, inner: &Inner, slab: NonNull<Slab>, object: *mut u8) {
        // SAFETY: the object is out, so its slab is in place; the lock is taken below, `node` is fixed.
        let node = unsafe { slab.as_ref().node };
        self.put_back_locked(inner, &mut self.node(node).lock(), slab, object);
    }

    /// As [`put_back`](Self::put_back), for objects of this cache, all of `node`.
    pub(crate) fn put_all_back(&self, inner: &Inner, node: u8, objects: impl Iterator<Item = *mut u8>) {
        let mut n = self.node(node).lock();
        for object in objects {
            // SAFETY: the object is out, so its slab is in place.
            let slab = unsafe { inner.chunks.run_of(object as usize) };
            self.put_back_locked(inner, &mut n, slab, object);
        }
    }

    fn put_back_locked(&self, inner: &Inner, n: &mut Guard<'_, Node>, slab: NonNull<Slab>, object: *mut u8) {
        let slab = slab.as_ptr();
        // SAFETY: the lock is held.
        unsafe { (*slab).push(object, self) };
        n.out -= 1;
        self.relist(n, slab);
        // SAFETY: the lock is held.
        if unsafe { (*slab).out } == 0 {
            // SAFETY: as above. Nobody has an object of the slab or is on his way to one.
            unsafe {
                (*slab).owners.reset(&inner.vectors(&*slab));
                (*slab).renew();
            }
            // SAFETY: as above.
            let unwanted = unsafe { (*slab).offline.load(Acquire) };
            let others = n.empty > 1 || n.lists[..FULLNESS].iter().any(|l| !l.is_null());
            if others || unwanted {
                self.drop_slab(inner, n, slab);
            }
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
            (*slab).out -= 1;
            (*slab).broken = true;
        }
        n.out -= 1;
        self.relist(&mut n, slab);
    }

    fn drop_slab(&self, inner: &Inner, n: &mut Guard<'_, Node>, slab: *mut Slab) {
        unlist(n, slab);
        // SAFETY: a slab of ours until the chunk has it; the lock is held.
        unsafe { (*slab).list = GONE };
        n.slabs -= 1;
        inner.slab_bytes.fetch_sub(self.slab_bytes(), Relaxed);
        // SAFETY: an empty slab, in no list, with no vector.
        unsafe { inner.chunks.free(NonNull::new_unchecked(slab)) };
    }

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
                let (out, offline) = unsafe { ((*slab).out, (*slab).offline.load(Acquire)) };
                if out == 0 && offline {
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
        let owned = self.owns(slab) && unsafe { (*slab.as_ptr()).out } > 0;
        if owned {
            // SAFETY: the lock is held.
            unsafe { (*slab.as_ptr()).out += 1 };
            n.out += 1;
        }
        owned
    }

    /// Objects handed out of a pinned slab, without the pin.
    pub(crate) fn out(&self, slab: NonNull<Slab>, node: u8) -> u32 {
        let _n = self.node(node).lock();
        // SAFETY: pinned, so in place; the lock is held.
        u32::from(unsafe { (*slab.as_ptr()).out }) - 1
    }

    /// The reverse of [`pin`](Self::pin).
    pub(crate) fn unpin(&self, inner: &Inner, slab: NonNull<Slab>, node: u8) {
        let mut n = self.node(node).lock();
        let slab = slab.as_ptr();
        // SAFETY: pinned, so in place; the lock is held.
        unsafe { (*slab).out -= 1 };
        n.out -= 1;
        // SAFETY: as above.
        if unsafe { (*slab).out } == 0 {
            // SAFETY: as above; nobody has an object of the slab.
            unsafe { (*slab).owners.reset(&inner.vectors(&*slab)) };
            self.drop_slab(inner, &mut n, slab);
        } else {
            self.relist(&mut n, slab);
        }
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
        let list = match s.out {
            _ if s.offline.load(Acquire) => NOWHERE,
            0 => EMPTY,
            out if out >= self.objects => NOWHERE,
            out => (usize::from(out) * FULLNESS / usize::from(self.objects)) as u8,
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
            s.list = list;
        }
    }

    /// Slabs and objects out, all nodes together.
    pub(in crate::slab) fn sums(&self, inner: &Inner) -> (u64, u64) {
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
        if s.list == NOWHERE {
            return;
        }
        if s.prev.is_null() {
            n.lists[usize::from(s.list)] = s.next;
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
