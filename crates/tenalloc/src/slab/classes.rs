//! Size classes: any size by way of a few caches, and page runs above them.
//!
//! Four classes for each doubling from 64 bytes on, eight from 512 on, steps of 8 and 16 below: at most a fifth of a slot
//! is unused above 32 bytes, and a ninth above 512, where a class more costs little beside its objects. Each class is a
//! cache made on first use.

use super::cache::Record;
use super::config::CacheConfig;
use super::ready::NONE;
use crate::controller::Inner;
use crate::error::{Error, Result};
use crate::page::PAGE;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

const SIZES: [u16; 52] = [
    8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640, 704,
    768, 832, 896, 960, 1024, 1152, 1280, 1408, 1536, 1664, 1792, 1920, 2048, 2304, 2560, 2816, 3072, 3328,
    3584, 3840, 4096, 4608, 5120, 5632, 6144, 6656, 7168, 7680, 8192,
];

pub(crate) struct Classes {
    records: [AtomicPtr<Record>; SIZES.len()],
    /// The records' ready ids, once they are made.
    ready: [AtomicU32; SIZES.len()],
}

/// Sizes by steps of 8 up to the largest class, for alignments below 16 and of 16: the class of each.
static BY_SIZE: [[u8; STEPS]; 2] = [by_size(1), by_size(16)];
const STEPS: usize = SIZES[SIZES.len() - 1] as usize / 8;

const fn by_size(align: u16) -> [u8; STEPS] {
    let mut classes = [0; STEPS];
    let mut step = 0;
    while step < STEPS {
        let mut class = 0;
        while (SIZES[class] as usize) < (step + 1) * 8 || !SIZES[class].is_multiple_of(align) {
            class += 1;
        }
        classes[step] = class as u8;
        step += 1;
    }
    classes
}

/// The smallest class for `size` whose slots are aligned to `align`, if any.
pub(super) fn class_of(size: usize, align: usize) -> Option<usize> {
    let first = SIZES.partition_point(|s| usize::from(*s) < size);
    (first..SIZES.len()).find(|c| usize::from(SIZES[*c]).is_multiple_of(align))
}

impl Classes {
    pub(crate) const fn new() -> Self {
        Self {
            records: [const { AtomicPtr::new(core::ptr::null_mut()) }; SIZES.len()],
            ready: [const { AtomicU32::new(NONE) }; SIZES.len()],
        }
    }

    /// Whether a cache is this class.
    pub(super) fn is(&self, class: usize, record: &Record) -> bool {
        core::ptr::eq(self.records[class].load(Acquire), record)
    }

    /// Whether a cache is one of the classes.
    pub(crate) fn has(&self, record: &Record) -> bool {
        self.records.iter().any(|class| core::ptr::eq(class.load(Acquire), record))
    }
}

impl Inner {
    /// The ready id of the class for `size` bytes, aligned to `align` of 16 at most.
    #[inline(always)]
    pub(super) fn class_ready(&self, size: usize, align: usize) -> Option<u32> {
        let by_size = BY_SIZE.get(align / 16).filter(|_| align.is_power_of_two())?;
        let class = *by_size.get(size.wrapping_sub(1) / 8)?;
        Some(self.classes.ready[usize::from(class)].load(Relaxed))
    }

    /// A ready object of the class for `size` bytes, aligned to `align` of 16 at most.
    #[inline(always)]
    pub(crate) fn malloc_ready(&self, size: usize, align: usize, owner: u32) -> Option<NonNull<u8>> {
        self.alloc_ready(self.class_ready(size, align)?, owner)
    }

    /// `size` bytes for `owner`, aligned to `align`.
    #[cold]
    pub(crate) fn malloc(&self, size: usize, align: usize, owner: u32) -> Result<NonNull<u8>> {
        if size == 0 || size > isize::MAX as usize / 2 {
            return Err(Error::BadSize { size });
        }
        if !align.is_power_of_two() || align > 1 << 30 {
            return Err(Error::BadAlign { align });
        }
        match class_of(size, align) {
            Some(class) if align <= PAGE => {
                let record = self.class(class)?;
                let object = self.alloc_object(record, owner, None)?;
                if record.is_debug() {
                    record.request(object.as_ptr(), size);
                }
                Ok(object)
            }
            _ => self.alloc_large(size, align, owner),
        }
    }

    /// The cache that `malloc` uses for `size` bytes aligned to `align`; none for whole pages, or before its first use.
    pub(super) fn class_record(&self, size: usize, align: usize) -> Option<&Record> {
        let class = class_of(size, align).filter(|_| size > 0 && align <= PAGE)?;
        // SAFETY: classes stay as long as the controller.
        unsafe { self.classes.records[class].load(Acquire).as_ref() }
    }

    fn class(&self, class: usize) -> Result<&Record> {
        let slot = &self.classes.records[class];
        let record = match NonNull::new(slot.load(Acquire)) {
            Some(record) => record,
            None => self.new_class(class)?,
        };
        // SAFETY: classes stay as long as the controller.
        Ok(unsafe { record.as_ref() })
    }

    #[cold]
    fn new_class(&self, class: usize) -> Result<NonNull<Record>> {
        let size = usize::from(SIZES[class]);
        let mut name = [0u8; 16];
        let mut at = name.len();
        let mut left = size;
        while left > 0 {
            at -= 1;
            name[at] = b'0' + (left % 10) as u8;
            left /= 10;
        }
        at -= 5;
        name[at..at + 5].copy_from_slice(b"size-");
        let name = core::str::from_utf8(&name[at..]).map_err(|_| Error::BadName)?;
        let record = self.add_cache(&CacheConfig::new(name, size), Some(&self.classes.records[class]))?;
        // SAFETY: classes stay as long as the controller.
        self.classes.ready[class].store(unsafe { record.as_ref() }.ready, Relaxed);
        Ok(record)
    }

    /// Bytes that can be used of what `malloc` gave for an address: with red zones no more than was asked for.
    pub(crate) fn usable_size(&self, object: NonNull<u8>) -> Result<usize> {
        let (slab, _) = self.locate(object.as_ptr() as usize)?;
        // SAFETY: `locate` found a run in use; a slab's cache outlives it.
        let (s, record) = unsafe { (slab.as_ref(), slab.as_ref().cache.as_ref()) };
        Ok(match record {
            Some(record) if record.is_debug() => record.requested(object.as_ptr()),
            Some(record) => record.usable(),
            None => s.bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGEST: usize = SIZES[SIZES.len() - 1] as usize;

    #[test]
    fn every_size_has_the_smallest_class_that_is_aligned() {
        for align in [1, 8, 16, 64, 1024, 4096] {
            for size in 1..=LARGEST {
                let class = class_of(size, align).map(|c| usize::from(SIZES[c]));
                let plain = SIZES.iter().map(|s| usize::from(*s)).find(|s| *s >= size && s % align == 0);
                assert_eq!(class, plain);
            }
        }
        assert_eq!(class_of(LARGEST + 1, 8), None);
        for (align, by_size) in [(1, &BY_SIZE[0]), (8, &BY_SIZE[0]), (16, &BY_SIZE[1])] {
            for size in 1..=LARGEST {
                assert_eq!(Some(usize::from(by_size[(size - 1) / 8])), class_of(size, align));
            }
        }
        assert!(SIZES.is_sorted());
    }
}
