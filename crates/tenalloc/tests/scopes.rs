//! What the feature `std` adds: the group of a thread and of a task, and the background reclaimer.
#![cfg(feature = "std")]

mod common;
use common::{free, machine};
use std::collections::HashMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;
use tenalloc::page::Simulated;
use tenalloc::{
    Background, Cache, CacheConfig, Config, Controller, Error, FutureExt, Group, Registration, Scanned,
    Shrink, Topology, current_group,
};

fn owner(ctl: &Controller, object: NonNull<u8>) -> Group {
    let group = ctl.group_of_object(object).unwrap().unwrap();
    free(ctl, object);
    group
}

#[test]
fn scopes_nest_and_restore() {
    let (_, ctl) = machine(1, 1);
    let cache = ctl.cache(&CacheConfig::new("c", 64)).unwrap();
    let (a, b) = (ctl.root().create("a").unwrap(), ctl.root().create("b").unwrap());
    let here = || owner(&ctl, cache.alloc_here().unwrap());
    assert_eq!((current_group(), here()), (None, ctl.root()));
    a.scope(|| {
        assert_eq!((current_group(), here()), (Some(a.clone()), a.clone()));
        b.scope(|| {
            assert_eq!(here(), b);
            assert_eq!(owner(&ctl, ctl.malloc_here(20_000, 8).unwrap()), b);
            assert_eq!(owner(&ctl, cache.alloc(&a).unwrap()), a, "an explicit group wins");
            let caught = catch_unwind(AssertUnwindSafe(|| ctl.root().scope(|| panic!("in a scope"))));
            assert!(caught.is_err());
            assert_eq!(here(), b, "a panic restores");
            std::thread::scope(|s| {
                s.spawn(|| assert_eq!(current_group(), None)).join().unwrap();
            });
        });
        assert_eq!(here(), a);
        let (_, other) = machine(1, 1);
        assert_eq!(other.malloc_here(10, 8), Err(Error::NotFound), "a group of another controller");
        a.remove().unwrap();
        assert_eq!(cache.alloc_here(), Err(Error::GroupRemoved));
    });
    assert_eq!((current_group(), here()), (None, ctl.root()));
}

/// Pending for a number of polls; notes its group at each, and when it is dropped.
struct Steps<'a>(u32, &'a Mutex<Vec<Option<Group>>>);

impl Future for Steps<'_> {
    type Output = Option<Group>;
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Group>> {
        self.1.lock().unwrap().push(current_group());
        self.0 -= 1;
        if self.0 == 0 { Poll::Ready(current_group()) } else { Poll::Pending }
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(current_group());
    }
}

/// Two tasks in turn on one thread, then on others: each poll is in its own group, and between them nobody is.
#[test]
fn a_task_enters_its_group_at_each_poll() {
    let (_, ctl) = machine(1, 1);
    let (a, b) = (ctl.root().create("a").unwrap(), ctl.root().create("b").unwrap());
    let (seen_a, seen_b) = (Mutex::default(), Mutex::default());
    let mut task_a = Box::pin(Steps(4, &seen_a).in_group(&a));
    let mut task_b = Box::pin(async { Steps(9, &seen_b).in_group(&b).await }.in_group(&a));
    let poll = |task: Pin<&mut dyn Future<Output = Option<Group>>>| {
        task.poll(&mut Context::from_waker(Waker::noop()))
    };
    for _ in 0..2 {
        assert!(poll(task_a.as_mut()).is_pending() && poll(task_b.as_mut()).is_pending());
        assert_eq!(current_group(), None);
    }
    b.scope(|| {
        assert!(poll(task_a.as_mut()).is_pending());
        assert_eq!(current_group().as_ref(), Some(&b));
    });
    std::thread::scope(|s| {
        s.spawn(|| assert_eq!(poll(task_a.as_mut()), Poll::Ready(Some(a.clone())))).join().unwrap();
    });
    assert_eq!(task_a.group(), &a);
    drop((task_a, task_b));
    assert_eq!(*seen_a.lock().unwrap(), vec![Some(a.clone()); 5], "four polls and the drop");
    assert_eq!(*seen_b.lock().unwrap(), vec![Some(b.clone()); 3], "two polls, the inner group, and the drop");
    let ready = pin!(std::future::ready(1).in_group(&a));
    assert_eq!(ready.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(1));
}

/// A thread that waits like a task.
struct Waits(Thread);

impl Wake for Waits {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Waits(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Objects by group; notes which threads give them back.
struct Shelf {
    cache: Cache,
    objects: Mutex<HashMap<String, Vec<usize>>>,
    here: AtomicU64,
    background: AtomicU64,
    panics: AtomicBool,
}

impl Shrink for Shelf {
    fn count(&self, group: &Group, _: u8) -> u64 {
        self.objects.lock().unwrap().get(group.name()).map_or(0, |o| o.len() as u64)
    }

    fn scan(&self, group: &Group, _: u8, number: u64) -> Scanned {
        assert!(!self.panics.load(SeqCst), "a shrinker that panics");
        let background = thread::current().name() == Some("tenalloc-reclaim");
        (if background { &self.background } else { &self.here }).fetch_add(1, SeqCst);
        let mut objects = self.objects.lock().unwrap();
        let own = objects.get_mut(group.name()).unwrap();
        let n = own.len().min(number as usize);
        for object in own.drain(..n) {
            free(self.cache.controller(), NonNull::new(object as *mut u8).unwrap());
        }
        Scanned { looked_at: n as u64, freed: n as u64, ..Scanned::default() }
    }
}

struct Bed {
    ctl: Controller,
    shelf: &'static Shelf,
    _place: Registration,
}

fn bed() -> Bed {
    let source: &'static Simulated = Box::leak(Box::default());
    let config = Config::new().source(source).topology(Topology::simulated(1, 2)).exact_charges(true);
    let ctl = Controller::new(config).unwrap();
    let shelf: &'static Shelf = Box::leak(Box::new(Shelf {
        cache: ctl.cache(&CacheConfig::new("c", 1000)).unwrap(),
        objects: Mutex::default(),
        here: AtomicU64::new(0),
        background: AtomicU64::new(0),
        panics: AtomicBool::new(false),
    }));
    let _place = ctl.add_shrinker(shelf).unwrap();
    Bed { ctl, shelf, _place }
}

