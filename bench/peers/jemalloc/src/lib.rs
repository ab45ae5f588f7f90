//! jemalloc's functions for the benchmark. A group has an arena of its own, without a thread cache: with one, objects of
//! different arenas mix in it, and its maintainers advise against that.

#[path = "../../../src/peers/table.rs"]
mod table;

use core::ffi::{CStr, c_char, c_void};
use core::ptr::{null, null_mut};
use table::{Heaps, Table};
use tikv_jemalloc_sys as je;

/// `MALLOCX_TCACHE_NONE`.
const NO_CACHE: i32 = je::MALLOCX_TCACHE_NONE;
/// `MALLCTL_ARENAS_ALL`.
const ALL: usize = 4096;

extern "C" fn version() -> *const c_char {
    let mut text: *const c_char = null();
    let mut len = size_of_val(&text);
    // SAFETY: "version" gives a pointer to a constant.
    unsafe { je::mallctl(c"version".as_ptr(), (&raw mut text).cast(), &mut len, null_mut(), 0) };
    text
}

extern "C" fn create() -> usize {
    let mut arena = 0u32;
    let mut len = size_of_val(&arena);
    // SAFETY: "arenas.create" gives an unsigned.
    let failed =
        unsafe { je::mallctl(c"arenas.create".as_ptr(), (&raw mut arena).cast(), &mut len, null_mut(), 0) };
    if failed == 0 { arena as usize } else { 0 }
}

unsafe extern "C" fn malloc(arena: usize, size: usize) -> *mut c_void {
    // SAFETY: sizes here are not 0 and the arena exists.
    unsafe { je::mallocx(size, je::MALLOCX_ARENA(arena) | NO_CACHE) }
}

unsafe extern "C" fn free(object: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { je::dallocx(object, NO_CACHE) };
}

/// Asks something of an arena: `arena.N.what`.
fn ask(arena: usize, what: &str) {
    let name = format!("arena.{arena}.{what}\0");
    if let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) {
        // SAFETY: these requests take and give nothing.
        unsafe { je::mallctl(name.as_ptr(), null_mut(), null_mut(), null_mut(), 0) };
    }
}

extern "C" fn delete(arena: usize) {
    ask(arena, "destroy");
}

extern "C" fn purge() {
    // SAFETY: it takes and gives nothing.
    unsafe { je::mallctl(c"thread.tcache.flush".as_ptr(), null_mut(), null_mut(), null_mut(), 0) };
    ask(ALL, "purge");
}

/// The peer's functions.
#[unsafe(no_mangle)]
#[allow(
    improper_ctypes_definitions,
    reason = "the harness is compiled from the same table.rs by the same compiler"
)]
pub extern "C" fn tenalloc_peer() -> Table {
    let heaps = Heaps { create, malloc, free, delete, any_thread: true, survive: false };
    Table { version, malloc: je::malloc, free: je::free, purge, heaps: Some(heaps), threads: true }
}
