//! What programs may ask of glibc's malloc, or tell it: figures, trimming, options. Were it not here, glibc would answer
//! for a heap that nobody uses.
//!
//! Not in `c`: nothing here gives or takes memory.

use crate::report;
use crate::serve::calmly;
use crate::start;
use crate::text::Text;
use core::ffi::{c_int, c_void};
use core::fmt::Write;
use tenalloc::Stat;

/// `malloc_trim`: gives free pages back to the system; 1 if there were any.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) extern "C" fn malloc_trim(_keep: usize) -> c_int {
    c_int::from(calmly(|| start::control().trim() > 0).unwrap_or(false))
}

/// `mallopt`: there is nothing to set; taken as set, as glibc does with what it does not know: programs ask for what they
/// think is better with its heap.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) extern "C" fn mallopt(_what: c_int, _value: c_int) -> c_int {
    1
}

/// The controller's figures in glibc's terms, bytes. Large objects, which have mappings or pages of their own, stand for
/// what glibc maps; all else is its one arena.
struct Figures {
    /// Resident for objects that are not large: live ones, free ones, and bookkeeping.
    arena: u64,
    /// Of that, live objects.
    used: u64,
    large: u64,
    /// What `malloc_trim` would give back.
    free: u64,
    /// Address space.
    mapped: u64,
}

impl Figures {
    fn now() -> Self {
        let s: Stat = calmly(|| start::control().stat()).unwrap_or_default();
        let arena = s.resident_bytes().saturating_sub(s.large_bytes);
        let used = s.live_bytes.saturating_sub(s.large_bytes).min(arena);
        Self { arena, used, large: s.large_bytes, free: s.free_page_bytes, mapped: s.mapped_bytes }
    }
}

/// `mallinfo2`: see mallinfo(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) extern "C" fn mallinfo2() -> libc::mallinfo2 {
    let f = Figures::now();
    libc::mallinfo2 {
        arena: f.arena as usize,
        ordblks: 1, // never 0 with glibc: programs divide by it
        smblks: 0,
        hblks: usize::from(f.large > 0),
        hblkhd: f.large as usize,
        usmblks: 0,
        fsmblks: 0,
        uordblks: f.used as usize,
        fordblks: (f.arena - f.used) as usize,
        keepcost: f.free as usize,
    }
}

/// `mallinfo`: the same in `int`, where 2 GiB are as much as there can be.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) extern "C" fn mallinfo() -> libc::mallinfo {
    let m = mallinfo2();
    let int = |bytes: usize| c_int::try_from(bytes).unwrap_or(c_int::MAX);
    libc::mallinfo {
        arena: int(m.arena),
        ordblks: int(m.ordblks),
        smblks: int(m.smblks),
        hblks: int(m.hblks),
        hblkhd: int(m.hblkhd),
        usmblks: int(m.usmblks),
        fsmblks: int(m.fsmblks),
        uordblks: int(m.uordblks),
        fordblks: int(m.fordblks),
        keepcost: int(m.keepcost),
    }
}

/// `malloc_stats`: the report's table on standard error.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) extern "C" fn malloc_stats() {
    calmly(|| report::show("malloc_stats"));
}

/// `malloc_info`: totals as XML, in glibc's words.
///
/// # Safety
/// `to` is a stream that can be written to.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn malloc_info(options: c_int, to: *mut libc::FILE) -> c_int {
    if options != 0 {
        return libc::EINVAL;
    }
    let f = Figures::now();
    let mut buffer = [0; 1024];
    let mut text = Text::new(&mut buffer);
    let _ = write!(
        text,
        "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n</sizes>\n\
         <total type=\"fast\" count=\"0\" size=\"0\"/>\n<total type=\"rest\" count=\"1\" size=\"{free}\"/>\n\
         <system type=\"current\" size=\"{arena}\"/>\n<aspace type=\"total\" size=\"{mapped}\"/>\n</heap>\n\
         <total type=\"fast\" count=\"0\" size=\"0\"/>\n<total type=\"rest\" count=\"1\" size=\"{free}\"/>\n\
         <total type=\"mmap\" count=\"{number}\" size=\"{large}\"/>\n\
         <system type=\"current\" size=\"{arena}\"/>\n<aspace type=\"total\" size=\"{mapped}\"/>\n</malloc>\n",
        free = f.arena - f.used,
        arena = f.arena,
        mapped = f.mapped,
        large = f.large,
        number = u8::from(f.large > 0),
    );
    let text = text.bytes();
    // The stream may allocate: nothing of ours is held.
    // SAFETY: the caller's stream; the text is ours.
    let written = unsafe { libc::fwrite(text.as_ptr().cast::<c_void>(), 1, text.len(), to) };
    if written == text.len() { 0 } else { -1 }
}

// The names that glibc has for the same, for who calls them.

/// `__libc_mallopt`: as [`mallopt`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) extern "C" fn __libc_mallopt(what: c_int, value: c_int) -> c_int {
    mallopt(what, value)
}

/// `__libc_mallinfo`: as [`mallinfo`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) extern "C" fn __libc_mallinfo() -> libc::mallinfo {
    mallinfo()
}
