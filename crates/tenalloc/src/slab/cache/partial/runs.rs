//! Which slab objects are best taken from, so that few slabs are in use, and what one group has lies in few slabs: those come
//! back when it goes.
//!
//! Apart from `partial`, where slabs change lists: here they are only looked at.

use super::{EMPTY, FULLNESS, Node, Record};
use crate::group::owner::NOBODY;
use crate::slab::slab::Slab;
use core::ptr::null_mut;

/// Groups whose last slab is remembered.
const GROUPS: usize = 8;
/// Free objects that a slab should have for a group that begins there, and for which part of its objects that is too much.
const ROOM: u16 = 32;
const ROOM_OF: u16 = 4;
/// A cache with more than such a part of its objects free is to become denser first.
const SPARSE: u64 = 16;

/// The slabs of which groups had their last objects, by owner: slabs of the node, or null.
pub(super) struct Runs([(u32, *mut Slab); GROUPS]);

impl Runs {
    pub(super) const fn new() -> Self {
        Self([(NOBODY, null_mut()); GROUPS])
    }

    pub(super) fn remember(&mut self, owner: u32, slab: *mut Slab) {
        if owner != NOBODY {
            self.0[owner as usize % GROUPS] = (owner, slab);
        }
    }

    fn last(&self, owner: u32) -> *mut Slab {
        let (of, slab) = self.0[owner as usize % GROUPS];
        if of == owner { slab } else { null_mut() }
    }

    /// The slab goes.
    pub(super) fn forget(&mut self, slab: *mut Slab) {
        self.0.iter_mut().filter(|(_, last)| *last == slab).for_each(|(_, last)| *last = null_mut());
    }
}

impl Node {
    /// The slab that `want` objects for `owner` are best taken from. That of his last ones, if it has any left; else the
    /// fullest that has so many and some more for later, or the emptiest. For nobody, and in a cache with many free objects,
    /// the fullest: what is nearly empty gets a chance to go. `None`: there must be a new one.
    pub(super) fn best(&self, owner: u32, want: usize, record: &Record) -> Option<*mut Slab> {
        let last = self.runs.last(owner);
        // SAFETY: slabs that are remembered are in place; the lock is held.
        if owner != NOBODY && !last.is_null() && unsafe { (*last).list } <= EMPTY {
            return Some(last);
        }
        let places = self.slabs * u64::from(record.objects);
        let sparse = places.saturating_sub(self.out) > places / SPARSE; // pins are out too
        let partly = if owner == NOBODY || sparse { self.fullest() } else { self.roomy(want, record) };
        partly.or_else(|| Some(self.lists[usize::from(EMPTY)]).filter(|slab| !slab.is_null()))
    }

    /// The fullest partly filled slab with room for `want` objects and some more, else the emptiest.
    fn roomy(&self, want: usize, record: &Record) -> Option<*mut Slab> {
        let room = want.max(ROOM.min(record.objects / ROOM_OF).into()) as u16;
        // Of slabs in lists below this one so many objects are out at most that there is room.
        let end = record.fullness_of(record.objects.saturating_sub(room));
        let below = self.listed & ((1u64 << end) - 1) as u32;
        let list =
            below.checked_ilog2().or_else(|| (self.listed != 0).then(|| self.listed.trailing_zeros()))?;
        Some(self.lists[list as usize])
    }
}

impl Record {
    /// In which list a slab is of which so many objects are out.
    pub(super) fn fullness_of(&self, out: u16) -> usize {
        fullness(out, self.objects_inverse)
    }
}

/// ceil(2^40 / objects), to divide by multiplying: exact for what is below 2^24 times as much (a list's number is).
pub(in crate::slab) fn inverse(objects: u16) -> u64 {
    (1u64 << 40).div_ceil(objects.into())
}

fn fullness(out: u16, inverse: u64) -> usize {
    ((u64::from(out) * FULLNESS as u64 * inverse) >> 40) as usize
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn fullness_is_exact() {
        for objects in (1..=4096).chain([8191, 40_000, 65_534]) {
            for out in (0..objects).step_by(1 + usize::from(objects) / 256).chain([objects - 1]) {
                let list = usize::from(out) * FULLNESS / usize::from(objects);
                assert_eq!(fullness(out, inverse(objects)), list, "{out} of {objects}");
            }
        }
    }

    #[test]
    fn a_slab_that_went_is_remembered_for_nobody() {
        let (mut runs, at) = (Runs::new(), |n: usize| core::ptr::without_provenance_mut::<Slab>(n * 64));
        runs.remember(NOBODY, at(1));
        (2..12).for_each(|owner| runs.remember(owner, at(owner as usize)));
        assert!(runs.last(NOBODY).is_null() && runs.last(2).is_null(), "the tenth took the place of 2");
        assert_eq!((runs.last(4), runs.last(10)), (at(4), at(10)));
        runs.remember(5, at(4));
        runs.forget(at(4));
        assert!(runs.last(4).is_null() && runs.last(5).is_null());
        assert_eq!(runs.last(6), at(6));
    }
}
