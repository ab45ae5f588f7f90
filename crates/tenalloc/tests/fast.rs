//! The fast way, on the machine's own CPUs: threads that are preempted, moved and signalled in its middle, while others
//! read sums, drain stocks, and remove groups and caches. A made-up machine has no restartable sequences, so none of the
//! tests that run on one come this way.

mod common;
use common::Random;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use tenalloc::{Cache, CacheConfig, Config, Controller, Error, Group};

struct Live {
    object: NonNull<u8>,
    mark: u64,
}

/// Moves this thread to one of the first two CPUs that it may go to, whatever their numbers are. False: it cannot.
fn move_to(which: usize) -> bool {
    static CPUS: OnceLock<Vec<usize>> = OnceLock::new();
    // SAFETY: a zeroed set is a valid one; the calls stay inside it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        // Whoever asks first has not been moved yet.
        let cpus = CPUS.get_or_init(|| {
            libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
            (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).take(2).collect()
        });
        let Some(cpu) = cpus.get(which % cpus.len().max(1)) else { return false };
        set = std::mem::zeroed();
        libc::CPU_SET(*cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
    }
}

/// Allocates and frees at random until `end`; marks say that nobody else has the object. Adds up how often it allocated.
fn work(cache: &Cache, groups: &[Group], seed: u64, end: &AtomicBool, moves: bool, all: &AtomicU64) {
    let mut random = Random(seed);
    let mut live: Vec<Live> = Vec::new();
    let (mut done, mut told) = (0, 0);
    while !end.load(Relaxed) {
        for _ in 0..200 {
            if live.len() > 400 || !live.is_empty() && random.below(2) == 0 {
                let Live { object, mark } = live.swap_remove(random.below(live.len()));
                // SAFETY: live and ours.
                unsafe {
                    assert_eq!(object.cast::<u64>().read(), mark, "somebody else has it too");
                    cache.free(object).unwrap();
                }
            } else {
                let group = &groups[random.below(groups.len())];
                let object = match cache.alloc(group) {
                    Ok(object) => object,
                    Err(Error::Limit(_)) => continue,
                    Err(e) => panic!("{e}"),
                };
                let mark = seed << 48 | done;
                // SAFETY: new and ours.
                unsafe { object.cast::<u64>().write(mark) };
                live.push(Live { object, mark });
                done += 1;
            }
        }
        if moves {
            move_to(random.below(2));
        }
        all.fetch_add(done - told, Relaxed);
        told = done;
    }
    for Live { object, .. } in live {
        // SAFETY: live and ours.
        unsafe { cache.free(object) }.unwrap();
    }
}

/// Makes SIGPROF do nothing but interrupt.
fn let_signals_come() {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: the handler does nothing; the struct is valid when zeroed.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGPROF, &action, std::ptr::null_mut());
    }
}

/// Ends the work when it goes, also where a check failed: the threads are waited for.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn storm(hardened: bool, threads: u64, moves: bool) {
    let ctl = Controller::new(Config::new().hardened(hardened)).unwrap();
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let parent = ctl.root().create("p").unwrap();
    let groups: Vec<_> = (0..3).map(|i| parent.create(&format!("g{i}")).unwrap()).collect();
    groups[2].set_max(300 * cache.charge());
    let (end, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let_signals_come();
    let ids = Mutex::new(Vec::new());
    std::thread::scope(|s| {
        let workers: Vec<_> = (0..threads)
            .map(|t| {
                let (cache, groups, end, done, ids) = (&cache, &groups, &end, &done, &ids);
                s.spawn(move || {
                    // SAFETY: no preconditions.
                    ids.lock().unwrap().push(unsafe { libc::pthread_self() } as usize);
                    work(cache, groups, t + 1, end, moves, done);
                })
            })
            .collect();
        let ended = End(&end);
        let start = Instant::now();
        let mut round = 0;
        // A slow machine gets the time that it takes.
        while start.elapsed() < Duration::from_millis(700) || round <= 3 || done.load(Relaxed) <= 1_000 {
            // Each stops all CPUs in its own way.
            assert!(groups[2].current() <= groups[2].max());
            assert_eq!(parent.exact() % cache.charge(), 0, "between two steps of an object");
            ctl.stat();
            ctl.trim();
            let passing = parent.create(&format!("passing{round}")).unwrap();
            let object = cache.alloc(&passing).unwrap();
            passing.remove().unwrap();
            // SAFETY: live and ours.
            unsafe { cache.free(object) }.unwrap();
            for id in ids.lock().unwrap().iter() {
                // SAFETY: the thread runs until `end` is set, and is joined after that.
                (0..10).for_each(|_| unsafe {
                    libc::pthread_kill(*id as libc::pthread_t, libc::SIGPROF);
                });
            }
            round += 1;
        }
        drop(ended);
        for worker in workers {
            worker.join().unwrap();
        }
    });
    assert_eq!((parent.exact(), ctl.stat().objects, ctl.stat().corrupted), (0, 0, 0));
    ctl.trim();
    assert_eq!((ctl.root().current(), ctl.slab_bytes()), (0, 0), "every byte is back");
}

