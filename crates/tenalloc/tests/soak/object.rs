//! Objects of the model: a table that says of each where it is and who is at it.
//!
//! Apart from the model because reclaim, walks and `offline` meet objects here without knowing whose they are.

use crate::common::free;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering::*};
use tenalloc::{Controller, Group, ListLru, LruItem, LruStatus, Migrate, Scanned, Shrinker};

/// Where an item lies; an object's number is in front of it.
pub(crate) const OFFSET: usize = 8;
/// Bytes of a movable object.
pub(crate) const MOVABLE: usize = 72;
/// Objects that can be live at once.
const OBJECTS: usize = 1 << 15;

/// What the table says of an object.
const NONE: u8 = 0;
/// Anybody may pin it.
const LIVE: u8 = 1;
/// Somebody is at it.
const PINNED: u8 = 2;
/// Reclaim or a walk freed it.
const GONE: u8 = 3;

struct Entry {
    state: AtomicU8,
    listed: AtomicBool,
    /// Its address, fixed only while it is pinned.
    at: AtomicUsize,
}

static TABLE: [Entry; OBJECTS] =
    [const { Entry { state: AtomicU8::new(NONE), listed: AtomicBool::new(false), at: AtomicUsize::new(0) } };
        OBJECTS];

/// An object of the model.
#[derive(Debug)]
pub(crate) struct Object {
    /// Its number in the table.
    pub(crate) id: u32,
    /// The group that it was allocated in.
    pub(crate) group: usize,
    pub(crate) charge: u64,
    /// The family whose lists it may be on.
    pub(crate) family: Option<usize>,
}

impl Object {
    /// A number for a new object, pinned. `None`: the table is full.
    pub(crate) fn number(free: &mut Vec<u32>) -> Option<u32> {
        let id = free.pop()?;
        TABLE[id as usize].listed.store(false, Relaxed);
        TABLE[id as usize].state.store(PINNED, Relaxed);
        Some(id)
    }

    /// The numbers of a worker: every second one.
    pub(crate) fn numbers(worker: usize) -> Vec<u32> {
        (0..OBJECTS as u32).skip(worker).step_by(2).collect()
    }

    fn entry(&self) -> &Entry {
        &TABLE[self.id as usize]
    }

    /// Begins its life at an address: writes the number where whoever meets the object finds it.
    pub(crate) fn begin(&self, at: NonNull<u8>) {
        self.entry().at.store(at.as_ptr() as usize, Relaxed);
        word(at).store(self.id, Relaxed);
        self.unpin();
    }

    /// Where it is; for good only while it is pinned.
    pub(crate) fn at(&self) -> NonNull<u8> {
        NonNull::new(self.entry().at.load(Acquire) as *mut u8).expect("it has begun its life")
    }

    /// From now on the object is the caller's alone. False: it was freed.
    pub(crate) fn pin(&self) -> bool {
        loop {
            match self.entry().state.compare_exchange(LIVE, PINNED, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(GONE) => return false,
                Err(_) => std::thread::yield_now(), // a walk that looks at it, a move
            }
        }
    }

    pub(crate) fn unpin(&self) {
        self.entry().state.store(LIVE, Release);
    }

    /// Gives the number back, of an object that is freed.
    pub(crate) fn forget(self, free: &mut Vec<u32>) {
        self.entry().at.store(0, Relaxed);
        self.entry().state.store(NONE, Relaxed);
        free.push(self.id);
    }

    pub(crate) fn listed(&self) -> &AtomicBool {
        &self.entry().listed
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.entry().state.load(Acquire) == GONE
    }

    /// Still what was made, and nobody else's.
    pub(crate) fn is_intact(&self) -> bool {
        word(self.at()).load(Relaxed) == self.id
    }

    /// Of a pinned object of a family.
    pub(crate) fn item(&self) -> &LruItem {
        // SAFETY: objects of a family hold an item there.
        unsafe { self.at().add(OFFSET).cast().as_ref() }
    }
}

/// The first word of an object, which holds its number.
fn word<'a>(at: NonNull<u8>) -> &'a AtomicU32 {
    // SAFETY: objects are aligned to 8, and readable whenever this is asked; all accesses to the word are atomic.
    unsafe { AtomicU32::from_ptr(at.as_ptr().cast()) }
}

/// The number of a listed object.
pub(crate) fn id_of(at: NonNull<u8>) -> usize {
    word(at).load(Relaxed) as usize
}

/// In a walk: takes the object unless somebody has it pinned.
pub(crate) fn claim(at: NonNull<u8>) -> LruStatus {
    let entry = &TABLE[id_of(at)];
    if entry.state.compare_exchange(LIVE, GONE, Acquire, Relaxed).is_err() {
        return LruStatus::Skip;
    }
    LruStatus::Removed
}

/// Frees what a walk claimed.
pub(crate) struct Reclaim;

impl Shrinker for Reclaim {
    fn scan(&self, lru: &ListLru, group: &Group, node: u8, number: u64) -> Scanned {
        let mut budget = number;
        let ctl: &Controller = group.controller();
        let done = lru.walk(group, node, &mut budget, claim, |o| free(ctl, o));
        Scanned { looked_at: done.shown, freed: done.removed, ..Scanned::default() }
    }
}

/// Moves what nobody has pinned.
pub(crate) struct Move;

/// Objects moved so far.
pub(crate) static MOVED: AtomicUsize = AtomicUsize::new(0);

impl Migrate for Move {
    unsafe fn migrate(&self, from: NonNull<u8>, to: NonNull<u8>) -> bool {
        // Perhaps not an object any more, or not yet: then no entry that is live says that it is there.
        let Some(entry) = TABLE.get(word(from).load(Relaxed) as usize) else { return false };
        let here = || entry.at.load(Relaxed) == from.as_ptr() as usize;
        if !here() || entry.state.compare_exchange(LIVE, PINNED, Acquire, Relaxed).is_err() {
            return false;
        }
        let moved = here();
        if moved {
            // SAFETY: both are as large, says the caller, and the pin makes `from` ours.
            unsafe { to.copy_from_nonoverlapping(from, MOVABLE) };
            entry.at.store(to.as_ptr() as usize, Relaxed);
            MOVED.fetch_add(1, Relaxed);
        }
        entry.state.store(LIVE, Release);
        moved
    }
}
