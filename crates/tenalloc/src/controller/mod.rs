//! The controller: groups, caches and chunks that belong together, and the per-CPU areas in front of them.
//!
//! Here: what users hold, from creation to the last drop. `inner`: what it is made of. `caches`: the list of them.
//! `objects`: single objects, by size or by address.

mod caches;
mod inner;
mod objects;

pub(crate) use inner::{Area, Inner, Locked};

use self::caches::CacheList;
use crate::config::Config;
use crate::error::{Error, Result};
#[cfg(not(feature = "loom"))]
use crate::fork::Forker;
use crate::group::Group;
use crate::group::owner::Owners;
use crate::group::signal::Signals;
use crate::group::stock;
use crate::group::tree::Tree;
use crate::lru::index::Indexes;
use crate::meta::Meta;
use crate::page::chunk::Chunks;
use crate::page::{PAGE, Source, Topology};
use crate::percpu::Areas;
use crate::reclaim::registry::Registry;
use crate::reclaim::walk::Reclaimers;
use crate::slab::classes::Classes;
use crate::slab::ready::{self, depot::Depots};
use crate::slab::{Cache, CacheConfig};
use crate::sync::{Lock, Rank};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

/// A controller: one tree of groups, its caches, and the memory they share.
///
/// Any number may live side by side; [`Controller::global`] is the process's own. A handle: cheap to clone,
/// usable from any thread. When the last handle (groups, caches and owners hold one too) is dropped, all of
/// its memory is unmapped, objects included.
pub struct Controller(NonNull<Inner>);

// SAFETY: `Inner` may be used from any thread.
unsafe impl Send for Controller {}
// SAFETY: as above.
unsafe impl Sync for Controller {}

static GLOBAL: AtomicPtr<Inner> = AtomicPtr::new(null_mut());

impl Controller {
    /// How far [`Group::current`] may run ahead of [`Group::exact`] for each CPU, bytes: every slot of its
    /// stock full. A CPU that serves no more than a few groups in turn keeps 512 KiB of it at most.
    pub const SLACK_PER_CPU: u64 = stock::MOST + ready::MOST;

