//! Red zones and poison: what is written where nobody may write, told when the object is next looked at.
//!
//! ```text
//!   slot  ├ red zone ┤ object ……………… ┤ red zone ┤ requested, link ┤
//!         │ ≥ 8 x bb │ 6b 6b … 6b a5   │ ≥ 8 x bb │ 4 + 2 bytes     │
//! ```
//!
//! * A red zone is never the program's. It is looked at when the object is freed.
//! * A free object is filled with poison, and looked at before it is handed out again.
//! * What a size class has beyond the bytes asked for stays poison while the object lives, and counts as a red zone.
//! * The link of the free list, which lies in the object otherwise, lies behind the red zone: so an object that is free
//!   is poison from end to end.
//!
//! Bytes and idea are SLUB's (`slub_debug=FZP`, mm/slub.c). Whether an object is live is not written into it as there,
//! but told by the owner vector, which such a cache has from the first object on: the two never disagree.
//!
//! Apart from `slab` because only caches that ask for it pay: a red zone costs bytes, poison a pass over the object at
//! each free and each allocation.

use super::cache::Record;
use super::slab::Slab;
use crate::controller::Inner;
use crate::page::chunk::Held;
use core::sync::atomic::{AtomicU32, Ordering::*};

const RED: u8 = 0xbb;
const POISON: u8 = 0x6b;
const POISON_END: u8 = 0xa5;
/// Bytes of a red zone at least.
const ZONE: usize = 8;
/// Behind the second red zone: bytes requested (4), link (2), unused (2).
const TRAILER: usize = 8;

/// Damages of one slab that a look tells; all are counted.
const TOLD: usize = 16;

/// What was written over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwritten {
    /// Bytes in front of or behind a live or free object, or of its size class beyond what was asked for: the program
    /// wrote beyond an object.
    RedZone,
    /// A free object: the program wrote to it after the free.
    FreeObject,
    /// The list of a slab's free objects. What hung on it is not handed out until the slab was empty.
    FreeList,
}

/// A place that somebody wrote to who must not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The cache's object that the place belongs to.
    pub object: usize,
    /// First byte that is not as it was left.
    pub at: usize,
    /// What stands there now.
    pub found: u8,
    /// What it should have been part of.
    pub what: Overwritten,
}

/// Where things lie in a slot; offsets from the object, which begins `left` bytes into its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) slot: usize,
    /// Bytes of the first red zone.
    pub(super) left: usize,
    /// Bytes that the object has for its user.
    pub(super) usable: usize,
    /// The link of the free list.
    pub(super) link: usize,
}

impl Layout {
    /// Nothing but the object: its link lies in its own first bytes.
    pub(super) fn plain(slot: usize) -> Self {
        Self { slot, left: 0, usable: slot, link: 0 }
    }

    /// With red zones, for `size` bytes aligned to `align` (a power of two, at least 8).
    pub(super) fn guarded(size: usize, align: usize) -> Self {
        let left = align.max(ZONE);
        let trailer = size.next_multiple_of(8) + ZONE;
        let slot = (left + trailer + TRAILER).next_multiple_of(align);
        Self { slot, left, usable: size, link: trailer + size_of::<u32>() }
    }
}

fn poison(at: usize, size: usize) -> u8 {
    if at + 1 == size { POISON_END } else { POISON }
}

/// One object of a cache that has red zones.
#[derive(Clone, Copy)]
struct Object<'a> {
    record: &'a Record,
    at: *mut u8,
}

impl Object<'_> {
    fn requested(&self) -> &AtomicU32 {
        let offset = self.record.layout().link - size_of::<u32>();
        // SAFETY: inside the slot, behind the red zone; slots and this offset are multiples of 8.
        unsafe { &*self.at.add(offset).cast::<AtomicU32>() }
    }

    /// Looks at `len` bytes from `from` (relative to the object); those that are not as `expected` are told, the first
    /// of them, and mended.
    fn mend(&self, from: isize, len: usize, expected: impl Fn(usize) -> u8) -> Option<(usize, u8)> {
        let mut first = None;
        for i in 0..len {
            // SAFETY: callers stay inside the object's slot. Volatile: a program that breaks the rules may be
            // writing there at this moment.
            unsafe {
                let byte = self.at.offset(from).add(i);
                let found = byte.read_volatile();
                if found != expected(i) {
                    first = first.or(Some((byte as usize, found)));
                    byte.write_volatile(expected(i));
                }
            }
        }
        first
    }

    /// Looks at both red zones and, of a live object, at what was not asked for. Mends them.
    fn zones(&self, live: bool) -> Option<Damage> {
        let layout = self.record.layout();
        let requested = self.requested().load(Acquire) as usize;
        let asked = if live { requested.min(layout.usable) } else { layout.usable };
        let tail = self.mend(asked as isize, layout.usable - asked, |i| poison(asked + i, layout.usable));
        let zone = layout.link - size_of::<u32>() - layout.usable;
        let right = self.mend(layout.usable as isize, zone, |_| RED);
        let left = self.mend(-(layout.left as isize), layout.left, |_| RED);
        let (at, found) = left.or(tail).or(right)?;
        Some(Damage { object: self.at as usize, at, found, what: Overwritten::RedZone })
    }

    /// Looks at the object itself, which is free. Mends it.
    fn freed(&self) -> Option<Damage> {
        let size = self.record.layout().usable;
        let (at, found) = self.mend(0, size, |i| poison(i, size))?;
        Some(Damage { object: self.at as usize, at, found, what: Overwritten::FreeObject })
    }

    fn fill(&self, from: isize, len: usize, byte: u8) {
        // SAFETY: callers stay inside the object's slot, and the bytes are nobody's.
        unsafe { self.at.offset(from).write_bytes(byte, len) };
    }

    fn poison(&self) {
        let size = self.record.layout().usable;
        self.fill(0, size, POISON);
        self.fill(size as isize - 1, 1, POISON_END);
    }
}

