//! Where there are no restartable sequences, and under miri and loom, which know none: what stands in for a processor's
//! file, and cannot be called.

use super::Sequences;
use crate::percpu::Slot;
use core::ptr::NonNull;

/// There is none, and so no [`Sequences`].
pub(super) enum Here {}

pub(super) fn symbols() -> Option<(Here, *const isize, *const u32)> {
    None
}

impl Sequences {
    pub(in crate::percpu) unsafe fn take<A>(&self) -> Option<NonNull<A>> {
        match self.here {}
    }

    pub(in crate::percpu) unsafe fn pop<A>(&self, _: Slot) -> Option<NonNull<u8>> {
        match self.here {}
    }

    pub(in crate::percpu) unsafe fn push<A, const LOW: usize>(
        &self,
        _: Slot,
        _: NonNull<u8>,
        _: NonNull<u8>,
    ) -> bool {
        match self.here {}
    }
}
