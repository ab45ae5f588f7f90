//! Bytes charged in advance and kept near the CPU, for several owners at once.
//!
//! A stock takes whole pages from the tree and remembers what is left over in its slot. A group in turn with
//! seven others keeps its slot; beyond that the oldest slot is given back to the tree, to the byte: nothing
//! stays behind in the owner. (Linux keeps page counts in the tree and leaves up to a page less a byte with
//! each owner; with a million small tenants that would be up to 4 GB of charge for nothing.)

use crate::page::PAGE;

/// Owners that a CPU keeps bytes for.
pub(crate) const SLOTS: usize = 8;
/// What a miss takes from the tree in advance; a slot gives back what is above twice this.
pub(crate) const BATCH: u64 = 8 * PAGE as u64;

#[derive(Clone, Copy, Default)]
pub(crate) struct Slot {
    /// 0: the slot is empty.
    pub(crate) owner: u32,
    pub(crate) bytes: u32,
}

/// One CPU's slots.
#[derive(Default)]
pub(crate) struct Stock {
    slots: [Slot; SLOTS],
    /// The slot to evict next.
    next: u8,
}

impl Stock {
    /// The slot of `owner`.
    #[inline]
    pub(crate) fn slot(&mut self, owner: u32) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.owner == owner)
    }

    /// Takes `bytes` of what is kept for `owner`.
    #[inline]
    pub(crate) fn take(&mut self, owner: u32, bytes: u64) -> bool {
        for slot in &mut self.slots {
            if slot.owner == owner {
                if u64::from(slot.bytes) >= bytes {
                    slot.bytes -= bytes as u32;
                    return true;
                }
                return false;
            }
        }
        false
    }

    /// Keeps `bytes` more for `owner`. Returns what must go back to the tree for it: (a slot evicted to make
    /// room, bytes above what a slot may hold).
    #[inline]
    pub(crate) fn give(&mut self, owner: u32, bytes: u64) -> (Option<Slot>, u64) {
        let (at, evicted) = match self.slots.iter().position(|s| s.owner == owner) {
            Some(at) => (at, None),
            None => self.make_room(owner),
        };
        let slot = &mut self.slots[at];
        let total = u64::from(slot.bytes) + bytes;
        let excess = if total > 2 * BATCH { (total - BATCH) / PAGE as u64 * PAGE as u64 } else { 0 };
        slot.bytes = (total - excess) as u32;
        (evicted, excess)
    }

    fn make_room(&mut self, owner: u32) -> (usize, Option<Slot>) {
        let at = self.slots.iter().position(|s| s.owner == 0).unwrap_or_else(|| {
            let at = usize::from(self.next);
            self.next = (self.next + 1) % SLOTS as u8;
            at
        });
        let old = core::mem::replace(&mut self.slots[at], Slot { owner, bytes: 0 });
        (at, (old.owner != 0).then_some(old))
    }

    /// Empties the slots that `which` picks, one at a time.
    pub(crate) fn drain(&mut self, mut which: impl FnMut(u32) -> bool) -> Option<Slot> {
        let slot = self.slots.iter_mut().find(|s| s.owner != 0 && which(s.owner))?;
        Some(core::mem::take(slot))
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots.iter().copied().filter(|s| s.owner != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_are_kept_and_pages_go_back() {
        let mut s = Stock::default();
        assert!(!s.take(7, 1));
        assert_eq!(s.give(7, 100).1, 0);
        assert!(s.take(7, 60) && s.take(7, 40) && !s.take(7, 1));
        let (evicted, excess) = s.give(7, 2 * BATCH + 5);
        assert!(evicted.is_none());
        assert_eq!(excess % PAGE as u64, 0);
        assert_eq!(s.slots().next().unwrap().bytes as u64, 2 * BATCH + 5 - excess);
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
        assert_eq!((evicted.owner, evicted.bytes), (1, 30));
        let mut left = 0;
        while let Some(slot) = s.drain(|_| true) {
            left += slot.bytes;
        }
        assert_eq!(left, 7 * 30 + 10);
    }
}
