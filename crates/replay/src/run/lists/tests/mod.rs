//! What a recording tells of lists, and what a design is then asked to do, each step by hand.

mod fake;
mod plan;
mod steps;
