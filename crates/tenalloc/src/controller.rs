//! The controller: groups, caches and chunks that belong together, and the per-CPU areas in front of them.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::group::owner::Owners;
use crate::group::signal::Signals;
use crate::group::stock::{BATCH, SLOTS, Stock};
use crate::group::tree::Tree;
use crate::group::{Group, Owner};
use crate::lru::index::Indexes;
use crate::meta::Meta;
use crate::page::chunk::Chunks;
use crate::page::{PAGE, Source, Topology};
use crate::reclaim::registry::Registry;
use crate::reclaim::walk::Reclaimers;
use crate::slab::cache::Record;
use crate::slab::classes::Classes;
use crate::slab::{Cache, CacheConfig, Kind};
use crate::sync::{Guard, Lock, Rank};
use core::mem::size_of;
use core::ops::{Deref, DerefMut};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

/// What one CPU keeps near: for now its stock. Its sheaves lie with the caches; its lock guards both.
#[derive(Default)]
pub(crate) struct Area {
    pub(crate) stock: Stock,
    /// Somebody waits for a group to fall to its `high`: its bytes are not kept here.
    pub(crate) waited: bool,
    /// There is something to see to once this is unlocked: `over_high`, or bytes that went back to the tree, for which
    /// somebody may wait.
    pub(crate) returned: bool,
}

/// An area on cache lines of its own.
#[repr(align(128))]
struct Padded(Lock<Area>);

/// A CPU's area, locked, and which CPU and node that is.
pub(crate) struct Locked<'a> {
    area: Guard<'a, Area>,
    pub(crate) cpu: u16,
    pub(crate) node: u8,
    /// A charge through this went above the `high` of that group, by a charge of so many bytes: see to it once the
    /// area is unlocked.
    pub(crate) over_high: Option<(Group, u64)>,
}

impl Deref for Locked<'_> {
    type Target = Area;
    fn deref(&self) -> &Area {
        &self.area
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Area {
        &mut self.area
    }
}

/// First and last of the list of caches.
struct CacheList {
    first: *mut Record,
    /// Caches ever made: each has its number, and the list falls.
    made: u64,
}

// SAFETY: the records belong to the controller; the list is reached through its lock.
unsafe impl Send for CacheList {}

/// Everything of a controller. It lies in pages of its own source.
pub(crate) struct Inner {
    refs: AtomicU32,
    pub(crate) config: Config,
    pub(crate) topology: Topology,
    pretended_cpu: AtomicU32,
    pub(crate) chunks: Chunks,
    pub(crate) meta: Meta,
    pub(crate) tree: Tree,
    pub(crate) owners: Owners,
    root: AtomicPtr<crate::group::tree::Node>,
    areas: NonNull<Padded>,
    caches: Lock<CacheList>,
    pub(crate) classes: Classes,
    pub(crate) indexes: Lock<Indexes>,
    pub(crate) reclaimers: Reclaimers,
    pub(crate) shrinkers: Registry,
    pub(crate) signals: Signals,
    pub(crate) forced_bytes: AtomicU64,
    pub(crate) offline_cancels: AtomicU32,
    pub(crate) slab_bytes: AtomicU64,
    pub(crate) vector_bytes: AtomicU64,
    pub(crate) large_bytes: AtomicU64,
    pub(crate) large_objects: AtomicU64,
    pub(crate) raw_bytes: AtomicU64,
}

// SAFETY: every part is atomic, fixed, or behind a lock.
unsafe impl Sync for Inner {}
// SAFETY: as above.
unsafe impl Send for Inner {}

impl Inner {
    fn own_bytes() -> usize {
        size_of::<Self>().next_multiple_of(PAGE)
    }

    fn area_bytes(topology: &Topology) -> usize {
        (usize::from(topology.cpus()) * size_of::<Padded>()).next_multiple_of(PAGE)
    }

