//! The names that C programs call, and what C, POSIX and glibc say about their arguments.
//!
//! Those that may need to know their caller (a group for each library) are two instructions that pass their return
//! address on.

use crate::serve::{allocate, free as give_back, resize, usable};
use core::arch::naked_asm;
use core::ffi::{c_int, c_void};
use core::ptr::{NonNull, null_mut};

/// What malloc aligns to: enough for every type of C.
pub(crate) const ALIGN: usize = 16;
const PAGE: usize = tenalloc::PAGE;

fn failed(error: c_int) -> *mut c_void {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = error };
    null_mut()
}

/// Exports `$name`, which passes its arguments and, in the register after them, its return address to `$to`.
macro_rules! with_caller {
    ($($name:ident = $to:ident($($arg:ident: $type:ty),*) in $register:literal;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`: see malloc(3).")]
        ///
        /// # Safety
        /// As in C.
        #[unsafe(naked)]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C" fn $name($($arg: $type),*) -> *mut c_void {
            naked_asm!(concat!("mov ", $register, ", qword ptr [rsp]"), "jmp {to}", to = sym $to)
        }
    )*};
}

with_caller! {
    malloc = malloc_from(size: usize) in "rsi";
    calloc = calloc_from(number: usize, size: usize) in "rdx";
    realloc = realloc_from(object: *mut c_void, size: usize) in "rdx";
    reallocarray = reallocarray_from(object: *mut c_void, number: usize, size: usize) in "rcx";
    memalign = memalign_from(align: usize, size: usize) in "rdx";
    aligned_alloc = aligned_from(align: usize, size: usize) in "rdx";
    valloc = valloc_from(size: usize) in "rsi";
    pvalloc = pvalloc_from(size: usize) in "rsi";
    // The names that glibc has for the same, for who calls them.
    __libc_malloc = malloc_from(size: usize) in "rsi";
    __libc_calloc = calloc_from(number: usize, size: usize) in "rdx";
    __libc_realloc = realloc_from(object: *mut c_void, size: usize) in "rdx";
    __libc_memalign = memalign_from(align: usize, size: usize) in "rdx";
    __libc_valloc = valloc_from(size: usize) in "rsi";
    __libc_pvalloc = pvalloc_from(size: usize) in "rsi";
}

extern "C" fn malloc_from(size: usize, caller: usize) -> *mut c_void {
    allocate(size, ALIGN, false, caller).cast()
}

extern "C" fn calloc_from(number: usize, size: usize, caller: usize) -> *mut c_void {
    match number.checked_mul(size) {
        Some(bytes) => allocate(bytes, ALIGN, true, caller).cast(),
        None => failed(libc::ENOMEM),
    }
}

extern "C" fn realloc_from(object: *mut c_void, size: usize, caller: usize) -> *mut c_void {
    match NonNull::new(object.cast::<u8>()) {
        None => allocate(size, ALIGN, false, caller).cast(),
        // As glibc does.
        Some(_) if size == 0 => {
            give_back(object.cast());
            null_mut()
        }
        Some(object) => resize(object, size, caller).cast(),
    }
}

extern "C" fn reallocarray_from(
    object: *mut c_void,
    number: usize,
    size: usize,
    caller: usize,
) -> *mut c_void {
    match number.checked_mul(size) {
        Some(bytes) => realloc_from(object, bytes, caller),
        None => failed(libc::ENOMEM),
    }
}

/// An alignment that is no power of two is rounded up to the next, as in glibc.
extern "C" fn memalign_from(align: usize, size: usize, caller: usize) -> *mut c_void {
    match align.checked_next_power_of_two() {
        Some(align) => allocate(size, align.max(ALIGN), false, caller).cast(),
        None => failed(libc::EINVAL),
    }
}

extern "C" fn aligned_from(align: usize, size: usize, caller: usize) -> *mut c_void {
    if align.is_power_of_two() { memalign_from(align, size, caller) } else { failed(libc::EINVAL) }
}

extern "C" fn valloc_from(size: usize, caller: usize) -> *mut c_void {
    memalign_from(PAGE, size, caller)
}

extern "C" fn pvalloc_from(size: usize, caller: usize) -> *mut c_void {
    match size.checked_next_multiple_of(PAGE) {
        Some(bytes) => memalign_from(PAGE, bytes.max(PAGE), caller),
        None => failed(libc::ENOMEM),
    }
}

/// `posix_memalign`: see malloc(3).
///
/// # Safety
/// As in C.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn posix_memalign(to: *mut *mut c_void, align: usize, size: usize) -> c_int {
    naked_asm!("mov rcx, qword ptr [rsp]", "jmp {to}", to = sym posix_memalign_from)
}

extern "C" fn posix_memalign_from(to: *mut *mut c_void, align: usize, size: usize, caller: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return libc::EINVAL;
    }
    // SAFETY: the thread's own errno, which this function leaves alone; the caller's pointer.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let block = allocate(size, align.max(ALIGN), false, caller);
        *errno = before;
        if block.is_null() {
            return libc::ENOMEM;
        }
        *to = block.cast();
    }
    0
}

/// Exports names that give an object back; what else they are told is not needed.
macro_rules! gives_back {
    ($($name:ident($object:ident $(, $arg:ident: $type:ty)*);)*) => {$(
        #[doc = concat!("`", stringify!($name), "`: see free(3).")]
        ///
        /// # Safety
        /// As in C.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C" fn $name($object: *mut c_void $(, $arg: $type)*) {
            $(let _ = $arg;)*
            give_back($object.cast());
        }
    )*};
}

gives_back! {
    free(object);
    cfree(object);
    free_sized(object, size: usize);
    free_aligned_sized(object, align: usize, size: usize);
    __libc_free(object);
}

/// `malloc_usable_size`: see malloc_usable_size(3). 0 for memory of another malloc, which is told.
///
/// # Safety
/// As in C.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn malloc_usable_size(object: *mut c_void) -> usize {
    NonNull::new(object.cast()).map_or(0, |object| usable(object).unwrap_or(0))
}
