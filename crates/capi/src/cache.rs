//! Caches: objects of one kind.

use crate::error::{Failure, address, call, figure, length, quiet};
use crate::handle::{
    self, Out, controller, given, open, string, ten_cache, ten_controller, ten_group, ten_lru,
};
use crate::text;
use core::ffi::{c_char, c_int, c_void};
use core::ptr::NonNull;
use tenalloc::{CacheConfig, Geometry, Migrate, NodePolicy, Overwritten};

/// Moves objects of a cache. C's, in place as long as the controller.
#[derive(Debug)]
#[repr(C)]
pub struct ten_migrate {
    /// True: the object was moved, and its old place is used by nobody.
    pub migrate: Option<extern "C" fn(&ten_migrate, *mut c_void, *mut c_void) -> bool>,
    /// The program's own.
    pub arg: *mut c_void,
}

// SAFETY: C promises that its callback may be called from any thread.
unsafe impl Sync for ten_migrate {}

impl Migrate for ten_migrate {
    unsafe fn migrate(&self, from: NonNull<u8>, to: NonNull<u8>) -> bool {
        self.migrate.is_some_and(|migrate| migrate(self, from.as_ptr().cast(), to.as_ptr().cast()))
    }
}

/// What a cache is made from.
#[derive(Debug)]
#[repr(C)]
pub struct ten_cache_config {
    /// Bytes of this struct as C knows it.
    pub struct_size: usize,
    /// Name, 1 to 47 bytes.
    pub name: *const c_char,
    /// Bytes of an object.
    pub size: usize,
    /// Alignment of an object, 0: 8.
    pub align: usize,
    /// One of `TEN_NODE_…`.
    pub policy: u32,
    /// The node of that policy.
    pub node: u32,
    /// Pages of a slab, 0: chosen.
    pub slab_pages: u32,
    /// Objects of a slab.
    pub slab_objects: u32,
    /// Bytes charged for an owner entry, below 0: `TEN_OWNER_BYTES`.
    pub owner_bytes: c_int,
    /// Free objects that a CPU keeps, below 0: chosen.
    pub sheaf: c_int,
    /// Red zones and poison, below 0: as the controller.
    pub debug: c_int,
    /// Moves objects; may be NULL.
    pub migrate: *const ten_migrate,
}

/// # Safety
/// As in the header: strings and callbacks are C's, valid as long as is said there.
unsafe fn config<'a>(c: &'a ten_cache_config) -> Result<CacheConfig<'a>, Failure> {
    if c.struct_size < size_of::<ten_cache_config>() {
        return Err(Failure::Value("struct_size"));
    }
    // SAFETY: the caller's promise.
    let mut config = CacheConfig::new(unsafe { string(c.name, "name") }?, c.size);
    if c.align > 0 {
        config = config.align(c.align);
    }
    let node = u8::try_from(c.node).map_err(|_| Failure::Value("node"))?;
    config = config.policy(match c.policy {
        0 => NodePolicy::Local,
        1 => NodePolicy::Prefer(node),
        2 => NodePolicy::Bind(node),
        3 => NodePolicy::Interleave,
        _ => return Err(Failure::Value("policy")),
    });
    if c.slab_pages > 0 {
        let pages = u16::try_from(c.slab_pages).map_err(|_| Failure::Value("slab_pages"))?;
        let objects = u16::try_from(c.slab_objects).map_err(|_| Failure::Value("slab_objects"))?;
        config = config.geometry(Geometry { pages, objects });
    }
    if let Ok(bytes) = u32::try_from(c.owner_bytes) {
        config = config.owner_bytes(bytes);
    }
    if c.sheaf >= 0 {
        config = config.sheaf(u16::try_from(c.sheaf).map_err(|_| Failure::Value("sheaf"))?);
    }
    if c.debug >= 0 {
        config = config.debug(c.debug != 0);
    }
    // SAFETY: the header asks that it stays as long as the controller.
    if let Some(migrate) = unsafe { c.migrate.as_ref() } {
        config = config.migrate(migrate);
    }
    Ok(config)
}

