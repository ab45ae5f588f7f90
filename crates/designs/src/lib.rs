//! The historic Linux slab designs, run as real code on the same input as tenalloc.
//!
//! A [`Design`] keeps the objects of many groups in slabs; a driver gives it caches, groups, allocations and frees, and
//! asks what that cost. The memory is real: every object can be written to, every slab is pages of its node.
//!
//! ```text
//! design.rs       the contract: what a driver may ask
//! tenalloc.rs     ours: the core crate as it is
//! linux_5_8/      one folder a generation, with the idea of that generation and nothing else
//! linux_5_9/, linux_6_18/  ─►  shared/   what all kernels since 5.9 have in common: owner vectors, charges by the byte
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
mod linux_5_9;
mod linux_6_18;
mod list_lru;
pub mod lists;
mod memmap;
mod shared;
mod shrinker;
mod slub;
mod tenalloc;

pub use design::{CacheKey, CacheSpec, CacheUsage, Design, Geometry, GroupKey, Machine, Place, Usage};
pub use engine::Error as EngineError;
pub use error::Error;
pub use linux_5_8::Linux58;
pub use tenalloc::Tenalloc;

use linux_5_9::Linux59;
use linux_6_18::Linux618;

/// Names of all designs, oldest first. Each is slabs, list_lru and shrinker state; the slabs of several are the same.
pub const NAMES: [&str; 7] =
    ["linux-5.8", "linux-5.9", "+transposed", "+lazy", "linux-5.18", "linux-6.18", "tenalloc"];

/// The design whose slabs the design called `name` has; `None`: no such name.
pub fn slabs_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "linux-5.8" => "linux-5.8",
        // The series of 2022 that led to 5.18 changed lists, not slabs.
        "linux-5.9" | "+transposed" | "+lazy" | "linux-5.18" => "linux-5.9",
        "linux-6.18" => "linux-6.18",
        "tenalloc" => "tenalloc",
        _ => return None,
    })
}

/// The slabs of the design called `name` on `machine`; `None`: no such name.
///
/// # Errors
/// The machine cannot be run on, or the engine has no memory.
pub fn by_name(name: &str, machine: &Machine) -> Option<Result<Box<dyn Design>, Error>> {
    Some(match slabs_of(name)? {
        "linux-5.8" => boxed(Linux58::new(machine)),
        "linux-5.9" => boxed(Linux59::new(machine)),
        "linux-6.18" => boxed(Linux618::new(machine)),
        _ => boxed(Tenalloc::new(machine)),
    })
}

/// The slabs of the kernel `major.minor` itself, as exact as there is code for: what a recording of such a kernel is held
/// against.
///
/// # Errors
/// As [`by_name`].
pub fn as_recorded((major, minor): (u32, u32), machine: &Machine) -> Result<Box<dyn Design>, Error> {
    match (major, minor) {
        version if version < (5, 9) => boxed(Linux58::new(machine)),
        version if version < (5, 16) => boxed(Linux59::new(machine)),
        version if version < (6, 18) => boxed(Linux59::since_5_16(machine)),
        _ => boxed(Linux618::new(machine)),
    }
}

fn boxed<D: Design + 'static>(design: Result<D, Error>) -> Result<Box<dyn Design>, Error> {
    design.map(|design| Box::new(design) as Box<dyn Design>)
}
