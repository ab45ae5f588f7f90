//! The list of a controller's caches: how one is entered, taken off, and walked.

use super::{Controller, Inner};
use crate::error::{Error, Result};
use crate::slab::cache::Record;
use crate::slab::{Cache, CacheConfig};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// The newest of the list of caches; the records link the rest.
pub(crate) struct CacheList {
    pub(crate) first: *mut Record,
    /// Caches ever made: each has its number, and the list falls.
    pub(super) made: u64,
}

// SAFETY: the records belong to the controller; the list is reached through its lock.
unsafe impl Send for CacheList {}

impl Inner {
    /// Makes a cache and lists it; `slot`, if given, gets the record unless somebody was faster, whose record
    /// is then returned.
    pub(crate) fn add_cache(
        &self,
        c: &CacheConfig<'_>,
        slot: Option<&AtomicPtr<Record>>,
    ) -> Result<NonNull<Record>> {
        let mut list = self.caches.lock();
        if let Some(record) = slot.and_then(|s| NonNull::new(s.load(Acquire))) {
            return Ok(record);
        }
        let record = Record::create(self, c)?;
        list.made += 1;
        // SAFETY: the list's lock is held, and listed records are in place; this one is nobody else's yet.
        unsafe {
            (*record.as_ptr()).set_number(list.made);
            *record.as_ref().next.get() = list.first;
            if !list.first.is_null() {
                *(*list.first).prev.get() = record.as_ptr();
            }
        }
        list.first = record.as_ptr();
        if let Some(slot) = slot {
            slot.store(record.as_ptr(), Release);
        }
        Ok(record)
    }

    /// Takes a cache off the list if `ready` allows it, with the list locked.
    pub(crate) fn unlist_cache(&self, record: &Record, ready: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut list = self.caches.lock();
        if record.is_destroyed() {
            return Err(Error::CacheDestroyed);
        }
        ready()?;
        // SAFETY: the list's lock is held.
        unsafe {
            let (next, prev) = (*record.next.get(), *record.prev.get());
            if prev.is_null() {
                list.first = next;
            } else {
                *(*prev).next.get() = next;
            }
            if !next.is_null() {
                *(*next).prev.get() = prev;
            }
        }
        Ok(())
    }

    /// A handle to the first cache, or to the one after `last`.
    pub(super) fn next_cache(&self, ctl: &Controller, last: Option<&Record>) -> Option<Cache> {
        let list = self.caches.lock();
        let next = match last {
            None => list.first,
            Some(record) if record.is_destroyed() => {
                let mut at = list.first;
                // SAFETY: the list's lock is held, and listed records are in place.
                while unsafe { at.as_ref() }.is_some_and(|r| r.number > record.number) {
                    // SAFETY: as above.
                    at = unsafe { *(*at).next.get() };
                }
                at
            }
            // SAFETY: the list's lock is held, and the record is still on it.
            Some(record) => unsafe { *record.next.get() },
        };
        Some(Cache::from_record(ctl, NonNull::new(next)?))
    }

    /// Calls `each` for every cache, with the list locked.
    pub(crate) fn for_each_cache(&self, mut each: impl FnMut(NonNull<Record>)) {
        let list = self.caches.lock();
        let mut at = list.first;
        while let Some(record) = NonNull::new(at) {
            each(record);
            // SAFETY: the list's lock is held.
            at = unsafe { *record.as_ref().next.get() };
        }
    }
}
