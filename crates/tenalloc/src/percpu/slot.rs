//! Where on a shelf: a set and a key, as the sequences want them.

use super::shelf::SETS;

/// Where on a shelf something is looked for.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    /// Its set, in steps: so the sequences need no shift.
    pub(super) steps: u32,
    /// Its key, and for [`push`](super::Areas::push) only the upper half of that.
    pub(super) key: u64,
}

impl Slot {
    /// Steps from one set to the next one.
    pub(crate) const STEP: u32 = 8;

    /// `steps` away from the first set, and as far again and again round the shelf.
    #[inline(always)]
    pub(crate) fn in_steps(steps: u32, key: u64) -> Self {
        Self { steps: steps & ((SETS as u32 - 1) * Self::STEP), key }
    }

    /// With a low half for the key.
    #[inline(always)]
    pub(crate) fn with_low(self, low: u32) -> Self {
        Self { key: self.key | u64::from(low), ..self }
    }

    #[inline]
    pub(crate) fn set(self) -> usize {
        (self.steps / Self::STEP) as usize
    }
}

/// In the low half of a key that [`push`](super::Areas::push) reads, the node of what is pushed begins at this bit; with that of the CPU
/// the bits are 0 again, and no key under which a stack is has any of them.
pub(crate) const NODE_AT: u32 = 24;
