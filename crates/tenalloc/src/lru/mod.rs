//! list_lru: lists of one kind of object, one list for each group and node that uses it.
//!
//! ```text
//!   ListLru ─ index: owner id → Lists      (root: always; 2 owners inline; then a hash)
//!                                 │
//!   Node (group) ─ chain ────────►├─ List of node 0: lock, first, last, number, carried pressure
//!                                 └─ List of node 1: …          └─► items inside the objects
//! ```
//!
//! * `list`: one list: links, number, dead mark.
//! * `lists`: those of one group, and the ring of all that a group has. `life`: made before an object is handed out,
//!   drained when the group goes.
//! * `index`: owner → lists; `hash`: its table, where more than two owners have lists.
//! * `handle`: [`ListLru`], what users hold.
//!
//! A list is made by [`ListLru::prepare`], together with those of all ancestors and outside every lock, so that
//! [`ListLru::add`] neither allocates nor fails. When a group is removed its lists are drained into its parent's,
//! marked dead, and only then taken out of the index: somebody who finds a dead list, or none, climbs to the parent,
//! where the items are. (Linux 6.13 to 7.1 took the list out first; a concurrent `del` then locked the parent and
//! unlinked an item that was still on the child's list.)
//!
//! Look-ups hold the lock of their CPU's area, and the memory of a dead list is used again only after every CPU's
//! lock was visited: see [`crate::group`].

mod handle;
mod hash;
pub(crate) mod index;
mod life;
pub(crate) mod list;
pub(crate) mod lists;
#[cfg(all(test, feature = "loom"))]
mod models;

pub use handle::{Isolated, ListLru, LruStatus};
pub use list::LruItem;
