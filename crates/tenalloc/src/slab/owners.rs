//! Who owns a slab's objects, in one word until there is more to say.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | no object was handed out since the slab was last empty |
//! | id << 1 | every live object is `id`'s |
//! | pointer \| 1 | a vector: one 32-bit id per object, 0 where it is free |
//!
//! The word moves only forward, none → one → vector, and back to none when the slab is empty and nobody can
//! be on his way to it. The first object of a second owner makes the vector: it is filled with the one owner
//! everywhere, then published by compare-and-swap. An object handed out to that one owner meanwhile needs no
//! write, because the fill has it already. (Linux publishes its vector in the same way; the step with one
//! owner for all is ours.)

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use core::ptr::NonNull;

/// Makes vectors of a given length, zeroed, and takes them back.
pub(crate) trait Vectors {
    fn make(&self) -> Option<NonNull<AtomicU32>>;
    /// # Safety
    /// `vector` came from `make` of an equal maker and is used no more.
    unsafe fn unmake(&self, vector: NonNull<AtomicU32>);
    fn len(&self) -> usize;
}

pub(crate) struct Owners(AtomicU64);

/// What a word says.
enum Word {
    None,
    One(u32),
    Vector(NonNull<AtomicU32>),
}

fn read(word: u64) -> Word {
    match vector(word) {
        Some(vector) => Word::Vector(vector),
        None if word == 0 => Word::None,
        None => Word::One((word >> 1) as u32),
    }
}

#[inline(always)]
fn vector(word: u64) -> Option<NonNull<AtomicU32>> {
    // SAFETY: a pointer from the vectors' maker, put into the word with its lowest bit set.
    (word & 1 == 1).then(|| unsafe { NonNull::new_unchecked((word - 1) as usize as *mut AtomicU32) })
}

fn one(id: u32) -> u64 {
    u64::from(id) << 1
}

impl Owners {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn entry(&self, vector: NonNull<AtomicU32>, index: usize) -> &AtomicU32 {
        // SAFETY: a published vector lives until the slab is empty, which it is not while the caller has or
        // is being given an object of it; the index was checked against the slab's objects.
        unsafe { vector.add(index).as_ref() }
    }

    /// Object `index`, being handed out, is `id`'s. `strict`: make the vector at once, so that every entry
    /// tells whether its object is live. False: no memory for the vector.
    #[inline]
    pub(crate) fn set(&self, index: usize, id: u32, strict: bool, vectors: &impl Vectors) -> bool {
        loop {
            let word = self.0.load(Acquire);
            match read(word) {
                Word::Vector(v) => {
                    self.entry(v, index).store(id, Relaxed);
                    return true;
                }
                Word::One(owner) if owner == id => return true,
                Word::None if !strict => {
                    if self.0.compare_exchange(0, one(id), AcqRel, Relaxed).is_ok() {
                        return true;
                    }
                }
                old => {
                    let fill = if let Word::One(owner) = old { owner } else { 0 };
                    if !self.publish(word, fill, vectors) {
                        return false;
                    }
                }
            }
        }
    }

    /// As [`set`](Self::set) where that takes no more than a store. False: nothing was done.
    #[inline]
    pub(crate) fn set_soon(&self, index: impl FnOnce() -> usize, id: u32) -> bool {
        match read(self.0.load(Acquire)) {
            Word::One(owner) => owner == id,
            Word::Vector(v) => {
                self.entry(v, index()).store(id, Relaxed);
                true
            }
            Word::None => false,
        }
    }

    /// As [`take`](Self::take) after [`get`](Self::get), by the only one who frees this object now.
    #[inline]
    pub(crate) fn clear(&self, index: usize) {
        if let Word::Vector(v) = read(self.0.load(Acquire)) {
            self.entry(v, index).store(0, Relaxed);
        }
    }

    /// Replaces `word`, if it is still that, by a vector with `fill` everywhere. False: no memory.
    #[cold]
    fn publish(&self, word: u64, fill: u32, vectors: &impl Vectors) -> bool {
        let Some(vector) = vectors.make() else { return false };
        for i in 0..vectors.len() {
            self.entry(vector, i).store(fill, Relaxed);
        }
        let new = vector.as_ptr() as usize as u64 | 1;
        if self.0.compare_exchange(word, new, AcqRel, Relaxed).is_err() {
            // SAFETY: made above and never published.
            unsafe { vectors.unmake(vector) };
        }
        true
    }

    /// Object `index` is being freed: whose was it? `None`: it was not live, as far as the word can tell.
    #[inline]
    pub(crate) fn take(&self, index: usize) -> Option<u32> {
        match read(self.0.load(Acquire)) {
            Word::None => None,
            Word::Vector(v) => {
                let id = self.entry(v, index).swap(0, Relaxed);
                (id != 0).then_some(id)
            }
            Word::One(owner) => {
                // A vector may have been published since, filled with this owner: leave no stale entry.
                if let Word::Vector(v) = read(self.0.load(Acquire)) {
                    self.entry(v, index).store(0, Relaxed);
                }
                Some(owner)
            }
        }
    }

    /// Whose object `index` is, if it is live; with one owner for all this is not known here.
    pub(crate) fn get(&self, index: usize) -> Option<u32> {
        match read(self.0.load(Acquire)) {
            Word::None => None,
            Word::One(owner) => Some(owner),
            Word::Vector(v) => Some(self.entry(v, index).load(Relaxed)).filter(|id| *id != 0),
        }
    }

    /// As [`get`](Self::get), with 0 for nobody.
    #[inline(always)]
    pub(crate) fn peek(&self, index: usize) -> u32 {
        let word = self.0.load(Acquire);
        vector(word).map_or((word >> 1) as u32, |v| self.entry(v, index).load(Relaxed))
    }

