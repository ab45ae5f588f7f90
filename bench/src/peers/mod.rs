//! The ways to give groups memory that are compared, behind one trait, so that every workload is written once.
//!
//! | file | what it holds |
//! |---|---|
//! | `table` | an allocator's functions, by address |
//! | `library` | finds and loads the allocators |
//! | `talloc` | talloc's functions, which have another shape |
//! | `hand` | what people add by hand to an allocator: a counter, a header, limits, a batch |
//! | `heaps` | a heap, an arena or a context for each group |
//! | `floor` | a plain counted allocation, to measure the machine by |
//! | `ours` | tenalloc, inlined and called by address |
//! | `capi` | tenalloc through its C library |

pub(crate) mod capi;
pub(crate) mod floor;
pub(crate) mod hand;
pub(crate) mod heaps;
pub(crate) mod library;
pub(crate) mod ours;
#[expect(unreachable_pub, reason = "the shared libraries of the peers compile it too")]
pub(crate) mod table;
mod talloc;

use std::ptr::NonNull;

/// Objects for groups that are known by number.
pub(crate) trait Peer: Sync {
    /// What the program must keep to give an object back.
    type Object: Copy + Send;

    /// An object of `size` bytes for a group.
    fn alloc(&self, group: usize, size: usize) -> Self::Object;

    /// Where it is.
    fn address(object: Self::Object) -> NonNull<u8>;

    /// Gives it back. The size is what it was allocated with: the counters kept by hand need it, and a program that had
    /// to ask for it would be slower.
    ///
    /// # Safety
    /// It is live, of this peer, and nobody uses it any more.
    unsafe fn free(&self, object: Self::Object, size: usize);

    /// Called by each thread before it begins and after it ended: what it holds in advance goes back.
    fn settle(&self) {}
}

/// The policies, in the order of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Policy {
    /// The allocator as it is.
    Raw,
    /// One atomic counter a group; the program knows each object's group.
    Counter,
    /// A header of 8 bytes with the owner, three levels of counters with limits.
    Header,
    /// The same, with 64 KiB charged in advance for the thread.
    Batch,
    /// A heap, an arena or a context a group.
    Heap,
}

impl Policy {
    pub(crate) const ALL: [Self; 5] = [Self::Raw, Self::Counter, Self::Header, Self::Batch, Self::Heap];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Counter => "counter",
            Self::Header => "header, 3 levels",
            Self::Batch => "header, batch",
            Self::Heap => "heap a group",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }

    /// Whether objects know their group and three levels of limits hold: what tenalloc's figure stands beside.
    pub(crate) fn by_hand(self) -> bool {
        matches!(self, Self::Header | Self::Batch)
    }
}
