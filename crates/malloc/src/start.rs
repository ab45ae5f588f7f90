//! The first call, whoever makes it: the loader, another library's constructor, the program. Then our own constructor,
//! when the environment can be read for certain, and the destructor.

use crate::settings::{Grouping, Settings};
use crate::{fork, report, stderr, tell, thread};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::*, compiler_fence};
use tenalloc::{Config, Controller, Group};

struct Here {
    ctl: Controller,
    process: Group,
    settings: UnsafeCell<Settings>,
}

struct Place(UnsafeCell<MaybeUninit<Here>>);

// SAFETY: written once before `READY` says so; the settings once before `CONFIGURED`.
unsafe impl Sync for Place {}

static HERE: Place = Place(UnsafeCell::new(MaybeUninit::uninit()));

/// 0: nobody called yet; 1: somebody is at it; 2: done.
static READY: AtomicU8 = AtomicU8::new(0);
static CONFIGURED: AtomicU8 = AtomicU8::new(0);
/// Threads may take the quick way: one group for all their calls, and no signal to be ready for.
static QUICK: AtomicBool = AtomicBool::new(false);

fn here() -> &'static Here {
    // SAFETY: callers come after `ready`; it is never changed or taken away.
    unsafe { (*HERE.0.get()).assume_init_ref() }
}

/// The controller. After [`ready`].
#[inline(always)]
pub(crate) fn control() -> &'static Controller {
    &here().ctl
}

/// The process's group: the root. After [`ready`].
#[inline(always)]
pub(crate) fn process() -> &'static Group {
    &here().process
}

/// What the environment said; the defaults until it could be read.
pub(crate) fn settings() -> Settings {
    if CONFIGURED.load(Acquire) == 2 {
        // SAFETY: written before, and never again.
        unsafe { *here().settings.get() }
    } else {
        Settings::DEFAULT
    }
}

pub(crate) fn is_quick() -> bool {
    QUICK.load(Acquire)
}

/// Whether there is a controller.
pub(crate) fn is_made() -> bool {
    READY.load(Acquire) == 2
}

/// Whether the library is started; it is, if it can be.
pub(crate) fn ready() -> bool {
    if READY.load(Acquire) != 2 && !once(&READY, make) {
        return false;
    }
    if CONFIGURED.load(Acquire) != 2 {
        unsafe extern "C" {
            static environ: *const *const core::ffi::c_char;
        }
        // The C library sets it up before constructors run, but a call may come earlier still.
        // SAFETY: the C library's variable, read once.
        if unsafe { !(&raw const environ).read().is_null() } {
            once(&CONFIGURED, configure);
        }
    }
    true
}

/// Runs `f` in one thread; others wait for it. Calls that `f` leads to are served by `early`.
fn once(state: &AtomicU8, f: impl Fn() -> bool) -> bool {
    loop {
        match state.compare_exchange(0, 1, Acquire, Acquire) {
            Ok(_) => {
                let me = thread::me();
                me.window.store(thread::STARTS, Relaxed);
                let done = f();
                me.window.store(thread::OPEN, Relaxed);
                state.store(if done { 2 } else { 0 }, Release);
                compiler_fence(SeqCst);
                report::write_if_asked(me);
                return done;
            }
            Err(2) => return true,
            // SAFETY: no preconditions.
            Err(_) => unsafe { libc::sched_yield() },
        };
    }
}

#[cold]
#[inline(never)]
fn make() -> bool {
    let Ok(ctl) = Controller::new(Config::new()) else { return false };
    let here = Here { process: ctl.root(), ctl, settings: UnsafeCell::new(Settings::DEFAULT) };
    // SAFETY: one thread makes it, before anybody reads it.
    unsafe { (*HERE.0.get()).write(here) };
    fork::watch();
    thread::watch_exits();
    true
}

#[cold]
#[inline(never)]
fn configure() -> bool {
    stderr::look();
    let settings = Settings::read();
    // SAFETY: one thread writes it, before anybody reads it.
    unsafe { *here().settings.get() = settings };
    if settings.grouping == Grouping::Process {
        set_limits(&settings, process());
    }
    if let Some(reporting) = &settings.report {
        report::prepare(reporting);
    }
    let signal = settings.report.is_some_and(|r| r.signal.is_some());
    QUICK.store(!signal && settings.grouping != Grouping::Library, Release);
    true
}

/// Sets what the environment says on a group.
pub(crate) fn limit(group: &Group) {
    set_limits(&settings(), group);
}

fn set_limits(settings: &Settings, group: &Group) {
    if let Some(max) = settings.max {
        group.set_max(max);
    }
    if let Some(high) = settings.high
        && let Err(e) = group.set_high(high)
    {
        tell::line(format_args!("TENALLOC_HIGH is not set on {}: {e}", group.path()));
    }
}

extern "C" fn constructor() {
    // From here on all settings hold, and forks are safe.
    ready();
}

extern "C" fn destructor() {
    if ready() && settings().report.is_some() {
        report::write_last();
    }
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destructor;
