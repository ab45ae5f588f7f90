//! Bytes charged in advance and kept near the CPU, for several owners at once.
//!
//! An owner has two places, by its id; who finds both taken evicts one, and what that held goes back to the tree, to
//! the byte: nothing stays behind in the owner. (Linux keeps page counts in the tree and leaves up to a page less a byte
//! with each owner; with a million small tenants that would be up to 4 GB of charge for nothing.)
//!
//! There are 8 slots in the CPU's area itself, enough for a thread that serves a few groups in turn, each with up to
//! 64 KiB. A CPU on which they crowd each other gets a table of 1,024, each with up to 8 KiB.

use crate::page::PAGE;
use core::ptr::{NonNull, null_mut};

/// Slots of an area, and of the table of a crowded one.
const FEW: usize = 8;
const MANY: usize = 1024;
/// Bytes of the table.
pub(crate) const TABLE: usize = MANY * size_of::<Slot>();
/// What a miss takes from the tree in advance; a slot gives back what is above twice this.
pub(crate) const BATCH: u64 = 8 * PAGE as u64;
/// The same where there are many slots.
const SMALL_BATCH: u64 = PAGE as u64;
/// Evictions after which a stock is crowded.
const CROWDED: u16 = 64;

/// What a stock holds at most.
pub(crate) const MOST: u64 = FEW as u64 * 2 * BATCH + MANY as u64 * 2 * SMALL_BATCH;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    /// 0: the slot is empty.
    pub(crate) owner: u32,
    pub(crate) bytes: u32,
}

/// One CPU's slots.
pub(crate) struct Stock {
    few: [Slot; FEW],
    /// The table of a crowded stock, in place of `few`.
    many: *mut Slot,
    /// A slot keeps no more than this, bytes.
    most: u32,
    evictions: u16,
    /// Which of two goes next.
    turn: bool,
}

// SAFETY: the table belongs to this stock alone.
unsafe impl Send for Stock {}

impl Default for Stock {
    fn default() -> Self {
        let most = 2 * BATCH as u32;
        Self { few: [Slot::default(); FEW], many: null_mut(), most, evictions: 0, turn: false }
    }
}

impl Stock {
    /// The two places of `owner`.
    #[inline]
    fn places(&mut self, owner: u32) -> &mut [Slot; 2] {
        let (slots, mask) =
            if self.many.is_null() { (self.few.as_mut_ptr(), FEW - 2) } else { (self.many, MANY - 2) };
        // SAFETY: both have as many slots as their mask and one, an even number.
        unsafe { &mut *slots.add((owner as usize * 2) & mask).cast::<[Slot; 2]>() }
    }

    fn all(&mut self) -> &mut [Slot] {
        match NonNull::new(self.many) {
            None => &mut self.few,
            // SAFETY: the table has as many slots.
            Some(many) => unsafe { core::slice::from_raw_parts_mut(many.as_ptr(), MANY) },
        }
    }

    /// The slot of `owner`.
    #[inline]
    pub(crate) fn slot(&mut self, owner: u32) -> Option<&mut Slot> {
        let [first, second] = self.places(owner);
        if first.owner == owner {
            Some(first)
        } else if second.owner == owner {
            Some(second)
        } else {
            None
        }
    }

    /// Bytes that a slot keeps at most.
    #[inline]
    pub(crate) fn most(&self) -> u64 {
        self.most.into()
    }

    /// What a miss takes in advance, bytes.
    pub(crate) fn batch(&self) -> u64 {
        self.most() / 2
    }

    /// Takes `bytes` of what is kept for `owner`.
    #[inline]
    pub(crate) fn take(&mut self, owner: u32, bytes: u64) -> bool {
        match self.slot(owner) {
            Some(slot) if u64::from(slot.bytes) >= bytes => {
                slot.bytes -= bytes as u32;
                true
            }
            _ => false,
        }
    }

    /// Keeps `bytes` more for `owner`. Returns what must go back to the tree for it: (a slot evicted to make
    /// room, bytes above what a slot may hold).
    #[inline]
    pub(crate) fn give(&mut self, owner: u32, bytes: u64) -> (Option<Slot>, u64) {
        let (most, batch) = (self.most(), self.batch());
        let mut evicted = None;
        if self.slot(owner).is_none() {
            evicted = self.make_room(owner);
        }
        let Some(slot) = self.slot(owner) else { return (evicted, bytes) };
        let total = u64::from(slot.bytes) + bytes;
        let excess = if total > most { (total - batch) / PAGE as u64 * PAGE as u64 } else { 0 };
        slot.bytes = (total - excess) as u32;
        (evicted, excess)
    }

    fn make_room(&mut self, owner: u32) -> Option<Slot> {
        let turn = self.turn;
        let places = self.places(owner);
        let at = places.iter().position(|s| s.owner == 0).unwrap_or(usize::from(turn));
        let old = core::mem::replace(&mut places[at], Slot { owner, bytes: 0 });
        if old.owner == 0 {
            return None;
        }
        self.turn = !turn;
        self.evictions = self.evictions.saturating_add(1);
        Some(old)
    }

