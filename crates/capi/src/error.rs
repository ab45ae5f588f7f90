//! What C is told of failures: a code, the last error of the thread in words, and the boundary that catches panics.
//!
//! The thread-local is written when a call fails and never else; it holds the error itself, and the words are made when
//! somebody asks.

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int};
use core::fmt::{self, Write};
use core::mem::MaybeUninit;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tenalloc::{Error, ForkOrder, OfflineError};

/// Why a call failed: the library's own errors, and those of this boundary.
#[derive(Clone, Copy, Debug)]
pub enum Failure {
    /// Nothing failed yet.
    None,
    /// The controller's.
    Core(Error),
    /// Memory was not taken out of use.
    Offline(OfflineError),
    /// A call around a fork was out of turn.
    Fork(ForkOrder),
    /// A parameter was NULL that must not be; its name.
    Null(&'static str),
    /// A parameter had a value that it cannot have; its name.
    Value(&'static str),
    /// Less was reclaimed than was asked for: bytes.
    Less(u64),
    /// Time ran out.
    TimedOut,
    /// The system gave no thread.
    NoThread,
    /// A panic was caught: a bug of the library.
    Panic,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Core(error)
    }
}

impl From<OfflineError> for Failure {
    fn from(error: OfflineError) -> Self {
        Self::Offline(error)
    }
}

impl From<ForkOrder> for Failure {
    fn from(error: ForkOrder) -> Self {
        Self::Fork(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Core(error) => error.fmt(f),
            Self::Offline(error) => error.fmt(f),
            Self::Fork(error) => error.fmt(f),
            Self::Null(name) => write!(f, "'{name}' must not be NULL"),
            Self::Value(name) => write!(f, "'{name}' has a value that it cannot have"),
            Self::Less(bytes) => write!(f, "no more than {bytes} bytes could be reclaimed"),
            Self::TimedOut => f.write_str("time ran out"),
            Self::NoThread => f.write_str("the system gave no thread"),
            Self::Panic => {
                f.write_str("a bug of tenalloc: a panic was caught (its message is on standard error)")
            }
        }
    }
}

/// The codes, their names in the header, and what `ten_strerror` says.
pub const CODES: &[(c_int, &str, &CStr)] = &[
    (0, "TEN_OK", c"success"),
    (-1, "TEN_ERR_NOT_ALLOWED", c"the root group and the caches of size classes cannot be removed"),
    (-2, "TEN_ERR_NOT_FOUND", c"there is no such group, owner, node or memory"),
    (-11, "TEN_ERR_AGAIN", c"not possible now without waiting, or less than was asked for"),
    (-12, "TEN_ERR_NO_MEMORY", c"the system gave no memory"),
    (-13, "TEN_ERR_FROZEN", c"the group or an ancestor is frozen: it may not grow"),
    (-14, "TEN_ERR_BAD_ADDRESS", c"the address is not that of an object of this controller"),
    (-16, "TEN_ERR_BUSY", c"the group has children, or the cache live objects"),
    (-17, "TEN_ERR_EXISTS", c"a group of that name exists there"),
    (-18, "TEN_ERR_WRONG_CACHE", c"the object belongs to another cache"),
    (-19, "TEN_ERR_REMOVED", c"the group was removed, or the cache destroyed"),
    (
        -22,
        "TEN_ERR_INVALID",
        c"a parameter is NULL or has a value that it cannot have, or it is not the turn of the call",
    ),
    (-28, "TEN_ERR_FULL", c"a table of fixed size is full"),
    (-110, "TEN_ERR_TIMED_OUT", c"time ran out"),
    (-114, "TEN_ERR_NOT_LIVE", c"the object is not live: freed twice?"),
    (-117, "TEN_ERR_OVERWRITTEN", c"the object was freed, but somebody had written beyond it"),
    (-122, "TEN_ERR_LIMIT", c"the charge would pass the max of a group"),
    (-125, "TEN_ERR_CANCELLED", c"cancelled"),
    (-131, "TEN_ERR_INTERNAL", c"a bug of tenalloc"),
];

impl Failure {
    /// Its code: the negative of the Linux errno value that comes nearest.
    pub fn code(&self) -> c_int {
        match self {
            Self::None => 0,
            Self::Core(error) => match error {
                Error::Root | Error::SizeClass => -1,
                Error::NotFound => -2,
                Error::Busy => -11,
                Error::NoMemory { .. } => -12,
                Error::Frozen => -13,
                Error::Foreign { .. } | Error::Interior { .. } => -14,
                Error::GroupBusy { .. } | Error::CacheBusy { .. } => -16,
                Error::Exists => -17,
                Error::WrongCache { .. } => -18,
                Error::GroupRemoved | Error::CacheDestroyed => -19,
                Error::BadName | Error::BadSize { .. } | Error::BadAlign { .. } | Error::BadNode { .. } => {
                    -22
                }
                Error::Full { .. } => -28,
                Error::DoubleFree { .. } => -114,
                Error::Overwritten { .. } => -117,
                Error::Limit(_) => -122,
            },
            Self::Offline(OfflineError::TimedOut { .. }) | Self::TimedOut => -110,
            Self::Offline(OfflineError::Cancelled) => -125,
            Self::Offline(OfflineError::NotThere) => -2,
            Self::Null(_) | Self::Value(_) | Self::Fork(_) => -22,
            Self::Less(_) | Self::NoThread => -11,
            Self::Panic => -131,
        }
    }
}

/// Bytes of a last error's words, the NUL too.
const WORDS: usize = 320;

std::thread_local! {
    static LAST: Cell<Failure> = const { Cell::new(Failure::None) };
    static TEXT: UnsafeCell<[u8; WORDS]> = const { UnsafeCell::new([0; WORDS]) };
}

/// Notes a failure as the thread's last, and returns its code.
#[cold]
#[inline(never)]
pub fn note(failure: Failure) -> c_int {
    LAST.set(failure);
    failure.code()
}

/// As [`note`], for calls that return an address: sets `errno` and returns NULL.
#[cold]
#[inline(never)]
pub fn note_null<T>(failure: Failure) -> *mut T {
    let code = note(failure);
    // SAFETY: the C library's place for this thread's errno.
    unsafe { *libc::__errno_location() = -code };
    core::ptr::null_mut()
}

/// Runs `body` and catches what would unwind into C.
#[inline(always)]
pub fn guard<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // Nothing of a call that panicked is used afterwards but the library's own locks, which guards release.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Failure::Panic))
}

