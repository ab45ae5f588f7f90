//! Caches, slabs, owner vectors, sheaves, size classes, page runs.
//!
//! ```text
//!   Cache ─┬─ per CPU:  ready objects by owner, or a sheaf (free objects at hand)
//!          └─ per node: partial slabs by fullness ─► Slab (64-byte descriptor in its chunk)
//!                                                      ├─ free list through the free objects
//!                                                      └─ owners: none | one for all | vector
//! ```
//!
//! * `slab`: one run of pages cut into objects; where an object stands in it.
//! * `owners`: the owner word of a slab: nothing while it has one owner, then a vector.
//! * `cache`: objects of one kind; its sheaves, and in `partial` its slabs. `config`: what it is made from. `handle`:
//!   [`Cache`], what users hold.
//! * `classes`: any size by way of caches and page runs.
//! * `realloc`: the same object, smaller or larger.
//! * `compact`: movable objects moved together, so that slabs become empty.
//! * `bulk`: many at once.
//! * `nolock`: for signal handlers.
//! * `debug`: red zones and poison.
//! * `path`: the way of an object, from request to owner entry and back. `ready`: the way of most. `flush`: what
//!   waits goes back.

mod bulk;
pub(crate) mod cache;
pub(crate) mod classes;
pub(crate) mod compact;
mod config;
mod debug;
mod flush;
mod geometry;
mod handle;
mod nolock;
pub(crate) mod owners;
pub(crate) mod path;
pub(crate) mod ready;
mod realloc;
mod sheaf;
#[expect(clippy::module_inception, reason = "the room is named after its main thing")]
mod slab;

pub use compact::Compacted;
pub use config::{CacheConfig, CacheStat, NodePolicy};
pub use debug::{Damage, Overwritten};
pub use geometry::Geometry;
pub use handle::Cache;
pub(crate) use slab::{Kind, Slab};
