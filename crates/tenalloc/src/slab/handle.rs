//! What users hold of a cache.

mod first;

use super::cache::Record;
use super::config::CacheStat;
use super::debug::Damage;
use crate::controller::Controller;
use crate::error::{Error, Result};
use crate::group::{Group, owner};
use crate::lru::{ListLru, LruItem};
use core::ptr::NonNull;
use core::sync::atomic::Ordering::*;

/// A cache: objects of one kind, size and alignment, in slabs that all groups share.
///
/// A handle: cheap to clone, usable from any thread. Dropping it leaves the cache in place;
/// [`destroy`](Self::destroy) takes an empty one away.
pub struct Cache {
    pub(crate) ctl: Controller,
    pub(crate) record: NonNull<Record>,
    /// The record's.
    ready: u32,
}

// SAFETY: a record may be used from any thread.
unsafe impl Send for Cache {}
// SAFETY: as above.
unsafe impl Sync for Cache {}

impl Cache {
    pub(crate) fn record(&self) -> &Record {
        // SAFETY: the handle holds the record.
        unsafe { self.record.as_ref() }
    }

    /// An object owned by and charged to `group`: its slot and its owner entry. Not initialised.
    ///
    /// The object is aligned as the cache is, and stays until it is freed, also after the group is removed.
    ///
    /// # Errors
    /// [`Error::Limit`], [`Error::NoMemory`], [`Error::GroupRemoved`]; nothing is charged then.
    #[inline(always)]
    pub fn alloc(&self, group: &Group) -> Result<NonNull<u8>> {
        match self.ctl.inner().alloc_ready(self.ready, group.ready_owner(&self.ctl)) {
            Some(object) => Ok(object),
            None => self.alloc_slowly(group),
        }
    }

    #[cold]
    fn alloc_slowly(&self, group: &Group) -> Result<NonNull<u8>> {
        self.ctl.inner().alloc_object(self.record(), group.owner_id(&self.ctl)?, None)
    }

    /// As [`alloc`](Self::alloc), for an object that will be on a list of `lru`: the lists are made first, and the
    /// object's [`LruItem`](crate::LruItem) is initialised. From the first such object on the cache is one that can be
    /// reclaimed: its slabs lie in chunks apart from those of others, which come back when all of it is.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc); [`Error::BadSize`] if the item does not lie inside the object.
    pub fn alloc_lru(&self, group: &Group, lru: &ListLru) -> Result<NonNull<u8>> {
        let end = lru.record().offset + size_of::<LruItem>();
        if end > self.record().usable() {
            return Err(Error::BadSize { size: end });
        }
        lru.prepare(group)?;
        self.record().list();
        let object = self.alloc(group)?;
        // SAFETY: the item lies inside the new object, aligned: slots are aligned to 8 and so is the offset.
        unsafe { object.add(lru.record().offset).cast::<LruItem>().write(LruItem::new()) };
        Ok(object)
    }

    /// As [`alloc`](Self::alloc), on `node` if it has memory, whatever the cache's policy.
    ///
    /// # Errors
    /// Also [`Error::BadNode`].
    pub fn alloc_on(&self, group: &Group, node: u8) -> Result<NonNull<u8>> {
        self.ctl.inner().check_node(node)?;
        self.ctl.inner().alloc_object(self.record(), group.owner_id(&self.ctl)?, Some(node))
    }

    /// An object that no group owns or pays for; on `node`, if given.
    ///
    /// # Errors
    /// [`Error::NoMemory`], [`Error::BadNode`].
    pub fn alloc_unowned(&self, node: Option<u8>) -> Result<NonNull<u8>> {
        node.map_or(Ok(()), |node| self.ctl.inner().check_node(node))?;
        self.ctl.inner().alloc_object(self.record(), owner::NOBODY, node)
    }