/// A call that returns a code.
#[inline(always)]
pub fn call(body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    match guard(body) {
        Ok(()) => 0,
        Err(failure) => note(failure),
    }
}

/// A call that returns an address; NULL if it failed.
#[inline(always)]
pub fn address(body: impl FnOnce() -> Result<core::ptr::NonNull<u8>, Failure>) -> *mut core::ffi::c_void {
    match guard(body) {
        Ok(object) => object.as_ptr().cast(),
        Err(failure) => note_null(failure),
    }
}

/// As [`address`] for signal handlers: a failure sets `errno` and leaves no last error, whose place may not be there yet.
#[inline(always)]
pub fn quiet(body: impl FnOnce() -> Result<core::ptr::NonNull<u8>, Failure>) -> *mut core::ffi::c_void {
    match guard(body) {
        Ok(object) => object.as_ptr().cast(),
        Err(failure) => {
            // SAFETY: the C library's place for this thread's errno.
            unsafe { *libc::__errno_location() = -failure.code() };
            core::ptr::null_mut()
        }
    }
}

/// A call that returns a figure; `failed` if it failed.
#[inline(always)]
pub fn figure<T>(failed: T, body: impl FnOnce() -> Result<T, Failure>) -> T {
    match guard(body) {
        Ok(value) => value,
        Err(failure) => {
            note(failure);
            failed
        }
    }
}

