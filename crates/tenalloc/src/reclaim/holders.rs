//! Who holds what: the live objects of removed groups, and where they are.
//!
//! A removed group leaves one owner behind until its last object dies. On Linux nobody can say which objects those are
//! but a debugger that scans every page; here a walk over the slabs tells, while the program runs: a chunk that is
//! looked at is not unmapped, a slab that is looked at does not go, and nothing else waits.

use super::offline::{each_run, owned_by};
use crate::controller::Controller;
use crate::group::{Group, owner::NOBODY};
use crate::slab::Cache;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Acquire;

/// A live object, or a slab of them, whose group was removed.
#[derive(Debug)]
pub struct Orphan {
    /// The object's address; the slab's, where all objects of a slab have one owner.
    pub address: usize,
    /// Objects: 1, or for a slab those that are handed out, kept near a CPU or live.
    pub objects: u32,
    /// Bytes from one object to the next.
    pub slot_size: u32,
    /// Their cache.
    pub cache: Cache,
    /// The group that pays for them now.
    pub payer: Group,
}

impl Controller {
    /// Calls `each` for the live objects of removed groups. For large objects (whole pages) there is no cache, and they
    /// are not told. Costs a look at every owner entry; nothing waits for it.
    pub fn orphans(&self, each: &mut dyn FnMut(Orphan)) {
        let inner = self.inner();
        let mut after = 0;
        while let Some(chunk) = inner.chunks.look(after) {
            after = chunk.address();
            for cache in self.caches() {
                let record = cache.record();
                each_run(chunk, |slab| {
                    if record.pin(slab, chunk.node()) {
                        owned_by(record, slab, &mut |id, address, objects| {
                            if id != NOBODY
                                && inner.owners.is_orphan(id)
                                && let Some(payer) = self.payer_of(id)
                            {
                                let (cache, slot_size) = (cache.clone(), record.slot);
                                each(Orphan { address, objects, slot_size, cache, payer });
                            }
                        });
                        record.unpin(inner, slab, chunk.node());
                    }
                });
            }
            inner.chunks.looked(chunk);
        }
    }

    /// The group that pays for objects of `owner` now, an id that was read from the entry of an object which may be dying.
    /// `None`: nobody's, or it is gone.
    pub(super) fn payer_of(&self, owner: u32) -> Option<Group> {
        let inner = self.inner();
        let cpu = inner.lock_cpu();
        let owner = loop {
            let id = inner.owners.resolve_loose(owner).filter(|id| *id != NOBODY)?;
            if inner.owners.get(id).enter(cpu.cpu()) {
                break inner.owners.get(id);
            }
        };
        let node = NonNull::new(owner.node.load(Acquire))?;
        // SAFETY: the node of an owner that this CPU entered is in place while its lock is held, and is held from here on.
        inner.tree.hold(unsafe { node.as_ref() });
        Some(Group::from_held(self, node))
    }
}
