//! libtenalloc as C and C++ see it: its header, its symbols, and programs that are compiled against it and run.
//!
//! The library that is tested is the shared one, linked by `crates/capi/link` as `make install` does.

mod abi;
mod calls;
mod common;
mod examples;
mod header;
mod install;
