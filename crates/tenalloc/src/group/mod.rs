//! Memory groups: the tree, its counters, the owners, and the stocks near the CPUs.
//!
//! ```text
//!   object ─► owner vector ─► Owner (id, ≤ 64 bytes) ─► Node ─► parent ─► … ─► root
//!                                   │ forward, once the group is removed
//!                                   ▼
//!                             the parent's Owner
//!   charge: stock of this CPU ──miss──► counters of the node and all its ancestors
//! ```
//!
//! * `counter`: current, peak and max of one group; the only lock-free part.
//! * `owner`: the handle between objects and their group, and its forwarding after removal.
//! * `stock`: bytes charged in advance, per CPU.
//! * `charge`: how the three work together; every byte goes through here. `drain`: what CPUs hold in advance, taken back.
//! * `knobs`: `high`, `low`, `min` and the events, where they are used.
//! * `peak`: peaks that each reader resets for itself.
//! * `scope`: the group of a thread or a task (feature `std`).
//! * `wait`: futures that wait for a group to fall to its `high`; `signal`: how they hear of it.
//! * `stat`: what a group holds, gathered when asked.
//! * `tree`: nodes, names, creation and removal.
//! * `handle`: [`Group`] and [`Owner`], what users hold.
//!
//! **Why nothing dangles.** A charge resolves owner → node → ancestors while it holds the lock of its CPU's
//! area, and has entered the owner for that CPU before it looks at the node or keeps anything of it there. Removal marks
//! the owner as forwarded, in the word that says who entered it, and then visits the locks of those CPUs once: its own
//! alone, without stopping anybody, or all. After that visit no charge can still be on its way through the removed node, and
//! its record may be used again once the last handle is dropped. An idle CPU's lock is free, so the visit waits for nobody.

pub(crate) mod charge;
pub(crate) mod counter;
mod drain;
pub(crate) mod handle;
pub(crate) mod knobs;
#[cfg(all(test, feature = "loom"))]
mod models;
pub(crate) mod owner;
mod peak;
#[cfg(feature = "std")]
mod scope;
pub(crate) mod signal;
mod stat;
pub(crate) mod stock;
mod throttle;
pub(crate) mod tree;
mod wait;

pub use handle::{Group, Owner};
pub use knobs::Events;
pub use peak::PeakReader;
#[cfg(feature = "std")]
pub use scope::{FutureExt, InGroup, current_group, swap_scope};
pub use stat::GroupStat;
pub use wait::BelowHigh;

/// Bytes that an object's owner entry is charged: the most that an entry of an owner vector takes.
pub const OWNER_BYTES: u32 = 4;