    /// A new controller.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn new(config: Config) -> Result<Self> {
        let source = config.source;
        let topology = config.topology.unwrap_or_else(Topology::detect);
        let own = source
            .map(Inner::own_bytes(), PAGE, None)
            .ok_or(Error::NoMemory { bytes: Inner::own_bytes() })?;
        let area_bytes = Inner::area_bytes(&topology);
        let parts = source.map(area_bytes, PAGE, None).map(|areas| (areas, Chunks::new(source)));
        let decay = config.decay;
        let (areas, chunks) = match parts {
            Some((areas, Some(chunks))) => (areas, chunks),
            parts => {
                // SAFETY: whole mappings made just above.
                unsafe {
                    if let Some((areas, None)) = parts {
                        source.unmap(areas, area_bytes);
                    }
                    source.unmap(own, Inner::own_bytes());
                }
                return Err(Error::NoMemory { bytes: area_bytes });
            }
        };
        let inner = own.cast::<Inner>();
        // SAFETY: a fresh mapping, large and aligned enough.
        unsafe {
            inner.write(Inner {
                refs: AtomicU32::new(1),
                config,
                topology,
                pretended_cpu: AtomicU32::new(0),
                chunks: chunks.decaying(decay),
                meta: Meta::new(source),
                tree: Tree::new(),
                owners: Owners::new(),
                root: AtomicPtr::new(null_mut()),
                areas: Areas::new(areas, &topology, Area::default),
                caches: Lock::new(Rank::Caches, CacheList { first: null_mut(), made: 0 }),
                classes: Classes::new(),
                depots: Depots::none(),
                indexes: Lock::new(Rank::Indexes, Indexes),
                reclaimers: Reclaimers::new(),
                #[cfg(not(feature = "loom"))]
                forker: Forker::none(),
                shrinkers: Registry::new(),
                signals: Signals::new(),
                forced_bytes: AtomicU64::new(0),
                offline_cancels: AtomicU32::new(0),
                slab_bytes: AtomicU64::new(0),
                vector_bytes: AtomicU64::new(0),
                large_bytes: AtomicU64::new(0),
                large_objects: AtomicU64::new(0),
                raw_bytes: AtomicU64::new(0),
                deferred: AtomicPtr::new(null_mut()),
                corrupted: AtomicU64::new(0),
            });
        }
        let this = Self(inner);
        let depots = Depots::new(topology.nodes(), &this.inner().meta)?;
        // SAFETY: nobody else has the controller yet.
        unsafe { (*inner.as_ptr()).depots = depots };
        let root = this.inner().tree.create(this.inner(), None, "")?;
        this.inner().root.store(root.as_ptr(), Release);
        Ok(this)
    }

    /// The process-wide controller, made on first use with the default configuration; it stays.
    ///
    /// # Errors
    /// [`Error::NoMemory`], the first time.
    pub fn global() -> Result<&'static Self> {
        // A handle is one pointer, so the static that holds it can be looked at as a handle.
        fn handle() -> &'static Controller {
            // SAFETY: `Controller` is a `NonNull<Inner>`, laid out as the pointer in the atomic, which is not
            // null when this is called and never changes again.
            unsafe { &*GLOBAL.as_ptr().cast::<Controller>() }
        }
        if GLOBAL.load(Acquire).is_null() {
            let made = Self::new(Config::new())?;
            let raw = made.0.as_ptr();
            if GLOBAL.compare_exchange(null_mut(), raw, AcqRel, Acquire).is_ok() {
                core::mem::forget(made);
            }
        }
        Ok(handle())
    }

    pub(crate) fn inner(&self) -> &Inner {
        // SAFETY: the handle holds a reference.
        unsafe { self.0.as_ref() }
    }

    /// A handle, from inside.
    pub(crate) fn of(inner: &Inner) -> Self {
        inner.refs.fetch_add(1, Relaxed);
        Self(NonNull::from(inner))
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    /// The root group: all bytes of the controller are charged to it.
    pub fn root(&self) -> Group {
        let root = self.inner().root_node();
        self.inner().tree.hold(root);
        Group::from_held(self, NonNull::from(root))
    }

    /// A new cache.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::BadSize`], [`Error::BadAlign`], [`Error::BadNode`], [`Error::NoMemory`].
    pub fn cache(&self, config: &CacheConfig<'_>) -> Result<Cache> {
        let record = self.inner().add_cache(config, None)?;
        Ok(Cache::from_record(self, record))
    }

    /// Every cache, those of the size classes too, newest first. Caches made or destroyed during the walk do not disturb
    /// it.
    pub fn caches(&self) -> impl Iterator<Item = Cache> + '_ {
        let mut last: Option<Cache> = None;
        core::iter::from_fn(move || {
            let next = self.inner().next_cache(self, last.as_ref().map(Cache::record))?;
            last = Some(next.clone());
            Some(next)
        })
    }

    /// Gives back what is free: sheaves to slabs, empty slabs to chunks, free pages and the records of groups that went to
    /// the system, stocks to the tree. Movable objects are moved together first ([`compact`](Self::compact)). Returns bytes given to the system.
    pub fn trim(&self) -> u64 {
        let inner = self.inner();
        inner.free_deferred();
        self.compact(u64::MAX);
        inner.for_each_cache(|record| {
            // SAFETY: listed records are in place.
            let record = unsafe { record.as_ref() };
            inner.flush_cache(record);
            record.shrink(inner);
        });
        inner.drain_within(inner.root_node());
        let records = inner.tree.trim(&inner.owners, &inner.meta);
        (records + inner.chunks.trim()) as u64
    }

    /// Gives back free pages whose time is over ([`Config::decay`]), as runs of pages that come and go do in passing: for
    /// a timer of a program that may fall idle. Cheap when nothing is due. Returns bytes given to the system.
    pub fn tick(&self) -> u64 {
        self.inner().chunks.tick() as u64
    }

    /// The nodes and CPUs it works with.
    pub fn topology(&self) -> &Topology {
        &self.inner().topology
    }

    /// On a simulated topology: from now on every thread runs on `cpu` (modulo the CPUs there are). On the
    /// machine's own it does nothing.
    pub fn set_cpu(&self, cpu: u16) {
        if self.inner().topology.is_simulated() {
            self.inner().pretended_cpu.store(cpu.into(), Relaxed);
        }
    }

    /// Bytes of the controller's own pages: itself, the areas of its CPUs, a page each of the chunk registry and of the lists
    /// of chunks; without shelves.
    pub(crate) fn fixed_bytes(&self) -> u64 {
        (Inner::own_bytes() + usize::from(self.topology().cpus()) * PAGE + 2 * PAGE) as u64
    }
}

impl Clone for Controller {
    fn clone(&self) -> Self {
        self.inner().refs.fetch_add(1, Relaxed);
        Self(self.0)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let inner = self.inner();
        if inner.refs.fetch_sub(1, AcqRel) > 1 {
            return;
        }
        let (source, areas, area_bytes): (&'static dyn Source, _, _) =
            (inner.config.source, inner.areas.place(), Inner::area_bytes(&inner.topology));
        // SAFETY: this was the last handle, so nobody uses any part again; tables first, since their large
        // segments are mappings of their own, then what they were cut from.
        unsafe {
            for (.., area, shelf) in inner.areas.lock_all().rows() {
                area.stock.take_table().into_iter().for_each(|table| inner.meta.free(table, stock::TABLE));
                shelf.forget(&inner.meta);
            }
            inner.forget_depots();
            inner.tree.drop_table(&inner.meta);
            inner.owners.drop_table(&inner.meta);
            inner.chunks.release();
            inner.meta.release();
            source.unmap(areas, area_bytes);
            source.unmap(self.0.cast(), Inner::own_bytes());
        }
    }
}

impl core::fmt::Debug for Controller {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Controller").field(&self.stat()).finish()
    }
}
