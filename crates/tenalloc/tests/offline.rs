//! Taking memory out of use while the program runs: chunks and nodes, pins, cancelling, moving, shrinking.

mod common;
use common::{Random, free, lean, machine};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tenalloc::{
    CacheConfig, Controller, Group, ListLru, LruItem, LruStatus, Migrate, OfflineError, Range, Scanned,
    Shrinker,
};

const SOON: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(60);

fn none(_: tenalloc::Pin) {}

#[test]
fn an_empty_node_goes_and_comes_back() {
    let (source, ctl) = lean(2, 2);
    let g = ctl.root().create("g").unwrap();
    let cache = ctl.cache(&CacheConfig::new("c", 256)).unwrap();
    let objects: Vec<_> = (0..10_000).map(|_| cache.alloc_on(&g, 1).unwrap()).collect();
    objects.iter().for_each(|o| free(&ctl, *o));
    let before = source.mapped(1);
    assert!(before > 0);
    assert_eq!(ctl.offline(Range::Node(1), LONG, &mut none), Ok(before as usize));
    assert_eq!(source.mapped(1), 0);
    // New objects for the node land elsewhere.
    let elsewhere = cache.alloc_on(&g, 1).unwrap();
    assert_eq!(source.mapped(1), 0);
    ctl.online_node(1);
    let back: Vec<_> = (0..100).map(|_| cache.alloc_on(&g, 1).unwrap()).collect();
    assert!(source.mapped(1) > 0);
    back.into_iter().chain([elsewhere]).for_each(|o| free(&ctl, o));
    assert_eq!(g.exact(), 0);
}

#[test]
fn what_pins_it_is_told_and_all_is_in_use_again() {
    let (_, ctl) = machine(2, 2);
    let g = ctl.root().create("holder").unwrap();
    let cache = ctl.cache(&CacheConfig::new("held", 256)).unwrap();
    let objects: Vec<_> = (0..100).map(|_| cache.alloc_on(&g, 1).unwrap()).collect();
    let large = {
        ctl.set_cpu(1);
        ctl.malloc(&g, 50_000, 8).unwrap()
    };
    let huge = ctl.malloc(&g, 5_000_000, 8).unwrap();
    let raw = ctl.pages(2, 1).unwrap();
    objects[1..].iter().for_each(|o| free(&ctl, *o));
    let mut pins = HashMap::new();
    let failed = ctl.offline(Range::Node(1), SOON, &mut |pin| {
        pins.insert(pin.address, (pin.bytes, pin.cache.map(|c| c.name().to_owned()), pin.owner));
    });
    assert_eq!(failed, Err(OfflineError::TimedOut { pinned: 2 }));
    let address = |o: NonNull<u8>| o.as_ptr() as usize;
    assert_eq!(pins[&address(objects[0])], (256, Some("held".into()), Some(g.clone())));
    assert_eq!(pins[&address(large)], (13 * 4096, None, Some(g.clone())));
    assert_eq!(pins[&address(huge)].2, Some(g.clone()));
    assert_eq!(pins[&address(raw)], (2 * 4096, None, None));
    assert_eq!(pins.len(), 4, "{pins:?}");
    // In use again: the slab's free objects are handed out before a new slab is made.
    let slabs = cache.stat().slabs;
    let again: Vec<_> = (0..10).map(|_| cache.alloc_on(&g, 1).unwrap()).collect();
    assert_eq!(cache.stat().slabs, slabs);
    again.into_iter().chain([objects[0], large, huge]).for_each(|o| free(&ctl, o));
    // SAFETY: given back once.
    unsafe { ctl.free_pages(raw) }.unwrap();
    assert!(ctl.offline(Range::Node(1), LONG, &mut none).is_ok());
    assert_eq!(
        ctl.offline(Range::Node(1), SOON, &mut none),
        Err(OfflineError::NotThere),
        "it is out already"
    );
    assert_eq!(ctl.offline(Range::Node(2), SOON, &mut none), Err(OfflineError::NotThere));
    assert_eq!(ctl.offline(Range::Chunk(4096), SOON, &mut none), Err(OfflineError::NotThere));
    assert_eq!(g.exact(), 0);
}

