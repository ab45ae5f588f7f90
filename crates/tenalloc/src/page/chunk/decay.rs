//! Free pages given back when nobody used them for a while, without anybody asking.
//!
//! Who drives it: every cutting and giving back of a run looks at the clock, and does a bounded part of what is due. The
//! library has no thread; a program that may fall idle calls [`Controller::tick`](crate::Controller::tick) from a timer of
//! its own, or has a `Background`, which does.
//!
//! Pages have two ages, as in a clock that goes round (second chance): a sweep gives back those that were free at the
//! sweep before and all the time since, and marks the others. So a page waits for one to two periods, and one that is
//! used in between begins anew. Beyond a bound (8 MiB, and an eighth of what is in use) pages of any age go.

use super::{Bits, Chunks, PAGES, RESERVED, State, unlink_all};
use crate::page::PAGE;
use core::ptr::NonNull;
use core::time::Duration;

/// Runs of pages given back, and chunks looked at, in passing.
const AT_ONCE: u32 = 32;
/// Free pages that are held back at most, beside an eighth of the pages in use; bytes.
const HELD: usize = 8 << 20;

/// Where the sweep is; behind the lock of the chunks.
pub(super) struct Decay {
    /// The next chunk to be looked at; null between sweeps.
    pub(super) cursor: *mut super::Header,
    /// When the next sweep begins, ns.
    due: u64,
    /// Pages of any age go.
    hurry: bool,
}

impl Decay {
    pub(super) const fn new() -> Self {
        Self { cursor: core::ptr::null_mut(), due: 0, hurry: false }
    }
}

/// Time that only goes forward, ns; as exact as the system's timer tick, which costs no more than a few loads.
pub(super) fn coarse_clock() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is a live timespec. The clock always exists, so the result does not matter.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

impl State {
    /// Bytes of free pages that may be held back.
    pub(super) fn bound(&self) -> usize {
        HELD + self.totals.runs / 8
    }
}

impl Chunks {
    /// Pages wait for so long; [`Duration::MAX`]: for ever, up to the bound.
    pub(crate) fn decaying(self, period: Duration) -> Self {
        Self { period: u64::try_from(period.as_nanos()).unwrap_or(u64::MAX), ..self }
    }

    /// Gives back every chunk without runs and the memory behind all other free pages. Bytes given back.
    pub(crate) fn trim(&self) -> usize {
        let mut s = self.state.lock();
        let before = s.totals.dirty;
        let mut at = s.all;
        while !at.is_null() {
            // SAFETY: listed chunks are mapped; the lock is held.
            let h = unsafe { &mut *at };
            let next = h.all_next;
            let busy = h.offline || h.lookers > 0;
            let empty = !h.huge && !busy && usize::from(h.free_pages) == PAGES - RESERVED;
            if empty || Self::is_kept(h) {
                self.drop_chunk(&mut s, at);
            } else if !h.huge {
                let mut from = 0;
                while let Some((first, pages)) = h.dirty.next_run(from) {
                    // SAFETY: dirty pages are free: nobody needs their contents.
                    unsafe {
                        let start = at.cast::<u8>().add(first * PAGE);
                        self.source.purge(NonNull::new_unchecked(start), pages * PAGE);
                    }
                    s.totals.dirty -= pages * PAGE;
                    from = first + pages;
                }
                h.dirty = Bits([0; PAGES / 64]);
                h.old = h.dirty;
            }
            at = next;
        }
        before - s.totals.dirty
    }

    /// How long until something is due, if anything is.
    #[cfg(feature = "std")]
    pub(crate) fn pause(&self) -> Option<Duration> {
        let s = self.state.lock();
        let waits = s.totals.dirty > 0 && self.period < u64::MAX;
        waits.then(|| Duration::from_nanos(s.decay.due.saturating_sub((self.clock)())))
    }

    /// Does all that is due. Bytes given back.
    pub(crate) fn tick(&self) -> usize {
        let mut given = 0;
        loop {
            // The lock is let go of in between.
            let mut s = self.state.lock();
            given += self.pass(&mut s);
            if s.decay.cursor.is_null() {
                return given;
            }
        }
    }

    /// Does a part of what is due. Bytes given back.
    pub(super) fn pass(&self, s: &mut State) -> usize {
        if s.totals.dirty == 0 {
            (s.decay.cursor, s.decay.hurry) = (core::ptr::null_mut(), false);
            return 0;
        }
        if s.decay.cursor.is_null() {
            s.decay.hurry = s.totals.dirty > s.bound();
            if !s.decay.hurry && (self.period == u64::MAX || (self.clock)() < s.decay.due) {
                return 0;
            }
            s.decay.cursor = s.all;
        }
        let before = s.totals.dirty;
        let mut left = AT_ONCE;
        while left > 0 && !s.decay.cursor.is_null() {
            left -= 1;
            self.sweep_chunk(s, &mut left);
            if s.decay.hurry && s.totals.dirty <= s.bound() / 2 {
                (s.decay.cursor, s.decay.hurry) = (core::ptr::null_mut(), false);
            }
        }
        if s.decay.cursor.is_null() {
            s.decay.due = (self.clock)().saturating_add(self.period);
        }
        before - s.totals.dirty
    }

    /// Gives back the old pages of the chunk at the cursor, and goes to the next when it is done with it.
    fn sweep_chunk(&self, s: &mut State, left: &mut u32) {
        let at = s.decay.cursor;
        // SAFETY: the cursor is on a listed chunk, which is mapped; the lock is held.
        let h = unsafe { &mut *at };
        if Self::is_kept(h) {
            if s.decay.hurry || h.old.count(0, 1) > 0 {
                return self.drop_chunk(s, at); // the cursor goes on
            }
            h.old.set(0, 1, true);
        } else if !h.huge {
            let mut due = if s.decay.hurry { h.dirty } else { h.dirty.and(&h.old) };
            while let Some((first, pages)) = due.next_run(0) {
                if *left == 0 {
                    return;
                }
                *left -= 1;
                // SAFETY: dirty pages are free: nobody needs their contents.
                unsafe {
                    let start = at.cast::<u8>().add(first * PAGE);
                    self.source.purge(NonNull::new_unchecked(start), pages * PAGE);
                }
                s.totals.dirty -= pages * PAGE;
                due.set(first, pages, false);
                h.dirty.set(first, pages, false);
            }
            h.old = h.dirty;
        }
        s.decay.cursor = h.all_next;
    }

    /// Takes a chunk that goes off the list of all, from under the cursor too.
    pub(super) fn unlist(s: &mut State, at: *mut super::Header) {
        if s.decay.cursor == at {
            // SAFETY: a listed chunk; the lock is held.
            s.decay.cursor = unsafe { (*at).all_next };
        }
        unlink_all(s, at);
    }
}

const _: () = assert!(size_of::<Bits>() * 8 == PAGES, "a bit a page");