    /// Whether it should get a [`table`](Self::grow).
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.evictions >= CROWDED && self.many.is_null()
    }

    /// Goes over to a table of [`TABLE`] zeroed bytes, aligned to 8. `rest` gets what has no place there.
    pub(crate) fn grow(&mut self, table: NonNull<u8>, mut rest: impl FnMut(Slot)) {
        let few = core::mem::take(&mut self.few);
        self.many = table.as_ptr().cast();
        self.most = 2 * SMALL_BATCH as u32;
        for old in few.into_iter().filter(|slot| slot.owner != 0) {
            match self.places(old.owner).iter_mut().find(|slot| slot.owner == 0) {
                Some(place) => *place = old,
                None => rest(old),
            }
        }
    }

    /// The table, if it has one, to be given back: the stock is not used again.
    pub(crate) fn take_table(&mut self) -> Option<NonNull<u8>> {
        NonNull::new(core::mem::replace(&mut self.many, null_mut()).cast())
    }

    /// Empties the slot of `owner`.
    pub(crate) fn drain_owner(&mut self, owner: u32) -> Option<Slot> {
        self.slot(owner).map(core::mem::take)
    }

    /// Empties all slots of owners for which `wanted` holds.
    pub(crate) fn drain(&mut self, wanted: impl Fn(u32) -> bool, mut each: impl FnMut(Slot)) {
        let slots = self.all().iter_mut().filter(|slot| slot.owner != 0 && wanted(slot.owner));
        slots.for_each(|slot| each(core::mem::take(slot)));
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let all = match NonNull::new(self.many) {
            None => &self.few[..],
            // SAFETY: as in `all`.
            Some(many) => unsafe { core::slice::from_raw_parts(many.as_ptr(), MANY) },
        };
        all.iter().copied().filter(|slot| slot.owner != 0)
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    #[test]
    fn remainders_are_kept_and_pages_go_back() {
        let mut s = Stock::default();
        assert!(!s.take(7, 1));
        assert_eq!(s.give(7, 100).1, 0);
        assert!(s.take(7, 60) && s.take(7, 40) && !s.take(7, 1));
        let (evicted, excess) = s.give(7, 2 * BATCH + 5);
        assert!(evicted.is_none());
        assert_eq!(excess % PAGE as u64, 0);
        assert_eq!(u64::from(s.slots().next().unwrap().bytes), 2 * BATCH + 5 - excess);
    }

    #[test]
    fn eight_owners_in_turn_evict_nobody_and_nine_do() {
        let mut s = Stock::default();
        for round in 0..3 {
            for owner in 1..=8 {
                assert!(s.give(owner, 10).0.is_none(), "round {round}");
            }
        }
        let (evicted, _) = s.give(9, 10);
        let evicted = evicted.unwrap();
        assert_eq!((evicted.owner % 4, evicted.bytes), (1, 30), "one of those in the same places");
        let mut left = 0;
        s.drain(|_| true, |slot| left += slot.bytes);
        assert_eq!(left, 7 * 30 + 10);
        assert_eq!(s.slots().count(), 0);
    }

    #[test]
    fn a_crowded_stock_grows_and_loses_nothing() {
        let mut s = Stock::default();
        let (mut kept, mut returned) = (0u64, 0u64);
        let mut owner = 1;
        while !s.is_crowded() {
            let (evicted, excess) = s.give(owner, 1000);
            kept += 1000;
            returned += excess + evicted.map_or(0, |slot| slot.bytes.into());
            owner = owner % 40 + 1;
        }
        let mut table: Vec<u64> = std::vec![0; TABLE / 8];
        s.grow(NonNull::from(&mut table[0]).cast(), |slot| returned += u64::from(slot.bytes));
        assert!(!s.is_crowded());
        for owner in 1..=1000 {
            let (evicted, excess) = s.give(owner, 5000);
            kept += 5000;
            returned += excess + evicted.map_or(0, |slot| slot.bytes.into());
        }
        assert_eq!(s.slots().count(), 1000, "a thousand owners in a row have places of their own");
        assert!(s.slots().all(|slot| u64::from(slot.bytes) <= s.most()));
        assert!(s.take(77, 5000));
        kept -= 5000;
        assert_eq!(s.drain_owner(500).map(|slot| slot.owner), Some(500));
        assert_eq!(s.drain_owner(500), None);
        let left: u64 = s.slots().map(|slot| u64::from(slot.bytes)).sum();
        assert!(left + returned < kept && left + returned + s.most() >= kept);
        s.drain(|_| true, |slot| assert_ne!(slot.owner, 500));
        assert_eq!(s.slots().count(), 0);
    }
}
