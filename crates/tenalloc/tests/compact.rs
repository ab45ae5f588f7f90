//! Movable objects moved together: how many slabs are left, whose the objects are then, refusals, panics, budgets, and
//! threads that allocate, free and take memory out of use meanwhile.

mod common;
use common::{Finally, Random, free, lean, machine};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tenalloc::{Cache, CacheConfig, Compacted, Controller, Geometry, Group, Migrate, Range};

/// Objects of a program that knows where each of them is: 64 bytes, of which the first 8 are its number.
#[derive(Default)]
struct Book {
    at: Mutex<HashMap<u64, usize>>,
    /// Numbers of objects that stay where they are.
    fixed: Mutex<HashSet<u64>>,
    panics: AtomicBool,
    asked: AtomicU64,
}

impl Migrate for Book {
    unsafe fn migrate(&self, from: NonNull<u8>, to: NonNull<u8>) -> bool {
        assert!(!self.panics.load(SeqCst), "a bug of the program");
        self.asked.fetch_add(1, SeqCst);
        let mut at = self.at.lock().unwrap();
        // SAFETY: readable, says the caller.
        let number = unsafe { from.cast::<u64>().read() };
        if at.get(&number) != Some(&(from.as_ptr() as usize)) || self.fixed.lock().unwrap().contains(&number)
        {
            return false;
        }
        // SAFETY: 64 bytes each, says the caller.
        unsafe { to.copy_from_nonoverlapping(from, 64) };
        at.insert(number, to.as_ptr() as usize);
        true
    }
}

impl Book {
    fn leak() -> &'static Self {
        Box::leak(Box::default())
    }

    fn add(&self, cache: &Cache, group: &Group, number: u64) {
        let object = cache.alloc(group).unwrap();
        // SAFETY: 64 bytes of ours.
        unsafe { object.cast::<u64>().write(number) };
        self.at.lock().unwrap().insert(number, object.as_ptr() as usize);
    }

    /// Frees an object, if it is there, with the book locked: a program that moves objects must do so.
    fn drop(&self, ctl: &Controller, number: u64) {
        let mut at = self.at.lock().unwrap();
        if let Some(address) = at.remove(&number) {
            free(ctl, NonNull::new(address as *mut u8).unwrap());
        }
    }

    /// Every object is where the book says, with its number, and belongs to whom `owner` says. Returns how many.
    fn check(&self, ctl: &Controller, owner: impl Fn(u64) -> Group) -> u64 {
        let at = self.at.lock().unwrap();
        let mut places = HashSet::new();
        for (number, address) in at.iter() {
            let object = NonNull::new(*address as *mut u8).unwrap();
            // SAFETY: live.
            assert_eq!(unsafe { object.cast::<u64>().read() }, *number);
            assert_eq!(ctl.group_of_object(object).unwrap(), Some(owner(*number)));
            assert!(places.insert(*address), "two objects at one place");
        }
        at.len() as u64
    }
}

fn movable(ctl: &Controller, book: &'static Book) -> Cache {
    ctl.cache(&CacheConfig::new("movable", 64).geometry(ONE_PAGE).migrate(book)).unwrap()
}

/// Objects of a slab of such a cache: one page.
const EACH: u64 = 64;
const ONE_PAGE: Geometry = Geometry { pages: 1, objects: EACH as u16 };

