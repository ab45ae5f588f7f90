//! What the kernel's tests share beside `common`: objects that reclaim can have back.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use crate::common::free;
use std::ptr::NonNull;
use tenalloc::{Cache, CacheConfig, Controller, Group, ListLru, LruItem, LruStatus, Scanned, Shrinker};

/// Frees whatever it is shown that was not referenced since.
struct Oldest;

impl Shrinker for Oldest {
    fn scan(&self, lru: &ListLru, group: &Group, node: u8, number: u64) -> Scanned {
        let mut budget = number;
        let done = lru.walk(
            group,
            node,
            &mut budget,
            |o| if item(o).take_reference() { LruStatus::Rotate } else { LruStatus::Removed },
            |o| free(group.controller(), o),
        );
        Scanned { looked_at: done.shown, freed: done.removed, ..Scanned::default() }
    }
}

/// Where the item of these tests' objects lies.
const OFFSET: usize = 8;

/// The item of an object.
pub fn item<'a>(object: NonNull<u8>) -> &'a LruItem {
    // SAFETY: objects of these tests hold an item there.
    unsafe { object.add(OFFSET).cast().as_ref() }
}

/// A cache whose objects are on lists, and a shrinker that gives the oldest back.
pub struct Pool {
    pub cache: Cache,
    pub lru: ListLru,
}

impl Pool {
    pub fn new(ctl: &Controller, size: usize) -> Self {
        let lru = ListLru::new(ctl, OFFSET).unwrap();
        lru.set_shrinker(&Oldest);
        Self { cache: ctl.cache(&CacheConfig::new("pool", size)).unwrap(), lru }
    }

    pub fn charge(&self) -> u64 {
        self.cache.charge()
    }

    /// A listed object of `group`.
    pub fn make(&self, group: &Group) -> tenalloc::Result<NonNull<u8>> {
        let object = self.cache.alloc_lru(group, &self.lru)?;
        assert!(add(&self.lru, object));
        Ok(object)
    }

    /// Takes an object off its list and frees it.
    pub fn drop(&self, object: NonNull<u8>) {
        assert!(del(&self.lru, object));
        free(self.cache.controller(), object);
    }
}

pub fn add(lru: &ListLru, object: NonNull<u8>) -> bool {
    // SAFETY: objects of these tests are live, with an item at the offset.
    unsafe { lru.add(object) }
}

pub fn del(lru: &ListLru, object: NonNull<u8>) -> bool {
    // SAFETY: as in `add`.
    unsafe { lru.del(object) }
}

/// An object that goes to another thread.
#[derive(Clone, Copy)]
pub struct Sent(pub NonNull<u8>);
// SAFETY: an object may be freed, and put on lists, on any thread.
unsafe impl Send for Sent {}
// SAFETY: as above.
unsafe impl Sync for Sent {}
