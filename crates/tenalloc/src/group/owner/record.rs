//! One owner: whom it charges, who took over, and which CPUs have something of it, of which caches.
//!
//! A current owner also knows where it was used: nowhere, on one CPU, or on several. Who is about to keep something of it
//! on a CPU (bytes in the stock, ready objects), or to look at its node, *enters* it first, in the same word that a removal
//! puts the forward into: so either the removal visits that CPU, or who comes sees the forward. A group that was used on
//! the CPU that removes it, or on none, is removed without stopping anybody.
//!
//! In the same way it knows of which caches it had ready objects: a bit for every [`CACHES`]th cache. So a removal looks for
//! those alone, and not at all that others have on that CPU.

use crate::group::tree::Node;
use crate::sync::atomic::{AtomicU32, AtomicU64};
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// 24 bytes; at most 64 may stay behind for a removed group.
pub(crate) struct Record {
    /// The node it charges. Once forwarded it is only for stocks not yet drained.
    pub(crate) node: AtomicPtr<Node>,
    /// Bytes in the tree through this owner, stocks included.
    pub(crate) charged: AtomicU64,
    /// With [`FORWARDED`] the id of the owner that took over. Without: this one is current; in the bits of [`MANY`] is 0 if no
    /// CPU entered it, the number of the only one and 1, or all of them; and above them the caches.
    pub(super) state: AtomicU32,
    /// Owners forwarded to this one, and who else holds it (its node, `Owner` handles): it falls under the lock. While
    /// the record is free: the next such.
    pub(super) refs: AtomicU32,
}

pub(super) const FORWARDED: u32 = 1 << 31;
/// One more than there are CPUs, and all bits of it set.
pub(super) const MANY: u32 = (1 << 17) - 1;
/// From where on the caches have their bits, and how many.
const CACHES_FROM: u32 = MANY.trailing_ones();
const CACHES: u32 = 8;
/// 64 for each bit.
const MANY_CACHES: u32 = 64 * CACHES;

const _: () = assert!(CACHES_FROM + CACHES <= FORWARDED.trailing_zeros() && MANY > u16::MAX as u32 + 1);

#[cfg(not(feature = "loom"))]
const _: () = assert!(core::mem::size_of::<Record>() == 24);

/// Where an owner was used before it was forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    Nowhere,
    Only(u16),
    Anywhere,
}

/// What an owner was used for before it was forwarded.
pub(crate) struct Used {
    pub(crate) entered: Entered,
    /// A bit for every [`CACHES`]th cache.
    caches: u32,
    /// The highest number of a cache that any owner had ready objects of.
    highest: u32,
}

impl Used {
    pub(super) fn new(state: u32, highest: u32) -> Self {
        let entered = match state & MANY {
            0 => Entered::Nowhere,
            MANY => Entered::Anywhere,
            cpu => Entered::Only((cpu - 1) as u16),
        };
        Self { entered, caches: (state & !FORWARDED) >> CACHES_FROM, highest }
    }

    /// Whether there may be ready objects of so many caches that to look for each takes longer than to look at what there is. A
    /// program made hundreds of caches then, perhaps one after another.
    #[inline(always)]
    pub(crate) fn may_be_many(&self) -> bool {
        self.highest > MANY_CACHES && self.caches != 0
    }

    /// Calls `each` with the numbers of the caches of which there may be ready objects.
    #[inline(always)]
    pub(crate) fn each_cache(&self, mut each: impl FnMut(u64)) {
        // A bit at a time: mostly there is one, or none.
        let mut left = self.caches;
        while left != 0 {
            let mut number = left.trailing_zeros();
            left &= left - 1;
            while number <= self.highest {
                each(number.into());
                number += CACHES;
            }
        }
    }
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
        self.state.load(Acquire) & (FORWARDED | MANY) == mine || self.enter_first(mine)
    }

    /// There may be ready objects of cache `number` for this owner from now on, on CPUs that entered it, of which the caller
    /// holds the area of one. False: it is forwarded, and there must be none.
    pub(super) fn note(&self, number: u32) -> bool {
        let bit = 1 << (CACHES_FROM + number % CACHES);
        let mut seen = self.state.load(Acquire);
        loop {
            if seen & FORWARDED != 0 {
                return false;
            }
            if seen & bit != 0 {
                return true;
            }
            match self.state.compare_exchange(seen, seen | bit, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    fn enter_first(&self, mine: u32) -> bool {
        let mut seen = self.state.load(Acquire);
        loop {
            if seen & FORWARDED != 0 {
                return false;
            }
            let cpus = seen & MANY;
            if cpus == mine || cpus == MANY {
                return true;
            }
            let new = seen | if cpus == 0 { mine } else { MANY };
            match self.state.compare_exchange(seen, new, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// The owner that took over, as far as it is known to: 0 for none.
    pub(super) fn forward(&self) -> u32 {
        // Acquire: who forwarded it counted that in the other one before.
        let state = self.state.load(Acquire);
        if state & FORWARDED != 0 { state - FORWARDED } else { 0 }
    }

    pub(super) fn set_forward(&self, to: u32) {
        self.state.store(FORWARDED | to, Release);
    }
}
