//! What Linux spends on memory groups here, what each other generation would, and what to do about it.
//!
//! [`host`] reads a machine, [`Situation`] holds the numbers that the formulas ask for, [`spend`] applies the formulas of
//! `tenalloc_designs::kernel` and of [`ours`] to them, and [`Plan`] is all of it with where each number came from:
//! read from the host, given by the user, assumed, or computed.
//!
//! ```text
//! plan.rs        Plan: what is printed        report/   as a table, JSON, CSV, a page
//!   ├ advice.rs  what to do                   sweep.rs  how it grows
//!   ├ spend.rs   bytes of each generation     ours.rs   and of tenalloc      vectors.rs  owners of slabs
//!   ├ situation.rs   the numbers, checked     formulas.rs  the formulas in words
//!   └ host/      read from /proc and /sys
//! published.rs   the same formulas beside what was measured on real kernels
//! ```
//! Nothing is measured here: the bytes are computed, and each says by which formula. That the formulas hold is the
//! business of [`published`] and of the tests.

pub mod advice;
pub mod formulas;
pub mod host;
pub mod ours;
mod plan;
pub mod published;
pub mod report;
pub mod situation;
pub mod spend;
pub mod sweep;
pub mod vectors;

pub use plan::{Plan, Request};
pub use situation::{Error, Input, Origin, Situation};

/// `schema` of the JSON form.
pub const SCHEMA: &str = "tenalloc.plan";
/// Raised when a field of the JSON form changes its meaning.
pub const VERSION: u32 = 1;