#[test]
fn it_waits_for_the_last_object_and_can_be_cancelled() {
    let (source, ctl) = lean(2, 2);
    let g = ctl.root().create("g").unwrap();
    let cache = ctl.cache(&CacheConfig::new("c", 256)).unwrap();
    let object = cache.alloc_on(&g, 1).unwrap();
    let waiting = AtomicBool::new(false);
    std::thread::scope(|s| {
        let offline = s.spawn(|| {
            waiting.store(true, SeqCst);
            ctl.offline(Range::Node(1), LONG, &mut none)
        });
        while !waiting.load(SeqCst) {
            std::thread::yield_now();
        }
        // Meanwhile groups come and go and are read.
        for i in 0..1000 {
            let t = ctl.root().create(&format!("t{i}")).unwrap();
            let o = cache.alloc(&t).unwrap();
            assert_eq!(t.exact(), cache.charge());
            t.remove().unwrap();
            free(&ctl, o);
            assert!(ctl.stat().groups > 0);
        }
        free(&ctl, object);
        assert!(offline.join().unwrap().is_ok());
    });
    assert_eq!(source.mapped(1), 0);
    ctl.online_node(1);
    let held = cache.alloc_on(&g, 1).unwrap();
    std::thread::scope(|s| {
        let offline = s.spawn(|| ctl.offline(Range::Node(1), LONG, &mut none));
        while !offline.is_finished() {
            ctl.cancel_offline();
            std::thread::yield_now();
        }
        assert_eq!(offline.join().unwrap(), Err(OfflineError::Cancelled));
    });
    free(&ctl, held);
    assert_eq!(g.exact(), 0);
}

/// Objects of a program that knows where each of them is.
struct Book {
    /// Number → address of the object, which holds the number.
    at: Mutex<HashMap<u64, usize>>,
    refuse: AtomicBool,
}

impl Migrate for Book {
    unsafe fn migrate(&self, from: NonNull<u8>, to: NonNull<u8>) -> bool {
        let mut at = self.at.lock().unwrap();
        // SAFETY: readable, says the caller.
        let number = unsafe { from.cast::<u64>().read() };
        let known = at.get(&number) == Some(&(from.as_ptr() as usize));
        if !known || self.refuse.load(SeqCst) {
            return false;
        }
        // SAFETY: 64 bytes each, says the caller.
        unsafe { to.copy_from_nonoverlapping(from, 64) };
        at.insert(number, to.as_ptr() as usize);
        true
    }
}

#[test]
fn movable_objects_are_moved_with_their_owners() {
    let book: &'static Book = Box::leak(Box::new(Book { at: Mutex::default(), refuse: false.into() }));
    let (source, ctl) = lean(2, 2);
    let cache = ctl.cache(&CacheConfig::new("movable", 64).migrate(book)).unwrap();
    let mut groups: Vec<_> = (0..7).map(|i| ctl.root().create(&format!("g{i}")).unwrap()).collect();
    for number in 0..5000u64 {
        let object = cache.alloc_on(&groups[number as usize % 7], 1).unwrap();
        // SAFETY: 64 bytes of ours.
        unsafe { object.cast::<u64>().write(number) };
        book.at.lock().unwrap().insert(number, object.as_ptr() as usize);
    }
    groups.pop().unwrap().remove().unwrap();
    let before: Vec<_> = groups.iter().map(Group::exact).chain([ctl.root().exact()]).collect();
    book.refuse.store(true, SeqCst);
    assert!(ctl.offline(Range::Node(1), SOON, &mut none).is_err());
    book.refuse.store(false, SeqCst);
    assert!(ctl.offline(Range::Node(1), LONG, &mut none).is_ok());
    assert_eq!(source.mapped(1), 0);
    let after: Vec<_> = groups.iter().map(Group::exact).chain([ctl.root().exact()]).collect();
    assert_eq!(before, after, "nobody pays more or less");
    for (number, at) in book.at.lock().unwrap().drain() {
        let object = NonNull::new(at as *mut u8).unwrap();
        // SAFETY: live.
        assert_eq!(unsafe { object.cast::<u64>().read() }, number);
        let owner = ctl.group_of_object(object).unwrap().unwrap();
        assert_eq!(owner, if number % 7 == 6 { ctl.root() } else { groups[number as usize % 7].clone() });
        free(&ctl, object);
    }
    assert_eq!((ctl.root().exact(), ctl.stat().orphans), (0, 0));
}

