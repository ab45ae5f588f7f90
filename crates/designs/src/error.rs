//! Everything that can go wrong in a design, with what to do about it.

use crate::{CacheKey, GroupKey};

/// Why a call of a design failed. Nothing was changed by it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No cache has this key.
    #[error("cache {} is not known: make it with add_cache first", .0.0)]
    UnknownCache(CacheKey),
    /// No group has this key.
    #[error("group {} is not known: make it with add_group first", .0.0)]
    UnknownGroup(GroupKey),
    /// The group was removed before.
    #[error("group {} was removed before: nothing can be made in it", .0.0)]
    RemovedGroup(GroupKey),
    /// The group still has living children.
    #[error("group {} has living children: remove them first", .0.0)]
    GroupHasChildren(GroupKey),
    /// The machine has no such CPU.
    #[error("CPU {cpu} does not exist: the machine has {cpus}")]
    UnknownCpu {
        /// As asked.
        cpu: u16,
        /// CPUs of the machine.
        cpus: u16,
    },
    /// The machine has no such node.
    #[error("node {node} does not exist: the machine has {nodes}")]
    UnknownNode {
        /// As asked.
        node: u8,
        /// Nodes of the machine.
        nodes: u8,
    },
    /// A machine that no design can run on.
    #[error("unusable machine: {0}")]
    Machine(String),
    /// The objects do not fit the slab.
    #[error(
        "cache {name}: {objects} objects of {slot_size} bytes cannot be cut from a slab of {slab_bytes} bytes: check its geometry"
    )]
    Geometry {
        /// Name of the cache.
        name: String,
        /// Bytes from one object to the next.
        slot_size: u32,
        /// Objects asked for.
        objects: u32,
        /// Bytes of a slab.
        slab_bytes: u64,
    },
    /// More caches, groups or slabs than their keys can count.
    #[error("too many {0}")]
    TooMany(&'static str),
    /// Not the address of an object of this design.
    #[error("{0:#x} is not an object of this design")]
    ForeignPointer(usize),
    /// The object was already free.
    #[error("the object at {0:#x} was already free")]
    DoubleFree(usize),
    /// The memory or the groups below refused.
    #[error(transparent)]
    Engine(#[from] crate::engine::Error),
}
