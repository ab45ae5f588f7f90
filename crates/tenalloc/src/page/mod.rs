//! Where pages come from, and how address ranges are cut into runs of them.
//!
//! * [`Source`] maps and unmaps address space: the operating system ([`Os`]) or, for tests, [`Simulated`].
//! * [`Topology`] says which nodes and CPUs there are: the machine's, or a made-up one.
//! * `chunk` cuts 2 MiB chunks into runs of pages, and finds the run of any address in O(1).
//! * `registry` knows which addresses are chunks at all, so that a foreign pointer is never followed.

pub(crate) mod chunk;
mod os;
pub(crate) mod registry;
mod sim;
mod topology;

pub use os::Os;
pub use sim::Simulated;
pub(crate) use topology::MAX_NODES;
pub use topology::Topology;

use core::ptr::NonNull;

/// The unit in which slabs and page runs are cut, bytes. Not the system's page size, which may be larger.
pub const PAGE: usize = 4096;

/// Gives address space with zeroed memory behind it.
///
/// Calls come with `Rank::Chunk` or `Rank::Meta` locks held: an implementation must not call back into the
/// controller.
pub trait Source: Sync {
    /// `bytes` (a multiple of [`PAGE`]) of zeroed memory, aligned to `align` (a power of two ≥ [`PAGE`]), on
    /// `node` if given and possible. `None`: there is no more.
    fn map(&self, bytes: usize, align: usize, node: Option<u8>) -> Option<NonNull<u8>>;

    /// Asked before each run of pages and each block of metadata that is cut from what was mapped. `false`: it
    /// fails as if there were no memory. A test thus reaches every path that a lack of memory can take.
    fn admit(&self, _bytes: usize) -> bool {
        true
    }

    /// Gives back a whole mapping.
    ///
    /// # Safety
    /// `start` and `bytes` are those of an earlier [`map`](Self::map) of this source, and nobody uses the
    /// memory any more.
    unsafe fn unmap(&self, start: NonNull<u8>, bytes: usize);

    /// Makes a mapping of `old` bytes one of `new` bytes, where it is or elsewhere, still aligned to `align` (a power of two
    /// ≥ [`PAGE`]): contents stay, what it grows by is zero. `None`: it is as it was.
    ///
    /// # Safety
    /// As for [`unmap`](Self::unmap); where another address is returned, nobody uses the old one again.
    unsafe fn remap(&self, start: NonNull<u8>, old: usize, new: usize, align: usize) -> Option<NonNull<u8>> {
        let _ = (start, old, new, align);
        None
    }

    /// Gives back the memory behind a part of a mapping, but not its addresses: the next access reads zeros.
    ///
    /// # Safety
    /// `start..start + bytes` lies in a mapping of this source, is aligned to [`PAGE`], and nobody needs its
    /// contents.
    unsafe fn purge(&self, start: NonNull<u8>, bytes: usize);
}
