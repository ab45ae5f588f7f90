//! The node of an object's memory (rule 8): the event tells only what was asked for; the pointer tells where it lies.

use crate::sidecar::ranges::Range;

/// x86_64 with 5-level paging; the base with 4 levels is higher.
const BASE_5_LEVEL: u64 = 0xff11_0000_0000_0000;
const BASE_4_LEVEL: u64 = 0xffff_8880_0000_0000;

/// From pointers to nodes.
#[derive(Default)]
pub(crate) struct Nodes {
    base: Option<u64>,
    ranges: Vec<Range>,
}

impl Nodes {
    pub(crate) fn new(base: Option<u64>, ranges: Vec<Range>) -> Self {
        Self { base, ranges }
    }

    /// Whether the recording tells the memory of its nodes.
    pub(crate) fn known(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Nodes of the machine, as far as the ranges tell.
    pub(crate) fn count(&self) -> u8 {
        self.ranges.iter().map(|r| r.node.saturating_add(1)).max().unwrap_or(1)
    }

    /// The node of a pointer; `None`: it lies in no range.
    #[inline]
    pub(crate) fn of(&self, ptr: u64) -> Option<u8> {
        let base = match self.base {
            Some(b) => b,
            None if ptr >= BASE_4_LEVEL => BASE_4_LEVEL,
            None => BASE_5_LEVEL,
        };
        let physical = ptr.wrapping_sub(base);
        self.ranges.iter().find(|r| (r.start..=r.end).contains(&physical)).map(|r| r.node)
    }
}
