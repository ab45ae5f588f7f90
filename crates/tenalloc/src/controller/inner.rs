//! What a controller is made of, and the areas of its CPUs.

use super::caches::CacheList;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::group::owner::Owners;
use crate::group::signal::Signals;
use crate::group::stock::Stock;
use crate::group::tree::Tree;
use crate::lru::index::Indexes;
use crate::meta::Meta;
use crate::page::chunk::Chunks;
use crate::page::{PAGE, Topology};
use crate::reclaim::registry::Registry;
use crate::reclaim::walk::Reclaimers;
use crate::slab::classes::Classes;
use crate::sync::{Guard, Lock};
use core::mem::size_of;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
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
pub(super) struct Padded(pub(super) Lock<Area>);

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

/// Everything of a controller. It lies in pages of its own source.
pub(crate) struct Inner {
    pub(super) refs: AtomicU32,
    pub(crate) config: Config,
    pub(crate) topology: Topology,
    pub(super) pretended_cpu: AtomicU32,
    pub(crate) chunks: Chunks,
    pub(crate) meta: Meta,
    pub(crate) tree: Tree,
    pub(crate) owners: Owners,
    pub(super) root: AtomicPtr<crate::group::tree::Node>,
    pub(super) areas: NonNull<Padded>,
    pub(super) caches: Lock<CacheList>,
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
    /// What caches that were destroyed had counted.
    pub(crate) corrupted: AtomicU64,
}

// SAFETY: every part is atomic, fixed, or behind a lock.
unsafe impl Sync for Inner {}
// SAFETY: as above.
unsafe impl Send for Inner {}

impl Inner {
    pub(super) fn own_bytes() -> usize {
        size_of::<Self>().next_multiple_of(PAGE)
    }

    pub(super) fn area_bytes(topology: &Topology) -> usize {
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
}
