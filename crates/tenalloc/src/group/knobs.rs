//! The knobs beyond `max`, and the events: made for a group, and its ancestors, when the first one is set.
//!
//! An idle group has none of this. Events are counted where knobs are: a limit that was never set has nothing to
//! report, and the ancestors' counts include their descendants'.

use super::peak::Peaks;
use super::signal::Link;
use super::tree::Node;
use super::wait::Waiters;
use crate::controller::Inner;
use crate::error::{Error, Result};
use crate::sync::Lock;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// What is counted, with cgroup v2's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Reclaimed although below `low`.
    Low,
    /// A charge went above `high`.
    High,
    /// A charge would have passed `max`.
    Max,
    /// Reclaim did not help: the out-of-memory policy was asked.
    Oom,
    /// The policy emptied this group.
    OomVictim,
}

const KINDS: usize = 5;

/// Counts since the first knob was set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Times the group was reclaimed although its usage was below `low`.
    pub low: u64,
    /// Charges that went above `high` and were throttled.
    pub high: u64,
    /// Charges that `max` stopped, at least until something was reclaimed.
    pub max: u64,
    /// Times the out-of-memory policy was asked because reclaim did not help.
    pub oom: u64,
    /// Times the policy chose the group as its victim.
    pub oom_victim: u64,
}

pub(crate) struct Knobs {
    pub(crate) high: AtomicU64,
    pub(crate) low: AtomicU64,
    pub(crate) min: AtomicU64,
    /// Who reads its peak.
    pub(crate) peaks: Lock<Peaks>,
    /// Who waits for it to fall to its `high`, and how many.
    pub(super) waiters: Lock<Waiters>,
    pub(super) waiting: AtomicU32,
    pub(super) fell: Link,
    pub(super) passed: Link,
    /// Of the group itself, and of the group with its descendants.
    own: [AtomicU64; KINDS],
    all: [AtomicU64; KINDS],
}

impl Knobs {
    fn new() -> Self {
        let zeros = || [const { AtomicU64::new(0) }; KINDS];
        Self {
            high: AtomicU64::new(u64::MAX),
            low: AtomicU64::new(0),
            min: AtomicU64::new(0),
            peaks: Peaks::new(),
            waiters: Waiters::new(),
            waiting: AtomicU32::new(0),
            fell: Link::new(),
            passed: Link::new(),
            own: zeros(),
            all: zeros(),
        }
    }

    /// Its locks, for a fork.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn raw_locks(&self) -> [&crate::sync::Raw; 2] {
        [self.peaks.raw(), self.waiters.raw()]
    }

    pub(crate) fn events(&self, own: bool) -> Events {
        let [low, high, max, oom, oom_victim] =
            (if own { &self.own } else { &self.all }).each_ref().map(|n| n.load(Relaxed));
        Events { low, high, max, oom, oom_victim }
    }
}

/// Counts an event of `node` for it and its ancestors, as far as they have knobs.
pub(crate) fn count(node: &Node, event: Event) {
    if let Some(knobs) = node.knobs() {
        knobs.own[event as usize].fetch_add(1, Relaxed);
    }
    let mut at = Some(node);
    while let Some(n) = at {
        if let Some(knobs) = n.knobs() {
            knobs.all[event as usize].fetch_add(1, Relaxed);
        }
        at = n.parent();
    }
}

impl Inner {
    /// The knobs of `node`, made together with its ancestors' if need be.
    pub(crate) fn make_knobs<'a>(&self, node: &'a Node) -> Result<&'a Knobs> {
        let mut at = Some(node);
        while let Some(n) = at.filter(|n| n.knobs().is_none()) {
            let bytes = size_of::<Knobs>();
            let new = self.meta.alloc(bytes).ok_or(Error::NoMemory { bytes })?.cast::<Knobs>();
            // SAFETY: a fresh block of the right size.
            unsafe { new.write(Knobs::new()) };
            if n.knobs.compare_exchange(core::ptr::null_mut(), new.as_ptr(), AcqRel, Acquire).is_err() {
                // SAFETY: somebody was faster; ours was seen by nobody.
                unsafe { self.meta.free(new.cast(), bytes) };
            }
            at = n.parent();
        }
        node.knobs().ok_or(Error::NoMemory { bytes: size_of::<Knobs>() })
    }

    /// # Safety
    /// Nobody uses the node any more.
    pub(crate) unsafe fn free_knobs(&self, node: &Node) {
        if let Some(knobs) = NonNull::new(node.knobs.swap(core::ptr::null_mut(), Relaxed)) {
            // SAFETY: made by `make_knobs`, and the caller's promise.
            unsafe { self.meta.free(knobs.cast(), size_of::<Knobs>()) };
        }
    }
}
