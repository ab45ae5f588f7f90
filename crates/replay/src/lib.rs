//! Runs a resolved trace through designs and reports what each spent.
//!
//! [`fidelity`] holds a replay against the machine that was recorded.
//! [`run`] drives designs over a [`tenalloc_trace::Program`]; [`report`] holds what came out and writes it as a
//! table, JSON, CSV or one HTML page.

pub mod fidelity;
pub mod report;
pub mod run;
