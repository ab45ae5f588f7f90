//! Number 29 of the kernel's tests (`nolock_and_friends`, lib/tests/slub_kunit.c): allocation from interrupt context. The
//! interrupts here are signals that another thread sends as fast as it can, whatever the first holds at that moment.

mod common;
use common::free;
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use tenalloc::{Cache, CacheConfig, Config, Controller, Error, Group, Topology};

/// What the handler works with.
struct Handlers {
    ctl: Controller,
    cache: Cache,
    group: Group,
    /// Objects that one handler left to a later one. Handlers of one thread at a time: it masks itself.
    live: UnsafeCell<[Option<NonNull<u8>>; 64]>,
}

// SAFETY: `live` is the handler's, which runs in one thread and masks itself.
unsafe impl Sync for Handlers {}
// SAFETY: as above.
unsafe impl Send for Handlers {}

static HANDLERS: OnceLock<Handlers> = OnceLock::new();
static CALLS: AtomicU64 = AtomicU64::new(0);
static MADE: AtomicU64 = AtomicU64::new(0);
static BUSY: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_: i32) {
    let Some(h) = HANDLERS.get() else { return };
    let call = CALLS.fetch_add(1, Relaxed);
    // SAFETY: see `Handlers`.
    let live = unsafe { &mut *h.live.get() };
    for (i, place) in live.iter_mut().enumerate() {
        match place.take() {
            // SAFETY: live and ours.
            Some(object) if !(i as u64 + call).is_multiple_of(3) => unsafe {
                assert_eq!(object.cast::<u64>().read(), 0x5151, "somebody else has it too");
                h.ctl.free_nolock(object).unwrap();
            },
            Some(object) => *place = Some(object),
            None => match h.cache.alloc_nolock(&h.group) {
                Ok(object) => {
                    // SAFETY: new, 64 bytes.
                    unsafe { object.cast::<u64>().write(0x5151) };
                    MADE.fetch_add(1, Relaxed);
                    *place = Some(object);
                }
                Err(Error::Busy) => drop(BUSY.fetch_add(1, Relaxed)),
                Err(e) => panic!("{e}"),
            },
        }
    }
}

#[test]
fn t29_nolock_and_friends() {
    // SAFETY: the struct is valid when zeroed; the handler calls nothing but what is made for handlers.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGPROF, &action, std::ptr::null_mut());
    }
    let ctl = Controller::new(Config::new()).unwrap();
    let cache = ctl.cache(&CacheConfig::new("nolock", 64)).unwrap();
    let group = ctl.root().create("g").unwrap();
    let live = UnsafeCell::new([None; 64]);
    let h = HANDLERS.get_or_init(|| Handlers {
        ctl: ctl.clone(),
        cache: cache.clone(),
        group: group.clone(),
        live,
    });
    // SAFETY: no preconditions.
    let me = unsafe { libc::pthread_self() } as usize;
    let end = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !end.load(Relaxed) {
                let seen = CALLS.load(Relaxed);
                // SAFETY: that thread is in this scope until it has set `end` and we have ended.
                unsafe { libc::pthread_kill(me as libc::pthread_t, libc::SIGPROF) };
                // The next one when this one was seen.
                while CALLS.load(Relaxed) == seen && !end.load(Relaxed) {
                    std::thread::yield_now(); // they may have one CPU between them
                }
            }
        });
        interrupted(&ctl, &cache, &group);
        end.store(true, Relaxed);
    });
    // How often a signal comes, and where, is the system's affair; that it came is ours.
    println!(
        "{} signals, {} objects, {} times busy",
        CALLS.load(Relaxed),
        MADE.load(Relaxed),
        BUSY.load(Relaxed)
    );
    assert!(CALLS.load(Relaxed) > 0, "the handler never ran");
    // SAFETY: nobody sends signals any more, and a handler that was under way ran in this thread.
    let rest = unsafe { &mut *h.live.get() };
    rest.iter_mut().filter_map(Option::take).for_each(|o| free(&ctl, o));
    assert_eq!((group.exact(), ctl.stat().objects, ctl.stat().corrupted), (0, 0, 0));
    mistakes();
    what_is_left_is_freed_later();
}

/// What the thread does that the signals come to.
fn interrupted(ctl: &Controller, cache: &Cache, group: &Group) {
    let met = || CALLS.load(Relaxed) > 300 && MADE.load(Relaxed) > 300 && BUSY.load(Relaxed) > 5;
    // That there was a signal is waited for, as long as it takes.
    let go_on = |round| round < 1000 || round < 5000 && !met() || CALLS.load(Relaxed) == 0;
    for round in (0u64..).take_while(|round| go_on(*round)) {
        let mut mine = Vec::new();
        for i in 0..1000u64 {
            let object = if i % 2 == 0 { cache.alloc(group) } else { cache.alloc_unowned(None) }.unwrap();
            // SAFETY: new and ours.
            unsafe { object.cast::<u64>().write(round << 32 | i) };
            mine.push(object);
        }
        for (i, object) in mine.into_iter().enumerate() {
            // SAFETY: live and ours.
            assert_eq!(unsafe { object.cast::<u64>().read() }, round << 32 | i as u64);
            if i % 3 == 0 {
                // SAFETY: as above.
                unsafe { ctl.free_nolock(object) }.unwrap();
            } else {
                free(ctl, object);
            }
        }
        match round % 50 {
            0 => drop(ctl.trim()),
            1 => assert!(group.exact() <= 64 * cache.charge()),
            2 => drop(ctl.root().create("passing").unwrap().remove()),
            _ => {}
        }
    }
}

fn mistakes() {
    let ctl = Controller::new(Config::new().hardened(true).topology(Topology::simulated(1, 1))).unwrap();
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let g = ctl.root().create("g").unwrap();
    assert_eq!(cache.alloc_nolock(&g), Err(Error::Busy), "nothing is at hand yet");
    let object = cache.alloc(&g).unwrap();
    let address = object.as_ptr() as usize;
    // SAFETY: refused, or live and ours.
    unsafe {
        let inside = object.map_addr(|a| a.saturating_add(8));
        assert_eq!(ctl.free_nolock(inside), Err(Error::Interior { address: address + 8 }));
        assert_eq!(ctl.free_nolock(object), Ok(()));
        assert_eq!(ctl.free_nolock(object), Err(Error::DoubleFree { address }));
    }
    let debug = ctl.cache(&CacheConfig::new("d", 64).debug(true)).unwrap();
    free(&ctl, debug.alloc(&g).unwrap());
    assert_eq!(debug.alloc_nolock(&g), Err(Error::Busy));
    g.remove().unwrap();
    assert_eq!(cache.alloc_nolock(&g), Err(Error::GroupRemoved));
}

/// An object whose cache has no sheaf cannot be freed at once; large ones cannot either.
fn what_is_left_is_freed_later() {
    let ctl = Controller::new(Config::new()).unwrap();
    let g = ctl.root().create("g").unwrap();
    let cache = ctl.cache(&CacheConfig::new("c", 64).sheaf(0)).unwrap();
    let objects = [cache.alloc(&g).unwrap(), ctl.malloc(&g, 100_000, 8).unwrap(), cache.alloc(&g).unwrap()];
    let before = g.current();
    for object in objects {
        // SAFETY: live and ours.
        unsafe { ctl.free_nolock(object) }.unwrap();
    }
    assert_eq!(g.current(), before, "still charged");
    assert_eq!(g.exact(), 0, "whoever reads sums frees them first");
    assert_eq!(ctl.stat().objects, 0);
}
