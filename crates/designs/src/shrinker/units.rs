//! Linux 6.7 on: `struct shrinker_info` is an array of pointers to units, a unit a bit and 8 bytes for each of 64 ids.
//!
//! Follows `mm/shrinker.c`, `expand_one_shrinker_info()`: growing makes a new array of pointers and one more unit; units
//! never move, so that reclaim may use one without a lock. A unit asks for 520 bytes and gets 1,024.

use super::Form;
use crate::kernel::shrinker::{UNIT, UNIT_BYTES};
use crate::list_lru::ledger::Ledger;
use crate::lists::What;

const IDS: usize = UNIT as usize;

/// `struct shrinker_info_unit`.
#[repr(C)]
struct Unit {
    deferred: [i64; IDS],
    map: u64,
}

const _: () = assert!(size_of::<Unit>() as u64 == UNIT_BYTES);

/// Pointers to units.
pub(super) struct Units {
    #[expect(clippy::vec_box, reason = "units never move: readers hold on to them")]
    units: Vec<Box<Unit>>,
}

/// An RCU head, the number of ids, the pointers.
fn bytes(units: usize) -> u64 {
    24 + 8 * units as u64
}

impl Form for Units {
    fn new(ids: usize, ledger: &mut Ledger) -> Self {
        let mut info = Self { units: Vec::new() };
        ledger.made(What::Shrinker, bytes(0), 1);
        info.expand(ids, ledger);
        info
    }

    fn expand(&mut self, ids: usize, ledger: &mut Ledger) {
        let (old, new) = (self.units.len(), ids.div_ceil(IDS));
        ledger.made(What::Shrinker, bytes(new), 1);
        ledger.freed(What::Shrinker, bytes(old), 1);
        ledger.made(What::Shrinker, UNIT_BYTES, (new - old) as u64);
        self.units.reserve_exact(new - old);
        self.units.resize_with(new, || Box::new(Unit { deferred: [0; IDS], map: 0 }));
    }

    fn free(self, ledger: &mut Ledger) {
        ledger.freed(What::Shrinker, bytes(self.units.len()), 1);
        ledger.freed(What::Shrinker, UNIT_BYTES, self.units.len() as u64);
    }

    fn set(&mut self, id: usize) {
        self.units[id / IDS].map |= 1 << (id % IDS);
    }

    #[cfg(test)]
    fn is_set(&self, id: usize) -> bool {
        self.units[id / IDS].map & 1 << (id % IDS) != 0
    }

    fn deferred(&mut self, id: usize) -> Option<&mut i64> {
        self.units.get_mut(id / IDS).map(|unit| &mut unit.deferred[id % IDS])
    }

    fn here(&self) -> u64 {
        (self.units.len() * (size_of::<Unit>() + size_of::<Box<Unit>>())) as u64
    }
}
