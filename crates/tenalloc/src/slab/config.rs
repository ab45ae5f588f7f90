//! What a cache is made from, and what is told of it.

use super::geometry::Geometry;
use crate::group::OWNER_BYTES;
use crate::reclaim::Migrate;

/// Which node a cache's objects come from when the caller names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodePolicy {
    /// The caller's node; another one when that has no memory.
    #[default]
    Local,
    /// This node; another one when it has no memory.
    Prefer(u8),
    /// This node or none.
    Bind(u8),
    /// The nodes in turn.
    Interleave,
}

/// What a cache is made from.
#[derive(Clone, Copy)]
pub struct CacheConfig<'a> {
    pub(crate) name: &'a str,
    pub(crate) size: usize,
    pub(crate) align: usize,
    pub(crate) policy: NodePolicy,
    pub(crate) geometry: Option<Geometry>,
    pub(crate) owner_bytes: u32,
    pub(crate) sheaf: Option<u16>,
    pub(crate) migrate: Option<&'static dyn Migrate>,
    pub(crate) debug: Option<bool>,
}

impl core::fmt::Debug for CacheConfig<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CacheConfig")
            .field("name", &self.name)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl<'a> CacheConfig<'a> {
    /// A cache of objects of `size` bytes (1 to 65,536), aligned to 8, on the caller's node.
    pub fn new(name: &'a str, size: usize) -> Self {
        let policy = NodePolicy::Local;
        Self {
            name,
            size,
            align: 8,
            policy,
            geometry: None,
            owner_bytes: OWNER_BYTES,
            sheaf: None,
            migrate: None,
            debug: None,
        }
    }

    /// Alignment of each object: a power of two, 8 to 4,096.
    pub fn align(self, align: usize) -> Self {
        Self { align, ..self }
    }

    /// See [`NodePolicy`].
    pub fn policy(self, policy: NodePolicy) -> Self {
        Self { policy, ..self }
    }

    /// Pages and objects of a slab, instead of our choice.
    pub fn geometry(self, geometry: Geometry) -> Self {
        Self { geometry: Some(geometry), ..self }
    }

    /// Bytes charged for an object's owner entry, instead of [`OWNER_BYTES`]. Linux charges 8.
    pub fn owner_bytes(self, bytes: u32) -> Self {
        Self { owner_bytes: bytes, ..self }
    }

    /// Its objects can be moved: when their memory is to be given back, `migrate` is asked to. Such a cache keeps the
    /// owner vector of each slab from the first object on (4 bytes an object), which tells what is live.
    pub fn migrate(self, migrate: &'static dyn Migrate) -> Self {
        Self { migrate: Some(migrate), ..self }
    }

    /// Red zones around each object and poison in free ones, whatever [`Config::debug`](crate::Config::debug) says: who
    /// writes beyond an object, or to a freed one, is told of at the object's free, when it would be handed out again
    /// (it then is not), and by [`Cache::validate`](crate::Cache::validate). Costs 24 bytes or more an object, the owner
    /// vector of each slab, and a pass over the object at each allocation and each free.
    pub fn debug(self, on: bool) -> Self {
        Self { debug: Some(on), ..self }
    }

    /// Free objects that belong to nobody and that a CPU keeps at hand at most, instead of what fits 4 KiB (at most 32). What
    /// groups free is kept ready for them beside that, within bounds of its own; 0 switches both off.
    pub fn sheaf(self, objects: u16) -> Self {
        Self { sheaf: Some(objects), ..self }
    }
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStat {
    /// Live objects.
    pub objects: u64,
    /// Free objects kept near CPUs.
    pub cached: u64,
    /// Slabs.
    pub slabs: u64,
    /// Bytes from one object to the next.
    pub slot_size: u32,
    /// Bytes of all slabs' pages.
    pub slab_bytes: u64,
}
