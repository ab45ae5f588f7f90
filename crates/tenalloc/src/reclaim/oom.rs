//! Out of memory: the last word before a charge fails.

use crate::group::Group;

/// What a policy did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Memory was given up: try the charge again. A policy that says so without effect is asked at most 16 times.
    Retry,
    /// Nothing can be done: the charge fails.
    Fail,
}

/// Decides when a limit was hit and reclaim did not help.
pub trait OutOfMemory: Sync {
    /// `group` hit its `max` with a charge of `wanted` bytes. The policy may choose a victim in its subtree and empty
    /// it, and should tell so with [`Group::count_oom_victim`]. Runs with no lock held; it may free, and charges of its
    /// own that meet a limit fail at once.
    fn out_of_memory(&self, group: &Group, wanted: u64) -> Verdict;
}
