//! What a thread knows: its group, and where in this library it is.
//!
//! Rust has no stable thread-local storage without std, and std's may allocate; so this is 64 zeroed bytes that the
//! linker and the C library give to each thread (initial-exec: one load and one addition to find).

use crate::report::departed;
use crate::{serve, start, text::Text};
use core::arch::{asm, global_asm};
use core::cell::{Cell, UnsafeCell};
use core::ffi::c_void;
use core::fmt::Write;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};
use tenalloc::Group;

global_asm!(
    ".pushsection .tbss.tenalloc_malloc_thread, \"awT\", @nobits",
    ".globl tenalloc_malloc_thread",
    ".hidden tenalloc_malloc_thread",
    ".type tenalloc_malloc_thread, @object",
    ".size tenalloc_malloc_thread, {size}",
    ".p2align 6",
    "tenalloc_malloc_thread:",
    ".zero {size}",
    ".popsection",
    size = const size_of::<Thread>(),
);

/// All zeros in a new thread.
#[repr(C, align(64))]
pub(crate) struct Thread {
    /// Who pays on the quick way. Null: `serve` goes the careful way.
    pub(crate) group: Cell<*const Group>,
    /// The thread's own, if `has` says so.
    own: UnsafeCell<MaybeUninit<Group>>,
    has: Cell<Has>,
    /// Destructors of this thread's that ran.
    rounds: Cell<u8>,
    /// In which it is of the windows where nothing works as usual.
    pub(crate) window: AtomicU8,
    /// How deep it is in what a signal handler must not interrupt; kept while a signal may come.
    pub(crate) inside: AtomicU32,
}

/// [`Thread::window`]: none.
pub(crate) const OPEN: u8 = 0;
/// The thread starts this library: calls are served by `early`.
pub(crate) const STARTS: u8 = 1;
/// It forks, and holds all locks: see `fork`.
pub(crate) const FORKS: u8 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Has {
    /// No group yet.
    Nothing = 0,
    /// It is being made.
    Soon,
    Group,
    /// It had one, or there was no memory for it: the process pays.
    Gone,
}

/// This thread's.
#[inline(always)]
pub(crate) fn me() -> &'static Thread {
    let at: *const Thread;
    // SAFETY: reads the thread pointer and a constant; the storage is zeroed, which is valid, and lives as long as the
    // thread. Nothing that borrows it leaves the thread.
    unsafe {
        asm!(
            "mov {at}, qword ptr [rip + tenalloc_malloc_thread@GOTTPOFF]",
            "add {at}, qword ptr fs:[0]",
            at = out(reg) at,
            options(pure, nomem, nostack),
        );
        &*at
    }
}

/// The number that a destructor is known by; made at the start.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Prepares for threads that go.
pub(crate) fn watch_exits() {
    let mut key = 0;
    // SAFETY: the key is written to a local; the destructor fits its type.
    if unsafe { libc::pthread_key_create(&mut key, Some(leave)) } == 0 {
        KEY.store(key, Relaxed);
    }
}

/// The name that the system has for a thread: of `tid`, or of the caller for 0.
pub(crate) fn name_of(tid: u32, to: &mut [u8; 16]) -> &[u8] {
    if tid == 0 {
        // SAFETY: writes up to 16 bytes, NUL-terminated.
        unsafe { libc::prctl(libc::PR_GET_NAME, to.as_mut_ptr()) };
    } else {
        let mut path = [0; 40];
        let mut text = Text::new(&mut path);
        let _ = write!(text, "/proc/self/task/{tid}/comm\0");
        if let Ok(path) = core::ffi::CStr::from_bytes_with_nul(text.bytes()) {
            crate::text::read(path, to);
        }
    }
    let end = to.iter().position(|b| matches!(b, 0 | b'\n')).unwrap_or(to.len());
    &to[..end]
}

impl Thread {
    /// The thread's own group, made if need be; the process's where there is none.
    pub(crate) fn own_group(&self) -> &'static Group {
        match self.has.get() {
            // SAFETY: it is there, and stays until the thread leaves; what gets it is done by then.
            Has::Group => unsafe { (*self.own.get()).assume_init_ref() },
            Has::Nothing => self.make(),
            Has::Soon | Has::Gone => start::process(),
        }
    }

    #[cold]
    fn make(&self) -> &'static Group {
        self.has.set(Has::Soon);
        let (mut comm, mut name) = ([0; 16], [0; 64]);
        let mut name = Text::new(&mut name);
        // SAFETY: no preconditions.
        let tid = unsafe { libc::gettid() };
        let comm = name_of(0, &mut comm);
        let plain = |b: &u8| if b.is_ascii_graphic() && *b != b'/' { char::from(*b) } else { '_' };
        comm.iter().map(plain).for_each(|c| _ = name.write_char(c));
        let _ = write!(name, "-{tid}");
        let Ok(group) = start::process().create(name.as_str()) else {
            self.has.set(Has::Gone);
            return start::process();
        };
        start::limit(&group);
        // SAFETY: this thread's storage, not in use; the key was made at the start, and any value but null will do.
        unsafe {
            (*self.own.get()).write(group);
            libc::pthread_setspecific(KEY.load(Relaxed), core::ptr::from_ref(self).cast());
        }
        self.has.set(Has::Group);
        self.own_group()
    }

    /// The group of a thread that leaves, or that was copied by a fork, is the thread's no more.
    fn forget(&self) -> Option<Group> {
        self.group.set(core::ptr::null());
        let had = self.has.replace(Has::Nothing);
        // SAFETY: it was there, and nobody takes it from here again.
        (had == Has::Group).then(|| unsafe { (*self.own.get()).assume_init_read() })
    }

    /// In the child of a fork this thread has a new number: it gets a new group.
    pub(crate) fn forget_copied(&self) {
        drop(self.forget());
    }
}

/// Runs when a thread ends. Destructors of others may still allocate, so it asks to be called again as often as it can
/// (4 times with glibc), and only then lets the group go; what is allocated later still the process pays.
extern "C" fn leave(_: *mut c_void) {
    let me = me();
    let rounds = me.rounds.get() + 1;
    me.rounds.set(rounds);
    if rounds < 4 {
        // SAFETY: as when the group was made.
        unsafe { libc::pthread_setspecific(KEY.load(Relaxed), core::ptr::from_ref(me).cast()) };
        return;
    }
    serve::undisturbed(me, || {
        if let Some(group) = me.forget() {
            me.has.set(Has::Gone);
            let mut comm = [0; 16];
            departed::count(name_of(0, &mut comm), group.peak());
            // Its objects are the process's from here on.
            let _ = group.remove();
        }
    });
}
