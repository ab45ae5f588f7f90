//! `linux-6.18`: shared slabs with *sheaves* before them, and owner vectors in the slack of the slabs. November 2025,
//! Vlastimil Babka's sheaves; the slack is Harry Yoo's of 7.0.
//!
//! In 6.18 a cache has sheaves if it asks for them, in 7.0 all have; and 7.0 puts the vectors where the slab has room.
//! What is called `linux-6.18` here is where that road leads: sheaves for all caches, vectors in slack. What is new
//! against 5.9 are the two files' worth of ideas named in the title; all else is [`shared`](crate::shared).
//!
//! No CPU holds a slab any more: what a refill leaves of one goes back to its node's list at once. The
//! free objects near a CPU are those in its sheaves, whichever slabs they lie in. They count as cached, not as live.
//!
//! Not modelled: `kfree_rcu` sheaves, and sheaves that the caller fills in advance.

mod sheaf;
#[cfg(test)]
mod tests;

pub(crate) use self::sheaf::Sheaves;
use crate::shared::Shared;

/// The design.
pub(crate) type Linux618 = Shared<Sheaves>;
