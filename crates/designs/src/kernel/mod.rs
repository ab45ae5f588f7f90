//! The bytes that each Linux generation spends on its groups, in closed form: what the kernel would allocate for a given
//! number of groups, mounts, nodes and CPUs.
//!
//! Apart from the designs because these are *modelled* bytes: the kernel would allocate them, this crate does not. What
//! the designs hold here in Rust vectors is another matter and is not reported. Nothing here keeps state; every
//! function is arithmetic on its arguments and saturates instead of overflowing.
//!
//! ```text
//! generation.rs   which release does what: the table that picks the formulas below
//! list_lru.rs     lists of a mount: heads, arrays, index        D1 … D5
//! shrinker.rs     which lists have anything to give: bitmap, flat, units
//! owners.rs       owner vectors of slabs, inside and beside them
//! groups.rs       the handle of a group (obj_cgroup)
//! caches.rs       a set of caches for each group                D0
//! ids.rs          memcg_nr_cache_ids                  xarray.rs  nodes of an index
//! kmalloc.rs      what an allocation really takes
//! ```
//! Arrows point down only. Sizes are those of 64-bit kernels without debugging options. D0 … D5 number the designs as
//! they followed each other; `D1` to `D5` are those of list_lru.

pub mod caches;
pub mod generation;
pub mod groups;
pub mod ids;
pub mod kmalloc;
pub mod list_lru;
pub mod owners;
pub mod shrinker;
pub mod xarray;

pub use generation::{Generation, Version};
pub use kmalloc::Kmalloc;
