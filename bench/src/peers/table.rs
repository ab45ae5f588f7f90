//! What a peer's library tells the harness: its functions, by address.
//!
//! A file of its own because both sides compile it: the harness, and each package in `bench/peers` that puts one
//! allocator into a shared library. All peers are then called the same way, through an address that the compiler
//! does not know, as a program calls a malloc that it did not link statically.

use core::ffi::{c_char, c_void};

/// Takes bytes.
pub type Malloc = unsafe extern "C" fn(size: usize) -> *mut c_void;
/// Gives an object back.
pub type Free = unsafe extern "C" fn(object: *mut c_void);
/// Takes bytes from a heap or an arena.
pub type HeapMalloc = unsafe extern "C" fn(heap: usize, size: usize) -> *mut c_void;

/// A heap, an arena or a context for each group, where the allocator has such a thing.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Heaps {
    /// A new one; 0 if there can be no more.
    pub create: unsafe extern "C" fn() -> usize,
    /// An object of it.
    pub malloc: HeapMalloc,
    /// Gives back an object of any of them.
    pub free: Free,
    /// Ends one.
    pub delete: unsafe extern "C" fn(heap: usize),
    /// Whether any thread may allocate from it, not only the one that made it.
    pub any_thread: bool,
    /// Whether objects that live outlive `delete`.
    pub survive: bool,
}

/// One allocator.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Table {
    /// Its version, in its own words, ended by 0.
    pub version: unsafe extern "C" fn() -> *const c_char,
    /// malloc.
    pub malloc: Malloc,
    /// free.
    pub free: Free,
    /// Gives to the system what can be given.
    pub purge: unsafe extern "C" fn(),
    /// One heap a group.
    pub heaps: Option<Heaps>,
    /// Whether several threads may use it at once.
    pub threads: bool,
}
