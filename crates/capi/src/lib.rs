//! libtenalloc: tenalloc for C and C++. `include/tenalloc.h` is its documentation; here is what lies behind each
//! declaration, one line of comment each.
//!
//! | module | holds |
//! |---|---|
//! | [`error`] | codes, the last error of a thread, and the boundary that no panic passes |
//! | [`handle`] | memory for handles, and how they are lent to callbacks |
//! | [`controller`], [`group`], [`knobs`] | controllers, the tree, limits and counters |
//! | [`cache`], [`object`], [`bulk`], [`owner`] | objects by kind, by size, many at once, and charges without objects |
//! | [`lru`], [`shrink`], [`pressure`] | lists, shrinkers, reclaim and what waits for it |
//! | [`scope`] | the group of a thread |
//! | [`fork`] | what is called around a fork |
//! | [`offline`] | memory taken out of use, and what removed groups left |
//! | [`stat`], [`text`] | figures as structs, as text and as JSON |
//!
//! **Shape.** A handle in C is a pointer to the Rust handle, in memory of `malloc`. Parameters are references where C
//! owes a valid pointer, `Option` where it may be NULL, `MaybeUninit` where it is written only: the functions are safe
//! except where an address or a string has to be trusted. Nothing but new handles allocates.
//!
//! **Panics.** None is known. Should one come, [`error::call`] catches it at the boundary and the caller is told
//! `TEN_ERR_INTERNAL`. Callbacks are `extern "C"`: they may not throw, and the process ends if they do.
//!
//! Only the first step of the hot calls is outside of that: it looks at what a CPU has ready, and has nothing in it that
//! could panic.
//!
//! **Cost.** A call that succeeds writes no thread-local and takes no lock of its own. `ten_cache_alloc`, `ten_malloc` and
//! the freeing functions compare pointers with NULL and take the first step of the Rust call, inlined; all else, errors too,
//! is in functions of its own, so that its frame is not set up in vain.

#![allow(non_camel_case_types, reason = "the names are those of the header")]

pub mod bulk;
pub mod cache;
pub mod controller;
pub mod error;
pub mod fork;
pub mod group;
pub mod handle;
pub mod knobs;
pub mod lru;
pub mod object;
pub mod offline;
pub mod owner;
pub mod pressure;
pub mod scope;
pub mod shrink;
pub mod stat;
pub mod text;
