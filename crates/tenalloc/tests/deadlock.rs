//! The deadlock of four threads (reference/linux.md, 1.7; test 43 of section 4.4): as a model that is searched whole,
//! and with four real threads, a pipe, and a page that is pinned.
//!
//! ```text
//!   T1 takes memory out of use ─waits for a page of─► T3 writes to a full pipe ─waits for─► T4 reads it, but first
//!      ▲                                                                                    reads a group's state
//!      └───────5.8: waits for the lock of───────── T2 removes groups ◄──5.8: waits for the lock of──┘
//! ```
//!
//! T1 is [`Controller::offline`] of the chunk that the page lies in. In some rounds it is cancelled by T2 while it waits
//! (the reporter's second hang: who should have ended the hot-remove was stuck on the same lock), in some it is given no
//! time and must say what holds the chunk.

mod common;
use common::free;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Barrier, mpsc};
use std::time::Duration;
use tenalloc::{
    CacheConfig, Config, Controller, Group, ListLru, LruStatus, OfflineError, Range, Scanned, Shrinker,
};

/// Searches every state of the model as `define` makes it. `None`: the tools are not there.
fn search(define: &[&str]) -> Option<(ExitStatus, String)> {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/deadlock.pml");
    let name = define.first().map_or("tenalloc", |d| d.trim_start_matches("-D"));
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("deadlock-{name}"));
    std::fs::create_dir_all(&dir).unwrap();
    let run = |program: &str, args: &[&str]| match Command::new(program).args(args).current_dir(&dir).output()
    {
        Ok(output) => Some(output),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: {program} is not installed (Debian: spin, gcc)");
            None
        }
        Err(e) => panic!("{program}: {e}"),
    };
    let model = model.canonicalize().unwrap();
    let mut args = vec!["-a"];
    args.extend(define);
    args.push(model.to_str().unwrap());
    let spin = run("spin", &args)?;
    assert!(spin.status.success(), "{}", String::from_utf8_lossy(&spin.stdout));
    let cc = run("cc", &["-O1", "-w", "-DSAFETY", "-o", "pan", "pan.c"])?;
    assert!(cc.status.success(), "{}", String::from_utf8_lossy(&cc.stderr));
    let pan = run(dir.join("pan").to_str().unwrap(), &["-m100000"])?;
    Some((pan.status, String::from_utf8_lossy(&pan.stdout).into_owned()))
}

#[test]
fn the_locks_of_linux_5_8_deadlock() {
    let Some((_, found)) = search(&["-DLINUX_5_8"]) else { return };
    assert!(found.contains("invalid end state") && found.contains("errors: 1"), "{found}");
}

#[test]
fn our_locks_cannot() {
    let Some((status, found)) = search(&[]) else { return };
    assert!(status.success() && found.contains("errors: 0"), "{found}");
    // The search was complete, and came by every statement of every thread.
    for bad in ["not completed", "too small", "Bit statespace"] {
        assert!(!found.contains(bad), "{found}");
    }
    for t in ["T1", "T2", "T3", "T4"] {
        assert!(found.contains(&format!("unreached in proctype {t}\n\t(0 of ")), "{found}");
    }
}

/// The search has eyes: waiting for the page with one lock held is found, and so is a wake-up that is lost because who
/// waits reads the count of departures too late.
#[test]
fn waiting_with_a_lock_held_or_too_late_would_be_found() {
    for wrong in ["-DWAIT_LOCKED", "-DSEEN_LATE"] {
        let Some((_, found)) = search(&[wrong]) else { return };
        assert!(found.contains("invalid end state"), "{wrong}: {found}");
    }
}

const THREADS: [&str; 4] = ["T1 takes memory out of use", "T2 removes groups", "T3 writes", "T4 reads"];

/// Where each thread is; read by the watchdog alone.
struct Places([AtomicUsize; 4]);

const WHERE: [&str; 11] = [
    "waiting for the next round",
    "waiting for the others of this round",
    "in offline",
    "in offline without time",
    "in create",
    "in remove",
    "in alloc",
    "in write to the pipe",
    "in free",
    "reading the group's state",
    "in read from the pipe",
];

impl Places {
    fn at(&self, thread: usize, what: &str) {
        let place = WHERE.iter().position(|w| *w == what).expect("a place of the list");
        self.0[thread].store(place, Relaxed);
    }
}

/// The last beat. (A thread that fails sends none: the others then wait for it, and the watchdog tells.)
const DONE: u64 = u64::MAX;

