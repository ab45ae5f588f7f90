//! `linux-5.9`: slabs shared by all groups, an owner vector of 8 bytes an object. August 2020, Roman Gushchin's slab
//! controller, and in essence every kernel until 6.17.
//!
//! What is new against 5.8 is all in [`shared`](crate::shared): one set of caches, a vector beside each slab that has an
//! accounted object, charges by the byte. Between CPU and slab nothing is new: an object comes straight from SLUB, and a
//! vector straight from `kmalloc`, with its rounding: 42 dentries ask for 336 bytes and take 512.
//!
//! Until 5.13 accounted kmallocs came from the same caches as the vectors. Two slabs could then hold each other's vector,
//! and neither ever became empty; so it is here, for a recording of such a kernel.

use core::ptr::NonNull;

use crate::geometry::Cut;
use crate::shared::vector::{Room, Vectors};
use crate::shared::{Front, Shared};
use crate::slub::{CacheId, Slub, Spot};
use crate::{Error, Machine, Place};

/// The design.
pub(crate) type Linux59 = Shared<Direct>;

/// Nothing stands between a CPU and SLUB.
pub(crate) struct Direct {
    page: u32,
    counts_slabs: bool,
}

impl Linux59 {
    /// A machine without caches and groups, whose CPUs keep partial slabs counted by slabs, more of them, as from 5.16 to
    /// 6.17: what a recording of such a kernel is held against.
    ///
    /// # Errors
    /// [`Error::Machine`]; or the engine refuses.
    pub(crate) fn since_5_16(machine: &Machine) -> Result<Self, Error> {
        Self::with(machine, Direct { page: machine.page_size, counts_slabs: true })
    }
}

impl Front for Direct {
    const NAME: &'static str = "linux-5.9";
    const SUMMARY: &'static str =
        "All groups share slabs; a vector beside each slab has 8 bytes an object for its owner.";

    fn new(machine: &Machine) -> Self {
        Self { page: machine.page_size, counts_slabs: false }
    }

    fn cut(&self, cut: Cut) -> Cut {
        if self.counts_slabs { cut.since_5_16(self.page) } else { cut }
    }

    fn room(_: &Cut, _: Option<u32>) -> Room {
        Room::Kmalloc
    }

    fn cache_made(&mut self, _: CacheId, _: &Cut) {}

    #[inline]
    fn take(
        &mut self,
        slub: &mut Slub,
        cache: CacheId,
        place: Place,
        events: &mut Vectors,
    ) -> Result<NonNull<u8>, Error> {
        slub.alloc(cache, place, events)
    }

    #[inline]
    unsafe fn give(
        &mut self,
        slub: &mut Slub,
        cpu: u16,
        spot: Spot,
        events: &mut Vectors,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { slub.free(cpu, spot, events) }
    }

    fn held(&self, _: CacheId) -> u64 {
        0
    }

    fn held_bytes(&self) -> u64 {
        0
    }

    fn metadata(&self) -> u64 {
        0
    }
}
