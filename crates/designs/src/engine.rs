//! The only place that touches what is below the designs: pages of a node, and groups that count bytes.
//!
//! For now a stand-in over `std::alloc` and a plain tree of counters, with the same calls that the core crate offers.

/// Why the memory or the groups refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No pages.
    #[error("no memory: {pages} pages of node {node}")]
    NoPages {
        /// Pages asked for.
        pages: usize,
        /// Node asked for.
        node: u8,
    },
}
