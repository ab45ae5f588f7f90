//! Movable objects moved together: out of the sparsest slabs into the fullest, so that slabs become empty and go.
//!
//! ```text
//!   hold the sparsest slabs ─► sheaves back into slabs ─► move what is live ─► empty: goes
//!   (as long as the others      (whatever is free of a     (`migrate`, with     refused: held until the end,
//!    have room for all of it)    held slab is in it then)   no lock held)       then back on its list
//! ```
//!
//! A held slab hands out nothing, and what comes back to it is kept nowhere else. So the owner that is read from an
//! object's entry is its owner until the object is moved or freed: it cannot have become another one meanwhile.
//!
//! Of n slabs with u objects in use, each of k places, ⌈u / k⌉ are left if nothing is refused: a slab is only begun if
//! there is room for all of it elsewhere.

use super::cache::{Chain, Record};
use super::handle::Cache;
use super::slab::Slab;
use crate::controller::{Controller, Inner};
use core::ops::AddAssign;
use core::ptr::NonNull;

/// Slabs that are emptied together, between two visits of all CPUs.
const TOGETHER: u64 = 64;

/// What [`Cache::compact`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Objects that were moved.
    pub moved: u64,
    /// Objects that `migrate` refused to move, or for which there was no memory.
    pub refused: u64,
    /// By how many its slabs became fewer.
    pub slabs: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl AddAssign for Compacted {
    fn add_assign(&mut self, more: Self) {
        self.moved += more.moved;
        self.refused += more.refused;
        self.slabs += more.slabs;
        self.bytes += more.bytes;
    }
}

impl Cache {
    /// Moves objects out of the sparsest slabs into the fullest until no slab can be saved that way, or `most` objects
    /// were asked for. For a cache with [`migrate`](crate::CacheConfig::migrate); of others only empty slabs go. The
    /// slabs' pages are the controller's then; [`Controller::trim`] gives them to the system.
    ///
    /// Objects keep their owners, and nobody pays more or less. Others may allocate and free meanwhile; every CPU is
    /// visited once for 64 slabs. `migrate` is called with no lock held.
    pub fn compact(&self, most: u64) -> Compacted {
        let (inner, record) = (self.ctl.inner(), self.record());
        let (before, _) = record.sums(inner);
        inner.flush_cache(record);
        record.shrink(inner);
        let mut done = Compacted::default();
        for node in (0..inner.topology.nodes()).filter(|_| record.migrate().is_some()) {
            done += Round::new(inner, record, node).run(most.saturating_sub(done.moved + done.refused));
        }
        done.slabs = before.saturating_sub(record.sums(inner).0);
        done.bytes = done.slabs * record.slab_bytes();
        done
    }
}

impl Controller {
    /// [`Cache::compact`] of every movable cache.
    pub fn compact(&self, most: u64) -> Compacted {
        let mut done = Compacted::default();
        for cache in self.caches().filter(|cache| cache.record().migrate().is_some()) {
            done += cache.compact(most.saturating_sub(done.moved + done.refused));
        }
        done
    }
}

/// Slabs held of one cache on one node. Whatever happens, a panic of `migrate` too, they are let go of.
struct Round<'a> {
    inner: &'a Inner,
    record: &'a Record,
    node: u8,
    /// To be emptied next.
    begun: Chain,
    /// Not emptied: something was refused, or is being freed just now.
    kept: Chain,
    done: Compacted,
}

impl<'a> Round<'a> {
    fn new(inner: &'a Inner, record: &'a Record, node: u8) -> Self {
        Self { inner, record, node, begun: Chain::new(), kept: Chain::new(), done: Compacted::default() }
    }

    fn run(mut self, most: u64) -> Compacted {
        while self.done.moved + self.done.refused < most && self.hold() {
            // Now no CPU keeps a free object of a held slab, or is on its way to one.
            self.inner.flush_cache(self.record);
            while let Some(slab) = self.begun.pop() {
                self.kept.push(slab); // first, so that it is let go of whatever `migrate` does
                let left = most.saturating_sub(self.done.moved + self.done.refused);
                let take = || self.record.take_dense(self.node);
                move_objects(self.inner, self.record, slab, left, take, &mut self.done);
                if self.record.out_of_held(slab, self.node) == 0 {
                    self.kept.pop();
                    self.release(slab);
                }
            }
        }
        while let Some(slab) = self.kept.pop() {
            self.release(slab);
        }
        self.done
    }

    /// Takes the next slabs. False: none could be saved.
    fn hold(&mut self) -> bool {
        let mut pending = 0;
        for number in 0..TOGETHER {
            let Some((slab, out)) = self.record.hold_sparsest(self.inner, self.node, pending) else {
                return number > 0;
            };
            self.begun.push(slab);
            pending += out;
        }
        true
    }

    fn release(&self, slab: NonNull<Slab>) {
        self.record.release(self.inner, slab, self.node);
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        while let Some(slab) = self.begun.pop().or_else(|| self.kept.pop()) {
            self.release(slab);
        }
    }
}

/// Moves up to `most` live objects of a slab of `record`, which is kept in place and hands out nothing, to places that
/// `take` gives, as far as `migrate` agrees. The owner of each goes along; what it is charged stays.
pub(crate) fn move_objects(
    inner: &Inner,
    record: &Record,
    slab: NonNull<Slab>,
    mut most: u64,
    take: impl Fn() -> Option<NonNull<u8>>,
    done: &mut Compacted,
) {
    let Some(migrate) = record.migrate() else { return };
    // SAFETY: kept in place by the caller.
    let s = unsafe { slab.as_ref() };
    for index in 0..record.objects {
        if most == 0 {
            return;
        }
        let Some(owner) = s.owners.get(index.into()) else { continue };
        let Some(from) = NonNull::new(s.object(index, record)) else { continue };
        let Some((to, at)) = take().and_then(|to| Some((to, inner.chunks.find(to.as_ptr() as usize)?)))
        else {
            return;
        };
        most -= 1;
        // SAFETY: the new place is out of its slab, which is in place.
        let t = unsafe { at.as_ref() };
        let place = record.index_of(to.as_ptr() as usize - t.base() as usize);
        // The owner first: the program may free the new object as soon as it knows of it.
        let known = t.owners.set(place, owner, true, &inner.vectors(t));
        // SAFETY: `from` was live a moment ago and its memory stays readable; `to` is nobody's yet.
        if known && unsafe { migrate.migrate(from, to) } {
            if record.is_debug() {
                record.retire(from.as_ptr());
            }
            if s.owners.take(index.into()).is_some() {
                record.put_back(inner, slab, from.as_ptr());
            }
            done.moved += 1;
        } else {
            if known {
                t.owners.take(place);
            }
            record.put_back(inner, at, to.as_ptr());
            done.refused += 1;
        }
    }
}
