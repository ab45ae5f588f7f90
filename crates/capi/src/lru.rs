//! Families of LRU lists, and the walk over one list.

use crate::error::{Failure, call, figure};
use crate::handle::{self, Out, controller, given, open, ten_controller, ten_group, ten_lru};
use crate::shrink::ten_shrinker;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use tenalloc::{ListLru, LruItem, LruStatus};

/// What a list needs of an object; private.
#[derive(Debug)]
#[repr(transparent)]
pub struct ten_lru_item(LruItem);

const _: () = assert!(size_of::<ten_lru_item>() == 24 && align_of::<ten_lru_item>() == 8);

/// A family of lists of objects whose item lies `offset` bytes from their start.
#[unsafe(no_mangle)]
pub extern "C" fn ten_lru_new(ctl: Option<&ten_controller>, offset: usize, out: Out<'_, ten_lru>) -> c_int {
    call(|| open(out, || Ok(ListLru::new(controller(ctl)?, offset)?)))
}

/// One more handle.
#[unsafe(no_mangle)]
pub extern "C" fn ten_lru_dup(lru: Option<&ten_lru>, out: Out<'_, ten_lru>) -> c_int {
    call(|| open(out, || Ok(given(lru, "lru")?.0.clone())))
}

/// Ends a handle; with the last one the lists go.
///
/// # Safety
/// It is NULL or a handle that is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_lru_close(lru: *mut ten_lru) {
    // SAFETY: the caller's promise.
    unsafe { handle::close(lru) }
}

/// Binds the shrinker that gives objects of these lists back.
///
/// # Safety
/// The shrinker is NULL, or stays in place as long as the controller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_lru_set_shrinker(lru: Option<&ten_lru>, shrinker: *const ten_shrinker) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let shrinker: &'static ten_shrinker =
            unsafe { shrinker.as_ref() }.ok_or(Failure::Null("shrinker"))?;
        given(lru, "lru")?.0.set_shrinker(shrinker);
        Ok(())
    })
}

/// Makes the lists of a group.
#[unsafe(no_mangle)]
pub extern "C" fn ten_lru_prepare(lru: Option<&ten_lru>, group: Option<&ten_group>) -> c_int {
    call(|| Ok(given(lru, "lru")?.0.prepare(&given(group, "group")?.0)?))
}

/// An item on no list.
#[unsafe(no_mangle)]
pub extern "C" fn ten_lru_item_init(item: Option<&mut MaybeUninit<ten_lru_item>>) {
    if let Some(item) = item {
        item.write(ten_lru_item(LruItem::new()));
    }
}

/// Puts a live object at the end of its group's list.
///
/// # Safety
/// As in the header: the object is live and of this controller, and has an initialised item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_lru_add(lru: Option<&ten_lru>, object: *mut c_void) -> bool {
    // SAFETY: the caller's promise.
    figure(false, || unsafe { Ok(given(lru, "lru")?.0.add(address(object)?)) })
}

/// Takes an object off its list.
///
/// # Safety
/// As for [`ten_lru_add`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_lru_del(lru: Option<&ten_lru>, object: *mut c_void) -> bool {
    // SAFETY: the caller's promise.
    figure(false, || unsafe { Ok(given(lru, "lru")?.0.del(address(object)?)) })
}

fn address(object: *mut c_void) -> Result<NonNull<u8>, Failure> {
    NonNull::new(object.cast()).ok_or(Failure::Null("object"))
}

/// Marks a hit.
#[unsafe(no_mangle)]
pub extern "C" fn ten_lru_reference(item: Option<&ten_lru_item>) {
    if let Some(item) = item {
        item.0.reference();
    }
}

/// Clears the mark of a hit; whether it was there.
#[unsafe(no_mangle)]
pub extern "C" fn ten_lru_take_reference(item: Option<&ten_lru_item>) -> bool {
    item.is_some_and(|item| item.0.take_reference())
}

/// Whether an item is on a list.
#[unsafe(no_mangle)]
pub extern "C" fn ten_lru_is_listed(item: Option<&ten_lru_item>) -> bool {
    item.is_some_and(|item| item.0.is_listed())
}

/// Objects on the list of a group itself on a node.
#[unsafe(no_mangle)]
pub extern "C" fn ten_lru_count(lru: Option<&ten_lru>, group: Option<&ten_group>, node: u32) -> u64 {
    figure(0, || {
        let node = u8::try_from(node).map_err(|_| Failure::Value("node"))?;
        Ok(given(lru, "lru")?.0.count(&given(group, "group")?.0, node))
    })
}

/// Bytes of the family.
#[unsafe(no_mangle)]
pub extern "C" fn ten_lru_bytes(lru: Option<&ten_lru>) -> u64 {
    figure(0, || Ok(given(lru, "lru")?.0.bytes()))
}

/// Groups that have lists here.
#[unsafe(no_mangle)]
pub extern "C" fn ten_lru_groups(lru: Option<&ten_lru>) -> u64 {
    figure(0, || Ok(given(lru, "lru")?.0.groups()))
}

/// What a walk did.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ten_isolated {
    /// Objects taken off.
    pub removed: u64,
    /// Objects shown.
    pub shown: u64,
}

/// Shows objects of a group's list, oldest first, and hands over those taken off.
///
/// # Safety
/// As in the header: what the callbacks may do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_lru_walk(
    lru: Option<&ten_lru>,
    group: Option<&ten_group>,
    node: u32,
    number: u64,
    isolate: Option<extern "C" fn(*mut c_void, *mut c_void) -> u32>,
    dispose: Option<extern "C" fn(*mut c_void, *mut c_void)>,
    arg: *mut c_void,
    out: Option<&mut MaybeUninit<ten_isolated>>,
) -> c_int {
    call(|| {
        let node = u8::try_from(node).map_err(|_| Failure::Value("node"))?;
        let isolate = *given(isolate.as_ref(), "isolate")?;
        let mut number = number;
        let done = given(lru, "lru")?.0.walk(
            &given(group, "group")?.0,
            node,
            &mut number,
            |object| match isolate(object.as_ptr().cast(), arg) {
                0 => LruStatus::Removed,
                1 => LruStatus::RemovedRetry,
                2 => LruStatus::Rotate,
                3 => LruStatus::Skip,
                4 => LruStatus::Retry,
                _ => LruStatus::Stop,
            },
            |object| {
                if let Some(dispose) = dispose {
                    dispose(object.as_ptr().cast(), arg);
                }
            },
        );
        if let Some(out) = out {
            out.write(ten_isolated { removed: done.removed, shown: done.shown });
        }
        Ok(())
    })
}
