//! Names of groups: a hash of (parent, name) to the node's id.
//!
//! Open addressing, 4 bytes a place: the id in the low bits, and what is left of the 32 above it are bits of the hash. So a
//! name that is not there is told from nearly all that are without a look at any node, and a look at a node is what costs:
//! among a million groups it is in no cache. When the ids outgrow their bits, or three of four places are taken, the table
//! is made anew: see [`sort`].

mod sort;

use super::name::word;
use super::{Guard, Node, State, Tree};
use crate::error::{Error, Result};
use crate::meta::Meta;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};

/// A place that was never taken. (The root is in no table, so no id in it is 0.)
const EMPTY: u32 = 0;
/// A place that is free again; who looks goes on behind it.
const GONE: u32 = u32::MAX;
/// The smallest table.
const LEAST: u32 = 16;

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

    /// Puts an id into the first free place. There is one: [`Tree::make_place`] saw to it.
    pub(super) fn put(&mut self, hash: u64, id: u32) {
        self.put_entry(hash as u32, self.entry(hash, id));
    }

    /// Takes the id of a name with `hash`, which is in, out. No node is looked at: an id is in one place only.
    #[inline]
    pub(super) fn take(&mut self, hash: u64, id: u32) {
        let (mut index, entry) = (hash as u32, self.entry(hash, id));
        // SAFETY: the lock is held, `at` stays inside the table, which there is since the id is in it; some place is empty.
        unsafe {
            let mut found = self.at(index).read();
            while found != entry && found != EMPTY {
                index = index.wrapping_add(1);
                found = self.at(index).read();
            }
            debug_assert_eq!(found, entry, "a group that lives has its place");
            if found == entry {
                self.at(index).write(GONE);
            }
        }
    }

    fn put_entry(&mut self, mut index: u32, entry: u32) {
        // SAFETY: the lock is held, and `at` stays inside the table.
        unsafe {
            while !matches!(self.at(index).read(), EMPTY | GONE) {
                index = index.wrapping_add(1);
            }
            self.taken += u32::from(self.at(index).read() == EMPTY);
            self.at(index).write(entry);
        }
    }
}

/// Where the table is, for who has not got the lock yet: only to ask the processor for a line of it ahead of time.
pub(super) struct Ahead {
    places: AtomicPtr<u32>,
    mask: AtomicU32,
}

impl Ahead {
    pub(super) const fn new() -> Self {
        Self { places: AtomicPtr::new(core::ptr::null_mut()), mask: AtomicU32::new(0) }
    }

    #[inline]
    pub(super) fn fetch(&self, spelled: &Spelled<'_>) {
        let index = spelled.hash as u32 & self.mask.load(Relaxed);
        crate::ahead::fetch(self.places.load(Relaxed).wrapping_add(index as usize));
    }
}

/// A child's name, hashed.
pub(super) struct Spelled<'a> {
    pub(super) parent: &'a Node,
    name: &'a str,
    pub(super) hash: u64,
    /// It has no `/`, and no byte 0.
    pub(super) plain: bool,
}

impl<'a> Spelled<'a> {
    /// The hash takes eight bytes at a time, each mixed in by a multiplication (by 2^64 divided by the golden ratio, whose
    /// high bits depend on all bits), and folded.
    #[inline]
    pub(super) fn new(parent: &'a Node, name: &'a str) -> Self {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        const ONES: u64 = u64::MAX / 255;
        const SLASHES: u64 = ONES * b'/' as u64;
        let mix = |h: u64, part: u64| {
            let h = (h ^ part).wrapping_mul(GOLDEN);
            h ^ h >> 32
        };
        // The high bit of the lowest byte that is 0, and perhaps of some above it (A. Mycroft).
        let zero = |part: u64| part.wrapping_sub(ONES) & !part & ONES << 7;
        let (mut h, mut special) = (mix(name.len() as u64, parent.id.into()), 0);
        for chunk in name.as_bytes().chunks(8) {
            let part = word(chunk);
            h = mix(h, part);
            // What is beyond the end is no zero.
            special |= zero(part | !(u64::MAX >> (64 - 8 * chunk.len()))) | zero(part ^ SLASHES);
        }
        Self { parent, name, hash: mix(h, h >> 29), plain: special == 0 }
    }
}

impl Tree {
    /// The place of a child.
    fn place(&self, s: &Guard<'_, State>, child: &Spelled<'_>) -> Option<*mut u32> {
        let names = &s.hash;
        if names.places.is_null() {
            return None;
        }
        let mut index = child.hash as u32;
        loop {
            // SAFETY: the lock is held, and `at` stays inside the table; some place is empty.
            let entry = unsafe { names.at(index).read() };
            let id = names.id(entry);
            if entry == EMPTY {
                return None;
            }
            if entry != GONE && entry == names.entry(child.hash, id) {
                let node = self.node(id);
                if core::ptr::eq(node.parent, child.parent) && node.name() == child.name {
                    return Some(names.at(index));
                }
            }
            index = index.wrapping_add(1);
        }
    }

    pub(super) fn find<'a>(&'a self, s: &Guard<'_, State>, child: &Spelled<'_>) -> Option<&'a Node> {
        let place = self.place(s, child)?;
        // SAFETY: a place of the table; the lock is held.
        Some(self.node(s.hash.id(unsafe { place.read() })))
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
        self.enter_all(s, meta);
        self.ahead.places.store(s.hash.places, Relaxed);
        self.ahead.mask.store(s.hash.mask, Relaxed);
        // SAFETY: its entries are in the new one.
        unsafe { old.free(meta) };
        Ok(())
    }
}
