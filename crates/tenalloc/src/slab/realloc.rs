//! The same object, smaller or larger: where it is if that fits, else elsewhere, with the same owner.

use super::classes::class_of;
use crate::controller::Inner;
use crate::error::{Error, Result};
use crate::group::owner::NOBODY;
use crate::page::PAGE;
use crate::page::chunk::MAX_RUN;
use crate::slab::slab::Slab;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

impl Inner {
    /// Whether `object` can stay where it is for `size` bytes, as its class is the one for that. False: it has to be looked
    /// at more closely.
    #[inline(always)]
    pub(crate) fn stays(&self, object: NonNull<u8>, size: usize, align: usize) -> bool {
        self.class_ready(size, align).is_some_and(|id| self.is_under(object, id))
    }

    /// See [`Controller::realloc`](crate::Controller::realloc). `zeroed`: what the object grows by is zero, if what it
    /// has beyond its size was zero.
    ///
    /// # Safety
    /// The object is the caller's, and nobody uses it meanwhile.
    pub(crate) unsafe fn realloc(
        &self,
        object: NonNull<u8>,
        size: usize,
        align: usize,
        zeroed: bool,
    ) -> Result<NonNull<u8>> {
        let address = object.as_ptr() as usize;
        let (slab, index) = self.locate(address)?;
        // SAFETY: `locate` found a run in use; a slab's cache outlives it.
        let (s, record) = unsafe { (slab.as_ref(), slab.as_ref().cache.as_ref()) };
        let owner = s.owners.get(index).ok_or(Error::DoubleFree { address })?;
        if record.is_some_and(|record| !self.classes.has(record)) {
            return Err(Error::WrongCache { address });
        }
        if size == 0 || size > isize::MAX as usize / 2 {
            return Err(Error::BadSize { size });
        }
        if !align.is_power_of_two() || align > 1 << 30 {
            return Err(Error::BadAlign { align });
        }
        let had = self.usable_size(object)?;
        let class = class_of(size, align).filter(|_| align <= PAGE);
        let fits = address.is_multiple_of(align)
            && match (class, record) {
                (Some(class), Some(record)) => self.classes.is(class, record),
                (None, None) => size.div_ceil(PAGE) == s.pages(),
                _ => false,
            };
        if fits {
            if let Some(record) = record.filter(|record| record.is_debug()) {
                record.request(object.as_ptr(), size);
            }
            let has = self.usable_size(object)?;
            // Without red zones nobody knows how much was asked for before: what is beyond `size` is cleared now, and
            // so is zero when it is needed.
            let from = if has > had { had } else { size };
            if zeroed && has > from {
                // SAFETY: inside the object, beyond what its user has written to or keeps.
                unsafe { object.add(from).write_bytes(0, has - from) };
            }
            return Ok(object);
        }
        if record.is_none() && size > PAGE {
            // SAFETY: the caller's promise.
            let resized = unsafe { self.resize_huge(slab, size, align, owner)? };
            if let Some(new) = resized {
                let has = size.next_multiple_of(PAGE);
                if zeroed {
                    // SAFETY: inside the object, beyond what its user keeps; what it grew by is zero.
                    unsafe {
                        new.add(size.min(had)).write_bytes(0, has.min(had).saturating_sub(size.min(had)))
                    };
                }
                return Ok(new);
            }
        }
        let new = self.malloc(size, align, owner)?;
        let kept = had.min(size);
        let has = self.usable_size(new)?;
        // SAFETY: both are live, different, and have so many bytes.
        unsafe {
            new.copy_from_nonoverlapping(object, kept);
            if zeroed {
                new.add(kept).write_bytes(0, has - kept);
            }
            match self.free_object(object, None) {
                // It was freed; that somebody wrote beyond it is counted.
                Ok(()) | Err(Error::Overwritten { .. }) => Ok(new),
                Err(e) => {
                    self.free_object(new, None)?;
                    Err(e)
                }
            }
        }
    }

    /// An object with a mapping of its own with `size` bytes instead, if the source can do that without copying. Only
    /// the difference is charged.
    ///
    /// # Safety
    /// As for [`realloc`](Self::realloc).
    unsafe fn resize_huge(
        &self,
        slab: NonNull<Slab>,
        size: usize,
        align: usize,
        owner: u32,
    ) -> Result<Option<NonNull<u8>>> {
        // SAFETY: the caller's promise.
        let (base, had) = unsafe { (slab.as_ref().base() as usize, slab.as_ref().pages()) };
        let pages = u32::try_from(size.div_ceil(PAGE)).map_err(|_| Error::BadSize { size })? as usize;
        if !self.chunks.is_huge(base) || pages <= MAX_RUN {
            return Ok(None);
        }
        let more = (pages.saturating_sub(had) * PAGE) as u64;
        let less = (had.saturating_sub(pages) * PAGE) as u64;
        let accounted = owner != NOBODY;
        if accounted && more > 0 {
            let (cpu, id) = self.charge(owner, more)?;
            if id != owner {
                // Forwarded: another group pays, but the object gives all back in its owner's name.
                self.owners.hand_back(owner, id, more);
            }
            self.see_to(cpu, true);
        }
        // SAFETY: the caller's promise.
        let moved = unsafe { self.chunks.resize_huge(slab, pages, align) };
        let back = if moved.is_some() { less } else { more };
        if accounted && back > 0 {
            let mut cpu = self.lock_cpu();
            self.uncharge(&mut cpu, owner, back);
            self.see_to(cpu, true);
        }
        let Some(moved) = moved else { return Ok(None) };
        self.large_bytes.fetch_add(more.wrapping_sub(less), Relaxed);
        // SAFETY: the descriptor of the object, which the caller has.
        Ok(NonNull::new(unsafe { moved.as_ref() }.base()))
    }
}