/// Ends the process if `beats` stop for a minute, second by second: while the whole machine stands still it counts one.
fn watch(beats: &mpsc::Receiver<u64>, places: &Places) {
    let (mut last, mut seconds) = (0, 0);
    loop {
        match beats.recv_timeout(Duration::from_secs(1)) {
            Ok(DONE) | Err(mpsc::RecvTimeoutError::Disconnected) => return,
            Ok(round) => (last, seconds) = (round, 0),
            Err(mpsc::RecvTimeoutError::Timeout) if seconds < 60 => seconds += 1,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                eprintln!("no progress for 60 s in round {last}:");
                for (name, place) in THREADS.iter().zip(&places.0) {
                    eprintln!("  {name}: {}", WHERE[place.load(Relaxed)]);
                }
                std::process::abort();
            }
        }
    }
}

/// Pages of the core: the pipe holds one.
const CORE: usize = 2 * 4096;
const LONG: Duration = Duration::from_secs(300);
/// Rounds in which T1 is cancelled once before, and in which it is given no time.
const CANCELLED: u64 = 16;
const HURRIED: u64 = 8;

/// A state in T1's round, which others wait for: rises from round to round.
fn state(round: u64, cancelling: bool) -> u64 {
    2 * round + u64::from(!cancelling)
}

/// The shrinker of the page: T3 is asked to give it up, and does not, being stuck in its write. That it was asked shows
/// that `offline` is under way, and that it will wait.
struct Owner {
    /// What T1 is at, and the last such at which T3 was asked.
    trying: AtomicU64,
    asked: AtomicU64,
}

impl Shrinker for Owner {
    fn scan(&self, lru: &ListLru, group: &Group, node: u8, number: u64) -> Scanned {
        let mut budget = number;
        let done = lru.walk(group, node, &mut budget, |_| LruStatus::Skip, |_| {});
        if done.shown > 0 {
            self.asked.store(self.trying.load(Relaxed), Release);
        }
        Scanned { looked_at: done.shown, stop: true, ..Scanned::default() }
    }
}

