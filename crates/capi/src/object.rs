//! Objects of any size, and what is found from an address alone.

use crate::error::{Failure, address, call, figure, guard};
use crate::handle::{Out, controller, given, open, string, ten_controller, ten_group, ten_owner};
use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use tenalloc::{Error, Group};

/// What C expects of `malloc`: `alignof(max_align_t)`.
const ALIGN: usize = 16;

/// The object at an address of C.
fn object(address: *mut c_void) -> Result<NonNull<u8>, Failure> {
    NonNull::new(address.cast()).ok_or(Failure::Null("object"))
}

fn malloc(group: &Group, align: usize, size: usize) -> Result<NonNull<u8>, Failure> {
    Ok(group.controller().malloc(group, size.max(1), align)?)
}

/// `size` bytes of a group.
#[unsafe(no_mangle)]
pub extern "C" fn ten_malloc(group: Option<&ten_group>, size: usize) -> *mut c_void {
    // An object of 0 bytes is made the long way.
    if let Some(group) = group
        && let Some(object) = group.0.controller().malloc_ready(&group.0, size, ALIGN)
    {
        return object.as_ptr().cast();
    }
    malloc_slowly(group, size)
}

#[cold]
#[inline(never)]
extern "C" fn malloc_slowly(group: Option<&ten_group>, size: usize) -> *mut c_void {
    address(|| malloc(&given(group, "group")?.0, ALIGN, size))
}

/// `size` bytes of the thread's group.
#[unsafe(no_mangle)]
pub extern "C" fn ten_malloc_here(ctl: Option<&ten_controller>, size: usize) -> *mut c_void {
    address(|| Ok(controller(ctl)?.malloc_here(size.max(1), ALIGN)?))
}

/// `size` bytes of a group, aligned.
#[unsafe(no_mangle)]
pub extern "C" fn ten_aligned_alloc(group: Option<&ten_group>, align: usize, size: usize) -> *mut c_void {
    address(|| malloc(&given(group, "group")?.0, align, size))
}

/// `number` times `size` zeros of a group.
#[unsafe(no_mangle)]
pub extern "C" fn ten_calloc(group: Option<&ten_group>, number: usize, size: usize) -> *mut c_void {
    address(|| {
        let group = &given(group, "group")?.0;
        let bytes = number.checked_mul(size).ok_or(Error::BadSize { size: usize::MAX })?;
        Ok(group.controller().malloc_zeroed(group, bytes.max(1), ALIGN)?)
    })
}

/// A copy of a string.
///
/// # Safety
/// `text` is NULL or ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_strdup(group: Option<&ten_group>, text: *const c_char) -> *mut c_char {
    address(|| {
        // SAFETY: the caller's promise.
        let length = match unsafe { string(text, "text") } {
            Ok(text) => text.len(),
            // Any bytes will do here.
            // SAFETY: the caller's promise.
            Err(Failure::Value(_)) => unsafe { libc::strlen(text) },
            Err(null) => return Err(null),
        };
        let copy = malloc(&given(group, "group")?.0, ALIGN, length + 1)?;
        // SAFETY: the copy is new and large enough, the NUL too.
        unsafe { copy.as_ptr().copy_from_nonoverlapping(text.cast(), length + 1) };
        Ok(copy)
    })
    .cast()
}

/// The same object with another size.
///
/// # Safety
/// Nobody else uses the object meanwhile, and nobody its old address afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_realloc(
    ctl: Option<&ten_controller>,
    at: *mut c_void,
    size: usize,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    address(|| Ok(unsafe { controller(ctl)?.realloc(object(at)?, size.max(1), ALIGN) }?))
}

/// The same, aligned.
///
/// # Safety
/// As for [`ten_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_realloc_aligned(
    ctl: Option<&ten_controller>,
    at: *mut c_void,
    align: usize,
    size: usize,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    address(|| Ok(unsafe { controller(ctl)?.realloc(object(at)?, size.max(1), align) }?))
}

