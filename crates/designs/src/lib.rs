//! The historic Linux slab designs, run as real code on the same input as tenalloc.
//!
//! A [`Design`] keeps the objects of many groups in slabs; a driver gives it caches, groups, allocations and frees, and
//! asks what that cost. The memory is real: every object can be written to, every slab is pages of its node.
//!
//! ```text
//! design.rs       the contract: what a driver may ask
//! tenalloc.rs     ours: the core crate as it is
//! linux_5_8/      one folder a generation, with the idea of that generation and nothing else
//!    │  └ groups.rs  keys → groups of the engine      kernel/  bytes of the kernel's structures, by formula
//! slub/           the allocator below all generations: slabs, CPUs, nodes
//!    │  └ geometry.rs  sizes of slabs                  memmap.rs  address → slab
//! engine.rs       pages and groups, of tenalloc
//!
//! lists.rs        beside all that: the contract of list_lru and shrinker state     list_lru/  shrinker/  a file a generation
//! ```
//! Arrows point down only. Two figures must not be mixed up: bytes that are *allocated* here (slabs, and all that follows
//! from them) and bytes that are *modelled* ([`Usage::metadata`] of a historic design: what the kernel's descriptors
//! would take).

mod design;
mod engine;
mod error;
mod geometry;
mod groups;
pub mod kernel;
mod linux_5_8;
mod list_lru;
pub mod lists;
mod memmap;
mod shrinker;
mod slub;
mod tenalloc;

pub use design::{CacheKey, CacheSpec, CacheUsage, Design, Geometry, GroupKey, Machine, Place, Usage};
pub use engine::Error as EngineError;
pub use error::Error;
pub use linux_5_8::Linux58;
pub use tenalloc::Tenalloc;

/// Names of all designs, oldest first.
pub const NAMES: [&str; 2] = ["linux-5.8", "tenalloc"];

/// The design called `name` on `machine`; `None`: no such name.
///
/// # Errors
/// The machine cannot be run on, or the engine has no memory.
pub fn by_name(name: &str, machine: &Machine) -> Option<Result<Box<dyn Design>, Error>> {
    Some(match name {
        "linux-5.8" => Linux58::new(machine).map(|d| Box::new(d) as Box<dyn Design>),
        "tenalloc" => Tenalloc::new(machine).map(|d| Box::new(d) as Box<dyn Design>),
        _ => return None,
    })
}
