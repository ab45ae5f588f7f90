//! A family of lists with objects that have a number, and what is on a list.

use std::ptr::NonNull;
use tenalloc::{Cache, CacheConfig, Controller, Group, ListLru, LruItem, LruStatus};

/// A test object: a number, then the item.
pub(crate) const OFFSET: usize = 8;

pub(crate) fn family(ctl: &Controller) -> (Cache, ListLru) {
    let cache = ctl.cache(&CacheConfig::new("inode", 64)).unwrap();
    (cache, ListLru::new(ctl, OFFSET).unwrap())
}

pub(crate) fn make(cache: &Cache, group: &Group, lru: &ListLru, number: u64) -> NonNull<u8> {
    let object = cache.alloc_lru(group, lru).unwrap();
    // SAFETY: the object is 64 bytes, aligned to 8, and ours.
    unsafe { object.cast::<u64>().write(number) };
    object
}

pub(crate) fn number(object: NonNull<u8>) -> u64 {
    // SAFETY: written by `make`.
    unsafe { object.cast::<u64>().read() }
}

pub(crate) fn add(lru: &ListLru, object: NonNull<u8>) -> bool {
    // SAFETY: objects of these tests are live, with an item at the offset.
    unsafe { lru.add(object) }
}

pub(crate) fn del(lru: &ListLru, object: NonNull<u8>) -> bool {
    // SAFETY: as in `add`.
    unsafe { lru.del(object) }
}

pub(crate) fn item<'a>(object: NonNull<u8>) -> &'a LruItem {
    // SAFETY: as in `add`.
    unsafe { object.add(OFFSET).cast().as_ref() }
}

/// The numbers on a list, oldest first.
pub(crate) fn on(lru: &ListLru, group: &Group, node: u8) -> Vec<u64> {
    let mut all = Vec::new();
    let mut budget = u64::MAX;
    lru.walk(
        group,
        node,
        &mut budget,
        |o| {
            all.push(number(o));
            LruStatus::Skip
        },
        |_| {},
    );
    all
}
