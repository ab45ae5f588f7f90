//! Figures as structs. A struct may grow at its end: C says how much of it it knows.

use crate::error::call;
use crate::handle::{controller, fill, given, ten_cache, ten_controller, ten_group};
use core::ffi::c_int;

macro_rules! figures {
    ($name:ident from $inside:ty { $($field:ident,)* }) => {
        impl From<$inside> for $name {
            fn from(s: $inside) -> Self {
                Self { $($field: s.$field.into(),)* }
            }
        }

        impl $name {
            /// Names and values, in the order of the struct.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> + Clone + use<> {
                [$((stringify!($field), self.$field),)*].into_iter()
            }
        }
    };
}

/// Where every byte of a controller is.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header has them; the names are those of tenalloc::Stat")]
pub struct ten_stat {
    pub live_bytes: u64,
    pub objects: u64,
    pub slab_bytes: u64,
    pub large_bytes: u64,
    pub cached_bytes: u64,
    pub owner_vector_bytes: u64,
    pub metadata_bytes: u64,
    pub raw_bytes: u64,
    pub free_page_bytes: u64,
    pub mapped_bytes: u64,
    pub stock_bytes: u64,
    pub stock_bound_bytes: u64,
    pub forced_bytes: u64,
    pub groups: u64,
    pub removed_held: u64,
    pub orphans: u64,
    pub corrupted: u64,
}

figures! { ten_stat from tenalloc::Stat {
    live_bytes, objects, slab_bytes, large_bytes, cached_bytes, owner_vector_bytes, metadata_bytes, raw_bytes,
    free_page_bytes, mapped_bytes, stock_bytes, stock_bound_bytes, forced_bytes, groups, removed_held, orphans,
    corrupted,
} }

/// A group and its descendants.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header has them; the names are those of tenalloc::GroupStat")]
pub struct ten_group_stat {
    pub current: u64,
    pub exact: u64,
    pub own: u64,
    pub descendants: u64,
    pub lists: u64,
    pub listed: u64,
    pub list_bytes: u64,
}

figures! { ten_group_stat from tenalloc::GroupStat {
    current, exact, own, descendants, lists, listed, list_bytes,
} }

/// What a cache holds.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header has them; the names are those of tenalloc::CacheStat")]
pub struct ten_cache_stat {
    pub objects: u64,
    pub cached: u64,
    pub slabs: u64,
    pub slot_size: u64,
    pub slab_bytes: u64,
}

figures! { ten_cache_stat from tenalloc::CacheStat {
    objects, cached, slabs, slot_size, slab_bytes,
} }

/// Where every byte of a controller is.
///
/// # Safety
/// `out` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_stat_get(
    ctl: Option<&ten_controller>,
    out: *mut ten_stat,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe { fill(out, size, controller(ctl)?.stat().into()) })
}

/// What a group and its descendants hold.
///
/// # Safety
/// `out` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_group_stat_get(
    group: Option<&ten_group>,
    out: *mut ten_group_stat,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe { fill(out, size, given(group, "group")?.0.stat().into()) })
}

/// What a cache holds.
///
/// # Safety
/// `out` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_cache_stat_get(
    cache: Option<&ten_cache>,
    out: *mut ten_cache_stat,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe { fill(out, size, given(cache, "cache")?.0.stat().into()) })
}
