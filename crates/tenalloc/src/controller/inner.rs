//! What a controller is made of, and the areas of its CPUs.

use super::caches::CacheList;
use crate::config::Config;
use crate::error::{Error, Result};
#[cfg(not(feature = "loom"))]
use crate::fork::Forker;
use crate::group::owner::Owners;
use crate::group::signal::Signals;
use crate::group::stock::Stock;
use crate::group::tree::{Node, Tree};
use crate::lru::index::Indexes;
use crate::meta::Meta;
use crate::page::chunk::Chunks;
use crate::page::{PAGE, Topology};
use crate::percpu::{Areas, Held};
use crate::reclaim::registry::Registry;
use crate::reclaim::walk::Reclaimers;
use crate::slab::classes::Classes;
use crate::slab::ready::depot::Depots;
use crate::sync::Lock;
use core::mem::size_of;
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
    /// A charge went above the `high` of that group (held), by a charge of so many bytes. Taken out by who unlocks.
    pub(crate) over_high: Option<(NonNull<Node>, u64)>,
}

// SAFETY: the node is held for whoever takes it out, and may be looked at from any thread.
unsafe impl Send for Area {}

const _: () = assert!(Areas::<Area>::AREA == 128, "an area has two cache lines, which come together");

/// A CPU's area, held.
pub(crate) type Locked<'a> = Held<'a, Area>;

/// Everything of a controller. It lies in pages of its own source, in this order: in the first line what every allocation
/// reads and nobody writes, on the first page what a group that comes and goes needs, and what is large behind. (With its parts
/// wherever the compiler puts them a removal with cold caches took 0.4 µs more.)
#[repr(C)]
pub(crate) struct Inner {
    pub(crate) areas: Areas<Area>,
    pub(crate) depots: Depots,
    pub(super) root: AtomicPtr<crate::group::tree::Node>,
    pub(crate) signals: Signals,
    /// Objects that signal handlers could not free; see `slab::nolock`.
    pub(crate) deferred: AtomicPtr<u8>,
    pub(crate) config: Config,
    pub(crate) tree: Tree,
    pub(crate) owners: Owners,
    pub(crate) indexes: Lock<Indexes>,
    pub(super) refs: AtomicU32,
    pub(crate) pretended_cpu: AtomicU32,
    pub(crate) topology: Topology,
    pub(crate) caches: Lock<CacheList>,
    pub(crate) shrinkers: Registry,
    pub(crate) meta: Meta,
    pub(crate) forced_bytes: AtomicU64,
    pub(crate) offline_cancels: AtomicU32,
    pub(crate) slab_bytes: AtomicU64,
    pub(crate) vector_bytes: AtomicU64,
    pub(crate) large_bytes: AtomicU64,
    pub(crate) large_objects: AtomicU64,
    pub(crate) raw_bytes: AtomicU64,
    /// What caches that were destroyed had counted.
    pub(crate) corrupted: AtomicU64,
    pub(crate) classes: Classes,
    pub(crate) reclaimers: Reclaimers,
    pub(crate) chunks: Chunks,
    #[cfg(not(feature = "loom"))]
    pub(crate) forker: Forker,
}

const _: () = assert!(core::mem::offset_of!(Inner, signals) <= 64, "the first line");
const _: () = assert!(core::mem::offset_of!(Inner, refs) < PAGE, "the first page");

// SAFETY: every part is atomic, fixed, or behind a lock.
unsafe impl Sync for Inner {}
// SAFETY: as above.
unsafe impl Send for Inner {}

impl Inner {
    pub(super) fn own_bytes() -> usize {
        size_of::<Self>().next_multiple_of(PAGE)
    }

    pub(super) fn area_bytes(topology: &Topology) -> usize {
        Areas::<Area>::bytes(topology.cpus()).next_multiple_of(PAGE)
    }

    /// Holds the area of the CPU that the caller is on.
    #[inline]
    pub(crate) fn lock_cpu(&self) -> Locked<'_> {
        self.areas.lock_here(|| self.topology.here(&self.pretended_cpu))
    }

    /// The same, unless somebody would have to be waited for; also where this thread may hold any lock: in a signal
    /// handler.
    pub(crate) fn try_lock_cpu_from_anywhere(&self) -> Option<Locked<'_>> {
        self.areas.try_lock_from_anywhere(|| self.topology.here(&self.pretended_cpu))
    }

    /// Waits until everything that was under way on any CPU is done. An idle CPU is not waited for.
    pub(crate) fn visit_cpus(&self) {
        drop(self.areas.lock_all());
    }

    pub(crate) fn root_node(&self) -> &crate::group::tree::Node {
        // SAFETY: set before the controller was handed out; the root is never removed.
        unsafe { &*self.root.load(Acquire) }
    }

    pub(crate) fn check_node(&self, node: u8) -> Result<()> {
        if node < self.topology.nodes() { Ok(()) } else { Err(Error::BadNode { node: node.into() }) }
    }
}
