//! talloc's functions. Its objects hang on a parent, so "malloc" is a child of nobody and a group is a context three levels
//! deep with a memory limit at each level, which is the only peer's own hierarchy of limits. One thread only.

use super::table::{Heaps, Table};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

/// Functions of the loaded library.
pub(super) struct Functions {
    pub(super) named: unsafe extern "C" fn(*mut c_void, usize, *const c_char) -> *mut c_void,
    pub(super) free: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    pub(super) limit: unsafe extern "C" fn(*mut c_void, usize) -> c_int,
    pub(super) major: unsafe extern "C" fn() -> c_int,
    pub(super) minor: unsafe extern "C" fn() -> c_int,
}

struct Loaded {
    functions: Functions,
    service: usize,
    version: CString,
}

static LOADED: OnceLock<Loaded> = OnceLock::new();

const MAX: usize = usize::MAX / 2;

fn loaded() -> &'static Loaded {
    LOADED.get().expect("the table is made after the library is loaded")
}

impl Loaded {
    fn child(&self, parent: usize, size: usize) -> *mut c_void {
        // SAFETY: the parent is null or a context.
        unsafe { (self.functions.named)(parent as *mut c_void, size, c"bench".as_ptr()) }
    }

    fn context(&self, parent: usize) -> usize {
        let context = self.child(parent, 0);
        if !context.is_null() {
            // SAFETY: just made.
            unsafe { (self.functions.limit)(context, MAX) };
        }
        context as usize
    }
}

unsafe extern "C" fn version() -> *const c_char {
    loaded().version.as_ptr()
}

unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    loaded().child(0, size)
}

unsafe extern "C" fn free(object: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { (loaded().functions.free)(object, c"bench".as_ptr()) };
}

unsafe extern "C" fn create() -> usize {
    loaded().context(loaded().service)
}

unsafe extern "C" fn heap_malloc(heap: usize, size: usize) -> *mut c_void {
    loaded().child(heap, size)
}

unsafe extern "C" fn delete(heap: usize) {
    // SAFETY: the caller's promise.
    unsafe { free(heap as *mut c_void) };
}

unsafe extern "C" fn purge() {
    // SAFETY: talloc lies on malloc; this gives malloc's free pages back.
    unsafe { libc::malloc_trim(0) };
}

pub(super) fn table(functions: Functions) -> Option<Table> {
    // SAFETY: they take nothing.
    let (major, minor) = unsafe { ((functions.major)(), (functions.minor)()) };
    let mut new = Loaded { functions, service: 0, version: CString::new(format!("{major}.{minor}")).ok()? };
    let everything = new.context(null_mut::<c_void>() as usize);
    new.service = new.context(everything);
    LOADED.set(new).ok()?;
    let heaps = Heaps { create, malloc: heap_malloc, free, delete, any_thread: false, survive: false };
    Some(Table { version, malloc, free, purge, heaps: Some(heaps), threads: false })
}
