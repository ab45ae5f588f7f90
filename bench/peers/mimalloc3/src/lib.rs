//! mimalloc's functions for the benchmark: version 3, and built with its feature `v2` by the package next door version 2.
//!
//! A group has a heap of its own. Heaps of version 2 belong to the thread that made them.

extern crate libmimalloc_sys as _;

#[path = "../../../src/peers/table.rs"]
mod table;

use core::ffi::{c_char, c_void};
use std::ffi::CString;
use std::sync::OnceLock;
use table::{Heaps, Table};

unsafe extern "C" {
    fn mi_malloc(size: usize) -> *mut c_void;
    fn mi_free(object: *mut c_void);
    fn mi_collect(force: bool);
    fn mi_version() -> i32;
    fn mi_heap_new() -> usize;
    fn mi_heap_malloc(heap: usize, size: usize) -> *mut c_void;
    fn mi_heap_delete(heap: usize);
}

static VERSION: OnceLock<CString> = OnceLock::new();

/// mimalloc writes 2.3.2 as 20302.
extern "C" fn version() -> *const c_char {
    // SAFETY: it returns a constant.
    let n = unsafe { mi_version() };
    let text = format!("{}.{}.{}", n / 10_000, n / 100 % 100, n % 100);
    VERSION.get_or_init(|| CString::new(text).unwrap_or_default()).as_ptr()
}

extern "C" fn purge() {
    // SAFETY: it has no preconditions.
    unsafe { mi_collect(true) };
}

/// The peer's functions.
#[unsafe(no_mangle)]
#[allow(
    improper_ctypes_definitions,
    reason = "the harness is compiled from the same table.rs by the same compiler"
)]
pub extern "C" fn tenalloc_peer() -> Table {
    // SAFETY: it returns a constant.
    let any_thread = unsafe { mi_version() } >= 30_000;
    let heaps = Heaps {
        create: mi_heap_new,
        malloc: mi_heap_malloc,
        free: mi_free,
        delete: mi_heap_delete,
        any_thread,
        survive: true,
    };
    Table { version, malloc: mi_malloc, free: mi_free, purge, heaps: Some(heaps), threads: true }
}