    /// Whether each object has an entry of its own.
    pub(crate) fn is_vector(&self) -> bool {
        matches!(read(self.0.load(Acquire)), Word::Vector(_))
    }

    /// The slab is empty and nobody is on his way to it: forgets everything.
    pub(crate) fn reset(&self, vectors: &impl Vectors) {
        let was = read(self.0.load(Acquire));
        self.0.store(0, Release);
        if let Word::Vector(v) = was {
            // SAFETY: no object of the slab is out, so nobody reads the vector.
            unsafe { vectors.unmake(v) };
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    extern crate std;
    use core::cell::Cell;
    use std::{boxed::Box, vec::Vec};

    struct Maker {
        len: usize,
        made: Cell<usize>,
        refuse: Cell<bool>,
    }

    impl Vectors for Maker {
        fn make(&self) -> Option<NonNull<AtomicU32>> {
            if self.refuse.get() {
                return None;
            }
            self.made.set(self.made.get() + 1);
            let vector: Box<[AtomicU32]> = (0..self.len).map(|_| AtomicU32::new(0)).collect();
            NonNull::new(Box::into_raw(vector).cast())
        }
        unsafe fn unmake(&self, vector: NonNull<AtomicU32>) {
            self.made.set(self.made.get() - 1);
            let slice = core::ptr::slice_from_raw_parts_mut(vector.as_ptr(), self.len);
            // SAFETY: made by `make` as a boxed slice of this length.
            drop(unsafe { Box::from_raw(slice) });
        }
        fn len(&self) -> usize {
            self.len
        }
    }

    fn maker(len: usize) -> Maker {
        Maker { len, made: Cell::new(0), refuse: Cell::new(false) }
    }

    #[test]
    fn one_owner_costs_nothing_and_two_cost_a_vector() {
        let (o, m) = (Owners::new(), maker(4));
        assert_eq!(o.take(0), None);
        assert!(o.set(0, 7, false, &m) && o.set(1, 7, false, &m));
        assert_eq!((m.made.get(), o.get(1)), (0, Some(7)));
        m.refuse.set(true);
        assert!(!o.set(2, 9, false, &m), "no memory, no owner");
        m.refuse.set(false);
        assert!(o.set(2, 9, false, &m));
        assert_eq!(m.made.get(), 1);
        assert_eq!([o.take(0), o.take(1), o.take(2), o.take(2)], [Some(7), Some(7), Some(9), None]);
        o.reset(&m);
        assert_eq!((m.made.get(), o.get(0)), (0, None));
    }

    #[test]
    fn strict_tells_every_double_free() {
        let (o, m) = (Owners::new(), maker(3));
        assert!(o.set(1, 5, true, &m));
        assert_eq!((o.take(0), o.take(1), o.take(1)), (None, Some(5), None));
        o.reset(&m);
    }

    proptest::proptest! {
        #[test]
        fn matches_a_plain_vector(steps in proptest::collection::vec((0usize..8, 2u32..5), 0..100)) {
            let (o, m) = (Owners::new(), maker(8));
            let mut plain: Vec<Option<u32>> = std::vec![None; 8];
            for (i, id) in steps {
                match plain[i].take() {
                    Some(owner) => proptest::prop_assert_eq!(o.take(i), Some(owner)),
                    None => {
                        proptest::prop_assert!(o.set(i, id, false, &m));
                        plain[i] = Some(id);
                    }
                }
                if plain.iter().all(Option::is_none) {
                    o.reset(&m);
                }
            }
            o.reset(&m);
            proptest::prop_assert_eq!(m.made.get(), 0);
        }
    }
}

#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;
    use std::boxed::Box;

    /// Leaks what was published and frees what was not: the model is about who reads what.
    struct Leak;

    impl Vectors for Leak {
        fn make(&self) -> Option<NonNull<AtomicU32>> {
            let vector: Box<[AtomicU32]> = (0..2).map(|_| AtomicU32::new(0)).collect();
            NonNull::new(Box::into_raw(vector).cast())
        }
        unsafe fn unmake(&self, vector: NonNull<AtomicU32>) {
            // SAFETY: made by `make` as a boxed slice of 2.
            drop(unsafe { Box::from_raw(core::ptr::slice_from_raw_parts_mut(vector.as_ptr(), 2)) });
        }
        fn len(&self) -> usize {
            2
        }
    }

    /// Two CPUs hand out the first two objects of a slab, to two owners or to one.
    #[test]
    fn publication_loses_no_owner() {
        for (a, b) in [(5, 5), (5, 6)] {
            loom::model(move || {
                let o = Arc::new(Owners::new());
                let other = o.clone();
                let t = thread::spawn(move || {
                    assert!(other.set(1, b, false, &Leak));
                    assert_eq!(other.get(1), Some(b));
                });
                assert!(o.set(0, a, false, &Leak));
                assert_eq!(o.get(0), Some(a));
                t.join().unwrap();
                assert_eq!((o.take(0), o.take(1)), (Some(a), Some(b)));
                o.reset(&Leak);
            });
        }
    }

    /// One CPU frees an object of the first owner while another brings the second: the free finds its owner.
    #[test]
    fn a_free_races_with_publication() {
        loom::model(|| {
            let o = Arc::new(Owners::new());
            assert!(o.set(0, 5, false, &Leak));
            let other = o.clone();
            let t = thread::spawn(move || assert!(other.set(1, 6, false, &Leak)));
            assert_eq!(o.take(0), Some(5));
            t.join().unwrap();
            assert_eq!(o.take(1), Some(6));
            o.reset(&Leak);
        });
    }
}
