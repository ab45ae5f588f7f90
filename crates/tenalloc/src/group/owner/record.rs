//! One owner: whom it charges, who took over, and which CPUs have something of it.
//!
//! A current owner also knows where it was used: nowhere, on one CPU, or on several. Who is about to keep something of it
//! on a CPU (bytes in the stock, ready objects), or to look at its node, *enters* it first, in the same word that a removal
//! puts the forward into: so either the removal visits that CPU, or who comes sees the forward. A group that was used on
//! the CPU that removes it, or on none, is removed without stopping anybody.

use crate::group::tree::Node;
use crate::sync::atomic::{AtomicU32, AtomicU64};
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// 24 bytes; at most 64 may stay behind for a removed group.
pub(crate) struct Record {
    /// The node it charges. Once forwarded it is only for stocks not yet drained.
    pub(crate) node: AtomicPtr<Node>,
    /// Bytes in the tree through this owner, stocks included.
    pub(crate) charged: AtomicU64,
    /// With [`FORWARDED`] the id of the owner that took over. Without: this one is current; 0 if no CPU entered it, the
    /// number of the only one and 1, or [`MANY`].
    pub(super) state: AtomicU32,
    /// Owners forwarded to this one, and who else holds it (its node, `Owner` handles): it falls under the lock. While
    /// the record is free: the next such.
    pub(super) refs: AtomicU32,
}

pub(super) const FORWARDED: u32 = 1 << 31;
pub(super) const MANY: u32 = FORWARDED - 1;

#[cfg(not(feature = "loom"))]
const _: () = assert!(core::mem::size_of::<Record>() == 24);

/// Where an owner was used before it was forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    Nowhere,
    Only(u16),
    Anywhere,
}

impl Record {
    #[inline]
    pub(crate) fn is_forwarded(&self) -> bool {
        self.state.load(Acquire) & FORWARDED != 0
    }

    /// `cpu` may have something of this owner from now on, and may look at its node while its area is held, which the caller
    /// holds. False: it is forwarded.
    #[inline]
    pub(crate) fn enter(&self, cpu: u16) -> bool {
        let mine = u32::from(cpu) + 1;
        // A forward that is seen late does no harm: who removes the group visits this CPU then.
        self.state.load(Acquire) == mine || self.enter_first(mine)
    }

    fn enter_first(&self, mine: u32) -> bool {
        let mut seen = self.state.load(Acquire);
        loop {
            if seen & FORWARDED != 0 {
                return false;
            }
            if seen == mine || seen == MANY {
                return true;
            }
            let new = if seen == 0 { mine } else { MANY };
            match self.state.compare_exchange(seen, new, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// The owner that took over, as far as it is known to: 0 for none.
    pub(super) fn forward(&self) -> u32 {
        let state = self.state.load(Relaxed);
        if state & FORWARDED != 0 { state - FORWARDED } else { 0 }
    }

    pub(super) fn set_forward(&self, to: u32) {
        self.state.store(FORWARDED | to, Release);
    }
}
