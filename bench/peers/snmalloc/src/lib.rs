//! snmalloc's functions for the benchmark. Its C interface has no heaps.

#[path = "../../../src/peers/table.rs"]
mod table;

use core::ffi::c_char;
use snmalloc_sys::{sn_free, sn_malloc};
use table::Table;

extern "C" fn version() -> *const c_char {
    c"of snmalloc-sys 0.7.6".as_ptr()
}

/// snmalloc gives pages back on its own; there is nothing to ask for.
extern "C" fn purge() {}

/// The peer's functions.
#[unsafe(no_mangle)]
#[allow(
    improper_ctypes_definitions,
    reason = "the harness is compiled from the same table.rs by the same compiler"
)]
pub extern "C" fn tenalloc_peer() -> Table {
    Table { version, malloc: sn_malloc, free: sn_free, purge, heaps: None, threads: true }
}
