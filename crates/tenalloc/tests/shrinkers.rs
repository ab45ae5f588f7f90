//! Free-standing shrinkers, the order in which shrinkers are asked, and reclaim with a time.

mod common;
use common::{free, machine};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Barrier, Condvar, Mutex};
use std::time::Duration;
use tenalloc::{
    Cache, CacheConfig, Controller, Error, Group, ListLru, LruStatus, Registration, Scanned, Shrink, Shrinker,
};

const NAMES: usize = 252;

/// Objects kept by group name, on no list.
struct Shelf {
    cache: Cache,
    seeks: u32,
    objects: Mutex<HashMap<String, Vec<usize>>>,
    log: &'static Mutex<Vec<u32>>,
    scans: AtomicU64,
}

impl Shelf {
    fn new(ctl: &Controller, seeks: u32, log: &'static Mutex<Vec<u32>>) -> &'static Self {
        let cache = ctl.cache(&CacheConfig::new("shelf", NAMES).owner_bytes(4)).unwrap();
        Box::leak(Box::new(Self { cache, seeks, objects: Mutex::default(), log, scans: AtomicU64::new(0) }))
    }

    fn fill(&self, group: &Group, n: usize) {
        for _ in 0..n {
            let object = self.cache.alloc(group).unwrap().as_ptr() as usize; // may call `scan`: nothing locked
            self.objects.lock().unwrap().entry(group.name().to_owned()).or_default().push(object);
        }
    }

    fn has(&self, group: &Group) -> u64 {
        self.objects.lock().unwrap().get(group.name()).map_or(0, |o| o.len() as u64)
    }
}

impl Shrink for Shelf {
    fn count(&self, group: &Group, node: u8) -> u64 {
        if node == 0 { self.has(group) } else { 0 }
    }

    fn scan(&self, group: &Group, _: u8, number: u64) -> Scanned {
        self.log.lock().unwrap().push(self.seeks);
        self.scans.fetch_add(1, SeqCst);
        let mut objects = self.objects.lock().unwrap();
        let own = objects.get_mut(group.name()).unwrap();
        let n = own.len().min(number as usize);
        for object in own.drain(..n) {
            free(self.cache.controller(), NonNull::new(object as *mut u8).unwrap());
        }
        Scanned { looked_at: n as u64, freed: n as u64, ..Scanned::default() }
    }

    fn seeks(&self) -> u32 {
        self.seeks
    }
}

fn log() -> &'static Mutex<Vec<u32>> {
    Box::leak(Box::default())
}

/// A list_lru whose shrinker notes its seeks.
struct Listed {
    cache: Cache,
    seeks: u32,
    log: &'static Mutex<Vec<u32>>,
}

impl Shrinker for Listed {
    fn scan(&self, lru: &ListLru, group: &Group, node: u8, mut number: u64) -> Scanned {
        self.log.lock().unwrap().push(self.seeks);
        let ctl = self.cache.controller();
        let done = lru.walk(group, node, &mut number, |_| LruStatus::Removed, |o| free(ctl, o));
        Scanned { looked_at: done.shown, freed: done.removed, ..Scanned::default() }
    }

    fn seeks(&self) -> u32 {
        self.seeks
    }
}

fn listed(ctl: &Controller, seeks: u32, log: &'static Mutex<Vec<u32>>) -> (ListLru, &'static Listed) {
    let cache = ctl.cache(&CacheConfig::new("listed", NAMES).owner_bytes(4)).unwrap();
    let listed: &'static Listed = Box::leak(Box::new(Listed { cache, seeks, log }));
    let lru = ListLru::new(ctl, 0).unwrap();
    lru.set_shrinker(listed);
    (lru, listed)
}

fn list(lru: &ListLru, from: &Listed, group: &Group, n: usize) {
    for _ in 0..n {
        let object = from.cache.alloc_lru(group, lru).unwrap();
        // SAFETY: live, with an item at the front.
        assert!(unsafe { lru.add(object) });
    }
}

#[test]
fn a_limit_is_kept_by_a_cache_on_no_list() {
    let (_, ctl) = machine(2, 2);
    let shelf = Shelf::new(&ctl, 2, log());
    let here = ctl.add_shrinker(shelf).unwrap();
    let (g, other) = (ctl.root().create("g").unwrap(), ctl.root().create("other").unwrap());
    let deep = g.create("mid").unwrap().create("deep").unwrap();
    shelf.fill(&other, 50);
    g.set_max(100 * shelf.cache.charge());
    for _ in 0..20 {
        shelf.fill(&deep, 50);
        assert!(g.current() <= g.max());
    }
    assert!(g.events().max > 0 && g.events().oom == 0);
    assert_eq!(shelf.has(&other), 50, "the neighbour lost nothing");
    let rest = shelf.has(&deep) * shelf.cache.charge();
    assert_eq!(g.reclaim(rest).unwrap().bytes, rest);
    drop(here);
    let scans = shelf.scans.load(SeqCst);
    assert!(other.reclaim(1).is_err());
    assert_eq!(shelf.scans.load(SeqCst), scans, "taken away: not asked any more");
}