/// 500 rounds; 10,000 with `TENALLOC_SOAK=1`. Each round ends only when all four are done: T1 when the chunk of the page
/// that T3 has is gone, T3 when T4 has read, T4 when it has seen the state of the very groups that T2 is removing. T4
/// begins when T1 is waiting.
#[test]
fn four_threads_a_pipe_and_a_pinned_page() {
    let rounds = if std::env::var_os("TENALLOC_SOAK").is_some() { 10_000 } else { 500 };
    let start = std::time::Instant::now();
    let ctl = Controller::new(Config::new()).unwrap();
    let cache = ctl.cache(&CacheConfig::new("core", 200)).unwrap();
    let lru = ListLru::new(&ctl, 0).unwrap();
    let owner: &'static Owner = Box::leak(Box::new(Owner { trying: 0.into(), asked: 0.into() }));
    lru.set_shrinker(owner);
    let parent = ctl.root().create("system").unwrap();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    // SAFETY: a pipe of ours.
    let size = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
    assert!((0..CORE as i32).contains(&size), "the pipe holds {size} bytes");
    // The last round in which T3 had the page, and the last in which it was free again; where the page is.
    let (pinned, freed, page) = (AtomicU64::new(0), AtomicU64::new(0), AtomicUsize::new(0));
    let meet = Barrier::new(4);
    let places = Places([const { AtomicUsize::new(0) }; 4]);
    let over = AtomicBool::new(false);
    let (beat, beats) = mpsc::channel();
    let wait_for = |what: &AtomicU64, round| {
        while what.load(Acquire) < round {
            std::thread::yield_now();
        }
    };
    let chunks = std::thread::scope(|s| {
        let (ctl, cache, lru, parent) = (&ctl, &cache, &lru, &parent);
        let (places, meet, over) = (&places, &meet, &over);
        let (pinned, freed, page) = (&pinned, &freed, &page);
        s.spawn(move || watch(&beats, places));
        // Load: groups beside, and their objects, in the chunk that goes and in others.
        let load = s.spawn(move || {
            for i in 0u64.. {
                if over.load(Relaxed) {
                    break;
                }
                let g = ctl.root().create(&format!("load{i}")).unwrap();
                let objects: Vec<_> = (0..50).map(|_| cache.alloc(&g).unwrap()).collect();
                g.remove().unwrap();
                objects.into_iter().for_each(|o| free(ctl, o));
            }
        });
        let t1 = s.spawn(move || {
            let mut chunks = 0u64;
            for round in 1..=rounds {
                places.at(0, "waiting for the next round");
                meet.wait();
                places.at(0, "waiting for the others of this round");
                wait_for(pinned, round);
                let address = page.load(Acquire);
                let chunk = Range::Chunk(address);
                if round % HURRIED == 0 {
                    places.at(0, "in offline without time");
                    let mut told = false;
                    let hurried = ctl.offline(chunk, Duration::ZERO, &mut |pin| {
                        if pin.address == address {
                            let name = pin.owner.expect("somebody owns it").name().to_owned();
                            assert!(["crashing", "system"].contains(&name.as_str()), "{name}");
                            assert_eq!((pin.bytes, pin.cache.unwrap().name()), (200, "core"));
                            told = true;
                        }
                    });
                    assert_eq!(hurried, Err(OfflineError::TimedOut { pinned: 1 }));
                    assert!(told, "what holds the chunk is among the pins");
                }
                places.at(0, "in offline");
                if round % CANCELLED == 0 {
                    owner.trying.store(state(round, true), Relaxed);
                    let cancelled = ctl.offline(chunk, LONG, &mut |_| {});
                    assert_eq!(cancelled, Err(OfflineError::Cancelled));
                }
                owner.trying.store(state(round, false), Relaxed);
                assert_eq!(ctl.offline(chunk, LONG, &mut |_| {}), Ok(2 << 20));
                assert!(freed.load(Acquire) >= round, "the chunk went before its page was free");
                chunks += 1;
            }
            chunks
        });
        let t2 = s.spawn(move || {
            for round in 1..=rounds {
                places.at(1, "in create");
                let crashing = parent.create("crashing").unwrap();
                let others: Vec<_> = (0..4).map(|i| parent.create(&format!("other{i}")).unwrap()).collect();
                places.at(1, "waiting for the next round");
                meet.wait();
                places.at(1, "waiting for the others of this round");
                wait_for(pinned, round);
                if round % CANCELLED == 0 {
                    // Once: it is under way, and must not miss it.
                    wait_for(&owner.asked, state(round, true));
                    ctl.cancel_offline();
                }
                if round % 2 == 0 {
                    wait_for(&owner.asked, state(round, false));
                }
                places.at(1, "in remove");
                others.iter().for_each(|g| g.remove().unwrap());
                crashing.remove().unwrap();
            }
        });
        let t3 = s.spawn(move || {
            let core = [0xc0; CORE];
            for round in 1..=rounds {
                places.at(2, "waiting for the next round");
                meet.wait();
                places.at(2, "in alloc");
                let crashing = parent.lookup("crashing").unwrap();
                let object: NonNull<u8> = cache.alloc_lru(&crashing, lru).unwrap();
                // SAFETY: live, with an item at its start.
                assert!(unsafe { lru.add(object) });
                page.store(object.as_ptr() as usize, Release);
                pinned.store(round, Release);
                places.at(2, "in write to the pipe");
                writer.write_all(&core).unwrap();
                places.at(2, "in free");
                // SAFETY: as above.
                assert!(unsafe { lru.del(object) });
                // T1 may be done as soon as it is free.
                freed.store(round, Release);
                free(ctl, object);
            }
        });
        let beats_on = beat.clone();
        let t4 = s.spawn(move || {
            let mut core = [0; CORE];
            for round in 1..=rounds {
                places.at(3, "waiting for the next round");
                meet.wait();
                places.at(3, "waiting for the others of this round");
                wait_for(pinned, round);
                wait_for(&owner.asked, state(round, false));
                places.at(3, "reading the group's state");
                for i in 0..4 {
                    if let Ok(g) = parent.lookup(&format!("other{i}")) {
                        assert_eq!(g.path().to_string(), format!("/system/other{i}"));
                        assert_eq!(g.exact(), 0);
                    }
                }
                // Removed or not, the object is charged to the parent's subtree until it is freed.
                assert_eq!(parent.exact(), cache.charge());
                // Objects of caches in use are told at about one moment, groups at one.
                assert!(ctl.stat().groups >= 1);
                assert!(parent.children().count() <= 5);
                assert_eq!(freed.load(Acquire), round - 1, "T3 waits for us");
                places.at(3, "in read from the pipe");
                reader.read_exact(&mut core).unwrap();
                assert!(core.iter().all(|b| *b == 0xc0));
                beats_on.send(round).unwrap();
            }
        });
        let chunks = t1.join().unwrap();
        t2.join().unwrap();
        t3.join().unwrap();
        t4.join().unwrap();
        beat.send(DONE).unwrap();
        over.store(true, Relaxed);
        load.join().unwrap();
        chunks
    });
    println!("{chunks} chunks went in {rounds} rounds, {:?}", start.elapsed());
    ctl.trim();
    let stat = ctl.stat();
    assert_eq!((ctl.root().exact(), stat.orphans, stat.objects, stat.groups), (0, 0, 0, 1));
}
