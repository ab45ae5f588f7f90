//! The historic Linux slab designs, run as real code on the same input as tenalloc.
//!
//! A [`Design`] keeps the objects of many groups in slabs. Each file `linux_*.rs` holds the idea of one kernel
//! generation and nothing else; what all of them stand on is [`slub`](crate), the allocator of that era, in real memory.

mod design;
mod engine;
mod error;
mod geometry;
mod groups;
mod kernel;
mod linux_5_8;
mod memmap;
mod slub;

pub use design::{
    CacheKey, CacheSpec, CacheUsage, Design, Geometry, GroupKey, Machine, Place, SlabView, Usage,
};
pub use engine::Error as EngineError;
pub use error::Error;
pub use linux_5_8::Linux58;
