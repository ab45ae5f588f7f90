//! Many objects in one call, and frees that name the size.
//!
//! Apart from [`crate::cache`] and [`crate::object`], whose calls take one object: these read and write arrays of C.

use crate::error::{Failure, call};
use crate::handle::{controller, given, ten_cache, ten_controller, ten_group};
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};

/// What C expects of `malloc`: `alignof(max_align_t)`.
const ALIGN: usize = 16;

/// As many objects of a group as there are places, or none.
///
/// # Safety
/// `objects` has `number` places; it may be NULL if that is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_cache_alloc_bulk(
    cache: Option<&ten_cache>,
    group: Option<&ten_group>,
    number: usize,
    objects: *mut *mut c_void,
) -> c_int {
    call(|| {
        let (cache, group) = (&given(cache, "cache")?.0, &given(group, "group")?.0);
        if number == 0 {
            return Ok(());
        }
        let places = NonNull::new(objects).ok_or(Failure::Null("objects"))?;
        // SAFETY: the caller's promise; a place of C and one of Rust hold the same, an address.
        let places = unsafe {
            core::slice::from_raw_parts_mut(places.cast::<MaybeUninit<NonNull<u8>>>().as_ptr(), number)
        };
        if let Err(error) = cache.alloc_bulk(group, places) {
            // What stood there has been freed again: nobody shall take it for an object.
            // SAFETY: the caller's promise.
            (0..number).for_each(|i| unsafe { objects.add(i).write(null_mut()) });
            return Err(error.into());
        }
        Ok(())
    })
}

/// Frees objects of this cache; those that are NULL are none.
///
/// # Safety
/// `objects` has `number` places; it may be NULL if that is 0. Nobody uses the objects any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_cache_free_bulk(
    cache: Option<&ten_cache>,
    number: usize,
    objects: *const *mut c_void,
) -> c_int {
    call(|| {
        let cache = &given(cache, "cache")?.0;
        if number == 0 {
            return Ok(());
        }
        let objects = NonNull::new(objects.cast_mut()).ok_or(Failure::Null("objects"))?;
        // SAFETY: the caller's promise.
        let objects =
            unsafe { core::slice::from_raw_parts(objects.cast::<Option<NonNull<u8>>>().as_ptr(), number) };
        let mut first = Ok(());
        for object in objects.iter().flatten() {
            // SAFETY: the caller's promise.
            first = first.and(unsafe { cache.free(*object) });
        }
        Ok(first?)
    })
}

/// Frees an object that was made with that size; NULL is none.
///
/// # Safety
/// Nobody uses the object any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_free_sized(
    ctl: Option<&ten_controller>,
    object: *mut c_void,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { ten_free_aligned_sized(ctl, object, ALIGN, size) }
}

/// Frees an object that was made with that alignment and size; NULL is none.
///
/// # Safety
/// Nobody uses the object any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_free_aligned_sized(
    ctl: Option<&ten_controller>,
    object: *mut c_void,
    align: usize,
    size: usize,
) -> c_int {
    let Some(object) = NonNull::new(object.cast()) else { return 0 };
    call(|| {
        if !align.is_power_of_two() {
            return Err(Failure::Value("align"));
        }
        // SAFETY: the caller's promise.
        Ok(unsafe { controller(ctl)?.free_sized(object, size.max(1), align) }?)
    })
}