/// 50 groups, one of twenty objects of each lives on, all but one group are removed: what is left fits into as few slabs
/// as can be, and whose it is stays as it was.
#[test]
fn as_few_slabs_as_can_be_are_left() {
    let book = Book::leak();
    let (_, ctl) = lean(1, 2);
    let cache = movable(&ctl, book);
    let groups: Vec<_> = (0..50).map(|i| ctl.root().create(&format!("g{i}")).unwrap()).collect();
    for number in 0..20_000 {
        book.add(&cache, &groups[number as usize % 50], number);
    }
    let mut random = Random(3);
    for number in 0..20_000 {
        if random.below(20) > 0 {
            book.drop(&ctl, number);
        }
    }
    groups[1..].iter().for_each(|g| g.remove().unwrap());
    let (root, first) = (ctl.root().exact(), groups[0].exact());
    let owner = |number: u64| if number.is_multiple_of(50) { groups[0].clone() } else { ctl.root() };
    let live = book.check(&ctl, owner);
    let before = cache.stat().slabs;
    let done = cache.compact(u64::MAX);
    assert_eq!(cache.stat().slabs, live.div_ceil(EACH), "{live} objects, {before} slabs before, {done:?}");
    assert_eq!(done.slabs, before - cache.stat().slabs);
    assert_eq!((done.bytes, done.refused), (done.slabs * 4096, 0));
    assert!(done.moved < live, "those of the fullest slabs stay");
    assert_eq!((ctl.root().exact(), groups[0].exact(), book.check(&ctl, owner)), (root, first, live));
    assert_eq!(cache.stat().objects, live);
    assert_eq!(cache.compact(u64::MAX), Compacted::default(), "nothing is left to be done");
    assert_eq!(book.asked.load(SeqCst), done.moved);
    // It goes on as before.
    (0..1000).for_each(|n| book.add(&cache, &groups[0], 100_000 + n * 50));
    assert_eq!(book.check(&ctl, owner), live + 1000);
    let numbers: Vec<_> = book.at.lock().unwrap().keys().copied().collect();
    numbers.into_iter().for_each(|n| book.drop(&ctl, n));
    drop(groups);
    assert_eq!((ctl.root().exact(), ctl.stat().orphans), (0, 0));
    cache.destroy().unwrap();
    ctl.trim();
    assert_eq!(ctl.stat().slab_bytes, 0);
}

/// One of `every` objects is left, of `number`.
fn sparse(book: &Book, ctl: &Controller, cache: &Cache, group: &Group, number: u64, every: u64) {
    (0..number).for_each(|n| book.add(cache, group, n));
    (0..number).filter(|n| n % every > 0).for_each(|n| book.drop(ctl, n));
}

#[test]
fn a_budget_bounds_each_call_and_calls_go_on() {
    let book = Book::leak();
    let (_, ctl) = lean(1, 1);
    let (cache, g) = (movable(&ctl, book), ctl.root().create("g").unwrap());
    sparse(book, &ctl, &cache, &g, 10_000, 16);
    let live = book.check(&ctl, |_| g.clone());
    let mut calls = 0;
    loop {
        let asked = book.asked.load(SeqCst);
        let done = cache.compact(50);
        assert_eq!(book.asked.load(SeqCst) - asked, done.moved + done.refused);
        assert!(done.moved <= 50);
        assert_eq!(book.check(&ctl, |_| g.clone()), live);
        if done.moved == 0 {
            break;
        }
        calls += 1;
    }
    assert!(calls >= 10);
    assert_eq!(cache.stat().slabs, live.div_ceil(EACH));
    assert_eq!(cache.compact(0), Compacted::default());
}

/// What may not be moved stays and is asked for once a call; the rest is moved all the same.
#[test]
fn refusals_are_respected() {
    let book = Book::leak();
    let (_, ctl) = lean(1, 1);
    let (cache, g) = (movable(&ctl, book), ctl.root().create("g").unwrap());
    sparse(book, &ctl, &cache, &g, 6400, 32);
    let fixed: HashMap<u64, usize> =
        book.at.lock().unwrap().iter().filter(|(n, _)| *n % 10 == 0).map(|(n, a)| (*n, *a)).collect();
    *book.fixed.lock().unwrap() = fixed.keys().copied().collect();
    let before = cache.stat().slabs;
    let done = cache.compact(u64::MAX);
    assert!(done.refused > 0 && done.refused <= fixed.len() as u64, "{done:?}");
    assert!(done.slabs > before / 2, "{done:?} of {before}");
    book.check(&ctl, |_| g.clone());
    for (number, address) in &fixed {
        assert_eq!(book.at.lock().unwrap()[number], *address, "it stayed");
    }
    book.fixed.lock().unwrap().extend(0..6400);
    let all = cache.compact(u64::MAX);
    assert_eq!((all.moved, all.slabs), (0, 0));
    book.fixed.lock().unwrap().clear();
    cache.compact(u64::MAX);
    assert_eq!(cache.stat().slabs, 200u64.div_ceil(EACH));
    assert_eq!(g.exact(), 200 * cache.charge());
}

/// A `migrate` that panics loses the place that it was offered, and nothing else: slabs are let go of, owners stay.
#[test]
fn a_panic_leaves_the_cache_in_order() {
    let book = Book::leak();
    let (_, ctl) = lean(1, 1);
    let (cache, g) = (movable(&ctl, book), ctl.root().create("g").unwrap());
    sparse(book, &ctl, &cache, &g, 6400, 32);
    book.panics.store(true, SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(|| cache.compact(u64::MAX))).is_err());
    book.panics.store(false, SeqCst);
    assert_eq!(book.check(&ctl, |_| g.clone()), 200);
    cache.compact(u64::MAX);
    assert_eq!(cache.stat().slabs, 201u64.div_ceil(EACH), "200 objects and the lost place");
    assert_eq!(g.exact(), 200 * cache.charge());
}