#[test]
fn two_threads_preempted_and_signalled() {
    storm(false, 2, false);
}

#[test]
fn more_threads_than_cpus_that_move() {
    storm(false, 7, true);
}

#[test]
fn hardened() {
    storm(true, 3, true);
}

/// What is wrong is told on the fast way as on the whole one.
#[test]
fn mistakes_are_told() {
    // Not between two frees of one object: on the other CPU the second is another's.
    if !move_to(0) {
        println!("skipped: this thread cannot be kept on a CPU");
        return;
    }
    for hardened in [false, true] {
        let ctl = Controller::new(Config::new().hardened(hardened)).unwrap();
        let g = ctl.root().create("g").unwrap();
        let (a, b) =
            (ctl.cache(&CacheConfig::new("a", 64)).unwrap(), ctl.cache(&CacheConfig::new("b", 64)).unwrap());
        // Sheaves and slots are there from here on, and a vector.
        let other = ctl.root().create("other").unwrap();
        let stay = [a.alloc(&g).unwrap(), a.alloc(&other).unwrap()];
        for _ in 0..100 {
            let object = a.alloc(&g).unwrap();
            let address = object.as_ptr() as usize;
            let inside = object.map_addr(|a| a.saturating_add(8));
            // SAFETY: refused, but for the last good one.
            unsafe {
                assert_eq!(b.free(object), Err(Error::WrongCache { address }));
                assert_eq!(a.free(inside), Err(Error::Interior { address: address + 8 }));
                assert_eq!(a.free(object), Ok(()));
                assert_eq!(a.free(object), Err(Error::DoubleFree { address }));
                assert!(ctl.free(NonNull::from(&mut 5u8)).is_err());
            }
        }
        g.remove().unwrap();
        assert_eq!(a.alloc(&g), Err(Error::GroupRemoved));
        // SAFETY: live and ours.
        stay.into_iter().for_each(|o| unsafe { ctl.free(o) }.unwrap());
        let elsewhere = Controller::new(Config::new()).unwrap();
        assert_eq!(a.alloc(&elsewhere.root()), Err(Error::NotFound));
        a.destroy().unwrap();
        assert_eq!(ctl.root().exact(), 0);
    }
}

/// A cache that is destroyed while others allocate from it: they are told, and nothing is lost.
#[test]
fn destruction_while_others_allocate() {
    let ctl = Controller::new(Config::new().hardened(false)).unwrap();
    let g = ctl.root().create("g").unwrap();
    for round in 0..300 {
        let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
        std::thread::scope(|s| {
            let (cache, g) = (&cache, &g);
            s.spawn(move || {
                for _ in 0..200 {
                    match cache.alloc(g) {
                        // SAFETY: live and ours.
                        Ok(object) => unsafe { cache.free(object) }.unwrap(),
                        Err(Error::CacheDestroyed) => break,
                        Err(e) => panic!("{e}"),
                    }
                }
            });
            while let Err(error) = cache.clone().destroy() {
                assert_eq!(error, Error::CacheBusy { objects: 1 });
            }
        });
        assert_eq!((g.exact(), ctl.slab_bytes()), (0, 0), "round {round}");
    }
}
