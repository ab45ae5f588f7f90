//! Finds the allocators and loads them, each for itself: their symbols stay their own, so several mallocs live in one
//! process and none takes over the program's.

use super::table::{Free, Malloc, Table};
use super::talloc;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::transmute_copy;
use std::path::Path;
use std::ptr::null;
use std::sync::OnceLock;

/// An allocator that is there.
pub(crate) struct Allocator {
    pub(crate) name: &'static str,
    pub(crate) table: Table,
}

impl Allocator {
    pub(crate) fn version(&self) -> String {
        // SAFETY: every table's version is text that stays.
        unsafe { CStr::from_ptr((self.table.version)()) }.to_string_lossy().into_owned()
    }
}

/// Name, file, and how to get it.
const LIBRARIES: [(&str, &str, &str); 6] = [
    ("mimalloc 3", "libpeer_mimalloc3.so", "scripts/peers builds it; needs a C compiler"),
    ("mimalloc 2", "libpeer_mimalloc2.so", "scripts/peers builds it; needs a C compiler"),
    ("jemalloc", "libpeer_jemalloc.so", "scripts/peers builds it; needs make"),
    ("snmalloc", "libpeer_snmalloc.so", "scripts/peers builds it; needs cmake and a C++ compiler"),
    ("tcmalloc", "libtcmalloc_minimal.so.4", "apt-get install libtcmalloc-minimal4"),
    ("talloc", "libtalloc.so.2", "apt-get install libtalloc2"),
];

/// A loaded library; it stays loaded.
struct Library(*mut c_void);

impl Library {
    fn open(file: &Path) -> Option<Self> {
        let file = CString::new(file.as_os_str().as_encoded_bytes()).ok()?;
        // SAFETY: loading runs the library's initialisers, which is what it is loaded for.
        let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!handle.is_null()).then_some(Self(handle))
    }

    /// # Safety
    /// `F` is the type of the function of that name.
    unsafe fn symbol<F: Copy>(&self, name: &CStr) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle is open.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        // SAFETY: the caller's promise: an address of an F.
        (!address.is_null()).then(|| unsafe { transmute_copy(&address) })
    }

    /// gperftools' own names.
    fn tcmalloc(&self) -> Option<Table> {
        // SAFETY: the types are those of gperftools/tcmalloc.h and malloc_extension_c.h.
        unsafe {
            TC_VERSION.set(self.symbol(c"tc_version")?).ok()?;
            Some(Table {
                version: tc_version,
                malloc: self.symbol::<Malloc>(c"tc_malloc")?,
                free: self.symbol::<Free>(c"tc_free")?,
                purge: self.symbol(c"MallocExtension_ReleaseFreeMemory")?,
                heaps: None,
                threads: true,
            })
        }
    }

    fn talloc(&self) -> Option<Table> {
        // SAFETY: the types are those of talloc.h.
        let functions = unsafe {
            talloc::Functions {
                named: self.symbol(c"talloc_named_const")?,
                free: self.symbol(c"_talloc_free")?,
                limit: self.symbol(c"talloc_set_memlimit")?,
                major: self.symbol(c"talloc_version_major")?,
                minor: self.symbol(c"talloc_version_minor")?,
            }
        };
        talloc::table(functions)
    }

    fn built(&self) -> Option<Table> {
        // SAFETY: the packages in bench/peers export it with this type, compiled from the same file.
        unsafe { self.symbol::<extern "C" fn() -> Table>(c"tenalloc_peer") }.map(|peer| peer())
    }
}

type TcVersion = unsafe extern "C" fn(*mut c_int, *mut c_int, *mut *const c_char) -> *const c_char;
static TC_VERSION: OnceLock<TcVersion> = OnceLock::new();

unsafe extern "C" fn tc_version() -> *const c_char {
    let (mut major, mut minor, mut patch) = (0, 0, null());
    // SAFETY: all three are live.
    TC_VERSION.get().map_or(c"?".as_ptr(), |f| unsafe { f(&mut major, &mut minor, &mut patch) })
}

unsafe extern "C" fn glibc_purge() {
    // SAFETY: it has no preconditions.
    unsafe { libc::malloc_trim(0) };
}

fn glibc() -> Allocator {
    let table = Table {
        version: libc::gnu_get_libc_version,
        malloc: std::hint::black_box(libc::malloc as Malloc),
        free: std::hint::black_box(libc::free as Free),
        purge: glibc_purge,
        heaps: None,
        threads: true,
    };
    Allocator { name: "glibc", table }
}

/// One allocator; the reason and the remedy if it cannot be had.
pub(crate) fn find(name: &str, folder: &Path) -> Result<Allocator, String> {
    if name == "glibc" {
        return Ok(glibc());
    }
    let &(name, file, how) =
        LIBRARIES.iter().find(|l| l.0 == name).ok_or_else(|| format!("nothing is known of {name}"))?;
    let missing = || format!("without {name}: {file} was not found; {how}");
    let library =
        Library::open(&folder.join(file)).or_else(|| Library::open(Path::new(file))).ok_or_else(missing)?;
    let table = match name {
        "tcmalloc" => library.tcmalloc(),
        "talloc" => library.talloc(),
        _ => library.built(),
    };
    table
        .map(|table| Allocator { name, table })
        .ok_or_else(|| format!("without {name}: {file} is another version"))
}

/// All that are there; what is not is told, a line each.
pub(crate) fn all(folder: &Path) -> Vec<Allocator> {
    let mut found = vec![glibc()];
    for (name, ..) in LIBRARIES {
        match find(name, folder) {
            Ok(allocator) => found.push(allocator),
            Err(why) => eprintln!("{why}"),
        }
    }
    found
}