impl Record {
    fn object(&self, at: *mut u8) -> Object<'_> {
        Object { record: self, at }
    }

    /// An object is cut from a slab for the first time.
    pub(super) fn cut(&self, at: *mut u8) {
        let (object, layout) = (self.object(at), self.layout());
        object.fill(-(layout.left as isize), layout.left, RED);
        object.fill(layout.usable as isize, layout.link - size_of::<u32>() - layout.usable, RED);
        object.poison();
        object.requested().store(layout.usable as u32, Release);
    }

    /// Before a free object is handed out: whether nobody wrote to it since its free. What was is mended and counted.
    pub(super) fn is_clean(&self, at: *mut u8) -> bool {
        let object = self.object(at);
        let damaged = u64::from(object.zones(false).is_some()) + u64::from(object.freed().is_some());
        self.corrupted.fetch_add(damaged, Relaxed);
        if damaged == 0 {
            object.requested().store(self.layout().usable as u32, Release);
        }
        damaged == 0
    }

    /// Before a live object is freed: what was written around it, mended and counted. The object is poison afterwards.
    pub(super) fn retire(&self, at: *mut u8) -> Option<Damage> {
        let object = self.object(at);
        let damage = object.zones(true);
        self.corrupted.fetch_add(u64::from(damage.is_some()), Relaxed);
        object.poison();
        damage
    }

    /// Bytes that were asked for.
    pub(super) fn requested(&self, at: *mut u8) -> usize {
        self.object(at).requested().load(Acquire) as usize
    }

    /// Of a live object its user gets no more than `size` bytes from now on; what that leaves is poison.
    pub(super) fn request(&self, at: *mut u8, size: usize) {
        let (object, usable) = (self.object(at), self.layout().usable);
        let size = size.min(usable);
        let had = self.requested(at).min(usable);
        if size < had {
            for i in size..had {
                object.fill(i as isize, 1, poison(i, usable));
            }
        }
        object.requested().store(size as u32, Release);
    }

    /// Looks at every object of a slab that was ever handed out, and at its free list. The caller holds the lock of the
    /// slab's node, and no object of the cache is on its way to or from a user.
    pub(super) fn look_over(&self, slab: &mut Slab, each: &mut dyn FnMut(Damage)) -> u64 {
        let mut found = 0;
        let mut tell = |damage: Damage| {
            found += 1;
            each(damage);
        };
        if let Some((object, link)) = slab.mend_list(self) {
            let (at, found) = (self.link(object) as usize, link.to_ne_bytes()[0]);
            tell(Damage { object: object as usize, at, found, what: Overwritten::FreeList });
        }
        for index in 0..slab.cut() {
            let object = self.object(slab.object(index, self));
            let live = slab.owners.get(index.into()).is_some();
            object.zones(live).into_iter().for_each(&mut tell);
            if !live {
                object.freed().into_iter().for_each(&mut tell);
            }
        }
        self.corrupted.fetch_add(found, Relaxed);
        found
    }
}

impl Inner {
    /// Looks over every slab of `record` in a chunk that is held. All CPUs stand still while one slab is looked at.
    pub(super) fn look_over(&self, record: &Record, chunk: Held, each: &mut dyn FnMut(Damage)) -> u64 {
        let (mut page, mut found) = (0, 0);
        while let Some((slab, next)) = chunk.next_run(page) {
            page = next;
            // Told afterwards: whoever is told may allocate.
            let mut told = [None; TOLD];
            let mut n = 0;
            let all = self.areas.lock_all();
            found += record.with_slab(slab, chunk.node(), |slab| {
                record.look_over(slab, &mut |damage| {
                    if let Some(place) = told.get_mut(n) {
                        *place = Some(damage);
                    }
                    n += 1;
                })
            });
            drop(all);
            told.into_iter().flatten().for_each(&mut *each);
        }
        found
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_a_slot_does_not_overlap_and_is_aligned() {
        for align in [8, 16, 64, 4096] {
            for size in [1, 7, 8, 9, 63, 64, 65, 4096, 65_536] {
                let l = Layout::guarded(size, align);
                assert!(
                    l.left >= ZONE && l.left.is_multiple_of(align) && l.slot.is_multiple_of(align),
                    "{l:?}"
                );
                assert_eq!(l.link % 4, 0);
                assert!(l.usable + ZONE <= l.link - 4, "{l:?}");
                assert!(l.left + l.link + 2 <= l.slot, "{l:?}");
            }
        }
    }
}
