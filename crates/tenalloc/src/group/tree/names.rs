//! Names of groups: a hash of (parent, name) to the node's id.
//!
//! Open addressing, 4 bytes a place: the id in the low bits, and what is left of the 32 above it are bits of the hash. So a
//! name that is not there is told from nearly all that are without a look at any node, and a look at a node is what costs:
//! among a million groups it is in no cache. (Chains through the nodes, which this was, took 470 ns for a new group
//! where this takes a third of it.) When the ids outgrow their bits, or three of four places are taken, the table is
//! made anew, in the order of the nodes in memory.

use super::{Guard, Node, State, Tree};
use crate::error::{Error, Result};
use crate::meta::Meta;
use core::ptr::NonNull;

/// A place that was never taken. (The root is in no table, so no id in it is 0.)
const EMPTY: u32 = 0;
/// A place that is free again; who looks goes on behind it.
const GONE: u32 = u32::MAX;
/// The smallest table.
const LEAST: u32 = 16;
/// Names that are entered together when a table is made.
const TOGETHER: u32 = 32;

/// The table; behind the lock of the tree.
pub(super) struct Names {
    places: *mut u32,
    /// Places, minus one: a power of two of them.
    mask: u32,
    /// Places that are not empty.
    taken: u32,
    /// Bits of a place that are the id.
    id_bits: u32,
}

impl Names {
    pub(super) const fn new() -> Self {
        Self { places: core::ptr::null_mut(), mask: 0, taken: 0, id_bits: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        if self.places.is_null() { 0 } else { (self.mask as usize + 1) * size_of::<u32>() }
    }

    /// # Safety
    /// The table is not used again.
    pub(super) unsafe fn free(&self, meta: &Meta) {
        if let Some(places) = NonNull::new(self.places) {
            // SAFETY: made with this length.
            unsafe { meta.free(places.cast(), self.bytes()) };
        }
    }

    /// Place `index`, modulo their number.
    fn at(&self, index: u32) -> *mut u32 {
        self.places.wrapping_add((index & self.mask) as usize)
    }

    /// What is in the place of the id of a name with `hash`.
    fn entry(&self, hash: u64, id: u32) -> u32 {
        // 64 bits: with 32 bits of id nothing is left of the hash.
        ((hash >> 32) as u32 as u64 >> self.id_bits << self.id_bits) as u32 | id
    }

    fn id(&self, entry: u32) -> u32 {
        entry & ((1u64 << self.id_bits) - 1) as u32
    }

    /// Puts an entry into the first free place. There is one: [`Tree::make_place`] saw to it.
    pub(super) fn put(&mut self, hash: u64, id: u32) {
        let mut index = hash as u32;
        // SAFETY: the lock is held, and `at` stays inside the table.
        unsafe {
            while !matches!(self.at(index).read(), EMPTY | GONE) {
                index = index.wrapping_add(1);
            }
            self.taken += u32::from(self.at(index).read() == EMPTY);
            self.at(index).write(self.entry(hash, id));
        }
    }
}

impl Tree {
    /// The place of the child of `parent` called `name`; `hash` is theirs.
    fn place(&self, s: &Guard<'_, State>, parent: &Node, name: &str, hash: u64) -> Option<*mut u32> {
        let names = &s.hash;
        if names.places.is_null() {
            return None;
        }
        let mut index = hash as u32;
        loop {
            // SAFETY: the lock is held, and `at` stays inside the table; some place is empty.
            let entry = unsafe { names.at(index).read() };
            let id = names.id(entry);
            if entry == EMPTY {
                return None;
            }
            if entry != GONE && entry == names.entry(hash, id) {
                let node = self.node(id);
                if core::ptr::eq(node.parent, parent) && node.name() == name {
                    return Some(names.at(index));
                }
            }
            index = index.wrapping_add(1);
        }
    }

    pub(super) fn find<'a>(
        &'a self,
        s: &Guard<'_, State>,
        parent: &Node,
        name: &str,
        hash: u64,
    ) -> Option<&'a Node> {
        let place = self.place(s, parent, name, hash)?;
        // SAFETY: a place of the table; the lock is held.
        Some(self.node(s.hash.id(unsafe { place.read() })))
    }

    pub(super) fn hash_out(&self, s: &mut Guard<'_, State>, node: &Node) {
        let place = node.parent().and_then(|p| self.place(s, p, node.name(), hash(p, node.name())));
        if let Some(place) = place {
            // SAFETY: a place of the table; the lock is held.
            unsafe { place.write(GONE) };
        }
    }

    /// Makes sure that a group with `id` can be entered.
    pub(super) fn make_place(&self, s: &mut Guard<'_, State>, id: u32, meta: &Meta) -> Result<()> {
        let size = if s.hash.places.is_null() { 0 } else { s.hash.mask + 1 };
        let fits = u64::from(id) + 1 < 1 << s.hash.id_bits;
        if fits && u64::from(s.hash.taken) < u64::from(size) * 3 / 4 {
            return Ok(());
        }
        // Twice as large, unless it is rather what is gone that fills it.
        let new = if u64::from(s.groups) * 2 < u64::from(size) { size } else { size.saturating_mul(2) };
        let new = new.clamp(LEAST, 1 << 31);
        let bytes = new as usize * size_of::<u32>();
        let Some(places) = meta.alloc(bytes) else {
            // A crowded table is slower, not wrong, as long as some place is empty.
            let crowded = fits && s.hash.taken + 1 < size;
            return if crowded { Ok(()) } else { Err(Error::NoMemory { bytes }) };
        };
        let ids = id.max(s.high).max(new);
        let id_bits = (u32::BITS - ids.leading_zeros() + 1).min(u32::BITS);
        let old = core::mem::replace(
            &mut s.hash,
            Names { places: places.as_ptr().cast(), mask: new - 1, taken: 0, id_bits },
        );
        // Places of several names are read before the first is written: each is a line that is in no cache, and reads
        // that do not depend on each other go on at the same time.
        let mut from = 1;
        while from < s.high {
            let end = s.high.min(from + TOGETHER);
            let mut hashes = [None; TOGETHER as usize];
            for (id, h) in (from..end).zip(&mut hashes) {
                let node = self.node(id);
                *h = node.parent().filter(|_| !node.is_removed()).map(|parent| hash(parent, node.name()));
                // SAFETY: `at` stays inside the table.
                h.inspect(|h| _ = unsafe { s.hash.at(*h as u32).read_volatile() });
            }
            for (id, h) in (from..end).zip(hashes) {
                if let Some(h) = h {
                    s.hash.put(h, id);
                }
            }
            from = end;
        }
        // SAFETY: its entries are in the new one.
        unsafe { old.free(meta) };
        Ok(())
    }
}

/// The hash of a child's name. Eight bytes at a time, each mixed in by a multiplication (by 2^64 divided by the golden ratio, whose high bits depend on all
/// bits), and folded.
#[inline]
pub(super) fn hash(parent: &Node, name: &str) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |h: u64, part: u64| {
        let h = (h ^ part).wrapping_mul(GOLDEN);
        h ^ h >> 32
    };
    let h = name.as_bytes().chunks(8).fold(mix(name.len() as u64, parent.id.into()), |h, chunk| {
        let mut part = [0; 8];
        part[..chunk.len()].copy_from_slice(chunk);
        mix(h, u64::from_ne_bytes(part))
    });
    mix(h, h >> 29)
}
