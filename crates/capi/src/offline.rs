//! Memory taken out of use, objects moved together, and what removed groups left behind.

use crate::error::{Failure, call};
use crate::handle::{Transparent, controller, given, ten_cache, ten_controller, ten_group};
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::null;
use core::time::Duration;
use tenalloc::{Compacted, Range};

/// Something that keeps memory from being taken out of use.
#[derive(Debug)]
#[repr(C)]
pub struct ten_pin {
    /// Where it begins.
    pub address: *mut c_void,
    /// Its bytes.
    pub bytes: u64,
    /// Its cache, NULL for whole pages; lent.
    pub cache: *const ten_cache,
    /// Who owns it, NULL if nobody does; lent.
    pub owner: *const ten_group,
}

fn offline(
    ctl: Option<&ten_controller>,
    range: Range,
    timeout_ns: u64,
    each: Option<extern "C" fn(&ten_pin, *mut c_void)>,
    arg: *mut c_void,
    out: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    call(|| {
        let bytes = controller(ctl)?.offline(range, Duration::from_nanos(timeout_ns), &mut |pin| {
            if let Some(each) = each {
                let cache =
                    pin.cache.as_ref().map_or(null(), |cache| core::ptr::from_ref(ten_cache::lend(cache)));
                let owner =
                    pin.owner.as_ref().map_or(null(), |owner| core::ptr::from_ref(ten_group::lend(owner)));
                each(&ten_pin { address: pin.address as *mut c_void, bytes: pin.bytes, cache, owner }, arg);
            }
        })?;
        if let Some(out) = out {
            out.write(bytes as u64);
        }
        Ok(())
    })
}

/// Takes a NUMA node out of use.
#[unsafe(no_mangle)]
pub extern "C" fn ten_offline_node(
    ctl: Option<&ten_controller>,
    node: u32,
    timeout_ns: u64,
    each: Option<extern "C" fn(&ten_pin, *mut c_void)>,
    arg: *mut c_void,
    bytes: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    match u8::try_from(node) {
        Ok(node) => offline(ctl, Range::Node(node), timeout_ns, each, arg, bytes),
        Err(_) => call(|| Err(Failure::Value("node"))),
    }
}

/// Takes the 2 MiB chunk of an address out of use.
#[unsafe(no_mangle)]
pub extern "C" fn ten_offline_chunk(
    ctl: Option<&ten_controller>,
    address: *mut c_void,
    timeout_ns: u64,
    each: Option<extern "C" fn(&ten_pin, *mut c_void)>,
    arg: *mut c_void,
    bytes: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    offline(ctl, Range::Chunk(address as usize), timeout_ns, each, arg, bytes)
}

/// Ends every attempt that is waiting.
#[unsafe(no_mangle)]
pub extern "C" fn ten_offline_cancel(ctl: Option<&ten_controller>) -> c_int {
    call(|| {
        controller(ctl)?.cancel_offline();
        Ok(())
    })
}

/// Puts a node back into use.
#[unsafe(no_mangle)]
pub extern "C" fn ten_online_node(ctl: Option<&ten_controller>, node: u32) -> c_int {
    call(|| {
        controller(ctl)?.online_node(u8::try_from(node).map_err(|_| Failure::Value("node"))?);
        Ok(())
    })
}

/// A live object, or a slab of them, whose group was removed.
#[derive(Debug)]
#[repr(C)]
pub struct ten_orphan {
    /// The object's address, or the slab's.
    pub address: *mut c_void,
    /// Objects there.
    pub objects: u32,
    /// Bytes from one object to the next.
    pub slot_size: u32,
    /// Their cache; lent.
    pub cache: *const ten_cache,
    /// The group that pays now; lent.
    pub payer: *const ten_group,
}

/// Shows the live objects of removed groups.
#[unsafe(no_mangle)]
pub extern "C" fn ten_orphans(
    ctl: Option<&ten_controller>,
    each: Option<extern "C" fn(&ten_orphan, *mut c_void)>,
    arg: *mut c_void,
) -> c_int {
    call(|| {
        let each = *given(each.as_ref(), "each")?;
        controller(ctl)?.orphans(&mut |orphan| {
            let shown = ten_orphan {
                address: orphan.address as *mut c_void,
                objects: orphan.objects,
                slot_size: orphan.slot_size,
                cache: ten_cache::lend(&orphan.cache),
                payer: ten_group::lend(&orphan.payer),
            };
            each(&shown, arg);
        });
        Ok(())
    })
}

/// What a compaction did.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ten_compacted {
    /// Objects moved.
    pub moved: u64,
    /// Objects that could not be.
    pub refused: u64,
    /// Slabs fewer than before.
    pub slabs: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl From<Compacted> for ten_compacted {
    fn from(c: Compacted) -> Self {
        Self { moved: c.moved, refused: c.refused, slabs: c.slabs, bytes: c.bytes }
    }
}

/// Moves objects of a cache out of the sparsest slabs.
#[unsafe(no_mangle)]
pub extern "C" fn ten_cache_compact(
    cache: Option<&ten_cache>,
    most: u64,
    out: Option<&mut MaybeUninit<ten_compacted>>,
) -> c_int {
    call(|| {
        let done = given(cache, "cache")?.0.compact(most);
        if let Some(out) = out {
            out.write(done.into());
        }
        Ok(())
    })
}

/// Moves objects of every movable cache.
#[unsafe(no_mangle)]
pub extern "C" fn ten_controller_compact(
    ctl: Option<&ten_controller>,
    most: u64,
    out: Option<&mut MaybeUninit<ten_compacted>>,
) -> c_int {
    call(|| {
        let done = controller(ctl)?.compact(most);
        if let Some(out) = out {
            out.write(done.into());
        }
        Ok(())
    })
}
