//! Taking a chunk or a node out of use: memory hot-remove for a process.
//!
//! ```text
//!   no new use ─► sheaves and empty slabs ─► shrinkers, shown only what lies there ─► migrate
//!        ▲                                                                              │
//!        └────────── wait for a departure (a futex; no lock held) ◄─── still held ◄─────┘
//! ```
//!
//! Nothing is locked while this waits: groups come and go, statistics are read, objects are allocated elsewhere and
//! freed there. (Linux's memory hot-remove waited with the lock that group removal needed before 5.9: the four-thread
//! deadlock.)

use crate::controller::{Controller, Inner};
use crate::group::Group;
use crate::group::owner::NOBODY;
use crate::page::chunk::Held;
pub use crate::page::chunk::Range;
use crate::slab::cache::Record;
use crate::slab::compact::move_objects;
use crate::slab::{Cache, Compacted, Kind, Slab};
use core::ptr::NonNull;
use core::sync::atomic::Ordering::*;
use core::time::Duration;

/// Moves objects of a cache; see [`CacheConfig::migrate`](crate::CacheConfig::migrate).
pub trait Migrate: Sync {
    /// Moves the object at `from` to `to`: copy it, and lead everything that pointed to `from` to `to`. `true`: `from` is
    /// used by nobody any more, and will be freed; `to` is the object now, with the same owner. `false`: nothing was
    /// changed.
    ///
    /// Called with no lock held. The program may be freeing the object just now: under its own lock it has to make sure
    /// that `from` is still an object in use, and return `false` if it is not.
    ///
    /// # Safety
    /// Only this library calls it: `from` was a live object of the cache a moment ago and is readable; `to` is as large,
    /// writable, and nobody else's.
    unsafe fn migrate(&self, from: NonNull<u8>, to: NonNull<u8>) -> bool;
}

/// Something that keeps memory from being taken out of use.
#[derive(Debug)]
pub struct Pin {
    /// Where it begins.
    pub address: usize,
    /// Bytes of the object; of all objects handed out of the slab that begins there, where they have one owner.
    pub bytes: u64,
    /// Its cache; `None` for whole pages.
    pub cache: Option<Cache>,
    /// Who owns it, if anybody does.
    pub owner: Option<Group>,
}

/// Why memory was not taken out of use. It is back in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfflineError {
    /// Time ran out; `pinned` chunks were still held.
    TimedOut {
        /// Chunks that were not empty.
        pinned: usize,
    },
    /// [`Controller::cancel_offline`] was called.
    Cancelled,
    /// There is no such chunk, or it, or the node, is being taken out of use already.
    NotThere,
}

impl core::fmt::Display for OfflineError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TimedOut { pinned } => {
                write!(f, "time ran out with {pinned} chunks still held; they are in use again")
            }
            Self::Cancelled => f.write_str("cancelled; the memory is in use again"),
            Self::NotThere => f.write_str("there is no such memory, or it is being taken out of use already"),
        }
    }
}

impl core::error::Error for OfflineError {}

impl Controller {
    /// Takes `range` out of use and gives its memory back to the system: stops new use of it, asks shrinkers and movable
    /// caches to empty it, and waits for what is left, `time` in all. Returns the bytes of address space given back. A
    /// node stays out of use until [`online_node`](Self::online_node).
    ///
    /// No lock is held while it waits. If time runs out, the memory is used again and `pins` is told what held it.
    ///
    /// # Errors
    /// [`OfflineError`].
    pub fn offline(
        &self,
        range: Range,
        time: Duration,
        pins: &mut dyn FnMut(Pin),
    ) -> core::result::Result<usize, OfflineError> {
        let inner = self.inner();
        let end = now().saturating_add(time);
        let cancelled = inner.offline_cancels.load(Acquire);
        if matches!(range, Range::Node(n) if n >= inner.topology.nodes())
            || !inner.chunks.set_offline(range, true)
        {
            return Err(OfflineError::NotThere);
        }
        let mut given = 0;
        let failed = loop {
            let seen = inner.chunks.departures().count();
            self.empty(range);
            let (bytes, left) = inner.chunks.drop_empty(range);
            given += bytes;
            if left == 0 {
                break None;
            }
            let time_left = end.saturating_sub(now());
            if inner.offline_cancels.load(Acquire) != cancelled {
                break Some(OfflineError::Cancelled);
            }
            if time_left == Duration::ZERO {
                break Some(OfflineError::TimedOut { pinned: left });
            }
            inner.chunks.departures().wait(seen, Some(time_left));
        };
        if let Some(error) = failed {
            if matches!(error, OfflineError::TimedOut { .. }) {
                self.tell_pins(range, pins);
            }
            inner.chunks.mark_slabs(range, false);
            self.relist(range);
            inner.chunks.set_offline(range, false);
            return Err(error);
        }
        // Nothing is left to be unmarked: a chunk that is at the address by now is another.
        Ok(given)
    }

    /// Ends every [`offline`](Self::offline) that is waiting, with [`OfflineError::Cancelled`].
    pub fn cancel_offline(&self) {
        self.inner().offline_cancels.fetch_add(1, AcqRel);
        self.inner().chunks.departures().bump();
    }

