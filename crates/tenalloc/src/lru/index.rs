//! A ListLru itself: owner → lists.
//!
//! Readers hold the lock of their CPU's area and nothing else. Writers hold the one lock of all indexes; what they
//! take out is freed after every CPU's lock was visited. Two owners stand in the index itself: most lists of
//! containers, and of tenants, have one user, and one user costs no table.

use super::hash::{Entry, FREE, GONE, Hash};
use super::lists::Lists;
use crate::controller::Inner;
use crate::error::{Error, Result};
use crate::meta::Meta;
use crate::reclaim::Shrinker;
use crate::sync::{Guard, Lock, Rank};
use core::mem::size_of;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

/// Owners that need no table.
const INLINE: usize = 2;

/// A ListLru itself.
pub(crate) struct Record {
    inline: [Entry; INLINE],
    hash: AtomicPtr<Hash>,
    pub(crate) root: NonNull<Lists>,
    /// From the start of an object to its item.
    pub(crate) offset: usize,
    pub(crate) holders: AtomicU32,
    pub(crate) owners: AtomicU32,
    pub(crate) shrinker: Lock<Option<&'static dyn Shrinker>>,
}

// SAFETY: readers and writers follow the rules at the head of this file.
unsafe impl Sync for Record {}
// SAFETY: as above.
unsafe impl Send for Record {}

/// What the lock of all indexes guards: nothing but the right to change one.
pub(crate) struct Indexes;

impl Record {
    pub(crate) fn create(inner: &Inner, offset: usize) -> Result<NonNull<Self>> {
        let no_memory = Error::NoMemory { bytes: size_of::<Self>() };
        let this = inner.meta.alloc(size_of::<Self>()).ok_or(no_memory)?.cast::<Self>();
        let empty = || Entry { owner: AtomicU32::new(FREE), lists: AtomicPtr::new(null_mut()) };
        let record = Self {
            inline: [empty(), empty()],
            hash: AtomicPtr::new(null_mut()),
            root: NonNull::dangling(),
            offset,
            holders: AtomicU32::new(1),
            owners: AtomicU32::new(0),
            shrinker: Lock::new(Rank::Meta, None),
        };
        // SAFETY: a fresh block of the right size.
        unsafe { this.write(record) };
        // SAFETY: just written.
        let lru = unsafe { this.as_ref() };
        match Lists::create(lru, inner.root_node().owner, inner.topology.nodes(), &inner.meta) {
            // SAFETY: nobody else has the record yet.
            Some(root) => unsafe {
                (*this.as_ptr()).root = root;
                inner.tree.chain(inner.root_node(), root, &mut inner.indexes.lock());
            },
            None => {
                // SAFETY: as above.
                unsafe { inner.meta.free(this.cast(), size_of::<Self>()) };
                return Err(no_memory);
            }
        }
        Ok(this)
    }

    /// The lists of `owner`, if it has any. The caller holds a CPU's lock, or that of the indexes.
    #[inline]
    pub(crate) fn find(&self, inner: &Inner, owner: u32) -> Option<NonNull<Lists>> {
        if owner == inner.root_node().owner {
            return Some(self.root);
        }
        let read = |entry: &Entry| {
            let lists = (entry.owner.load(Acquire) == owner).then(|| entry.lists.load(Acquire))?;
            // The place may have gone to another owner in between: the lists themselves know whose they are.
            // SAFETY: lists found in an index are in place while the caller holds its lock.
            NonNull::new(lists).filter(|lists| unsafe { lists.as_ref() }.owner == owner)
        };
        if let Some(lists) = self.inline.iter().find_map(read) {
            return Some(lists);
        }
        let hash = NonNull::new(self.hash.load(Acquire))?;
        // SAFETY: a table found here is in place while the caller holds its lock.
        let capacity = unsafe { hash.as_ref() }.capacity;
        let mut at = Hash::start(owner, capacity);
        for _ in 0..capacity {
            // SAFETY: as above.
            let entry = unsafe { Hash::entry(hash, at) };
            if entry.owner.load(Acquire) == FREE {
                return None;
            }
            if let Some(lists) = read(entry) {
                return Some(lists);
            }
            at = (at + 1) & (capacity - 1);
        }
        None
    }

