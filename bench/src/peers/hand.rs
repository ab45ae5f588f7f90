//! What people add to an allocator by hand to know what a group uses: nothing, a counter, or a header before each object
//! with three levels of counters and limits, with or without a batch charged in advance.

use super::Peer;
use super::table::{Free, Malloc, Table};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The allocator as it is: nobody is charged.
pub(crate) struct Raw {
    malloc: Malloc,
    free: Free,
}

impl Raw {
    pub(crate) fn new(table: &Table) -> Self {
        Self { malloc: table.malloc, free: table.free }
    }

    #[inline]
    fn take(&self, size: usize) -> NonNull<u8> {
        // SAFETY: malloc has no preconditions.
        NonNull::new(unsafe { (self.malloc)(size) }.cast()).expect("the peer has no memory")
    }

    /// # Safety
    /// As for [`Peer::free`].
    #[inline]
    unsafe fn give(&self, object: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { (self.free)(object.as_ptr().cast()) };
    }
}

impl Peer for Raw {
    type Object = Place;

    #[inline]
    fn alloc(&self, _: usize, size: usize) -> Place {
        Place(self.take(size))
    }

    #[inline]
    fn address(object: Place) -> NonNull<u8> {
        object.0
    }

    #[inline]
    unsafe fn free(&self, object: Place, _: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.give(object.0) };
    }
}

/// An object that needs nothing but its address. It may be given back by another thread than took it.
#[derive(Clone, Copy)]
pub(crate) struct Place(pub(crate) NonNull<u8>);

// SAFETY: the memory belongs to whoever holds the address; every peer that runs on two threads allows it.
unsafe impl Send for Place {}

/// One level's counter, on a line of its own.
#[repr(align(64))]
struct Counter {
    current: AtomicU64,
    max: u64,
}

impl Counter {
    fn new() -> Self {
        Self { current: AtomicU64::new(0), max: u64::MAX / 2 }
    }

    #[inline]
    fn charge(&self, bytes: u64) -> bool {
        if self.current.fetch_add(bytes, Relaxed) + bytes <= self.max {
            return true;
        }
        self.uncharge(bytes);
        false
    }

    #[inline]
    fn uncharge(&self, bytes: u64) {
        self.current.fetch_sub(bytes, Relaxed);
    }
}

/// One counter a group; the program remembers which group an object belongs to.
pub(crate) struct Counted {
    raw: Raw,
    groups: Vec<Counter>,
}

impl Counted {
    pub(crate) fn new(table: &Table, groups: usize) -> Self {
        Self { raw: Raw::new(table), groups: (0..groups).map(|_| Counter::new()).collect() }
    }
}

/// An object and the group that the program remembers.
#[derive(Clone, Copy)]
pub(crate) struct Known(Place, u32);

impl Peer for Counted {
    type Object = Known;

    #[inline]
    fn alloc(&self, group: usize, size: usize) -> Known {
        self.groups[group].current.fetch_add(size as u64, Relaxed);
        Known(Place(self.raw.take(size)), group as u32)
    }

    #[inline]
    fn address(object: Known) -> NonNull<u8> {
        object.0.0
    }

    #[inline]
    unsafe fn free(&self, object: Known, size: usize) {
        self.groups[object.1 as usize].uncharge(size as u64);
        // SAFETY: the caller's promise.
        unsafe { self.raw.give(object.0.0) };
    }
}

const HEADER: usize = 8;
/// What a thread charges in advance, bytes.
const BATCH: u64 = 64 << 10;

/// A header of 8 bytes with the owner, and three levels of counters: group, service, everything. With `BATCHED`, a thread
/// keeps up to twice [`BATCH`] bytes of one group in advance, and what it gives back goes there first.
pub(crate) struct Owned<const BATCHED: bool> {
    raw: Raw,
    groups: Vec<Counter>,
    service: Counter,
    all: Counter,
}

thread_local! {
    /// Group and bytes that this thread has in advance.
    static STOCK: Cell<(usize, u64)> = const { Cell::new((usize::MAX, 0)) };
}

impl<const BATCHED: bool> Owned<BATCHED> {
    pub(crate) fn new(table: &Table, groups: usize) -> Self {
        Self {
            raw: Raw::new(table),
            groups: (0..groups).map(|_| Counter::new()).collect(),
            service: Counter::new(),
            all: Counter::new(),
        }
    }

    #[inline]
    fn charge_tree(&self, group: usize, bytes: u64) -> bool {
        if !self.groups[group].charge(bytes) {
            return false;
        }
        if !self.service.charge(bytes) {
            self.groups[group].uncharge(bytes);
            return false;
        }
        if !self.all.charge(bytes) {
            self.service.uncharge(bytes);
            self.groups[group].uncharge(bytes);
            return false;
        }
        true
    }

    #[inline]
    fn uncharge_tree(&self, group: usize, bytes: u64) {
        self.groups[group].uncharge(bytes);
        self.service.uncharge(bytes);
        self.all.uncharge(bytes);
    }

    #[inline]
    fn charge(&self, group: usize, bytes: u64) -> bool {
        if !BATCHED {
            return self.charge_tree(group, bytes);
        }
        let (whose, held) = STOCK.get();
        if whose == group && held >= bytes {
            STOCK.set((group, held - bytes));
            return true;
        }
        self.change_to(group);
        let held = STOCK.get().1;
        let charged = self.charge_tree(group, BATCH);
        STOCK.set((group, held + if charged { BATCH - bytes } else { 0 }));
        charged
    }

    #[inline]
    fn uncharge(&self, group: usize, bytes: u64) {
        if !BATCHED {
            return self.uncharge_tree(group, bytes);
        }
        if STOCK.get().0 != group {
            self.change_to(group);
        }
        let mut held = STOCK.get().1 + bytes;
        if held > 2 * BATCH {
            self.uncharge_tree(group, BATCH);
            held -= BATCH;
        }
        STOCK.set((group, held));
    }

    /// Makes the stock `group`'s; another's goes back.
    fn change_to(&self, group: usize) {
        let (whose, held) = STOCK.get();
        if whose == group {
            return;
        }
        if held > 0 {
            self.uncharge_tree(whose, held);
        }
        STOCK.set((group, 0));
    }
}

impl<const BATCHED: bool> Peer for Owned<BATCHED> {
    type Object = Place;

    #[inline]
    fn alloc(&self, group: usize, size: usize) -> Place {
        assert!(self.charge(group, (size + HEADER) as u64), "no limit is set that low");
        let block = self.raw.take(size + HEADER);
        // SAFETY: the block has room for the header and the object.
        unsafe {
            block.cast::<usize>().write(group);
            Place(block.add(HEADER))
        }
    }

    #[inline]
    fn address(object: Place) -> NonNull<u8> {
        object.0
    }

    #[inline]
    unsafe fn free(&self, object: Place, size: usize) {
        // SAFETY: the header lies right before the object, and the caller's promise.
        unsafe {
            let block = object.0.sub(HEADER);
            self.uncharge(block.cast::<usize>().read(), (size + HEADER) as u64);
            self.raw.give(block);
        }
    }

    fn settle(&self) {
        let (whose, held) = STOCK.replace((usize::MAX, 0));
        if held > 0 {
            self.uncharge_tree(whose, held);
        }
    }
}
