//! The ways to give tenants memory that are compared: one function to take an object and one to give it back.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tenalloc::{Cache, CacheConfig, Config, Controller, Group};

/// Objects of one size for many tenants.
pub(crate) trait Peer {
    /// An object for tenant `tenant`.
    fn alloc(&self, tenant: usize) -> NonNull<u8>;
    /// Gives one back.
    ///
    /// # Safety
    /// It came from `alloc` of this peer and nobody uses it any more.
    unsafe fn free(&self, object: NonNull<u8>);
}

/// glibc's malloc as it is: nobody is charged.
pub(crate) struct Raw(pub(crate) usize);

impl Peer for Raw {
    #[inline]
    fn alloc(&self, _: usize) -> NonNull<u8> {
        // SAFETY: malloc has no preconditions.
        NonNull::new(unsafe { libc::malloc(self.0) }.cast()).expect("malloc")
    }

    #[inline]
    unsafe fn free(&self, object: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { libc::free(object.as_ptr().cast()) };
    }
}

/// One level's counter, on a line of its own.
#[repr(align(64))]
struct Counter {
    current: AtomicU64,
    max: u64,
    parent: Option<usize>,
}

/// What a careful engineer adds to malloc by hand: a header of 8 bytes with the owner, and three levels of atomic
/// counters with limits: tenant, service, everything.
pub(crate) struct Header {
    size: usize,
    counters: Vec<Counter>,
}

const HEADER: usize = 8;
/// Counters 0 and 1: everything, and the one service that all tenants belong to.
const ABOVE: usize = 2;

impl Header {
    pub(crate) fn new(size: usize, tenants: usize) -> Self {
        let parent = |i: usize| i.checked_sub(1).map(|p| p.min(ABOVE - 1));
        let counter = |i| Counter { current: AtomicU64::new(0), max: u64::MAX / 2, parent: parent(i) };
        Self { size, counters: (0..tenants + ABOVE).map(counter).collect() }
    }

    #[inline]
    fn charge(&self, leaf: usize, bytes: u64) -> bool {
        let mut at = Some(leaf);
        while let Some(i) = at {
            let c = &self.counters[i];
            if c.current.fetch_add(bytes, Relaxed) + bytes > c.max {
                c.current.fetch_sub(bytes, Relaxed);
                let mut undo = leaf;
                while undo != i {
                    self.counters[undo].current.fetch_sub(bytes, Relaxed);
                    undo = self.counters[undo].parent.unwrap_or(i);
                }
                return false;
            }
            at = c.parent;
        }
        true
    }

    #[inline]
    fn uncharge(&self, leaf: usize, bytes: u64) {
        let mut at = Some(leaf);
        while let Some(i) = at {
            self.counters[i].current.fetch_sub(bytes, Relaxed);
            at = self.counters[i].parent;
        }
    }

    /// As `alloc`, of any size.
    #[inline]
    pub(crate) fn alloc_size(&self, tenant: usize, size: usize) -> NonNull<u8> {
        let leaf = tenant + ABOVE;
        assert!(self.charge(leaf, (size + HEADER) as u64), "no limit is set that low");
        // SAFETY: malloc has no preconditions, and the block has room for the header.
        unsafe {
            let block = NonNull::new(libc::malloc(size + HEADER).cast::<u8>()).expect("malloc");
            block.cast::<usize>().write(leaf);
            block.add(HEADER)
        }
    }

    /// As `free`, of any size: without a size at hand, a server keeps it or asks malloc; here it is known.
    ///
    /// # Safety
    /// As for `free`; it was allocated with this size.
    #[inline]
    pub(crate) unsafe fn free_size(&self, object: NonNull<u8>, size: usize) {
        // SAFETY: the header lies right before the object.
        unsafe {
            let block = object.sub(HEADER);
            self.uncharge(block.cast::<usize>().read(), (size + HEADER) as u64);
            libc::free(block.as_ptr().cast());
        }
    }
}

impl Peer for Header {
    #[inline]
    fn alloc(&self, tenant: usize) -> NonNull<u8> {
        self.alloc_size(tenant, self.size)
    }

    #[inline]
    unsafe fn free(&self, object: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { self.free_size(object, self.size) };
    }
}

/// tenalloc: a cache, and a group a tenant, two levels below the root.
pub(crate) struct Ours {
    cache: Cache,
    groups: Vec<Group>,
}

impl Ours {
    pub(crate) fn new(size: usize, tenants: usize) -> tenalloc::Result<Self> {
        let ctl = Controller::new(Config::new())?;
        let service = ctl.root().create("service")?;
        let groups: tenalloc::Result<_> = (0..tenants).map(|i| service.create(&format!("t{i}"))).collect();
        Ok(Self { cache: ctl.cache(&CacheConfig::new("bench", size))?, groups: groups? })
    }
}

impl Peer for Ours {
    #[inline]
    fn alloc(&self, tenant: usize) -> NonNull<u8> {
        self.cache.alloc(&self.groups[tenant]).expect("memory")
    }

    #[inline]
    unsafe fn free(&self, object: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { self.cache.free(object) }.expect("a live object");
    }
}
