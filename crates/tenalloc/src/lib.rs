//! Memory control groups inside a process: Linux's cgroup slab controller, rebuilt as a library.
//!
//! A program that serves many tenants opens a [`Group`] for each. All tenants share slab pages; every object
//! knows its owner; every byte is charged up the tree; limits hold; a tenant goes in O(1) while its objects
//! live on.
//!
//! ```
//! use tenalloc::{CacheConfig, Config, Controller};
//! # fn main() -> tenalloc::Result<()> {
//! let ctl = Controller::new(Config::new())?;
//! let sessions = ctl.cache(&CacheConfig::new("session", 192))?;
//! let tenant = ctl.root().create("tenant-7")?;
//! tenant.set_max(1 << 20);
//! let object = sessions.alloc(&tenant)?;
//! assert_eq!(tenant.exact(), sessions.charge());
//! tenant.remove()?; // the object lives on, and is the root's now
//! assert_eq!(ctl.root().exact(), sessions.charge());
//! // SAFETY: the object is live and nobody uses it any more.
//! unsafe { sessions.free(object)? };
//! assert_eq!(ctl.root().exact(), 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Where things are
//!
//! | module | holds |
//! |---|---|
//! | [`group`] | the tree, counters, owners, stocks, limits, removal |
//! | [`slab`] | caches, slabs, owner vectors, sheaves, size classes |
//! | [`lru`] | list_lru: LRU lists per group and node, only where used |
//! | [`page`] | where pages come from: the system with NUMA, or a simulated source with faults |
//! | `owned` | [`Owned`]: a value in an object of a group |
//! | `global`, `collections` | `Global`, `GroupAlloc`: for whole programs and collections (features) |
//! | `percpu` | the areas of the CPUs, taken in restartable sequences |
//! | [`reclaim`] | shrinkers, protection, reclaim, out of memory |
//! | `meta`, `table` | memory for bookkeeping, every byte counted |
//! | `sync` | the locks, each with its rank |
//! | `ahead` | a hint to the processor's caches |
//!
//! The crate is `no_std` and uses no `alloc`: it can be the process's malloc. The feature `std`, off by default for
//! that reason, adds what needs threads: `Group::scope`, `FutureExt::in_group`, the background reclaimer, and `Global`,
//! with which it is the allocator of a Rust program. The feature `allocator-api2` adds `GroupAlloc`.
//!
//! # What holds
//!
//! * Every live accounted object has one owner, found from its address alone; whoever frees it, the owner's
//!   group gets the bytes back.
//! * When nothing is in flight, [`Group::exact`] = Σ over live objects of it and its descendants of (slot +
//!   [`OWNER_BYTES`]). [`Group::current`] runs ahead of it by at most [`Controller::SLACK_PER_CPU`] bytes a CPU.
//! * `current` never passes a `max` that was set before the charge.
//! * A failed call leaves nothing behind.

#![no_std]
#![deny(clippy::alloc_instead_of_core, clippy::std_instead_of_core)]

#[cfg(any(feature = "loom", feature = "std"))]
extern crate std;

mod ahead;
#[cfg(feature = "allocator-api2")]
mod collections;
mod config;
mod controller;
mod error;
#[cfg(not(feature = "loom"))]
mod fork;
#[cfg(feature = "std")]
mod global;
pub mod group;
pub mod lru;
mod meta;
mod owned;
pub mod page;
mod percpu;
pub mod reclaim;
pub mod slab;
mod stat;
mod sync;
mod table;

#[cfg(feature = "allocator-api2")]
pub use collections::GroupAlloc;
pub use config::Config;
pub use controller::Controller;
pub use error::{Error, Limit, Result};
#[cfg(not(feature = "loom"))]
pub use fork::ForkOrder;
#[cfg(feature = "std")]
pub use global::Global;
pub use group::{BelowHigh, Events, Group, GroupStat, OWNER_BYTES, Owner, PeakReader};
#[cfg(feature = "std")]
pub use group::{FutureExt, InGroup, current_group, swap_scope};
pub use lru::{Isolated, ListLru, LruItem, LruStatus};
pub use owned::Owned;
pub use page::{PAGE, Topology};
#[cfg(feature = "std")]
pub use reclaim::{Background, BackgroundBuilder};
pub use reclaim::{
    Migrate, OfflineError, Orphan, OutOfMemory, Pin, Range, Reclaimed, Registration, Scanned, Shrink,
    Shrinker, Sparse, Verdict,
};
pub use slab::{Cache, CacheConfig, CacheStat, Compacted, Damage, Geometry, NodePolicy, Overwritten};
pub use stat::Stat;