/// Red zones and poison go along.
#[test]
fn objects_with_red_zones_are_moved() {
    let book = Book::leak();
    let (_, ctl) = machine(1, 1);
    let cache = ctl.cache(&CacheConfig::new("movable", 64).migrate(book).debug(true)).unwrap();
    let g = ctl.root().create("g").unwrap();
    sparse(book, &ctl, &cache, &g, 2000, 20);
    let done = cache.compact(u64::MAX);
    assert!(done.moved > 0 && done.slabs > 0);
    book.check(&ctl, |_| g.clone());
    assert_eq!(cache.validate(&mut |damage| panic!("{damage:?}")), 0);
    (0..2000).for_each(|n| book.drop(&ctl, n));
    assert_eq!((g.exact(), cache.stat().objects), (0, 0));
}

/// `Controller::compact` and `trim` see to every movable cache, on each node by itself, and trim gives the pages back.
#[test]
fn trim_moves_objects_of_all_movable_caches() {
    let books = [Book::leak(), Book::leak()];
    let (source, ctl) = lean(2, 2);
    let g = ctl.root().create("g").unwrap();
    let caches = books.map(|book| movable(&ctl, book));
    let fixed = ctl.cache(&CacheConfig::new("fixed", 64)).unwrap();
    let pinned = fixed.alloc(&g).unwrap();
    for (book, cache) in books.iter().zip(&caches) {
        for cpu in [0, 1] {
            ctl.set_cpu(cpu);
            (0..8000).for_each(|n| book.add(cache, &g, u64::from(cpu) * 8000 + n));
        }
        (0..16_000).filter(|n| n % 32 > 0).for_each(|n| book.drop(&ctl, n));
    }
    let resident = source.total();
    assert!(ctl.trim() > 0);
    for (book, cache) in books.iter().zip(&caches) {
        assert_eq!(book.check(&ctl, |_| g.clone()), 500);
        assert_eq!(cache.stat().slabs, 2 * 250u64.div_ceil(EACH), "each node by itself");
    }
    assert_eq!(ctl.stat().free_page_bytes, 0);
    assert!(source.total() <= resident);
    free(&ctl, pinned);
}