/// A new cache.
///
/// # Safety
/// `c` is NULL or points to a configuration whose parts are valid as long as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_cache_new(
    ctl: Option<&ten_controller>,
    c: *const ten_cache_config,
    out: Out<'_, ten_cache>,
) -> c_int {
    call(|| {
        open(out, || {
            // SAFETY: the caller's promise.
            let config = unsafe { config(c.as_ref().ok_or(Failure::Null("config"))?) }?;
            Ok(controller(ctl)?.cache(&config)?)
        })
    })
}

/// A new cache with the usual configuration.
///
/// # Safety
/// `name` is NULL or ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_cache_create(
    ctl: Option<&ten_controller>,
    name: *const c_char,
    size: usize,
    out: Out<'_, ten_cache>,
) -> c_int {
    call(|| {
        open(out, || {
            // SAFETY: the caller's promise.
            let name = unsafe { string(name, "name") }?;
            Ok(controller(ctl)?.cache(&CacheConfig::new(name, size))?)
        })
    })
}

/// One more handle.
#[unsafe(no_mangle)]
pub extern "C" fn ten_cache_dup(cache: Option<&ten_cache>, out: Out<'_, ten_cache>) -> c_int {
    call(|| open(out, || Ok(given(cache, "cache")?.0.clone())))
}

/// Ends a handle; the cache stays.
///
/// # Safety
/// It is NULL or a handle that is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_cache_close(cache: *mut ten_cache) {
    // SAFETY: the caller's promise.
    unsafe { handle::close(cache) }
}

/// Takes an empty cache away; the handle stays.
#[unsafe(no_mangle)]
pub extern "C" fn ten_cache_destroy(cache: Option<&ten_cache>) -> c_int {
    call(|| Ok(given(cache, "cache")?.0.clone().destroy()?))
}

/// An object of a group.
#[unsafe(no_mangle)]
pub extern "C" fn ten_cache_alloc(cache: Option<&ten_cache>, group: Option<&ten_group>) -> *mut c_void {
    if let (Some(cache), Some(group)) = (cache, group)
        && let Some(object) = cache.0.alloc_ready(&group.0)
    {
        return object.as_ptr().cast();
    }
    alloc_slowly(cache, group)
}

#[cold]
#[inline(never)]
extern "C" fn alloc_slowly(cache: Option<&ten_cache>, group: Option<&ten_group>) -> *mut c_void {
    address(|| Ok(given(cache, "cache")?.0.alloc(&given(group, "group")?.0)?))
}

/// An object of a group, of which the bytes that its user has are zero.
#[unsafe(no_mangle)]
pub extern "C" fn ten_cache_zalloc(cache: Option<&ten_cache>, group: Option<&ten_group>) -> *mut c_void {
    address(|| {
        let cache = &given(cache, "cache")?.0;
        let object = cache.alloc(&given(group, "group")?.0)?;
        let usable = cache.controller().usable_size(object)?;
        // SAFETY: new, and as large as that.
        unsafe { object.write_bytes(0, usable) };
        Ok(object)
    })
}

/// An object of the thread's group.
#[unsafe(no_mangle)]
pub extern "C" fn ten_cache_alloc_here(cache: Option<&ten_cache>) -> *mut c_void {
    address(|| Ok(given(cache, "cache")?.0.alloc_here()?))
}

/// An object that will be on a list.
#[unsafe(no_mangle)]
pub extern "C" fn ten_cache_alloc_lru(
    cache: Option<&ten_cache>,
    group: Option<&ten_group>,
    lru: Option<&ten_lru>,
) -> *mut c_void {
    address(|| Ok(given(cache, "cache")?.0.alloc_lru(&given(group, "group")?.0, &given(lru, "lru")?.0)?))
}

