//! Many objects of a cache in one call (Linux: `kmem_cache_alloc_bulk`), and frees that name the size.
//!
//! What is ready comes one by one, which costs next to nothing; the rest by 64, charged and taken with the CPU's area held
//! once.

use super::Cache;
use super::cache::Record;
use crate::controller::{Controller, Inner};
use crate::error::{Error, Result};
use crate::group::Group;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Objects taken with an area held.
const TOGETHER: usize = 64;

impl Cache {
    /// As many objects as there are places, as [`alloc`](Self::alloc) gives them, or none.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc). Nothing is charged then, and nothing in `places` is to be used.
    pub fn alloc_bulk<'a>(
        &self,
        group: &Group,
        places: &'a mut [MaybeUninit<NonNull<u8>>],
    ) -> Result<&'a mut [NonNull<u8>]> {
        let inner = self.ctl.inner();
        let mut made = 0;
        while made < places.len() {
            if let Some(object) = self.alloc_ready(group) {
                places[made].write(object);
                made += 1;
                continue;
            }
            let end = places.len().min(made + TOGETHER);
            let owner = group.owner_id(&self.ctl);
            let more =
                owner.and_then(|owner| inner.alloc_together(self.record(), owner, &mut places[made..end]));
            match more {
                Ok(()) => made = end,
                Err(error) => {
                    for place in &places[..made] {
                        // SAFETY: written above; the object is nobody's yet.
                        unsafe { self.free(place.assume_init())? };
                    }
                    return Err(error);
                }
            }
        }
        // SAFETY: all places were written; the types are laid out alike.
        Ok(unsafe { &mut *(core::ptr::from_mut(places) as *mut [NonNull<u8>]) })
    }

    /// Frees objects of this cache, whoever owns them. Returns the first mistake; the others are freed all the same.
    ///
    /// # Errors
    /// As [`free`](Self::free).
    ///
    /// # Safety
    /// As [`free`](Self::free), for each.
    pub unsafe fn free_bulk(&self, objects: &[NonNull<u8>]) -> Result<()> {
        // SAFETY: the caller's promise.
        objects.iter().map(|object| unsafe { self.free(*object) }).fold(Ok(()), Result::and)
    }
}

impl Controller {
    /// As [`free`](Self::free) for what [`malloc`](Self::malloc) gave for `size` and `align`, or what
    /// [`realloc`](Self::realloc) made of it: that it is such an object is checked.
    ///
    /// # Errors
    /// As [`free`](Self::free); [`Error::WrongCache`] if the object is not one for that size.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    pub unsafe fn free_sized(&self, object: NonNull<u8>, size: usize, align: usize) -> Result<()> {
        let inner = self.inner();
        match inner.class_record(size, align) {
            Some(record) => {
                if inner.free_ready(object, Some(record)) {
                    return Ok(());
                }
                // SAFETY: the caller's promise.
                unsafe { inner.free_slowly(object, Some(record)) }
            }
            None => {
                let address = object.as_ptr() as usize;
                if self.usable_size(object)? < size || !address.is_multiple_of(align) {
                    return Err(Error::WrongCache { address });
                }
                // SAFETY: the caller's promise.
                unsafe { self.free(object) }
            }
        }
    }
}

impl Inner {
    /// Objects of `record` for `owner` in all places, or in none.
    #[cold]
    fn alloc_together(
        &self,
        record: &Record,
        owner: u32,
        places: &mut [MaybeUninit<NonNull<u8>>],
    ) -> Result<()> {
        self.free_deferred();
        let (mut cpu, owner) = self.pay(owner, record.charge * places.len() as u64)?;
        for at in 0..places.len() {
            match self.take_owned(&cpu, record, owner, None) {
                Ok(object) => {
                    places[at].write(object);
                }
                Err(error) => {
                    self.pay_back(&mut cpu, owner, record.charge * (places.len() - at) as u64);
                    self.see_to(cpu, true);
                    for place in &places[..at] {
                        // SAFETY: written above; the object is nobody's yet.
                        unsafe { self.free_object(place.assume_init(), Some(record))? };
                    }
                    return Err(error);
                }
            }
        }
        self.make_ready(&mut cpu, record, owner);
        self.see_to(cpu, true);
        Ok(())
    }
}
