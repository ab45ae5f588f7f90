//! A call, once its arguments are plain.
//!
//! The quick way: the thread knows who pays, and the controller does the rest. The careful way, where the thread does
//! not know it yet, where it depends on the caller (a group for each library), where a signal may come that asks for a
//! report, and in the windows in which nothing works as usual.

use crate::settings::Grouping;
use crate::thread::{OPEN, Thread, me};
use crate::{early, fork, library, report, start, tell};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU32, Ordering::*, compiler_fence};
use tenalloc::{Error, Group};

/// What `realloc` and `malloc_usable_size` could not do.
pub(crate) struct Foreign;

/// Runs `f`, which a signal handler must not interrupt with a report; one that was asked for meanwhile follows.
pub(crate) fn undisturbed<R>(me: &Thread, f: impl FnOnce() -> R) -> R {
    me.inside.store(me.inside.load(Relaxed) + 1, Relaxed);
    compiler_fence(SeqCst);
    let result = f();
    compiler_fence(SeqCst);
    let left = me.inside.load(Relaxed) - 1;
    me.inside.store(left, Relaxed);
    if left == 0 {
        report::write_if_asked(me);
    }
    result
}

/// Who pays for a call from `caller`. `None`: nothing works yet but `early`.
#[cold]
fn payer(me: &Thread, caller: usize) -> Option<&'static Group> {
    if me.window.load(Relaxed) != OPEN || !start::ready() {
        return None;
    }
    let group = match start::settings().grouping {
        Grouping::Process => start::process(),
        Grouping::Thread => me.own_group(),
        Grouping::Library => library::group_of(caller),
    };
    if start::is_quick() {
        me.group.set(group);
    }
    Some(group)
}

fn no_memory(_: Error) -> *mut u8 {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    null_mut()
}

fn from(group: &Group, size: usize, align: usize, zeroed: bool) -> *mut u8 {
    let ctl = start::control();
    let got = if zeroed { ctl.malloc_zeroed(group, size, align) } else { ctl.malloc(group, size, align) };
    got.map_or_else(no_memory, NonNull::as_ptr)
}

/// `size` bytes, aligned to `align`, a power of two of at least 16; null with `errno` set where there is no memory.
#[inline(always)]
pub(crate) fn allocate(size: usize, align: usize, zeroed: bool, caller: usize) -> *mut u8 {
    let (me, size) = (me(), size.max(1));
    // SAFETY: what a thread has there is in place until it takes it away.
    match unsafe { me.group.get().as_ref() } {
        Some(group) => from(group, size, align, zeroed),
        None => allocate_carefully(me, size, align, zeroed, caller),
    }
}

#[cold]
fn allocate_carefully(me: &Thread, size: usize, align: usize, zeroed: bool, caller: usize) -> *mut u8 {
    let _aside = fork::aside(me);
    undisturbed(me, || match payer(me, caller) {
        Some(group) => from(group, size, align, zeroed),
        None => {
            let block = early::allocate(size, align);
            if block.is_null() { no_memory(Error::NoMemory { bytes: size }) } else { block }
        }
    })
}

/// Gives memory back; null is nothing. `errno` stays as it is.
#[inline(always)]
pub(crate) fn free(object: *mut u8) {
    let Some(object) = NonNull::new(object) else { return };
    let me = me();
    if me.group.get().is_null() {
        return free_carefully(me, object);
    }
    // SAFETY: the thread's own errno; the caller gives the object away.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let result = start::control().free(object);
        *errno = before;
        if let Err(e) = result {
            refused("free", object, &e);
        }
    }
}

#[cold]
fn free_carefully(me: &Thread, object: NonNull<u8>) {
    if early::size(object.as_ptr()).is_some() {
        return;
    }
    // SAFETY: the thread's own errno.
    let errno = unsafe { *libc::__errno_location() };
    let _aside = fork::aside(me);
    undisturbed(me, || {
        let result = match payer(me, 0) {
            // SAFETY: the caller gives the object away.
            Some(_) => unsafe { start::control().free(object) },
            None => Err(Error::Foreign { address: object.as_ptr() as usize }),
        };
        if let Err(e) = result {
            refused("free", object, &e);
        }
    });
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// The object with `size` bytes instead, not 0. Null with `errno` set: it is as it was.
pub(crate) fn resize(object: NonNull<u8>, size: usize, caller: usize) -> *mut u8 {
    let me = me();
    if me.group.get().is_null() || early::size(object.as_ptr()).is_some() {
        return resize_carefully(me, object, size, caller);
    }
    // SAFETY: the caller gives the object away, if this succeeds.
    resized(object, unsafe { start::control().realloc(object, size, 16) })
}

fn resized(object: NonNull<u8>, result: Result<NonNull<u8>, Error>) -> *mut u8 {
    match result {
        Ok(new) => new.as_ptr(),
        Err(e) => {
            if matches!(e, Error::Foreign { .. } | Error::Interior { .. } | Error::DoubleFree { .. }) {
                refused("realloc", object, &e);
            }
            no_memory(e)
        }
    }
}

#[cold]
fn resize_carefully(me: &Thread, object: NonNull<u8>, size: usize, caller: usize) -> *mut u8 {
    let _aside = fork::aside(me);
    undisturbed(me, || {
        let group = payer(me, caller);
        if let Some(had) = early::size(object.as_ptr()) {
            let new = match group {
                Some(group) => from(group, size, 16, false),
                None => early::allocate(size, 16),
            };
            if !new.is_null() {
                // SAFETY: both are live, different, and have so many bytes; the old one is the caller's to give away.
                unsafe { new.copy_from_nonoverlapping(object.as_ptr(), had.min(size)) };
                free_carefully(me, object);
            }
            return new;
        }
        if group.is_none() {
            return no_memory(Error::NoMemory { bytes: size });
        }
        // SAFETY: the caller gives the object away, if this succeeds.
        resized(object, unsafe { start::control().realloc(object, size, 16) })
    })
}

/// Bytes that may be used of an object.
pub(crate) fn usable(object: NonNull<u8>) -> Result<usize, Foreign> {
    if let Some(size) = early::size(object.as_ptr()) {
        return Ok(size);
    }
    if !start::is_made() {
        return Err(Foreign);
    }
    start::control().usable_size(object).map_err(|e| {
        refused("malloc_usable_size", object, &e);
        Foreign
    })
}

/// An address that cannot be what the program takes it for. Memory of another malloc (got before this library came in)
/// is told and left alone; of our own memory nothing can be trusted any more, as in glibc.
#[cold]
fn refused(what: &str, object: NonNull<u8>, e: &Error) {
    static TOLD: AtomicU32 = AtomicU32::new(0);
    let told = TOLD.fetch_add(1, Relaxed);
    if let Error::Foreign { .. } = e {
        if told < 10 {
            tell::line(format_args!("{what}({object:p}): not from this malloc; left alone"));
        }
        return;
    }
    tell::line(format_args!("{what}({object:p}): {e}"));
    // SAFETY: no preconditions.
    unsafe { libc::abort() }
}

/// Runs `f` where the controller may be asked for everything, and no signal handler comes in between. `None`: it is not
/// there yet.
pub(crate) fn calmly<R>(f: impl FnOnce() -> R) -> Option<R> {
    let me = me();
    let _aside = fork::aside(me);
    undisturbed(me, || payer(me, 0).map(|_| f()))
}