/// Two threads make and free objects, two compact, one takes a node out of use and puts it back.
#[test]
fn others_work_meanwhile() {
    let book = Book::leak();
    let (_, ctl) = lean(2, 2);
    let (cache, groups) = (movable(&ctl, book), [0, 1].map(|i| ctl.root().create(&format!("g{i}")).unwrap()));
    let (done, failed) = (AtomicBool::new(false), AtomicBool::new(false));
    let moved = AtomicU64::new(0);
    std::thread::scope(|s| {
        let _done = Finally(|| done.store(true, SeqCst));
        let workers: Vec<_> = groups
            .iter()
            .enumerate()
            .map(|(me, group)| {
                let (ctl, cache, moved, failed) = (&ctl, &cache, &moved, &failed);
                s.spawn(move || {
                    let mut random = Random(me as u64);
                    // Until some were moved meanwhile, however late those come who move them.
                    let go_on = |round| round < 12 || moved.load(SeqCst) == 0 && !failed.load(SeqCst);
                    for _ in (0..).take_while(|round| go_on(*round)) {
                        for number in (0..8000).filter(|n| n % 2 == me as u64) {
                            if !book.at.lock().unwrap().contains_key(&number) {
                                book.add(cache, group, number);
                            }
                        }
                        for _ in 0..8000 {
                            book.drop(ctl, random.below(4000) as u64 * 2 + me as u64);
                        }
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            s.spawn(|| {
                let _failed = Finally(|| failed.store(true, SeqCst));
                while !done.load(SeqCst) {
                    moved.fetch_add(cache.compact(500).moved, SeqCst);
                }
            });
        }
        s.spawn(|| {
            while !done.load(SeqCst) {
                let _ = ctl.offline(Range::Node(1), Duration::ZERO, &mut |_| {});
                ctl.online_node(1);
            }
        });
        workers.into_iter().for_each(|w| w.join().unwrap());
    });
    let live = book.check(&ctl, |number| groups[number as usize % 2].clone());
    let own =
        |me: u64| book.at.lock().unwrap().keys().filter(|n| *n % 2 == me).count() as u64 * cache.charge();
    assert_eq!(groups.each_ref().map(Group::exact), [own(0), own(1)]);
    assert!(moved.load(SeqCst) > 0, "some were moved meanwhile");
    cache.compact(u64::MAX);
    assert_eq!(cache.stat().objects, live);
    assert!(cache.stat().slabs <= live.div_ceil(EACH) + 1, "two nodes: one slab more");
    (0..8000).for_each(|n| book.drop(&ctl, n));
    assert_eq!((ctl.root().exact(), ctl.trim() > 0), (0, true));
    assert_eq!((ctl.stat().slab_bytes, ctl.stat().owner_vector_bytes), (0, 0));
}

#[derive(Clone, Debug)]
enum Step {
    Add(u64, usize),
    Drop(u64),
    Fix(u64, bool),
    Remove(usize),
    Compact(u64),
    /// The n-th request for memory from now on fails.
    Fault(u32),
    Cpu(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..400u64, 0..3usize).prop_map(|(n, g)| Step::Add(n, g)),
        6 => (0..400u64).prop_map(Step::Drop),
        1 => (0..400u64, any::<bool>()).prop_map(|(n, on)| Step::Fix(n, on)),
        1 => (0..3usize).prop_map(Step::Remove),
        1 => (0..200u64).prop_map(Step::Compact),
        1 => (0..8u32).prop_map(Step::Fault),
        1 => (0..2u16).prop_map(Step::Cpu),
    ];
    prop::collection::vec(step, 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Against a plain model: which objects there are, whose, and what they are charged; with requests for memory that fail.
    #[test]
    fn it_is_as_in_a_plain_book(steps in steps()) {
        let book = Book::leak();
        let (source, ctl) = lean(2, 2);
        let cache = movable(&ctl, book);
        let mut groups: [Option<Group>; 3] = [0, 1, 2].map(|i| Some(ctl.root().create(&format!("g{i}")).unwrap()));
        // Number → place in `groups`.
        let mut model: HashMap<u64, usize> = HashMap::new();
        for step in steps {
            match step {
                Step::Add(n, g) if !model.contains_key(&n) => {
                    let Some(group) = &groups[g] else { continue };
                    if let Ok(object) = cache.alloc(group) {
                        // SAFETY: 64 bytes of ours.
                        unsafe { object.cast::<u64>().write(n) };
                        book.at.lock().unwrap().insert(n, object.as_ptr() as usize);
                        model.insert(n, g);
                    }
                }
                Step::Add(..) => {}
                Step::Drop(n) => {
                    book.drop(&ctl, n);
                    model.remove(&n);
                }
                Step::Fix(n, true) => drop(book.fixed.lock().unwrap().insert(n)),
                Step::Fix(n, false) => drop(book.fixed.lock().unwrap().remove(&n)),
                Step::Remove(g) => {
                    if let Some(group) = groups[g].take() {
                        group.remove().unwrap();
                    }
                }
                Step::Compact(most) => {
                    let done = cache.compact(most);
                    prop_assert!(done.moved + done.refused <= most);
                }
                Step::Fault(n) => source.fail_after(n),
                Step::Cpu(cpu) => ctl.set_cpu(cpu),
            }
            prop_assert_eq!(cache.stat().objects, model.len() as u64);
        }
        source.heal();
        let owner = |n: u64| groups[model[&n]].clone().unwrap_or_else(|| ctl.root());
        prop_assert_eq!(book.check(&ctl, owner), model.len() as u64);
        for (place, group) in groups.iter().enumerate() {
            let own = model.values().filter(|g| **g == place).count() as u64 * cache.charge();
            prop_assert_eq!(group.as_ref().map_or(own, Group::exact), own);
        }
        prop_assert_eq!(ctl.root().exact(), model.len() as u64 * cache.charge());
        book.fixed.lock().unwrap().clear();
        cache.compact(u64::MAX);
        prop_assert!(cache.stat().slabs <= (model.len() as u64).div_ceil(EACH) + 1);
        model.keys().for_each(|n| book.drop(&ctl, *n));
        ctl.trim();
        prop_assert_eq!((ctl.root().exact(), ctl.stat().slab_bytes, ctl.stat().orphans), (0, 0, 0));
    }
}