    pub(super) fn publish(
        &self,
        inner: &Inner,
        lists: NonNull<Lists>,
        held: &mut Guard<'_, Indexes>,
    ) -> Result<()> {
        // SAFETY: just made.
        let owner = unsafe { lists.as_ref() }.owner;
        let is_free = |entry: &&Entry| matches!(entry.owner.load(Relaxed), FREE | GONE);
        let entry = match self.inline.iter().find(is_free) {
            Some(entry) => entry,
            None => self.place(inner, owner, held)?,
        };
        entry.lists.store(lists.as_ptr(), Release);
        entry.owner.store(owner, Release);
        self.owners.fetch_add(1, Relaxed);
        Ok(())
    }

    /// A free entry of the table, which grows when three quarters are filled.
    fn place(&self, inner: &Inner, owner: u32, held: &mut Guard<'_, Indexes>) -> Result<&Entry> {
        let old = NonNull::new(self.hash.load(Relaxed));
        // SAFETY: the lock of the indexes is held, so the table is in place and ours to change.
        let (capacity, filled) = old.map_or((0, 0), |h| unsafe { (h.as_ref().capacity, h.as_ref().filled) });
        let hash = match old.filter(|_| (filled + 1) * 4 <= capacity * 3) {
            Some(hash) => hash,
            None => self.rebuild(inner, held)?,
        };
        // SAFETY: in place, ours to change.
        Ok(unsafe { Self::free_entry(hash, owner) })
    }

    /// A table for as many owners as there are; the places of those gone are not copied.
    fn rebuild(&self, inner: &Inner, _held: &mut Guard<'_, Indexes>) -> Result<NonNull<Hash>> {
        let old = NonNull::new(self.hash.load(Relaxed));
        let owners = self.owners.load(Relaxed) as usize;
        let capacity = ((owners + 1) * 2).next_power_of_two().max(4);
        let bytes = Hash::bytes(capacity);
        let new = inner.meta.alloc(bytes).ok_or(Error::NoMemory { bytes })?.cast::<Hash>();
        // SAFETY: a fresh zeroed block: every entry is `FREE`.
        unsafe { new.write(Hash { capacity, filled: 0 }) };
        for at in 0..old.map_or(0, |h| {
            // SAFETY: in place.
            unsafe { h.as_ref() }.capacity
        }) {
            // SAFETY: in place, `at` below its capacity.
            let entry = unsafe { Hash::entry(old.unwrap_or(new), at) };
            let owner = entry.owner.load(Relaxed);
            if !matches!(owner, FREE | GONE) {
                // SAFETY: in place, and nobody else sees the new table yet.
                let to = unsafe { Self::free_entry(new, owner) };
                to.lists.store(entry.lists.load(Relaxed), Relaxed);
                to.owner.store(owner, Relaxed);
            }
        }
        self.hash.store(new.as_ptr(), Release);
        if let Some(old) = old {
            inner.visit_cpus();
            // SAFETY: no reader is left in it.
            unsafe { inner.meta.free(old.cast(), Hash::bytes(old.as_ref().capacity)) };
        }
        Ok(new)
    }

    /// Makes a table smaller that is used to less than an eighth: what many groups once took does not stay. Costs
    /// little for each group that went since it was made; without memory for the smaller one it waits.
    pub(super) fn shrink(&self, inner: &Inner, held: &mut Guard<'_, Indexes>) {
        let hash = NonNull::new(self.hash.load(Relaxed));
        // SAFETY: the lock of the indexes is held.
        let capacity = hash.map_or(0, |h| unsafe { h.as_ref() }.capacity);
        if capacity >= 64 && self.owners.load(Relaxed) as usize * 8 < capacity {
            let _ = self.rebuild(inner, held);
        }
    }