/// Lists and free-standing shrinkers alike: by seeks within a group, and the dear only if the cheap did not do.
#[test]
fn the_cheapest_are_asked_first() {
    let (_, ctl) = machine(1, 1);
    let log = log();
    let g = ctl.root().create("g").unwrap();
    let (dear_lru, dear) = listed(&ctl, 8, log);
    let (cheap_lru, cheap) = listed(&ctl, 1, log);
    list(&dear_lru, dear, &g, 1000);
    let shelves = [4, 0, 2].map(|seeks| Shelf::new(&ctl, seeks, log));
    let places: Vec<Registration> = shelves.iter().map(|s| ctl.add_shrinker(*s).unwrap()).collect();
    list(&cheap_lru, cheap, &g, 1000);
    shelves.iter().for_each(|s| s.fill(&g, 1000));
    let each = shelves[0].cache.charge();
    assert!(g.reclaim(10 * each).is_ok());
    assert_eq!(*log.lock().unwrap(), [0; 4], "half of the free ones at once, in batches of 128; nobody else");
    assert!(g.reclaim(g.exact()).is_ok(), "the last pass asks for all, however dear");
    let order = std::mem::take(&mut *log.lock().unwrap());
    let passes: Vec<&[u32]> = order.chunk_by(|a, b| a <= b).collect();
    assert!(passes.iter().any(|p| p.windows(2).filter(|w| w[0] < w[1]).count() == 4), "{order:?}");
    drop(places);
}

/// Nothing is carried for a group, and yet nobody is too small: over time each gives its share.
#[test]
fn without_memory_of_groups_the_smallest_is_reached() {
    let (_, ctl) = machine(1, 1);
    let p = ctl.root().create("p").unwrap();
    let shelf = Shelf::new(&ctl, 2, log());
    let _place = ctl.add_shrinker(shelf).unwrap();
    let sizes = [1usize, 10, 100, 1000];
    let groups: Vec<_> = sizes.iter().map(|n| p.create(&format!("n{n}")).unwrap()).collect();
    for (group, n) in groups.iter().zip(sizes) {
        shelf.fill(group, n);
    }
    let mut rounds = 0;
    while shelf.has(&groups[0]) == 1 {
        assert!(p.reclaim(shelf.cache.charge()).is_ok());
        rounds += 1;
        assert!(rounds < 5000);
    }
    p.reclaim(300 * shelf.cache.charge()).unwrap();
    let left: Vec<_> = groups.iter().map(|g| shelf.has(g)).collect();
    assert!((left[2] as f64 / 100.0 - left[3] as f64 / 1000.0).abs() < 0.15, "{left:?}");
}

/// Protection and forty thousand idle groups: the walk asks only where something is charged.
#[test]
fn idle_groups_are_not_asked() {
    struct Counts(AtomicU64);
    impl Shrink for Counts {
        fn count(&self, _: &Group, _: u8) -> u64 {
            self.0.fetch_add(1, SeqCst);
            0
        }
        fn scan(&self, _: &Group, _: u8, _: u64) -> Scanned {
            unreachable!("it has nothing")
        }
    }
    let (_, ctl) = machine(1, 1);
    let before = ctl.stat().metadata_bytes;
    for i in 0..10_000 {
        ctl.root().create(&format!("t{i}")).unwrap();
    }
    let groups = ctl.stat().metadata_bytes;
    let counts: &'static Counts = Box::leak(Box::new(Counts(AtomicU64::new(0))));
    let place = ctl.add_shrinker(counts).unwrap();
    let cost = ctl.stat().metadata_bytes - groups;
    assert!(groups > before && cost <= 4096, "registering costs nothing per group: {cost}");
    let busy = ctl.root().lookup("t77").unwrap().owner();
    busy.try_charge(10_000).unwrap();
    assert!(ctl.root().reclaim(1).is_err());
    assert_eq!(counts.0.load(SeqCst), 2, "the root and the one busy group, in one pass: nobody had anything");
    busy.uncharge(10_000);
    drop(place);
}

/// Blocks in a scan until let go.
struct Slow {
    entered: Barrier,
    go: Barrier,
    done: AtomicBool,
}

impl Shrink for Slow {
    fn count(&self, group: &Group, _: u8) -> u64 {
        u64::from(group.name() == "g" && !self.done.load(SeqCst)) << 20
    }
    fn scan(&self, _: &Group, _: u8, number: u64) -> Scanned {
        self.entered.wait();
        self.go.wait();
        self.done.store(true, SeqCst);
        Scanned { looked_at: number, stop: true, ..Scanned::default() }
    }
}

