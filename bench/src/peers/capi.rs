//! tenalloc through its C library, loaded as a C program has it: `libtenalloc.so`, called through pointers.

use super::Peer;
use super::hand::Place;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::transmute_copy;
use std::path::Path;
use std::ptr::{NonNull, null, null_mut};
use std::sync::OnceLock;

/// Any of its handles.
type Handle = *mut c_void;

/// What is used of `tenalloc.h`.
struct Functions {
    controller: unsafe extern "C" fn(*const c_void, *mut Handle) -> c_int,
    root: unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
    group: unsafe extern "C" fn(Handle, *const c_char, *mut Handle) -> c_int,
    cache: unsafe extern "C" fn(Handle, *const c_char, usize, *mut Handle) -> c_int,
    alloc: unsafe extern "C" fn(Handle, Handle) -> *mut u8,
    free: unsafe extern "C" fn(Handle, *mut u8) -> c_int,
}

static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();

/// # Safety
/// `F` is the type of the function of that name.
unsafe fn symbol<F: Copy>(library: Handle, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<Handle>()) };
    // SAFETY: the handle is open.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    // SAFETY: the caller's promise: an address of an F.
    (!address.is_null()).then(|| unsafe { transmute_copy(&address) })
}

/// Loads the library out of `folder`, or says that it is not there.
pub(crate) fn load(folder: &Path) {
    let found = FUNCTIONS.get_or_init(|| {
        let file = CString::new(folder.join("libtenalloc.so").as_os_str().as_encoded_bytes()).ok()?;
        // SAFETY: it has no initialisers; it stays loaded. The types are those of tenalloc.h.
        unsafe {
            let library = libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            if library.is_null() {
                return None;
            }
            Some(Functions {
                controller: symbol(library, c"ten_controller_new")?,
                root: symbol(library, c"ten_root")?,
                group: symbol(library, c"ten_group_create")?,
                cache: symbol(library, c"ten_cache_create")?,
                alloc: symbol(library, c"ten_cache_alloc")?,
                free: symbol(library, c"ten_cache_free")?,
            })
        }
    });
    if found.is_none() {
        eprintln!("without tenalloc's C library: libtenalloc.so was not found; `make bench` links it");
    }
}

/// A cache, and a group a tenant two levels below the root.
pub(crate) struct CLibrary {
    functions: &'static Functions,
    cache: Handle,
    groups: Vec<Handle>,
}

// SAFETY: handles may be used from any thread.
unsafe impl Sync for CLibrary {}

impl CLibrary {
    /// `None`: the library is not there, or gave no memory. Its handles stay, as the rows do.
    pub(crate) fn new(size: usize, groups: usize) -> Option<Self> {
        let functions = FUNCTIONS.get()?.as_ref()?;
        let made = |make: &dyn Fn(*mut Handle) -> c_int| {
            let mut handle = null_mut();
            (make(&mut handle) == 0).then_some(handle)
        };
        // SAFETY: handles are open, names end with NUL, and what is made is written to a live variable.
        unsafe {
            let controller = made(&|out| (functions.controller)(null(), out))?;
            let root = made(&|out| (functions.root)(controller, out))?;
            let service = made(&|out| (functions.group)(root, c"service".as_ptr(), out))?;
            let cache = made(&|out| (functions.cache)(controller, c"bench".as_ptr(), size, out))?;
            let group = |i| {
                let name = CString::new(format!("t{i}")).ok()?;
                made(&|out| (functions.group)(service, name.as_ptr(), out))
            };
            Some(Self { functions, cache, groups: (0..groups).map(group).collect::<Option<_>>()? })
        }
    }
}

impl Peer for CLibrary {
    type Object = Place;

    #[inline]
    fn alloc(&self, group: usize, _: usize) -> Place {
        // SAFETY: open handles.
        let object = unsafe { (self.functions.alloc)(self.cache, self.groups[group]) };
        Place(NonNull::new(object).expect("memory"))
    }

    #[inline]
    fn address(object: Place) -> NonNull<u8> {
        object.0
    }

    #[inline]
    unsafe fn free(&self, object: Place, _: usize) {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.free)(self.cache, object.0.as_ptr()) };
        assert!(code == 0, "a live object");
    }
}