/// An object on a NUMA node, if that has memory.
#[unsafe(no_mangle)]
pub extern "C" fn ten_cache_alloc_on(
    cache: Option<&ten_cache>,
    group: Option<&ten_group>,
    node: u32,
) -> *mut c_void {
    address(|| {
        let node = u8::try_from(node).map_err(|_| Failure::Value("node"))?;
        Ok(given(cache, "cache")?.0.alloc_on(&given(group, "group")?.0, node)?)
    })
}

/// An object that nobody owns or pays for.
#[unsafe(no_mangle)]
pub extern "C" fn ten_cache_alloc_unowned(cache: Option<&ten_cache>) -> *mut c_void {
    address(|| Ok(given(cache, "cache")?.0.alloc_unowned(None)?))
}

/// An object without waiting, for signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn ten_cache_alloc_nolock(
    cache: Option<&ten_cache>,
    group: Option<&ten_group>,
) -> *mut c_void {
    quiet(|| Ok(given(cache, "cache")?.0.alloc_nolock(&given(group, "group")?.0)?))
}

/// Frees an object of this cache; NULL is none.
///
/// # Safety
/// Nobody uses the object any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_cache_free(cache: Option<&ten_cache>, object: *mut c_void) -> c_int {
    let Some(place) = NonNull::new(object.cast()) else { return 0 };
    // SAFETY: the caller's promise.
    if cache.is_some_and(|cache| unsafe { cache.0.free_ready(place) }) {
        return 0;
    }
    // SAFETY: as above.
    unsafe { free_slowly(cache, place) }
}

/// # Safety
/// As for [`ten_cache_free`].
#[cold]
#[inline(never)]
unsafe extern "C" fn free_slowly(cache: Option<&ten_cache>, object: NonNull<u8>) -> c_int {
    // SAFETY: the caller's promise.
    call(|| Ok(unsafe { given(cache, "cache")?.0.free(object) }?))
}

/// Bytes that an object is charged.
#[unsafe(no_mangle)]
pub extern "C" fn ten_cache_charge(cache: Option<&ten_cache>) -> u64 {
    figure(0, || Ok(given(cache, "cache")?.0.charge()))
}

/// Its name.
///
/// # Safety
/// `buffer` has `size` bytes; it may be NULL if `size` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_cache_name(cache: Option<&ten_cache>, buffer: *mut c_char, size: usize) -> i64 {
    // SAFETY: the caller's promise.
    length(|| unsafe { text::into(buffer, size, given(cache, "cache")?.0.name()) })
}

/// Gives back what it holds free: bytes of slabs.
#[unsafe(no_mangle)]
pub extern "C" fn ten_cache_shrink(cache: Option<&ten_cache>) -> u64 {
    figure(0, || Ok(given(cache, "cache")?.0.shrink()))
}

/// A place that somebody wrote to who must not.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ten_damage {
    /// The object.
    pub object: *mut c_void,
    /// The first wrong byte.
    pub at: *mut c_void,
    /// What was found there.
    pub found: u32,
    /// One of `TEN_DAMAGE_…`.
    pub what: u32,
}

/// Looks for such places in a cache with debug.
#[unsafe(no_mangle)]
pub extern "C" fn ten_cache_validate(
    cache: Option<&ten_cache>,
    each: Option<extern "C" fn(&ten_damage, *mut c_void)>,
    arg: *mut c_void,
) -> i64 {
    length(|| {
        let found = given(cache, "cache")?.0.validate(&mut |damage| {
            let (object, at) = (damage.object as *mut c_void, damage.at as *mut c_void);
            let what = match damage.what {
                Overwritten::RedZone => 0,
                Overwritten::FreeObject => 1,
                Overwritten::FreeList => 2,
            };
            if let Some(each) = each {
                each(&ten_damage { object, at, found: damage.found.into(), what }, arg);
            }
        });
        Ok(usize::try_from(found).unwrap_or(usize::MAX))
    })
}

/// The cache's controller.
#[unsafe(no_mangle)]
pub extern "C" fn ten_cache_controller(cache: Option<&ten_cache>, out: Out<'_, ten_controller>) -> c_int {
    call(|| open(out, || Ok(given(cache, "cache")?.0.controller().clone())))
}
