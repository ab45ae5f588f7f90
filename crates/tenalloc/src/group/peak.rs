//! Peaks that each reader resets for itself (cgroup v2: `memory.peak`, one reset for each open file).
//!
//! A charge knows one watermark, the counter's, readers or not. Whoever resets *his* peak first hands the watermark
//! to everybody else, the group's own peak among them, and lets it begin again at `current`; what he reads from then
//! on is what he was handed since, or the watermark. A charge pays nothing for readers, however many there are; a
//! reset costs one step for each.

use super::Group;
use super::tree::Node;
use crate::error::{Error, Result};
use crate::sync::{Lock, Rank};
use core::ptr::{NonNull, null_mut};

/// Who remembers what of a group's peaks; lies with its knobs.
pub(crate) struct Peaks {
    /// Handed to [`Group::peak`].
    own: u64,
    first: *mut Reader,
}

/// One reader, in the list of its group; guarded by the list's lock.
struct Reader {
    next: *mut Reader,
    prev: *mut Reader,
    /// Handed to it since it was reset.
    handed: u64,
}

// SAFETY: readers are reached through the lock around this alone.
unsafe impl Send for Peaks {}

impl Peaks {
    pub(super) fn new() -> Lock<Self> {
        Lock::new(Rank::Leaf, Self { own: 0, first: null_mut() })
    }

    /// Hands the watermark to everybody, and lets it begin again.
    fn hand_out(&mut self, node: &Node) {
        let seen = node.counter.restart_peak();
        self.own = self.own.max(seen);
        let mut at = self.first;
        while let Some(mut reader) = NonNull::new(at) {
            // SAFETY: listed readers are in place, and the list's lock is held.
            let reader = unsafe { reader.as_mut() };
            reader.handed = reader.handed.max(seen);
            at = reader.next;
        }
    }
}

/// The group's own peak.
pub(super) fn own(node: &Node) -> u64 {
    match node.knobs() {
        None => node.counter.peak(),
        Some(knobs) => {
            let peaks = knobs.peaks.lock();
            peaks.own.max(node.counter.peak())
        }
    }
}

/// Begins the group's own peak again.
pub(super) fn reset_own(node: &Node) {
    match node.knobs() {
        None => drop(node.counter.restart_peak()),
        Some(knobs) => {
            let mut peaks = knobs.peaks.lock();
            peaks.hand_out(node);
            peaks.own = 0;
        }
    }
}

/// A peak of a group that is this reader's alone: resetting it changes no other reader's, nor [`Group::peak`].
///
/// It keeps its group's record while it lives, like any handle, and can still be read after the group was removed.
/// Usable from any thread; 32 bytes of metadata.
pub struct PeakReader {
    group: Group,
    reader: NonNull<Reader>,
}

// SAFETY: the reader is touched under its list's lock alone.
unsafe impl Send for PeakReader {}
// SAFETY: as above.
unsafe impl Sync for PeakReader {}

impl Group {
    /// A reader of this group's peak, with a reset of its own. It begins with what [`peak`](Self::peak) says.
    ///
    /// Charges are as fast as without readers; a reset takes one step for each reader of the group.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: no reader is left behind then.
    pub fn peak_reader(&self) -> Result<PeakReader> {
        let meta = &self.controller().inner().meta;
        let bytes = size_of::<Reader>();
        let reader = meta.alloc(bytes).ok_or(Error::NoMemory { bytes })?.cast::<Reader>();
        let knobs = match self.controller().inner().make_knobs(self.node()) {
            Ok(knobs) => knobs,
            Err(e) => {
                // SAFETY: just allocated, seen by nobody.
                unsafe { meta.free(reader.cast(), bytes) };
                return Err(e);
            }
        };
        let mut peaks = knobs.peaks.lock();
        // SAFETY: a fresh block of the right size; the first reader is in place while the lock is held.
        unsafe {
            reader.write(Reader { next: peaks.first, prev: null_mut(), handed: peaks.own });
            if let Some(first) = peaks.first.as_mut() {
                first.prev = reader.as_ptr();
            }
        }
        peaks.first = reader.as_ptr();
        Ok(PeakReader { group: self.clone(), reader })
    }
}

impl PeakReader {
    /// The largest `current` since this reader was last reset, or, if it never was, what [`Group::peak`] was when it
    /// was made and since, bytes.
    pub fn peak(&self) -> u64 {
        let node = self.group.node();
        node.knobs().map_or(0, |knobs| {
            let _held = knobs.peaks.lock();
            // SAFETY: in place until this is dropped; its list's lock is held.
            unsafe { self.reader.as_ref() }.handed.max(node.counter.peak())
        })
    }

    /// Begins this reader's peak again at `current`.
    pub fn reset(&self) {
        let node = self.group.node();
        if let Some(knobs) = node.knobs() {
            let mut peaks = knobs.peaks.lock();
            peaks.hand_out(node);
            // SAFETY: as in `peak`.
            unsafe { (*self.reader.as_ptr()).handed = 0 };
        }
    }

    /// The group whose peak it reads.
    pub fn group(&self) -> &Group {
        &self.group
    }
}

impl Drop for PeakReader {
    fn drop(&mut self) {
        if let Some(knobs) = self.group.node().knobs() {
            let mut peaks = knobs.peaks.lock();
            // SAFETY: this and its neighbours are listed, hence in place, and the list's lock is held.
            unsafe {
                let Reader { next, prev, .. } = self.reader.read();
                match prev.as_mut() {
                    Some(prev) => prev.next = next,
                    None => peaks.first = next,
                }
                if let Some(next) = next.as_mut() {
                    next.prev = prev;
                }
            }
        }
        let meta = &self.group.controller().inner().meta;
        // SAFETY: listed no more; made by `peak_reader` with this size.
        unsafe { meta.free(self.reader.cast(), size_of::<Reader>()) };
    }
}

impl core::fmt::Debug for PeakReader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "PeakReader({} {})", self.group.path(), self.peak())
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use crate::page::Simulated;
    use crate::{Config, Controller, Error, Topology};
    extern crate std;
    use std::boxed::Box;

    /// Every step of a reader's creation fails once: no block is lost, no reader is listed.
    #[test]
    fn a_failed_creation_leaves_nothing() {
        let source: &'static Simulated = Box::leak(Box::new(Simulated::new()));
        let config = Config::new().source(source).topology(Topology::simulated(1, 1));
        let ctl = Controller::new(config).unwrap();
        // A first life of everything, so that later blocks come from free lists.
        for round in 0..2 {
            let before = ctl.inner().meta.totals();
            let mut failures = 0;
            let a = ctl.root().create("a").unwrap();
            let reader = loop {
                source.fail_after(failures);
                match a.peak_reader() {
                    Ok(reader) => break reader,
                    Err(e) => assert!(matches!(e, Error::NoMemory { .. })),
                }
                assert!(a.node().knobs().is_none_or(|k| k.peaks.lock().first.is_null()));
                failures += 1;
            };
            source.heal();
            assert!(
                failures >= if round == 0 { 3 } else { 2 },
                "reader, knobs, the root's knobs: {failures}"
            );
            drop(reader);
            a.remove().unwrap();
            drop(a);
            if round > 0 {
                assert_eq!(ctl.inner().meta.totals(), before);
            }
        }
    }
}
