//! The lists that chunks are on: all of them, and by node, life and longest free run.

use super::{EMPTY, Header, NO_BIN, PAGES, RESERVED, State};
use core::ptr::null_mut;

pub(super) fn link_all(s: &mut State, at: *mut Header) {
    // SAFETY: both are chunks of ours; the lock is held.
    unsafe {
        (*at).all_next = s.all;
        (*at).all_prev = null_mut();
        if !s.all.is_null() {
            (*s.all).all_prev = at;
        }
    }
    s.all = at;
}

pub(super) fn unlink_all(s: &mut State, at: *mut Header) {
    // SAFETY: as in `link_all`.
    unsafe {
        let (next, prev) = ((*at).all_next, (*at).all_prev);
        if prev.is_null() {
            s.all = next
        } else {
            (*prev).all_next = next
        }
        if !next.is_null() {
            (*next).all_prev = prev;
        }
    }
}

pub(super) fn unlink(s: &mut State, at: *mut Header) {
    // SAFETY: as in `link_all`.
    unsafe {
        let h = &mut *at;
        if h.bin == NO_BIN {
            return;
        }
        if h.prev.is_null() {
            *s.nodes.of(h.node).head(h.life, h.bin) = h.next;
        } else {
            (*h.prev).next = h.next;
        }
        if !h.next.is_null() {
            (*h.next).prev = h.prev;
        }
        h.bin = NO_BIN;
    }
}

/// Puts a chunk that is on none of these lists in front of one.
pub(super) fn push(s: &mut State, at: *mut Header, bin: u8) {
    // SAFETY: as in `link_all`.
    unsafe {
        let h = &mut *at;
        let head = s.nodes.of(h.node).head(h.life, bin);
        h.next = *head;
        h.prev = null_mut();
        if !head.is_null() {
            (**head).prev = at;
        }
        *head = at;
        h.bin = bin;
    }
}

/// Puts a chunk into the list of its longest free run. Short runs are served first, so full chunks stay full
/// and empty ones get a chance to go.
pub(super) fn rebin(s: &mut State, at: *mut Header) {
    // SAFETY: as in `link_all`.
    let h = unsafe { &*at };
    let bin = match h.free.longest_run() {
        _ if h.offline => NO_BIN,
        longest if longest == PAGES - RESERVED => EMPTY,
        longest => longest.checked_ilog2().map_or(NO_BIN, |b| b as u8),
    };
    if bin == h.bin {
        return;
    }
    unlink(s, at);
    if bin != NO_BIN {
        push(s, at, bin);
    }
    if bin == EMPTY {
        // SAFETY: as above.
        s.nodes.of(unsafe { (*at).node }).forget(at);
    }
}