    /// Puts a node back into use. While it is still being emptied this does nothing; see
    /// [`cancel_offline`](Self::cancel_offline).
    pub fn online_node(&self, node: u8) {
        if node < self.inner().topology.nodes() {
            self.inner().chunks.allow(node);
        }
    }

    /// One attempt at emptying `range`.
    fn empty(&self, range: Range) {
        let inner = self.inner();
        for cache in self.caches() {
            inner.flush_cache(cache.record());
        }
        self.relist(range);
        let mut after = 0;
        while let Some(chunk) = inner.chunks.next_offline(range, after) {
            after = chunk.address();
            inner.shrink_chunk(&self.root(), chunk);
            self.migrate(chunk);
        }
    }

    /// Lets every cache look at its slabs in `range` again: off the lists, or back on.
    fn relist(&self, range: Range) {
        let inner = self.inner();
        let mut after = 0;
        while let Some(chunk) = inner.chunks.next_offline(range, after) {
            after = chunk.address();
            self.caches().for_each(|cache| cache.record().isolate(inner, chunk, chunk.node()));
        }
    }

    fn migrate(&self, chunk: Held) {
        let inner = self.inner();
        for cache in self.caches().filter(|c| c.record().migrate().is_some()) {
            let record = cache.record();
            each_run(chunk, |slab| {
                if record.pin(slab, chunk.node()) {
                    let elsewhere = || record.take_anywhere(inner);
                    move_objects(inner, record, slab, u64::MAX, elsewhere, &mut Compacted::default());
                    record.unpin(inner, slab, chunk.node());
                }
            });
        }
    }

    /// Tells what is left in `range`, as far as that is known: each live object of slabs that know them one by one, each
    /// slab of the others, and whole pages.
    fn tell_pins(&self, range: Range, pins: &mut dyn FnMut(Pin)) {
        let inner = self.inner();
        let mut after = 0;
        while let Some(chunk) = inner.chunks.next_offline(range, after) {
            after = chunk.address();
            for cache in self.caches() {
                each_run(chunk, |slab| {
                    if cache.record().pin(slab, chunk.node()) {
                        self.tell_slab(&cache, slab, pins);
                        cache.record().unpin(inner, slab, chunk.node());
                    }
                });
            }
            each_run(chunk, |run| {
                // SAFETY: descriptors of a chunk that is being emptied stay in place.
                let run = unsafe { run.as_ref() };
                if run.kind != Kind::Slab {
                    let owner = run.owners.get(0).filter(|id| *id > NOBODY).and_then(|id| self.payer_of(id));
                    pins(Pin { address: run.base() as usize, bytes: run.bytes() as u64, cache: None, owner });
                }
            });
        }
    }

    fn tell_slab(&self, cache: &Cache, slab: NonNull<Slab>, pins: &mut dyn FnMut(Pin)) {
        let slot = u64::from(cache.record().slot);
        owned_by(cache.record(), slab, &mut |id, address, objects| {
            let owner = if id > NOBODY { self.payer_of(id) } else { None };
            pins(Pin { address, bytes: slot * u64::from(objects), cache: Some(cache.clone()), owner });
        });
    }
}

/// Tells the owner id, address and number of the objects handed out of a pinned slab: one by one where each has its own
/// entry, else all together at the slab's address.
pub(super) fn owned_by(record: &Record, slab: NonNull<Slab>, each: &mut dyn FnMut(u32, usize, u32)) {
    // SAFETY: pinned by the caller.
    let s = unsafe { slab.as_ref() };
    if s.owners.is_vector() {
        for index in 0..record.objects {
            if let Some(id) = s.owners.get(index.into()) {
                each(id, s.object(index, record) as usize, 1);
            }
        }
    } else if let Some(id) = s.owners.get(0) {
        each(id, s.base() as usize, record.out(slab, s.node));
    }
}

pub(super) fn each_run(chunk: Held, mut each: impl FnMut(NonNull<Slab>)) {
    let mut page = 0;
    while let Some((run, next)) = chunk.next_run(page) {
        page = next;
        each(run);
    }
}

impl Inner {
    /// Asks the shrinkers of all groups for what lies in `chunk`: their walks are shown nothing else.
    fn shrink_chunk(&self, root: &Group, chunk: Held) {
        let range = (chunk.address(), chunk.end());
        if let Some(_inside) = self.reclaimers.enter_focused(range, 0) {
            // Twice: the first look takes the marks of hits away.
            for _ in 0..2 {
                self.shrink_all(root, chunk.node());
            }
        }
    }

    fn shrink_all(&self, group: &Group, node: u8) {
        for _ in 0..self.number_of_lists(group.node()) {
            let Some(lru) = self.turn_lists(group) else { continue };
            let Some(shrinker) = lru.shrinker() else { continue };
            let number = lru.count(group, node);
            if number > 0 {
                shrinker.scan(&lru, group, node, number);
            }
        }
        for child in group.children() {
            if self.has_lists(child.node()) {
                self.shrink_all(&child, node);
            }
        }
    }
}

/// Time of the monotonic clock.
fn now() -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}
