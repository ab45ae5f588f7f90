//! Getting memory back: shrinkers, protection, reclaim, out of memory.
//!
//! ```text
//!   charge above max ─► reclaim(subtree that hit it) ─► retry ─► out-of-memory policy ─► error
//!                          │  groups with lists, by size above their protection
//!                          └─► lists of a group, and free-standing shrinkers, cheapest first:
//!                              how many, scan so many
//! ```
//!
//! * `shrinker`: [`Shrinker`], and the arithmetic of one list: pressure is carried in 1/65,536 of an object, so
//!   that the smallest list is reached too. (Linux rounds down and drops the rest: with two seeks a list of less
//!   than 131,072 objects is never scanned at the default priority.)
//! * `registry`: [`Shrink`], shrinkers of caches that are on no list.
//! * `background`: a thread that keeps groups under `high` (feature `std`).
//! * `protect`: what `min` and `low` leave to each group.
//! * `walk`: a pass over a subtree.
//! * `sparse`: reclaim that looks at how full slabs are, so that pages come back.
//! * `offline`: taking a chunk or a node out of use.
//! * `holders`: which objects removed groups left behind.
//! * `oom`: who decides when nothing helps.
//!
//! All of it runs in the thread that asks, or in the background, with no lock held: shrinkers and policies may allocate and free.

#[cfg(feature = "std")]
mod background;
mod holders;
mod offline;
pub(crate) mod oom;
mod protect;
pub(crate) mod registry;
mod shrinker;
mod sparse;
pub(crate) mod walk;

#[cfg(feature = "std")]
pub use background::{Background, BackgroundBuilder};
pub use holders::Orphan;
pub use offline::{Migrate, OfflineError, Pin, Range};
pub use oom::{OutOfMemory, Verdict};
pub use registry::{Registration, Shrink};
pub use shrinker::{Scanned, Shrinker};
pub use sparse::Sparse;
pub use walk::Reclaimed;