    /// Frees an object of this cache. Its owner gets the bytes back, whoever calls, on whatever thread.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Interior`], [`Error::WrongCache`], [`Error::DoubleFree`] (always with
    /// [`Config::hardened`](crate::Config::hardened), else where it shows): nothing is changed then.
    /// [`Error::Overwritten`]: it was freed, but somebody had written beyond it.
    ///
    /// # Safety
    /// Nobody uses the object any more.
    #[inline(always)]
    pub unsafe fn free(&self, object: NonNull<u8>) -> Result<()> {
        let inner = self.ctl.inner();
        if inner.free_ready(object, Some(self.record())) {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { inner.free_slowly(object, Some(self.record())) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.record().name()
    }

    /// The controller that it belongs to.
    pub fn controller(&self) -> &Controller {
        &self.ctl
    }

    /// Bytes that an object is charged.
    pub fn charge(&self) -> u64 {
        self.record().charge
    }

    /// What it holds now. Visits every CPU's area.
    pub fn stat(&self) -> CacheStat {
        self.record().stat(self.ctl.inner())
    }

    /// Gives back what it holds free: sheaves into slabs, empty slabs into chunks. Returns the slabs' bytes.
    pub fn shrink(&self) -> u64 {
        let inner = self.ctl.inner();
        inner.free_deferred();
        inner.flush_cache(self.record());
        self.record().shrink(inner)
    }

    /// Looks for writes beyond objects and to freed ones in a cache with [`CacheConfig::debug`](crate::CacheConfig::debug);
    /// others have nothing to look at. Calls `each` for what is found, at most 16 times a slab, with no lock held, and
    /// mends it; returns how much it was. Every CPU waits while one slab is looked at.
    pub fn validate(&self, each: &mut dyn FnMut(Damage)) -> u64 {
        let inner = self.ctl.inner();
        let (mut after, mut found) = (0, 0);
        while let Some(chunk) = self.record().is_debug().then(|| inner.chunks.look(after)).flatten() {
            after = chunk.address();
            found += inner.look_over(self.record(), chunk, each);
            inner.chunks.looked(chunk);
        }
        found
    }

    /// Takes the cache away. Other handles to it then only fail.
    ///
    /// # Errors
    /// [`Error::CacheBusy`] while it has live objects; it is as usable as before. (Only an allocation that runs at the
    /// same time as this, in a cache that was empty, may be told that the cache was destroyed although it then is not.)
    /// [`Error::SizeClass`]: `malloc` uses it.
    pub fn destroy(self) -> Result<()> {
        let inner = self.ctl.inner();
        let record = self.record();
        inner.free_deferred();
        inner.unlist_cache(record, || {
            if inner.classes.has(record) {
                return Err(Error::SizeClass);
            }
            // A cache in use is not stopped even for a moment.
            let objects = record.stat(inner).objects;
            if objects > 0 {
                return Err(Error::CacheBusy { objects });
            }
            record.destroyed.store(true, Release);
            inner.drop_sheaves(record);
            let (_, objects) = record.sums(inner);
            if objects > 0 {
                record.destroyed.store(false, Release);
                return Err(Error::CacheBusy { objects });
            }
            // Only now: an object that came back a moment ago may have left an empty slab.
            record.shrink(inner);
            inner.corrupted.fetch_add(record.corrupted.load(Relaxed), Relaxed);
            Ok(())
        })?;
        record.holders.fetch_sub(1, Relaxed); // the list's
        Ok(())
    }

    /// Wraps a record for a caller who holds the caches' list, or has just made it.
    pub(crate) fn from_record(ctl: &Controller, record: NonNull<Record>) -> Self {
        // SAFETY: listed records are in place.
        let r = unsafe { record.as_ref() };
        r.holders.fetch_add(1, Relaxed);
        Self { ctl: ctl.clone(), record, ready: r.ready }
    }
}

impl Clone for Cache {
    fn clone(&self) -> Self {
        Self::from_record(&self.ctl, self.record)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if self.record().holders.fetch_sub(1, AcqRel) == 1 {
            // SAFETY: the list let go of it, so it was destroyed and is empty; this was the last handle.
            unsafe { Record::destroy(self.record, self.ctl.inner()) };
        }
    }
}

impl core::fmt::Debug for Cache {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Cache").field("name", &self.name()).field("stat", &self.stat()).finish()
    }
}
