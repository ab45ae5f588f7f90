//! A table of records with stable addresses, found by a 32-bit id without a lock.
//!
//! Segments double: segment k holds 64 · 2^k records, so 26 pointers reach four billion records and a small
//! table is small; what is not used of a segment is address space only. Free records are linked under the caller's
//! lock.

use crate::error::{Error, Result};
use crate::meta::Meta;
use crate::page::PAGE;
use core::marker::PhantomData;
use core::mem::size_of;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

const SEGMENTS: usize = 26;
const FIRST: u32 = 64;

/// Records of `T`; all zeros must be a valid `T`.
pub(crate) struct Table<T> {
    segments: [AtomicPtr<T>; SEGMENTS],
    _owns: PhantomData<T>,
}

fn place(id: u32) -> (usize, usize) {
    let n = u64::from(id) + u64::from(FIRST);
    let segment = n.ilog2() - FIRST.ilog2();
    (segment as usize, (n - (u64::from(FIRST) << segment)) as usize)
}

fn bytes<T>(segment: usize) -> usize {
    (FIRST as usize * size_of::<T>()) << segment
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self { segments: [const { AtomicPtr::new(null_mut()) }; SEGMENTS], _owns: PhantomData }
    }

    /// Record `id`, if its segment exists.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<NonNull<T>> {
        let (segment, index) = place(id);
        let start = self.segments.get(segment)?.load(Ordering::Acquire);
        NonNull::new(start).map(|s| {
            // SAFETY: a published segment holds `FIRST << segment` records and `index` is below that.
            unsafe { s.add(index) }
        })
    }

    /// Makes sure that record `id` of this table, called `table`, exists. The caller holds the lock that guards growth.
    pub(crate) fn grow(&self, id: u32, meta: &Meta, table: &'static str) -> Result<NonNull<T>> {
        let (segment, _) = place(id);
        let slot = self.segments.get(segment).ok_or(Error::Full { table })?;
        if slot.load(Ordering::Relaxed).is_null() {
            let bytes = bytes::<T>(segment);
            let start = meta.alloc_lazy(bytes).ok_or(Error::NoMemory { bytes })?;
            slot.store(start.as_ptr().cast(), Ordering::Release);
        }
        self.get(id).ok_or(Error::Full { table })
    }

    /// Bytes resident when the first `used` records have been touched, in whole pages.
    pub(crate) fn resident(&self, used: u32) -> usize {
        let mut left = used as usize;
        let mut sum = 0;
        for (segment, slot) in self.segments.iter().enumerate() {
            if left == 0 || slot.load(Ordering::Relaxed).is_null() {
                break;
            }
            let here = left.min((FIRST as usize) << segment);
            sum += (here * size_of::<T>()).next_multiple_of(PAGE);
            left -= here;
        }
        sum
    }

    /// Gives back the memory behind records that were touched and are not used any more: those from `used` to `touched`,
    /// in whole pages. Bytes.
    ///
    /// # Safety
    /// No such record is read before it is written again, but for what all zeros mean.
    pub(crate) unsafe fn shrink(&self, used: u32, touched: u32, meta: &Meta) -> usize {
        let (mut first, mut given) = (0, 0);
        for (segment, slot) in self.segments.iter().enumerate() {
            let Some(start) = NonNull::new(slot.load(Ordering::Relaxed)) else { break };
            let records = u64::from(FIRST) << segment;
            let page = |id: u32| {
                let here = u64::from(id).saturating_sub(first).min(records) as usize;
                (here * size_of::<T>()).next_multiple_of(PAGE)
            };
            let (from, to) = (page(used), page(touched));
            if from < to {
                // SAFETY: pages of this segment, behind the last record in use.
                unsafe { meta.purge_lazy(start.cast::<u8>().add(from), to - from) };
                given += to - from;
            }
            first += records;
        }
        given
    }

    /// Gives the segments back.
    ///
    /// # Safety
    /// No record is used again.
    pub(crate) unsafe fn release(&self, meta: &Meta) {
        for (segment, slot) in self.segments.iter().enumerate() {
            if let Some(start) = NonNull::new(slot.swap(null_mut(), Ordering::Relaxed)) {
                // SAFETY: allocated by `grow` with this size.
                unsafe { meta.free_lazy(start.cast(), bytes::<T>(segment)) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_dense_and_distinct() {
        let mut expected = (0, 0);
        for id in 0..100_000 {
            assert_eq!(place(id), expected);
            expected.1 += 1;
            if expected.1 == 64 << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(place(u32::MAX).0 <= SEGMENTS);
    }
}