    /// Locks the area of the CPU that the caller is on. (It may be moved to another one right after: the lock,
    /// not the CPU, is what keeps the area to one thread.)
    #[inline]
    pub(crate) fn lock_cpu(&self) -> Locked<'_> {
        let (cpu, node) = self.topology.here(&self.pretended_cpu);
        Locked { area: self.area(cpu).lock(), cpu, node, over_high: None }
    }

    fn area(&self, cpu: u16) -> &Lock<Area> {
        debug_assert!(cpu < self.topology.cpus());
        // SAFETY: there is one area a CPU, and callers pass CPUs of the topology.
        unsafe { &self.areas.add(cpu.into()).as_ref().0 }
    }

    /// Locks the area of any CPU.
    pub(crate) fn lock_area(&self, cpu: u16) -> Guard<'_, Area> {
        self.area(cpu).lock()
    }

    /// Waits until everything that was under way on any CPU is done. An idle CPU is not waited for.
    pub(crate) fn visit_cpus(&self) {
        for cpu in 0..self.topology.cpus() {
            drop(self.lock_area(cpu));
        }
    }

    pub(crate) fn root_node(&self) -> &crate::group::tree::Node {
        // SAFETY: set before the controller was handed out; the root is never removed.
        unsafe { &*self.root.load(Acquire) }
    }

    /// Runs `look` with every CPU's area locked.
    pub(crate) fn with_all_cpus<R>(&self, look: impl FnOnce(&mut dyn Iterator<Item = &Area>) -> R) -> R {
        let cpus = self.topology.cpus();
        for cpu in 0..cpus {
            core::mem::forget(self.lock_area(cpu)); // unlocked below: there is no room for so many guards
        }
        struct Unlock<'a>(&'a Inner, u16);
        impl Drop for Unlock<'_> {
            fn drop(&mut self) {
                for cpu in (0..self.1).rev() {
                    // SAFETY: locked above by this thread, and its guard forgotten.
                    unsafe { self.0.area(cpu).force_unlock() };
                }
            }
        }
        let _unlock = Unlock(self, cpus);
        look(&mut (0..cpus).map(|cpu| {
            // SAFETY: locked above by this thread, and nobody has a mutable reference.
            unsafe { self.area(cpu).peek() }
        }))
    }

    pub(crate) fn check_node(&self, node: u8) -> Result<()> {
        if node < self.topology.nodes() { Ok(()) } else { Err(Error::BadNode { node: node.into() }) }
    }

    /// Makes a cache and lists it; `slot`, if given, gets the record unless somebody was faster, whose record
    /// is then returned.
    pub(crate) fn add_cache(
        &self,
        c: &CacheConfig<'_>,
        slot: Option<&AtomicPtr<Record>>,
    ) -> Result<NonNull<Record>> {
        let mut list = self.caches.lock();
        if let Some(record) = slot.and_then(|s| NonNull::new(s.load(Acquire))) {
            return Ok(record);
        }
        let record = Record::create(self, c)?;
        list.made += 1;
        // SAFETY: the list's lock is held, and listed records are in place; this one is nobody else's yet.
        unsafe {
            (*record.as_ptr()).number = list.made;
            *record.as_ref().next.get() = list.first;
            if !list.first.is_null() {
                *(*list.first).prev.get() = record.as_ptr();
            }
        }
        list.first = record.as_ptr();
        if let Some(slot) = slot {
            slot.store(record.as_ptr(), Release);
        }
        Ok(record)
    }

    /// Takes a cache off the list if `ready` allows it, with the list locked.
    pub(crate) fn unlist_cache(&self, record: &Record, ready: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut list = self.caches.lock();
        if record.is_destroyed() {
            return Err(Error::CacheDestroyed);
        }
        ready()?;
        // SAFETY: the list's lock is held.
        unsafe {
            let (next, prev) = (*record.next.get(), *record.prev.get());
            if prev.is_null() {
                list.first = next;
            } else {
                *(*prev).next.get() = next;
            }
            if !next.is_null() {
                *(*next).prev.get() = prev;
            }
        }
        Ok(())
    }

    /// A handle to the first cache, or to the one after `last`.
    fn next_cache(&self, ctl: &Controller, last: Option<&Record>) -> Option<Cache> {
        let list = self.caches.lock();
        let next = match last {
            None => list.first,
            Some(record) if record.is_destroyed() => {
                let mut at = list.first;
                // SAFETY: the list's lock is held, and listed records are in place.
                while unsafe { at.as_ref() }.is_some_and(|r| r.number > record.number) {
                    // SAFETY: as above.
                    at = unsafe { *(*at).next.get() };
                }
                at
            }
            // SAFETY: the list's lock is held, and the record is still on it.
            Some(record) => unsafe { *record.next.get() },
        };
        Some(Cache::from_record(ctl, NonNull::new(next)?))
    }

    /// Calls `each` for every cache, with the list locked.
    pub(crate) fn for_each_cache(&self, mut each: impl FnMut(NonNull<Record>)) {
        let list = self.caches.lock();
        let mut at = list.first;
        while let Some(record) = NonNull::new(at) {
            each(record);
            // SAFETY: the list's lock is held.
            at = unsafe { *record.as_ref().next.get() };
        }
    }
}

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
    /// stock full.
    pub const SLACK_PER_CPU: u64 = SLOTS as u64 * 2 * BATCH;

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
        let (areas, chunks) = match parts {
            Some((areas, Some(chunks))) => (areas.cast::<Padded>(), chunks),
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
        for cpu in 0..topology.cpus() {
            // SAFETY: there is room for one area a CPU.
            unsafe { areas.add(cpu.into()).write(Padded(Lock::new(Rank::Cpu, Area::default()))) };
        }
        let inner = own.cast::<Inner>();
        // SAFETY: a fresh mapping, large and aligned enough.
        unsafe {
            inner.write(Inner {
                refs: AtomicU32::new(1),
                config,
                topology,
                pretended_cpu: AtomicU32::new(0),
                chunks,
                meta: Meta::new(source),
                tree: Tree::new(),
                owners: Owners::new(),
                root: AtomicPtr::new(null_mut()),
                areas,
                caches: Lock::new(Rank::Caches, CacheList { first: null_mut(), made: 0 }),
                classes: Classes::new(),
                indexes: Lock::new(Rank::Indexes, Indexes),
                reclaimers: Reclaimers::new(),
                shrinkers: Registry::new(),
                signals: Signals::new(),
                forced_bytes: AtomicU64::new(0),
                offline_cancels: AtomicU32::new(0),
                slab_bytes: AtomicU64::new(0),
                vector_bytes: AtomicU64::new(0),
                large_bytes: AtomicU64::new(0),
                large_objects: AtomicU64::new(0),
                raw_bytes: AtomicU64::new(0),
            });
        }
        let this = Self(inner);
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

    /// `size` bytes owned by and charged to `group`, aligned to `align`, from the size class that fits or, above
    /// 8 KiB, in whole pages. Not initialised.
    ///
    /// # Errors
    /// [`Error::Limit`], [`Error::NoMemory`], [`Error::BadSize`], [`Error::BadAlign`], [`Error::GroupRemoved`].
    pub fn malloc(&self, group: &Group, size: usize, align: usize) -> Result<NonNull<u8>> {
        self.inner().malloc(size, align, group.owner_id(self)?)
    }

    /// Frees any object of this controller, from [`malloc`](Self::malloc) or a cache.
    ///
    /// # Errors
    /// See [`Cache::free`].
    ///
    /// # Safety
    /// Nobody uses the object any more.
    pub unsafe fn free(&self, object: NonNull<u8>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.inner().free_object(object, None) }
    }

    /// Bytes that may be used of the object at `address`.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Interior`].
    pub fn usable_size(&self, object: NonNull<u8>) -> Result<usize> {
        self.inner().usable_size(object.as_ptr() as usize)
    }

    /// The group that a live object is charged to now; `None` if nobody owns it. Found from its address alone.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Interior`], [`Error::DoubleFree`] if it is known not to be live.
    pub fn group_of_object(&self, object: NonNull<u8>) -> Result<Option<Group>> {
        let address = object.as_ptr() as usize;
        let (slab, index) = self.inner().locate(address)?;
        // SAFETY: `locate` found a run in use.
        let id = unsafe { slab.as_ref() }.owners.get(index).ok_or(Error::DoubleFree { address })?;
        Ok((id != crate::group::owner::NOBODY).then(|| self.group_of(id)))
    }

    /// The pages that a live object shares with others: their first address and their bytes.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Interior`].
    pub fn slab_of(&self, object: NonNull<u8>) -> Result<(usize, usize)> {
        let (slab, _) = self.inner().locate(object.as_ptr() as usize)?;
        // SAFETY: `locate` found a run in use.
        let slab = unsafe { slab.as_ref() };
        Ok((slab.base() as usize, slab.bytes()))
    }

    pub(crate) fn group_of(&self, owner: u32) -> Group {
        let inner = self.inner();
        let _cpu = inner.lock_cpu();
        let owner = inner.owners.get(inner.owners.resolve(owner));
        // SAFETY: a current owner's node is in place while the CPU's lock is held, and is held from here on.
        unsafe {
            let node = NonNull::new_unchecked(owner.node.load(Acquire));
            inner.tree.hold(node.as_ref());
            Group::from_held(self, node)
        }
    }

    /// The owner handle of a live object; `None` if nobody owns it.
    ///
    /// # Errors
    /// As [`group_of_object`](Self::group_of_object).
    pub fn owner_of_object(&self, object: NonNull<u8>) -> Result<Option<Owner>> {
        let address = object.as_ptr() as usize;
        let (slab, index) = self.inner().locate(address)?;
        // SAFETY: `locate` found a run in use.
        let id = unsafe { slab.as_ref() }.owners.get(index).ok_or(Error::DoubleFree { address })?;
        if id == crate::group::owner::NOBODY {
            return Ok(None);
        }
        self.inner().owners.hold(id);
        Ok(Some(Owner::from_held(self, id)))
    }

    /// `count` pages of 4 KiB on `node`, zeroed or not, aligned to their size rounded up to a power of two (at
    /// most 64 KiB); owned and paid for by nobody. For memory that the caller divides himself.
    ///
    /// # Errors
    /// [`Error::NoMemory`], [`Error::BadSize`], [`Error::BadNode`].
    pub fn pages(&self, count: usize, node: u8) -> Result<NonNull<u8>> {
        let inner = self.inner();
        inner.check_node(node)?;
        if count == 0 || count > u32::MAX as usize / 2 {
            return Err(Error::BadSize { size: count.saturating_mul(PAGE) });
        }
        let align = (count * PAGE).next_power_of_two().min(16 * PAGE);
        let bytes = count * PAGE;
        let slab = inner.chunks.alloc(count, align, node, Kind::Pages).ok_or(Error::NoMemory { bytes })?;
        inner.raw_bytes.fetch_add(bytes as u64, Relaxed);
        // SAFETY: just made.
        NonNull::new(unsafe { slab.as_ref() }.base()).ok_or(Error::NoMemory { bytes })
    }

    /// Gives pages back.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Interior`].
    ///
    /// # Safety
    /// Nobody uses the pages any more.
    pub unsafe fn free_pages(&self, pages: NonNull<u8>) -> Result<()> {
        let inner = self.inner();
        let address = pages.as_ptr() as usize;
        let slab = inner.chunks.find(address).ok_or(Error::Foreign { address })?;
        // SAFETY: a run in use.
        let s = unsafe { slab.as_ref() };
        if s.kind != Kind::Pages {
            return Err(Error::Foreign { address });
        }
        if s.base() as usize != address {
            return Err(Error::Interior { address });
        }
        inner.raw_bytes.fetch_sub(s.bytes() as u64, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { inner.chunks.free(slab) };
        Ok(())
    }

    /// Gives back what is free: sheaves to slabs, empty slabs to chunks, free pages to the system, stocks to the
    /// tree. Returns bytes given to the system.
    pub fn trim(&self) -> u64 {
        let inner = self.inner();
        inner.for_each_cache(|record| {
            // SAFETY: listed records are in place.
            let record = unsafe { record.as_ref() };
            inner.flush_cache(record);
            record.shrink(inner);
        });
        inner.drain_all();
        inner.chunks.trim() as u64
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

    /// Bytes of the controller's own pages: itself, its per-CPU areas, a page of the chunk registry.
    pub(crate) fn fixed_bytes(&self) -> u64 {
        (Inner::own_bytes() + Inner::area_bytes(self.topology()) + PAGE) as u64
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
            (inner.config.source, inner.areas, Inner::area_bytes(&inner.topology));
        // SAFETY: this was the last handle, so nobody uses any part again; tables first, since their large
        // segments are mappings of their own, then what they were cut from.
        unsafe {
            inner.tree.drop_table(&inner.meta);
            inner.owners.drop_table(&inner.meta);
            inner.chunks.release();
            inner.meta.release();
            source.unmap(areas.cast(), area_bytes);
            source.unmap(self.0.cast(), Inner::own_bytes());
        }
    }
}

impl core::fmt::Debug for Controller {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Controller").field(&self.stat()).finish()
    }
}