/// The same for an object made with `ten_calloc`: what it grows by is zero.
///
/// # Safety
/// As for [`ten_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_realloc_zeroed(
    ctl: Option<&ten_controller>,
    at: *mut c_void,
    size: usize,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    address(|| Ok(unsafe { controller(ctl)?.realloc_zeroed(object(at)?, size.max(1), ALIGN) }?))
}

/// Frees any object; NULL is none.
///
/// # Safety
/// Nobody uses the object any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_free(ctl: Option<&ten_controller>, at: *mut c_void) -> c_int {
    let Some(object) = NonNull::new(at.cast()) else { return 0 };
    // SAFETY: the caller's promise.
    if controller(ctl).is_ok_and(|ctl| unsafe { ctl.free_ready(object) }) {
        return 0;
    }
    // SAFETY: as above.
    unsafe { free_slowly(ctl, object) }
}

/// # Safety
/// As for [`ten_free`].
#[cold]
#[inline(never)]
unsafe extern "C" fn free_slowly(ctl: Option<&ten_controller>, object: NonNull<u8>) -> c_int {
    // SAFETY: the caller's promise.
    call(|| Ok(unsafe { controller(ctl)?.free(object) }?))
}

/// Frees any object without waiting, for signal handlers.
///
/// # Safety
/// As for [`ten_free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_free_nolock(ctl: Option<&ten_controller>, at: *mut c_void) -> c_int {
    // No last error: its place may not be there yet in a signal handler.
    // SAFETY: the caller's promise.
    match guard(|| Ok(unsafe { controller(ctl)?.free_nolock(object(at)?) }?)) {
        Ok(()) => 0,
        Err(failure) => failure.code(),
    }
}

/// Bytes that may be used of an object; 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn ten_usable_size(ctl: Option<&ten_controller>, at: *mut c_void) -> usize {
    figure(0, || Ok(controller(ctl)?.usable_size(object(at)?)?))
}

/// The group that a live object is charged to now.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_of_object(
    ctl: Option<&ten_controller>,
    at: *mut c_void,
    out: Out<'_, ten_group>,
) -> c_int {
    call(|| open(out, || Ok(controller(ctl)?.group_of_object(object(at)?)?.ok_or(Error::NotFound)?)))
}

/// The owner of a live object.
#[unsafe(no_mangle)]
pub extern "C" fn ten_owner_of_object(
    ctl: Option<&ten_controller>,
    at: *mut c_void,
    out: Out<'_, ten_owner>,
) -> c_int {
    call(|| open(out, || Ok(controller(ctl)?.owner_of_object(object(at)?)?.ok_or(Error::NotFound)?)))
}

/// The pages that a live object shares with others.
#[unsafe(no_mangle)]
pub extern "C" fn ten_slab_of_object(
    ctl: Option<&ten_controller>,
    at: *mut c_void,
    start: Option<&mut MaybeUninit<*mut c_void>>,
    bytes: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    call(|| {
        let (first, length) = controller(ctl)?.slab_of(object(at)?)?;
        start.ok_or(Failure::Null("start"))?.write(first as *mut c_void);
        bytes.ok_or(Failure::Null("bytes"))?.write(length);
        Ok(())
    })
}

/// Whole pages that nobody owns or pays for.
#[unsafe(no_mangle)]
pub extern "C" fn ten_pages(ctl: Option<&ten_controller>, count: usize, node: u32) -> *mut c_void {
    address(|| {
        let node = u8::try_from(node).map_err(|_| Failure::Value("node"))?;
        Ok(controller(ctl)?.pages(count, node)?)
    })
}

/// Gives them back.
///
/// # Safety
/// Nobody uses the pages any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_free_pages(ctl: Option<&ten_controller>, pages: *mut c_void) -> c_int {
    call(|| {
        let pages = NonNull::new(pages.cast()).ok_or(Failure::Null("pages"))?;
        // SAFETY: the caller's promise.
        Ok(unsafe { controller(ctl)?.free_pages(pages) }?)
    })
}
