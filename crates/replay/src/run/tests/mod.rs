//! Programs made by hand, on a design whose every figure can be worked out on paper, and on the real ones.

pub(in crate::run) mod build;
mod checks;
mod fake;
mod nonsense;
mod property;
mod results;
mod steps;
mod time;
mod truths;
