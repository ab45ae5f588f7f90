//! `libtenalloc-malloc.so`: the malloc family for programs as they are, by `LD_PRELOAD` or by linking. Every byte is
//! charged to a memory group: one for the process, one for each thread, or one for each library.
//!
//! | module | what it is |
//! |---|---|
//! | `c` | the C names, and what C says about their arguments |
//! | `cxx` | operator new and delete |
//! | `info` | what glibc's malloc can be asked, and told |
//! | `serve` | any of them, once the arguments are plain: the quick way, and the careful one |
//! | `early` | memory for calls that come while nothing else works: inside our own start |
//! | `start` | the first call, the library's constructor and destructor |
//! | `thread` | what a thread knows: its group, and where it is |
//! | `library` | which library an address is in, and the library's group |
//! | `settings` | `TENALLOC_GROUP`, `_MAX`, `_HIGH`, `_REPORT` |
//! | `report` | the groups as a table or JSON, at exit or on a signal |
//! | `stack` | a deep one for reports, which come on the program's shallow ones |
//! | `fork` | what is done around a fork |
//! | `tell`, `stderr` | one line on standard error; where that is, and writing that harms nobody |
//! | `text`, `spin` | text without memory, and a lock for what is rarely asked |
//!
//! The library that is shipped (`make malloc`, profile `malloc`: panics abort) has no standard library in it. Other
//! profiles unwind, and only a crate with std may; it is linked then, and not used.

#![cfg_attr(not(test), no_std)]
// Under test the exported names are not exported, lest the test run on them.
#![cfg_attr(test, allow(dead_code))]
#![deny(clippy::alloc_instead_of_core, clippy::std_instead_of_core)]

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
compile_error!(
    "libtenalloc-malloc.so is for Linux on x86-64 with glibc: it knows their thread-local storage"
);

#[cfg(any(test, panic = "unwind"))]
extern crate std;

mod c;
mod cxx;
mod early;
mod fork;
mod info;
mod library;
mod report;
mod serve;
mod settings;
mod spin;
mod stack;
mod start;
mod stderr;
mod tell;
mod text;
mod thread;

/// No input leads here; if a mistake of ours does, the program ends with a line that says so.
#[cfg(all(not(test), panic = "abort"))]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    tell::line(format_args!("a mistake of tenalloc's own: {info}"));
    // SAFETY: no preconditions.
    unsafe { libc::abort() }
}