    /// The first entry on the owner's way that is not in use. There is one: tables are never full.
    ///
    /// # Safety
    /// The table is in place, and the lock of the indexes is held.
    unsafe fn free_entry<'a>(hash: NonNull<Hash>, owner: u32) -> &'a Entry {
        // SAFETY: the caller's promise.
        unsafe {
            let capacity = hash.as_ref().capacity;
            let mut at = Hash::start(owner, capacity);
            loop {
                let entry = Hash::entry(hash, at);
                match entry.owner.load(Relaxed) {
                    FREE => {
                        (*hash.as_ptr()).filled += 1;
                        return entry;
                    }
                    GONE => return entry,
                    _ => at = (at + 1) & (capacity - 1),
                }
            }
        }
    }

    pub(super) fn unpublish(&self, owner: u32) {
        let in_table = || {
            let hash = NonNull::new(self.hash.load(Relaxed))?;
            // SAFETY: the lock of the indexes is held.
            let capacity = unsafe { hash.as_ref() }.capacity;
            // SAFETY: as above.
            (0..capacity)
                .map(|i| unsafe { Hash::entry(hash, (Hash::start(owner, capacity) + i) & (capacity - 1)) })
                .find(|e| e.owner.load(Relaxed) == owner)
        };
        if let Some(entry) = self.inline.iter().find(|e| e.owner.load(Relaxed) == owner).or_else(in_table) {
            entry.owner.store(GONE, Release);
            self.owners.fetch_sub(1, Relaxed);
        }
    }

    /// Bytes of the record, its index and all lists.
    pub(crate) fn bytes(&self, inner: &Inner) -> usize {
        let _held = inner.indexes.lock();
        let lists = Meta::rounded(Lists::bytes(inner.topology.nodes()));
        // SAFETY: the lock of the indexes is held.
        let hash = NonNull::new(self.hash.load(Relaxed))
            .map_or(0, |h| Meta::rounded(Hash::bytes(unsafe { h.as_ref() }.capacity)));
        Meta::rounded(size_of::<Self>()) + hash + lists * (1 + self.owners.load(Relaxed) as usize)
    }

    /// # Safety
    /// No handle is left, and no object is on a list or will be.
    pub(crate) unsafe fn destroy(this: NonNull<Self>, inner: &Inner) {
        // SAFETY: the caller's promise.
        let lru = unsafe { this.as_ref() };
        let mut held = inner.indexes.lock();
        let hash = NonNull::new(lru.hash.load(Relaxed));
        // SAFETY: in place.
        let capacity = hash.map_or(0, |h| unsafe { h.as_ref() }.capacity);
        let entries = (0..capacity).filter_map(|at| {
            hash.map(|h| {
                // SAFETY: in place, `at` below its capacity.
                unsafe { Hash::entry(h, at) }
            })
        });
        for entry in lru.inline.iter().chain(entries) {
            let used = !matches!(entry.owner.swap(GONE, Relaxed), FREE | GONE);
            if let Some(lists) = NonNull::new(entry.lists.load(Relaxed)).filter(|_| used) {
                inner.tree.unchain(&inner.owners, lists, &mut held);
                // SAFETY: nobody looks any more: the last handle is gone.
                unsafe { Lists::destroy(lists, &inner.meta) };
            }
        }
        inner.tree.unchain(&inner.owners, lru.root, &mut held);
        // SAFETY: as above.
        unsafe {
            Lists::destroy(lru.root, &inner.meta);
            if let Some(hash) = hash {
                inner.meta.free(hash.cast(), Hash::bytes(capacity));
            }
            inner.meta.free(this.cast(), size_of::<Self>());
        }
    }
}
