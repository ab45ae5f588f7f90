//! Where every byte of a controller is.

use crate::controller::{Area, Controller};
use core::sync::atomic::Ordering::Relaxed;

/// Sizes in bytes, at about one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Live objects: slots of caches, and whole pages of large objects.
    pub live_bytes: u64,
    /// Number of live objects.
    pub objects: u64,
    /// Pages of all slabs.
    pub slab_bytes: u64,
    /// Pages of large objects (in `live_bytes` too).
    pub large_bytes: u64,
    /// Free objects kept near CPUs (in `slab_bytes` too).
    pub cached_bytes: u64,
    /// Owner vectors.
    pub owner_vector_bytes: u64,
    /// All other bookkeeping that is resident: chunk headers and slab descriptors, caches, sheaves, groups,
    /// owners, names, tables, per-CPU areas; also metadata blocks that wait for their next use.
    pub metadata_bytes: u64,
    /// Pages handed out by [`Controller::pages`].
    pub raw_bytes: u64,
    /// Free pages that are still resident.
    pub free_page_bytes: u64,
    /// Address space held for chunks.
    pub mapped_bytes: u64,
    /// Bytes charged in advance and kept near CPUs: what the root's `current` is ahead of its `exact`.
    pub stock_bytes: u64,
    /// What `stock_bytes` can be at most.
    pub stock_bound_bytes: u64,
    /// Bytes ever charged past all limits, by [`Owner::charge_forced`](crate::Owner::charge_forced).
    pub forced_bytes: u64,
    /// Groups, without the root.
    pub groups: u64,
    /// Groups removed whose record a handle still holds.
    pub removed_held: u64,
    /// Owner handles of removed groups: live objects or handles hold them.
    pub orphans: u64,
    /// Places found overwritten: free lists, and in caches with [`debug`](crate::CacheConfig::debug) red zones and free
    /// objects.
    pub corrupted: u64,
}

impl Stat {
    /// All memory that is used for objects: slabs, large objects, vectors, metadata, free pages not yet returned.
    pub fn resident_bytes(&self) -> u64 {
        self.slab_bytes
            + self.large_bytes
            + self.owner_vector_bytes
            + self.metadata_bytes
            + self.free_page_bytes
    }

    /// Live bytes / [`resident_bytes`](Self::resident_bytes), 0..=1.
    pub fn utilisation(&self) -> f64 {
        self.live_bytes as f64 / (self.resident_bytes() as f64).max(1.0)
    }
}

impl Controller {
    /// Where every byte is. Visits every cache and CPU; what goes on meanwhile may show in one figure and not
    /// yet in another.
    pub fn stat(&self) -> Stat {
        let inner = self.inner();
        inner.free_deferred();
        let mut stat = Stat { corrupted: inner.corrupted.load(Relaxed), ..Stat::default() };
        inner.for_each_cache(|record| {
            // SAFETY: listed records are in place.
            let record = unsafe { record.as_ref() };
            let c = record.stat(inner);
            stat.live_bytes += c.objects * u64::from(c.slot_size);
            stat.objects += c.objects;
            stat.cached_bytes += c.cached * u64::from(c.slot_size);
            stat.corrupted += record.corrupted.load(Relaxed);
        });
        stat.slab_bytes = inner.slab_bytes.load(Relaxed);
        stat.large_bytes = inner.large_bytes.load(Relaxed);
        stat.live_bytes += stat.large_bytes;
        stat.objects += inner.large_objects.load(Relaxed);
        stat.raw_bytes = inner.raw_bytes.load(Relaxed);
        let totals = inner.chunks.totals();
        let (meta, _) = inner.meta.totals();
        stat.owner_vector_bytes = inner.vector_bytes.load(Relaxed);
        stat.metadata_bytes = (meta as u64).saturating_sub(stat.owner_vector_bytes)
            + totals.headers as u64
            + (inner.tree.resident() + inner.owners.resident()) as u64
            + self.fixed_bytes();
        stat.free_page_bytes = totals.dirty as u64;
        stat.mapped_bytes = totals.mapped as u64;
        let slots = |area: &Area| area.stock.slots().map(|s| u64::from(s.bytes)).sum::<u64>();
        let all = inner.areas.lock_all();
        stat.stock_bytes = all.iter().map(slots).sum();
        stat.stock_bytes += inner.ready_bytes(&all, inner.root_node());
        stat.metadata_bytes += all.shelves().map(|shelf| shelf.resident() as u64).sum::<u64>();
        drop(all);
        stat.stock_bound_bytes = u64::from(self.topology().cpus()) * Self::SLACK_PER_CPU;
        stat.forced_bytes = inner.forced_bytes.load(Relaxed);
        let (groups, nodes) = inner.tree.counts();
        stat.groups = groups.into();
        stat.removed_held = u64::from(nodes) - 1 - stat.groups;
        stat.orphans = inner.tree.orphans(&inner.owners).into();
        stat
    }

    /// Calls `each` for every part of [`Stat::resident_bytes`], with its name and its bytes. Blocks of metadata that wait
    /// for their next use are a part of their own.
    pub fn parts(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let inner = self.inner();
        let stat = self.stat();
        let (mut cut, mut tails) = (0u64, 0u64);
        inner.for_each_cache(|record| {
            // SAFETY: listed records are in place.
            let record = unsafe { record.as_ref() };
            let (slabs, _) = record.sums(inner);
            let objects = slabs * u64::from(record.objects) * u64::from(record.slot);
            cut += objects;
            tails += slabs * record.slab_bytes() - objects;
        });
        let in_slabs = stat.live_bytes - stat.large_bytes + stat.cached_bytes;
        let (meta, waiting) = inner.meta.totals();
        let tree = inner.tree.parts();
        each("live objects", stat.live_bytes);
        each("free objects near CPUs", stat.cached_bytes);
        each("free objects in slabs", cut.saturating_sub(in_slabs));
        each("ends of slabs", tails);
        each("owner vectors", stat.owner_vector_bytes);
        each("chunks: headers, slab descriptors", inner.chunks.totals().headers as u64);
        each("groups", tree.nodes as u64);
        each("owners", inner.owners.resident() as u64);
        each("names", tree.names as u64);
        each("hash of names", tree.hash as u64);
        each("free metadata", waiting as u64);
        let known = stat.owner_vector_bytes + (waiting + tree.names + tree.hash) as u64;
        each("other metadata: caches, sheaves, lists", (meta as u64).saturating_sub(known));
        each("controller, areas of CPUs", self.fixed_bytes());
        each("free pages", stat.free_page_bytes);
    }

    /// Bytes of slab pages now: one load.
    pub fn slab_bytes(&self) -> u64 {
        self.inner().slab_bytes.load(Relaxed)
    }
}
