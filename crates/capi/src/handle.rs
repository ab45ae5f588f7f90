//! Memory for handles, and how the library's own are lent to callbacks.
//!
//! A handle that C gets lies in memory of `malloc`, which may fail without ending the process. A handle that a callback
//! gets is the library's own, seen as C's: the types are transparent, so no copy is made.

use crate::error::Failure;
use core::ffi::{CStr, c_char};
use core::mem::MaybeUninit;
use tenalloc::{Cache, Controller, Error, Group, ListLru, Owner};

/// A type of C that is one of the library's, seen through a pointer.
///
/// # Safety
/// `Self` is `repr(transparent)` over `Inside`.
pub unsafe trait Transparent: Sized {
    /// What it is.
    type Inside;

    /// Lends the library's own.
    fn lend(inside: &Self::Inside) -> &Self {
        // SAFETY: the trait's promise.
        unsafe { &*core::ptr::from_ref(inside).cast::<Self>() }
    }
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident $inside:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        #[repr(transparent)]
        pub struct $name(pub(crate) $inside);

        // SAFETY: transparent, as the attribute says.
        unsafe impl Transparent for $name {
            type Inside = $inside;
        }
    )*};
}

handles! {
    /// A controller.
    ten_controller Controller;
    /// A group.
    ten_group Group;
    /// What an object knows of its group.
    ten_owner Owner;
    /// A cache.
    ten_cache Cache;
    /// A family of LRU lists.
    ten_lru ListLru;
    /// A free-standing shrinker's place.
    ten_registration tenalloc::Registration;
    /// A reader of a group's peak.
    ten_peak tenalloc::PeakReader;
    /// A thread that reclaims.
    ten_background tenalloc::Background;
}

/// Where a new handle goes: a variable of C that need not be initialised.
pub type Out<'a, T> = Option<&'a mut MaybeUninit<*mut T>>;

/// Makes a handle and writes it to `out`; writes NULL if it cannot be made.
pub fn open<T: Transparent>(
    out: Out<'_, T>,
    make: impl FnOnce() -> Result<T::Inside, Failure>,
) -> Result<(), Failure> {
    let out = out.ok_or(Failure::Null("out"))?;
    out.write(core::ptr::null_mut());
    let inside = make()?;
    let bytes = size_of::<T>();
    // SAFETY: no preconditions.
    let place = unsafe { libc::malloc(bytes) }.cast::<T::Inside>();
    if place.is_null() {
        return Err(Error::NoMemory { bytes }.into());
    }
    // SAFETY: fresh, large enough, aligned for two words, which all handles are.
    unsafe { place.write(inside) };
    out.write(place.cast());
    Ok(())
}

/// Ends a handle; NULL is none.
///
/// # Safety
/// The handle was made by [`open`] and is not used again.
pub unsafe fn close<T: Transparent>(handle: *mut T) {
    if !handle.is_null() {
        crate::error::call(|| {
            // SAFETY: the caller's promise.
            unsafe { handle.drop_in_place() };
            Ok(())
        });
        // SAFETY: from `malloc`, see `open`.
        unsafe { libc::free(handle.cast()) };
    }
}

/// What a parameter points to.
#[inline(always)]
pub fn given<'a, T>(parameter: Option<&'a T>, name: &'static str) -> Result<&'a T, Failure> {
    parameter.ok_or(Failure::Null(name))
}

/// The controller of a parameter: NULL is the process's own.
#[inline(always)]
pub fn controller(parameter: Option<&ten_controller>) -> Result<&Controller, Failure> {
    match parameter {
        Some(controller) => Ok(&controller.0),
        None => Ok(Controller::global()?),
    }
}

/// A string of C.
///
/// # Safety
/// It is NULL or ends with NUL, and stays as it is for `'a`.
pub unsafe fn string<'a>(text: *const c_char, name: &'static str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::Null(name));
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| Failure::Value(name))
}

/// Copies as much of a struct as C knows of it: a newer library has more fields at its end.
///
/// # Safety
/// `out` is NULL or has `size` bytes.
pub unsafe fn fill<T: Copy>(out: *mut T, size: usize, value: T) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Failure::Null("out"));
    }
    let known = size.min(size_of::<T>());
    // SAFETY: the caller's promise; what C knows beyond this library's fields is zero.
    unsafe {
        out.cast::<u8>().copy_from_nonoverlapping((&raw const value).cast(), known);
        out.cast::<u8>().add(known).write_bytes(0, size - known);
    }
    Ok(())
}
