//! A new table of names, filled without waiting for each place.
//!
//! The nodes are read in the order of memory, and their places are all over the table: where that is larger than the
//! processor's near caches, each name would wait for a line of its own (127 ns at a million groups). So names are sorted,
//! some ten thousand at a time, by the part of the table that they go to, and a part is near when its names are entered.
//! (Radix partitioning, as joins in databases do it: S. Manegold, P. Boncz, M. Kersten.)

use super::{Guard, Names, Spelled, State, Tree};
use crate::meta::Meta;
use core::slice::from_raw_parts_mut;

/// Names that are sorted together, and the parts of the table that they are sorted by.
const RUN: usize = 1 << 16;
const PARTS: usize = 256;
/// Smaller tables stay near as a whole. Places.
const LARGE: u32 = 1 << 17;
/// Names that are entered together where nothing is sorted.
const FEW: usize = 32;

/// A name that is to be entered: the index of its place, and what it says.
type New = [u32; 2];

impl Tree {
    /// Enters every group into the table, which is empty.
    pub(super) fn enter_all(&self, s: &mut Guard<'_, State>, meta: &Meta) {
        const BYTES: usize = RUN * size_of::<New>();
        let large = s.hash.mask >= LARGE && s.high as usize > RUN / 4;
        let room = if large { meta.alloc_lazy(2 * BYTES) } else { None };
        let Some(room) = room else {
            // Also without memory for the other way.
            let mut few = [[0; 2]; FEW];
            return self.each_run(s, &mut few, |names, new| names.put_all(new));
        };
        // SAFETY: a block of ours with room for both; zeroed, and numbers may be anything.
        let (found, sorted) = unsafe {
            let found = room.cast::<New>();
            (from_raw_parts_mut(found.as_ptr(), RUN), from_raw_parts_mut(found.as_ptr().add(RUN), RUN))
        };
        let shift = s.hash.mask.ilog2() + 1 - PARTS.ilog2();
        let mask = s.hash.mask;
        let part = |new: &New| ((new[0] & mask) >> shift) as usize;
        self.each_run(s, found, |names, new| {
            let mut ends = [0; PARTS];
            new.iter().for_each(|new| ends[part(new)] += 1);
            let mut sum = 0;
            for end in &mut ends {
                sum += core::mem::replace(end, sum);
            }
            for new in new.iter() {
                let end = &mut ends[part(new)];
                sorted[*end] = *new;
                *end += 1;
            }
            names.put_all(&sorted[..new.len()]);
        });
        // SAFETY: as it was allocated; used no more.
        unsafe { meta.free_lazy(room, 2 * BYTES) };
    }

    /// Calls `each` with the names of all groups, as many at a time as there is room.
    fn each_run(&self, s: &mut Guard<'_, State>, room: &mut [New], mut each: impl FnMut(&mut Names, &[New])) {
        let mut number = 0;
        for id in 1..s.high {
            let node = self.node(id);
            let Some(parent) = node.parent().filter(|_| !node.is_removed()) else { continue };
            let hash = Spelled::new(parent, node.name()).hash;
            room[number] = [hash as u32, s.hash.entry(hash, id)];
            number += 1;
            if number == room.len() {
                each(&mut s.hash, room);
                number = 0;
            }
        }
        each(&mut s.hash, &room[..number]);
    }
}

impl Names {
    fn put_all(&mut self, new: &[New]) {
        new.iter().for_each(|[index, entry]| self.put_entry(*index, *entry));
    }
}