#[test]
fn removal_waits_for_calls_under_way() {
    let (_, ctl) = machine(1, 1);
    let g = ctl.root().create("g").unwrap();
    let owner = g.owner();
    owner.try_charge(5000).unwrap();
    for _ in 0..50 {
        let slow: &'static Slow = Box::leak(Box::new(Slow {
            entered: Barrier::new(2),
            go: Barrier::new(2),
            done: AtomicBool::new(false),
        }));
        let place = ctl.add_shrinker(slow).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| g.reclaim(1).unwrap_err());
            slow.entered.wait();
            let remover = s.spawn(|| {
                drop(place);
                assert!(slow.done.load(SeqCst), "a call was still running");
            });
            slow.go.wait();
            remover.join().unwrap();
        });
    }
    owner.uncharge(5000);
}

/// A shrinker may take itself away, or another one, from inside its own call: it does not wait for itself.
#[test]
fn a_shrinker_may_remove_itself() {
    struct Once {
        place: Mutex<Option<Registration>>,
        calls: AtomicU64,
    }
    impl Shrink for Once {
        fn count(&self, _: &Group, _: u8) -> u64 {
            1 << 20
        }
        fn scan(&self, _: &Group, _: u8, number: u64) -> Scanned {
            self.calls.fetch_add(1, SeqCst);
            drop(self.place.lock().unwrap().take());
            Scanned { looked_at: number, ..Scanned::default() }
        }
        fn batch(&self) -> u64 {
            u64::MAX
        }
    }
    let (_, ctl) = machine(1, 1);
    let owner = ctl.root().owner();
    owner.try_charge(5000).unwrap();
    let once: &'static Once = Box::leak(Box::new(Once { place: Mutex::new(None), calls: AtomicU64::new(0) }));
    *once.place.lock().unwrap() = Some(ctl.add_shrinker(once).unwrap());
    assert!(ctl.root().reclaim(1).is_err());
    assert!(ctl.root().reclaim(1).is_err());
    assert_eq!(once.calls.load(SeqCst), 1);
    owner.uncharge(5000);
}

#[test]
fn a_failed_registration_loses_nobody() {
    let (source, ctl) = machine(1, 1);
    let (a, b) = (Shelf::new(&ctl, 2, log()), Shelf::new(&ctl, 1, log()));
    let _a = ctl.add_shrinker(a).unwrap();
    let g = ctl.root().create("g").unwrap();
    a.fill(&g, 10);
    source.fail_after(0);
    assert!(matches!(ctl.add_shrinker(b).err(), Some(Error::NoMemory { .. })));
    source.heal();
    assert_eq!(g.reclaim(g.exact()).unwrap().freed, 10);
    let _b = ctl.add_shrinker(b).unwrap();
    b.fill(&g, 10);
    assert_eq!(g.reclaim(g.exact()).unwrap().freed, 10);
}

/// The clock is looked at before every call: none is begun when the time is over.
#[test]
fn reclaim_ends_when_its_time_is_over() {
    /// Each call takes until a deadline that was set before it is surely over.
    struct Endless {
        calls: AtomicU64,
        time: (Mutex<Duration>, Condvar),
    }
    impl Shrink for Endless {
        fn count(&self, _: &Group, _: u8) -> u64 {
            1_000_000
        }
        fn scan(&self, _: &Group, _: u8, number: u64) -> Scanned {
            self.calls.fetch_add(1, SeqCst);
            let start = std::time::Instant::now();
            let mut time = self.time.0.lock().unwrap();
            while start.elapsed() <= *time {
                let rest = *time;
                time = self.time.1.wait_timeout(time, rest).unwrap().0;
            }
            Scanned { looked_at: number, ..Scanned::default() }
        }
    }
    let (_, ctl) = machine(1, 1);
    let owner = ctl.root().owner();
    owner.try_charge(5000).unwrap();
    let endless: &'static Endless =
        Box::leak(Box::new(Endless { calls: AtomicU64::new(0), time: Default::default() }));
    let _place = ctl.add_shrinker(endless).unwrap();
    let got = ctl.root().reclaim_within(1, Duration::ZERO).unwrap_err();
    assert!(got.out_of_time && endless.calls.load(SeqCst) == 0, "{got:?}");
    // Where the time is over before the first call comes, because this thread did not run, it is given more.
    let mut time = Duration::from_millis(5);
    while endless.calls.load(SeqCst) == 0 {
        *endless.time.0.lock().unwrap() = time;
        let got = ctl.root().reclaim_within(1, time).unwrap_err();
        assert!(got.out_of_time && endless.calls.load(SeqCst) <= 1, "{got:?}");
        time *= 2;
    }
    owner.uncharge(5000);
}
