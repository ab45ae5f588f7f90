//! A recorded slab trace, from the file to a [`Program`] that a design can run.
//!
//! ```text
//!   perf.data ──┐                                     tasks, geometry, call sites,
//!   perf script ┴─► read ─► Event, in time order ─►   NUMA ranges, truth (sidecar)
//!                                        └──► resolve ◄──────────┘
//!                                                └──► Program: caches, groups, ops
//! ```
//!
//! * `read` knows file formats and nothing of cgroups.
//! * `sidecar` reads the files that lie beside a `perf.data`.
//! * `resolve` knows the kernel's rules: which cache, which owner, which node, which frees were hidden.
//! * [`program`] is the result, the only thing the rest of the project sees.

mod error;
mod open;
pub mod program;
mod read;
mod resolve;
mod sidecar;

pub use error::{Error, Place};
pub use open::{Options, Progress, open, read_script};
pub use program::Program;
pub use sidecar::slabinfo;

/// Ways into the readers below the public interface, for the fuzz targets in `fuzz/`, the tests of damaged files and
/// `examples/counts`, and nobody else.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::open::{formats, perf_bytes, perf_events, sidecar_text};
}
