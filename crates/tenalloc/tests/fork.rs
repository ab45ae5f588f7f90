//! Forks in a process whose other threads allocate: the child finds nothing locked, nothing half done, and its own
//! copy of every group.

mod common;
use common::Random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use tenalloc::{CacheConfig, Config, Controller, ForkOrder, Group, ListLru, LruItem, Scanned, Shrink};

/// Ends the other threads also where a check fails: a scope waits for them.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Forks, with all that a fork needs, and waits for the child, which must come to its end.
fn fork(ctl: &Controller, child: impl FnOnce() -> bool) {
    // SAFETY: in no callback; the child calls nothing but this library, and exits without running anything else.
    let status = unsafe {
        ctl.fork_prepare().unwrap();
        match libc::fork() {
            0 => {
                ctl.fork_child().unwrap();
                // A child that hangs is killed, which the parent sees.
                libc::alarm(300);
                libc::_exit(if child() { 0 } else { 3 });
            }
            pid => {
                ctl.fork_parent().unwrap();
                assert!(pid > 0, "fork");
                let mut status = 0;
                assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
                status
            }
        }
    };
    assert_eq!(status, 0, "the child's status: 14 (alarm) if it hung, 3 << 8 if it found something wrong");
}

/// What a thread does in the child: everything that takes a lock.
fn use_all(ctl: &Controller, seed: u64) -> bool {
    let group = ctl.root().create("child").unwrap();
    let cache = ctl.cache(&CacheConfig::new("child", 136)).unwrap();
    let mut random = Random(seed);
    for _ in 0..20 {
        let size = 1 + random.below(40_000);
        let (a, b) = (ctl.malloc(&group, size, 16).unwrap(), cache.alloc(&group).unwrap());
        // SAFETY: live and ours.
        unsafe {
            a.write_bytes(7, size);
            ctl.free(a).unwrap();
            cache.free(b).unwrap();
        }
    }
    let empty = group.exact() == 0;
    group.set_max(1 << 20);
    group.reset_peak();
    let _ = group.peak();
    group.remove().unwrap();
    ctl.trim();
    let stat = ctl.stat();
    empty && stat.live_bytes > 0
}

/// Allocates and frees, and makes and removes groups, until `end`.
fn work(ctl: &Controller, at: u64, end: &AtomicBool, rounds: &AtomicU64) {
    let mut random = Random(at);
    let mut group = ctl.root().create(&format!("worker-{at}")).unwrap();
    let mut live = Vec::new();
    let mut made = 0u64;
    while !end.load(Relaxed) {
        for _ in 0..100 {
            if live.len() > 100 || !live.is_empty() && random.below(2) == 0 {
                let object = live.swap_remove(random.below(live.len()));
                common::free(ctl, object);
            } else {
                let most = if random.below(8) == 0 { 100_000 } else { 700 };
                let size = 1 + random.below(most);
                live.push(ctl.malloc(&group, size, 16).unwrap());
            }
        }
        if random.below(20) == 0 {
            let next: Group = ctl.root().create(&format!("worker-{at}-{made}")).unwrap();
            made += 1;
            std::mem::replace(&mut group, next).remove().unwrap();
        }
        rounds.fetch_add(1, Relaxed);
    }
    live.into_iter().for_each(|object| common::free(ctl, object));
    group.remove().unwrap();
}

fn forks(ctl: &Controller, number: u64) {
    let kept = ctl.root().create("kept").unwrap();
    let object = ctl.malloc(&kept, 1000, 16).unwrap();
    let charge = kept.exact();
    let (end, rounds) = (&AtomicBool::new(false), &AtomicU64::new(0));
    std::thread::scope(|s| {
        let workers: Vec<_> = (0..8).map(|at| s.spawn(move || work(ctl, at, end, rounds))).collect();
        let _ends = Ends(end);
        // There is something going on before the first fork, however late they come.
        while rounds.load(Relaxed) < 8 && !workers.iter().all(|worker| worker.is_finished()) {
            std::thread::yield_now();
        }
        for n in 0..number {
            fork(ctl, || use_all(ctl, n) && kept.exact() == charge);
        }
    });
    common::free(ctl, object);
    kept.remove().unwrap();
    assert_eq!(ctl.root().exact(), 0, "what children did is theirs alone");
}

#[test]
fn a_thousand_forks_among_eight_threads() {
    forks(&Controller::new(Config::new()).unwrap(), 1000);
}

/// The gates are the locks where there are no restartable sequences.
#[test]
fn forks_without_sequences() {
    let (_, ctl) = common::machine(2, 4);
    forks(&ctl, 50);
}

#[repr(C)]
struct Listed {
    item: LruItem,
    rest: [u8; 64],
}

struct Nothing;

impl Shrink for Nothing {
    fn count(&self, _: &Group, _: u8) -> u64 {
        1
    }
    fn scan(&self, _: &Group, _: u8, _: u64) -> Scanned {
        Scanned::default()
    }
}

/// Lists, shrinkers, peaks: their locks are free in the child, and in the parent afterwards.
#[test]
fn lists_and_shrinkers_are_free_in_both() {
    let ctl = &Controller::new(Config::new()).unwrap();
    let cache = &ctl.cache(&CacheConfig::new("listed", size_of::<Listed>())).unwrap();
    let lru = &ListLru::new(ctl, std::mem::offset_of!(Listed, item)).unwrap();
    let tenant = &ctl.root().create("tenant").unwrap();
    let peak = &tenant.peak_reader().unwrap();
    let _shrinker = ctl.add_shrinker(&Nothing).unwrap();
    let end = &AtomicBool::new(false);
    let turn = || {
        let object = cache.alloc_lru(tenant, lru).unwrap();
        // SAFETY: live and ours; on the list only in between.
        unsafe {
            lru.add(object);
            lru.del(object);
            cache.free(object).unwrap();
        }
        peak.reset();
        let _ = tenant.reclaim(4096);
        peak.peak() > 0
    };
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while !end.load(Relaxed) {
                    turn();
                }
            });
        }
        let _ends = Ends(end);
        for _ in 0..100 {
            fork(ctl, || (0..10).all(|_| turn()));
            assert!(turn());
        }
    });
}

/// Who calls out of turn is told, and nothing is locked or unlocked.
#[test]
fn out_of_turn_nothing_happens() {
    let ctl = &Controller::new(Config::new()).unwrap();
    let refused = Err(ForkOrder);
    assert_eq!(ctl.fork_parent(), refused);
    // SAFETY: in no callback. That `fork_child` does nothing out of turn is what this looks at.
    unsafe {
        assert_eq!(ctl.fork_child(), refused);
        ctl.fork_prepare().unwrap();
        assert_eq!(ctl.fork_prepare(), refused, "it would wait for itself");
        std::thread::scope(|s| {
            s.spawn(|| {
                assert_eq!((ctl.fork_parent(), ctl.fork_child()), (refused, refused), "another thread")
            });
        });
        ctl.fork_parent().unwrap();
        assert_eq!(ctl.fork_parent(), refused);
        assert_eq!(ctl.fork_child(), refused);
    }
    let object = ctl.malloc(&ctl.root(), 100, 16).unwrap();
    assert!(use_all(ctl, 1), "nothing is locked");
    common::free(ctl, object);
}