/// A program that frees and makes objects while they are being moved.
#[test]
fn moving_races_with_freeing() {
    let book: &'static Book = Box::leak(Box::new(Book { at: Mutex::default(), refuse: false.into() }));
    let (_, ctl) = lean(2, 2);
    let cache = ctl.cache(&CacheConfig::new("movable", 64).migrate(book)).unwrap();
    let g = ctl.root().create("g").unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut random = Random(5);
            for step in 0..30_000u64 {
                let mut at = book.at.lock().unwrap();
                let number = random.next() % 2000;
                match at.remove(&number) {
                    Some(address) => free(&ctl, NonNull::new(address as *mut u8).unwrap()),
                    None => {
                        let object = cache.alloc_on(&g, (step % 2) as u8).unwrap();
                        // SAFETY: 64 bytes of ours.
                        unsafe { object.cast::<u64>().write(number) };
                        at.insert(number, object.as_ptr() as usize);
                    }
                }
            }
            done.store(true, SeqCst);
        });
        s.spawn(|| {
            let mut went = 0;
            while !done.load(SeqCst) || went == 0 {
                if ctl.offline(Range::Node(1), LONG, &mut none).is_ok() {
                    went += 1;
                    ctl.online_node(1);
                }
            }
        });
    });
    let mut at = book.at.lock().unwrap();
    assert_eq!(g.exact(), at.len() as u64 * cache.charge());
    for (number, address) in at.drain() {
        let object = NonNull::new(address as *mut u8).unwrap();
        // SAFETY: live.
        assert_eq!(unsafe { object.cast::<u64>().read() }, number);
        free(&ctl, object);
    }
    assert_eq!(g.exact(), 0);
}

struct Drop1(Controller);

impl Shrinker for Drop1 {
    fn scan(&self, lru: &ListLru, group: &Group, node: u8, number: u64) -> Scanned {
        let mut budget = number;
        let done = lru.walk(
            group,
            node,
            &mut budget,
            |o| {
                // SAFETY: objects of this test begin with their item.
                let item: &LruItem = unsafe { o.cast().as_ref() };
                if item.take_reference() { LruStatus::Rotate } else { LruStatus::Removed }
            },
            |o| free(&self.0, o),
        );
        Scanned { looked_at: done.shown, freed: done.removed, ..Scanned::default() }
    }
}

/// Shrinkers are shown only what lies in the chunk; the rest of the lists stays.
#[test]
fn a_chunk_is_emptied_by_shrinkers_and_its_neighbours_are_left_alone() {
    let (_, ctl) = lean(1, 1);
    let shrinker: &'static Drop1 = Box::leak(Box::new(Drop1(ctl.clone())));
    let cache = ctl.cache(&CacheConfig::new("cached", 1024)).unwrap();
    let lru = ListLru::new(&ctl, 0).unwrap();
    lru.set_shrinker(shrinker);
    let groups: Vec<_> = (0..3).map(|i| ctl.root().create(&format!("g{i}")).unwrap()).collect();
    let mut by_chunk: HashMap<usize, u64> = HashMap::new();
    let mut first = None;
    for i in 0..6000 {
        let object = cache.alloc_lru(&groups[i % 3], &lru).unwrap();
        // SAFETY: live, with an item at the front.
        unsafe {
            object.cast::<LruItem>().as_ref().reference();
            assert!(lru.add(object));
        }
        let chunk = object.as_ptr() as usize >> 21;
        first.get_or_insert(object);
        *by_chunk.entry(chunk).or_default() += 1;
    }
    assert!(by_chunk.len() >= 3);
    let chunk = first.unwrap().as_ptr() as usize;
    let there = by_chunk[&(chunk >> 21)];
    assert_eq!(ctl.offline(Range::Chunk(chunk), LONG, &mut none), Ok(2 << 20));
    let left: u64 = groups.iter().map(|g| lru.count(g, 0)).sum();
    assert_eq!(left, 6000 - there);
    assert_eq!(ctl.root().exact(), left * cache.charge());
    assert!(ctl.root().reclaim(u64::MAX / 2).is_err());
    assert_eq!(ctl.root().exact(), 0);
}

/// Objects of whole pages, too, go to other nodes while theirs is out of use.
#[test]
fn large_objects_avoid_a_node_that_is_out() {
    let (source, ctl) = lean(2, 2);
    let g = ctl.root().create("g").unwrap();
    ctl.set_cpu(1);
    for size in [50_000, 5_000_000] {
        let object = ctl.malloc(&g, size, 8).unwrap();
        assert!(source.mapped(1) > size as u64, "the CPU is on node 1");
        free(&ctl, object);
        assert!(ctl.offline(Range::Node(1), LONG, &mut none).is_ok());
        assert_eq!(source.mapped(1), 0);
        let object = ctl.malloc(&g, size, 8).unwrap();
        assert_eq!(source.mapped(1), 0, "{size} bytes");
        free(&ctl, object);
        ctl.online_node(1);
    }
    assert_eq!(g.exact(), 0);
}