impl Bed {
    fn charge(&self) -> u64 {
        self.shelf.cache.charge()
    }

    fn fill(&self, group: &Group, n: u64) {
        for _ in 0..n {
            let object = self.shelf.cache.alloc(group).unwrap().as_ptr() as usize;
            self.shelf.objects.lock().unwrap().entry(group.name().to_owned()).or_default().push(object);
        }
    }

    fn calls(&self) -> (u64, u64) {
        (self.shelf.here.load(SeqCst), self.shelf.background.load(SeqCst))
    }
}

/// A charge a little above `high` goes on, and the thread, woken by it, brings the group down; stopped, charges
/// reclaim for themselves again.
#[test]
fn the_background_keeps_groups_under_high() {
    let b = bed();
    let background = Background::builder(&b.ctl).margin(20 * b.charge()).start().unwrap();
    let groups = ["g", "h"].map(|name| b.ctl.root().create(name).unwrap());
    for g in &groups {
        g.set_high(100 * b.charge()).unwrap();
        b.fill(g, 100);
    }
    assert_eq!((background.runs(), b.calls()), (0, (0, 0)), "nobody is above");
    for round in 1..=50 {
        for g in &groups {
            b.fill(g, 100 - g.current() / b.charge() + 3); // 3 % above high: not worth a wait
        }
        for g in &groups {
            block_on(g.below_high());
            assert!(g.current() <= g.high(), "round {round}");
        }
    }
    assert!(b.calls().0 == 0 && b.calls().1 > 0, "charges left it to the background: {:?}", b.calls());
    assert!(groups.iter().all(|g| g.events().high > 0 && g.events().max == 0));
    groups[1].remove().unwrap();
    background.stop().unwrap();
    b.fill(&groups[0], 103);
    assert!(b.calls().0 > 0 && groups[0].current() <= groups[0].high());
    drop(groups);
    assert_eq!(b.ctl.stat().removed_held, 0, "it holds no group any more");
}

/// A slice of time may be over before anything could be had in it, because the thread had no CPU or a shrinker is slow: the
/// group is not forgotten, or who waits for it would wait for ever.
#[test]
fn a_group_that_gave_nothing_in_a_slice_is_not_forgotten() {
    let b = bed();
    let background = Background::builder(&b.ctl).slice(Duration::ZERO).start().unwrap();
    let g = b.ctl.root().create("g").unwrap();
    g.set_high(100 * b.charge()).unwrap();
    b.fill(&g, 103);
    block_on(g.below_high());
    assert!(g.current() <= g.high() && b.calls().0 == 0 && b.calls().1 > 0, "{:?}", b.calls());
    background.stop().unwrap();
}

/// Where the overage is worth a wait the charge itself reclaims, background or not.
#[test]
fn far_above_high_the_charge_reclaims_too() {
    let b = bed();
    let background = Background::builder(&b.ctl).start().unwrap();
    let g = b.ctl.root().create("g").unwrap();
    b.fill(&g, 1000);
    g.set_high(100 * b.charge()).unwrap();
    b.fill(&g, 1);
    block_on(g.below_high());
    assert!(g.current() <= g.high() && b.calls().0 + b.calls().1 > 0);
    drop(background);
}

/// Its end by a shrinker's panic is told, and charges do not rely on it any more.
#[test]
fn a_panic_ends_it_and_is_told() {
    let b = bed();
    let background = Background::builder(&b.ctl).start().unwrap();
    let g = b.ctl.root().create("g").unwrap();
    g.set_high(100 * b.charge()).unwrap();
    b.shelf.panics.store(true, SeqCst);
    b.fill(&g, 101);
    while !background.has_ended() {
        thread::yield_now();
    }
    b.shelf.panics.store(false, SeqCst);
    b.fill(&g, 1);
    assert!(g.current() <= g.high() && b.calls().0 > 0, "{g:?}");
    assert!(background.stop().is_err());
    g.remove().unwrap();
    drop(g);
    assert_eq!(b.ctl.stat().removed_held, 0, "it died with nothing in its hands");
}

/// Started and stopped at any time beside charges: it joins, and no group stays held.
#[test]
fn it_comes_and_goes_beside_charges() {
    let b = bed();
    let g = b.ctl.root().create("g").unwrap();
    g.set_high(50 * b.charge()).unwrap();
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| b.fill(&g, 2000));
        }
        for _ in 0..50 {
            drop(Background::builder(&b.ctl).start().unwrap());
        }
    });
    let _ = g.reclaim(g.exact());
    for objects in b.shelf.objects.lock().unwrap().values_mut() {
        objects.drain(..).for_each(|o| free(&b.ctl, NonNull::new(o as *mut u8).unwrap()));
    }
    g.remove().unwrap();
    drop(g);
    assert_eq!((b.ctl.root().exact(), b.ctl.stat().removed_held), (0, 0));
}
