//! tenalloc: a cache, and a group a tenant two levels below the root. Once inlined, as a Rust program gets it, and once
//! called by address, as the peers are.

use super::Peer;
use super::hand::Place;
use std::hint::black_box;
use std::ptr::{NonNull, null_mut};
use tenalloc::{Cache, CacheConfig, Config, Controller, Group};

/// Inlined.
pub(crate) struct Ours {
    cache: Cache,
    groups: Vec<Group>,
}

impl Ours {
    pub(crate) fn new(size: usize, groups: usize) -> tenalloc::Result<Self> {
        let ctl = Controller::new(Config::new())?;
        let service = ctl.root().create("service")?;
        let groups: tenalloc::Result<_> = (0..groups).map(|i| service.create(&format!("t{i}"))).collect();
        Ok(Self { cache: ctl.cache(&CacheConfig::new("bench", size))?, groups: groups? })
    }
}

impl Peer for Ours {
    type Object = Place;

    #[inline]
    fn alloc(&self, group: usize, _: usize) -> Place {
        Place(self.cache.alloc(&self.groups[group]).expect("memory"))
    }

    #[inline]
    fn address(object: Place) -> NonNull<u8> {
        object.0
    }

    #[inline]
    unsafe fn free(&self, object: Place, _: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.cache.free(object.0) }.expect("a live object");
    }
}

type Take = extern "C" fn(&Cache, &Group) -> *mut u8;
type Give = unsafe extern "C" fn(&Cache, NonNull<u8>) -> bool;

extern "C" fn take(cache: &Cache, group: &Group) -> *mut u8 {
    cache.alloc(group).map_or(null_mut(), NonNull::as_ptr)
}

/// # Safety
/// As for [`Cache::free`].
unsafe extern "C" fn give(cache: &Cache, object: NonNull<u8>) -> bool {
    // SAFETY: the caller's promise.
    unsafe { cache.free(object) }.is_ok()
}

/// Called by address.
pub(crate) struct Called {
    ours: Ours,
    take: Take,
    give: Give,
}

impl Called {
    pub(crate) fn new(size: usize, groups: usize) -> tenalloc::Result<Self> {
        // The compiler must not see which functions these are.
        Ok(Self {
            ours: Ours::new(size, groups)?,
            take: black_box(take as Take),
            give: black_box(give as Give),
        })
    }
}

impl Peer for Called {
    type Object = Place;

    #[inline]
    fn alloc(&self, group: usize, _: usize) -> Place {
        let object = (self.take)(&self.ours.cache, &self.ours.groups[group]);
        Place(NonNull::new(object).expect("memory"))
    }

    #[inline]
    fn address(object: Place) -> NonNull<u8> {
        object.0
    }

    #[inline]
    unsafe fn free(&self, object: Place, _: usize) {
        // SAFETY: the caller's promise.
        assert!(unsafe { (self.give)(&self.ours.cache, object.0) }, "a live object");
    }
}