/// A call that returns a length, or a code below zero.
#[inline(always)]
pub fn length(body: impl FnOnce() -> Result<usize, Failure>) -> i64 {
    match guard(body) {
        Ok(length) => i64::try_from(length).unwrap_or(i64::MAX),
        Err(failure) => note(failure).into(),
    }
}

/// What a code means, in one line.
#[unsafe(no_mangle)]
pub extern "C" fn ten_strerror(code: c_int) -> *const c_char {
    let known = CODES.iter().find(|(known, ..)| *known == code);
    known.map_or(c"not a code of tenalloc", |(.., text)| text).as_ptr()
}

/// The code of this thread's last failure; 0 without one.
#[unsafe(no_mangle)]
pub extern "C" fn ten_last_error() -> c_int {
    LAST.get().code()
}

/// This thread's last failure in words.
#[unsafe(no_mangle)]
pub extern "C" fn ten_last_error_text() -> *const c_char {
    let failure = LAST.get();
    TEXT.with(|text| {
        // SAFETY: this thread's own, and nobody else is in here with it.
        let text = unsafe { &mut *text.get() };
        let mut out = crate::text::Cut::new(text);
        let _ = write!(out, "{failure}");
        out.finish();
        text.as_ptr().cast()
    })
}

/// Forgets this thread's last failure.
#[unsafe(no_mangle)]
pub extern "C" fn ten_clear_error() {
    LAST.set(Failure::None);
}

/// Which limit stopped the last charge that failed.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ten_limit {
    /// The group's `max`, bytes.
    pub max: u64,
    /// The group's `current` at that moment, bytes.
    pub current: u64,
    /// Bytes that were asked for.
    pub wanted: u64,
    /// Path of the group, its last 39 bytes if it is longer; ends with NUL.
    pub path: [c_char; 40],
}

/// The limit that the last failure of this thread met.
#[unsafe(no_mangle)]
pub extern "C" fn ten_last_limit(out: Option<&mut MaybeUninit<ten_limit>>) -> c_int {
    let out = match out {
        Some(out) => out,
        None => return note(Failure::Null("out")),
    };
    let Failure::Core(Error::Limit(limit)) = LAST.get() else { return -2 };
    let mut path = [0; 40];
    for (to, from) in path.iter_mut().zip(limit.path().bytes().take(39)) {
        *to = from as c_char;
    }
    out.write(ten_limit { max: limit.max, current: limit.current, wanted: limit.wanted, path });
    0
}

/// The version of the library that runs.
#[unsafe(no_mangle)]
pub extern "C" fn ten_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_and_stays_inside() {
        std::panic::set_hook(Box::new(|_| {})); // its message is expected
        let code = call(|| panic!("as a bug would"));
        let _ = std::panic::take_hook();
        assert_eq!((code, ten_last_error()), (-131, -131));
        // SAFETY: the words end with NUL.
        let words = unsafe { CStr::from_ptr(ten_last_error_text()) };
        assert!(words.to_str().is_ok_and(|w| w.contains("bug")));
    }

    #[test]
    fn success_leaves_the_last_failure() {
        ten_clear_error();
        assert_eq!(call(|| Err(Failure::Null("group"))), -22);
        assert_eq!(call(|| Ok(())), 0);
        assert_eq!(ten_last_error(), -22);
        ten_clear_error();
        // SAFETY: the words end with NUL.
        assert_eq!(unsafe { CStr::from_ptr(ten_last_error_text()) }, c"");
    }

    #[test]
    fn each_code_is_known_once() {
        assert!(CODES.is_sorted_by(|a, b| a.0 > b.0));
        for code in [Failure::Less(1), Failure::TimedOut, Failure::Panic, Failure::NoThread] {
            assert!(CODES.iter().any(|(known, ..)| *known == code.code()));
        }
    }
}
