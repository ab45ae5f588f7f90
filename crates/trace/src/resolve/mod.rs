//! The kernel's rules: from events to the steps of a [`Program`](crate::Program).
//!
//! Rule numbers are those of the README beside the shared traces; `rules.rs` has a test for each.
//!
//! * [`caches`]: rule 1 and which cache an object without a name came from.
//! * [`tasks`], [`groups`]: rules 2 and 3, who pays.
//! * [`sites`]: rule 7, and who pays for a new group. [`moved`]: who was where at the very start.
//! * [`objects`]: rules 4 to 6, what is alive. [`nodes`]: rule 8.
//! * [`stream`] takes one event after the other ([`rare`] those that are few); [`finish`] makes the program of it.
//!
//! Rule 9 (perf's own allocations, at both ends) needs nothing: perf runs in `/`, which is not charged.

pub(crate) mod caches;
pub(crate) mod finish;
pub(crate) mod groups;
pub(crate) mod lists;
pub(crate) mod moved;
pub(crate) mod nodes;
pub(crate) mod objects;
pub(crate) mod rare;
#[cfg(test)]
mod rules;
pub(crate) mod sites;
pub(crate) mod stream;
pub(crate) mod tasks;
