//! Handles beside a group: readers of its peak, and futures that wait for it to fall to its `high`. Numbers in brackets: the tests of reference/linux.md, section 4.

mod common;
use common::{Random, free, machine};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use tenalloc::{BelowHigh, CacheConfig, Config, Controller, Error};

/// [8] A new group has used nothing; a reset is private to its reader; readers go in any order.
#[test]
fn a_peak_is_reset_for_its_reader_alone() {
    let ctl = Controller::new(Config::new().exact_charges(true)).unwrap();
    let g = ctl.root().create("g").unwrap();
    let owner = g.owner();
    let first = g.peak_reader().unwrap();
    assert_eq!((g.current(), g.peak(), first.peak()), (0, 0, 0));
    owner.try_charge(1000).unwrap();
    owner.uncharge(900);
    let second = g.peak_reader().unwrap();
    assert_eq!((g.peak(), first.peak(), second.peak()), (1000, 1000, 1000));
    first.reset();
    assert_eq!((g.peak(), first.peak(), second.peak()), (1000, 100, 1000));
    owner.try_charge(400).unwrap();
    owner.uncharge(500);
    second.reset();
    assert_eq!((g.peak(), first.peak(), second.peak()), (1000, 500, 0));
    g.reset_peak();
    assert_eq!((g.peak(), first.peak(), second.peak()), (0, 500, 0));
    let third = g.peak_reader().unwrap();
    drop(second);
    owner.try_charge(50).unwrap();
    first.reset();
    drop(first);
    owner.uncharge(50);
    assert_eq!((g.peak(), third.peak()), (50, 50));
    g.remove().unwrap();
    third.reset();
    assert_eq!((third.peak(), third.group()), (0, &g));
}

/// Against a model that notes every step for every reader.
#[test]
fn peaks_match_a_plain_model() {
    let ctl = Controller::new(Config::new().exact_charges(true)).unwrap();
    let g = ctl.root().create("g").unwrap();
    let owner = g.owner();
    let mut random = Random(8);
    let (mut current, mut own) = (0u64, 0u64);
    let mut readers = Vec::new();
    for _ in 0..20_000 {
        match random.below(10) {
            0..4 => {
                let bytes = 1 + random.below(1000) as u64;
                owner.try_charge(bytes).unwrap();
                current += bytes;
            }
            4..8 => {
                let bytes = random.below(current as usize + 1) as u64;
                owner.uncharge(bytes);
                current -= bytes;
            }
            8 if random.below(4) == 0 && readers.len() < 6 => readers.push((g.peak_reader().unwrap(), own)),
            8 if random.below(4) == 0 && !readers.is_empty() => {
                drop(readers.swap_remove(random.below(readers.len())));
            }
            _ => match random.below(readers.len() + 1) {
                0 => {
                    g.reset_peak();
                    own = current;
                }
                n => {
                    readers[n - 1].0.reset();
                    readers[n - 1].1 = current;
                }
            },
        }
        own = own.max(current);
        assert_eq!(g.peak(), own);
        for (reader, peak) in &mut readers {
            *peak = current.max(*peak);
            assert_eq!(reader.peak(), *peak);
        }
    }
    owner.uncharge(current);
}

/// Readers that come, reset and go beside charges: nobody reads less than what a charge of his own just held.
#[test]
fn readers_and_charges_at_once() {
    let (_, ctl) = machine(1, 2);
    let g = ctl.root().create("g").unwrap();
    std::thread::scope(|s| {
        for t in 1..=3u64 {
            let g = &g;
            s.spawn(move || {
                let owner = g.owner();
                for i in 0..2000 {
                    let reader = g.peak_reader().unwrap();
                    reader.reset();
                    let bytes = t * 50_000 + i;
                    owner.try_charge(bytes).unwrap();
                    assert!(reader.peak() >= bytes && g.peak() >= bytes);
                    owner.uncharge(bytes);
                }
            });
        }
    });
    assert_eq!(g.exact(), 0);
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicU64);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A future with its waker.
struct Task<F> {
    future: Pin<Box<F>>,
    count: Arc<Count>,
}

impl<F: Future> Task<F> {
    fn new(future: F) -> Self {
        Self { future: Box::pin(future), count: Arc::default() }
    }

    fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(self.count.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn woken(&self) -> u64 {
        self.count.0.load(SeqCst)
    }
}

fn is_ready(task: &mut Task<BelowHigh>) -> bool {
    task.poll().is_ready()
}

/// Whoever frees wakes, on whatever CPU; what stocks hold is no hindrance, and nobody is woken early.
#[test]
fn a_task_waits_for_its_group_to_fall() {
    let (_, ctl) = machine(1, 3);
    let cache = ctl.cache(&CacheConfig::new("c", 1000)).unwrap();
    let p = ctl.root().create("p").unwrap();
    let g = p.create("g").unwrap();
    let other = ctl.root().create("other").unwrap();
    let mut objects: Vec<_> = (0..40).map(|_| cache.alloc(&g).unwrap()).collect();
    let others: Vec<_> = (0..40).map(|_| cache.alloc(&other).unwrap()).collect();
    assert!(is_ready(&mut Task::new(g.below_high())), "no high, no wait");
    p.set_high(10 * cache.charge()).unwrap();
    let mut tasks: Vec<_> = [&g, &p, &g].map(|group| Task::new(group.below_high())).into();
    assert!(tasks.iter_mut().all(|t| !is_ready(t) && t.woken() == 0));
    assert!(is_ready(&mut Task::new(other.below_high())));
    others.into_iter().for_each(|o| free(&ctl, o));
    let mut cancelled = tasks.pop().unwrap();
    assert!(!is_ready(&mut cancelled), "a second poll waits once");
    let count = cancelled.count.clone();
    drop(cancelled);
    assert_eq!(Arc::strong_count(&count), 1, "dropped: the waker is gone");
    while objects.len() > 10 {
        assert!(tasks.iter().all(|t| t.woken() == 0), "{} left", objects.len());
        ctl.set_cpu(objects.len() as u16 % 3);
        free(&ctl, objects.pop().unwrap());
    }
    assert!(tasks.iter_mut().all(|t| t.woken() == 1 && is_ready(t)));
    assert_eq!(count.0.load(SeqCst), 0);
    objects.into_iter().for_each(|o| free(&ctl, o));
    assert_eq!(ctl.root().exact(), 0);
}

/// A higher `high` wakes, and so does the removal of the group, though it is an ancestor that is above its `high`.
#[test]
fn a_raised_high_and_a_removal_wake() {
    let (_, ctl) = machine(1, 1);
    let p = ctl.root().create("p").unwrap();
    let (a, b) = (p.create("a").unwrap(), p.create("b").unwrap());
    let owner = b.owner();
    owner.try_charge(10_000).unwrap();
    p.set_high(5000).unwrap();
    let mut tasks = [&a, &b, &p].map(|g| Task::new(g.below_high()));
    assert!(tasks.iter_mut().all(|t| !is_ready(t)));
    p.set_high(9999).unwrap();
    assert!(tasks.iter().all(|t| t.woken() == 0));
    a.remove().unwrap();
    assert_eq!(tasks.each_ref().map(|t| t.woken()), [1, 0, 0]);
    assert!(is_ready(&mut tasks[0]) && !is_ready(&mut tasks[1]));
    assert!(is_ready(&mut Task::new(a.below_high())), "a removed group has nothing to wait for");
    p.set_high(10_000).unwrap();
    assert_eq!(tasks.each_ref().map(|t| t.woken()), [1, 1, 1]);
    assert!(tasks.iter_mut().all(is_ready));
    drop((tasks, a));
    assert_eq!(ctl.stat().removed_held, 0, "nothing holds a removed group");
    owner.uncharge(10_000);
}

/// Woken, but charged again before the task ran: it waits on. Its group passes by another ancestor's `high` next.
#[test]
fn a_task_that_comes_too_late_waits_on() {
    let ctl = Controller::new(Config::new().exact_charges(true).sleep(false)).unwrap();
    let p = ctl.root().create("p").unwrap();
    let g = p.create("g").unwrap();
    let owner = g.owner();
    g.set_high(100).unwrap();
    p.set_high(50).unwrap();
    owner.try_charge(120).unwrap();
    let mut task = Task::new(g.below_high());
    assert!(!is_ready(&mut task));
    owner.uncharge(20);
    assert_eq!(task.woken(), 1);
    owner.try_charge(1).unwrap();
    assert!(!is_ready(&mut task));
    owner.uncharge(31);
    assert!(task.woken() == 2 && !is_ready(&mut task), "the parent is at 70 of 50");
    owner.uncharge(20);
    assert!(task.woken() == 3 && is_ready(&mut task));
    owner.uncharge(50);
}

#[test]
fn an_object_for_a_task() {
    fn is_send(_: &impl Send) {}
    let ctl = Controller::new(Config::new().exact_charges(true).sleep(false)).unwrap();
    let cache = ctl.cache(&CacheConfig::new("c", 100)).unwrap();
    let g = ctl.root().create("g").unwrap();
    g.set_high(250).unwrap();
    let task = || Task::new(cache.alloc_async(&g));
    let objects = [(); 3].map(|()| {
        let mut task = task();
        is_send(&task.future);
        let Poll::Ready(Ok(object)) = task.poll() else { panic!("at or below high") };
        object
    });
    assert!(g.exact() > 250, "the last one passed it");
    let (mut cancelled, mut waits) = (task(), task());
    assert!(cancelled.poll().is_pending() && waits.poll().is_pending());
    drop(cancelled);
    assert_eq!(g.exact(), 3 * cache.charge());
    free(&ctl, objects[0]);
    assert_eq!(waits.woken(), 1);
    let Poll::Ready(Ok(object)) = waits.poll() else { panic!("woken") };
    let mut removed = task();
    assert!(removed.poll().is_pending());
    [object, objects[1]].into_iter().for_each(|o| free(&ctl, o));
    g.remove().unwrap();
    assert!(matches!(removed.poll(), Poll::Ready(Err(Error::GroupRemoved))));
    free(&ctl, objects[2]);
    assert_eq!(ctl.root().exact(), 0);
}

/// A thread that waits like a task.
struct Thread(std::thread::Thread);

impl Wake for Thread {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Thread(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// No wake is lost: a lost one would hang here. Groups come and go beside, and tasks are cancelled.
#[test]
fn many_wait_and_free() {
    let source: &'static tenalloc::page::Simulated = Box::leak(Box::default());
    for exact in [false, true] {
        let config = Config::new().source(source).topology(tenalloc::Topology::simulated(1, 2));
        let ctl = Controller::new(config.exact_charges(exact).sleep(false)).unwrap();
        let cache = ctl.cache(&CacheConfig::new("c", 1000)).unwrap();
        let p = ctl.root().create("p").unwrap();
        p.set_high(cache.charge()).unwrap();
        std::thread::scope(|s| {
            for t in 0..4 {
                let (ctl, cache, p) = (&ctl, &cache, &p);
                s.spawn(move || {
                    let g = p.create(&format!("g{t}")).unwrap();
                    for i in 0..3000 {
                        ctl.set_cpu(i);
                        let object = block_on(cache.alloc_async(&g)).unwrap();
                        if i % 5 == 0 {
                            let _ = Task::new(g.below_high()).poll();
                        }
                        if i % 7 == 0 {
                            let short = p.create(&format!("s{t}")).unwrap();
                            let mut task = Task::new(short.below_high());
                            let _ = task.poll();
                            short.remove().unwrap();
                            assert!(task.poll().is_ready());
                        }
                        free(ctl, object);
                    }
                });
            }
        });
        assert_eq!((ctl.root().exact(), ctl.stat().removed_held), (0, 0));
    }
}

/// `sleep(false)`: what would be slept is told, and the thread goes on.
#[test]
fn the_delay_is_told_instead_of_slept() {
    let ctl = Controller::new(Config::new().exact_charges(true).sleep(false)).unwrap();
    let p = ctl.root().create("p").unwrap();
    let g = p.create("g").unwrap();
    p.set_high(100_000).unwrap();
    assert_eq!(g.high_delay(u64::MAX), Duration::ZERO);
    // Each would sleep for 2 s: enough of them that a machine on which nothing goes on for a while is told from sleep.
    const TIMES: u64 = 30;
    let start = Instant::now();
    for times in 1..=TIMES {
        let large = ctl.malloc(&g, 1_000_000, 8).unwrap();
        assert_eq!((p.events().high, p.events().max), (times, 0));
        assert_eq!(g.high_delay(1_000_000), Duration::from_secs(2));
        assert_eq!(g.high_delay(0), Duration::ZERO);
        free(&ctl, large);
        assert_eq!(g.high_delay(1_000_000), Duration::ZERO);
    }
    assert!(start.elapsed() < Duration::from_secs(2 * TIMES), "it slept");
}

/// A waker that panics harms nobody else: the others are woken by the next who frees.
#[test]
fn a_waker_that_panics_stops_nobody_else() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics");
        }
    }
    let ctl = Controller::new(Config::new().exact_charges(true).sleep(false)).unwrap();
    let p = ctl.root().create("p").unwrap();
    let g = p.create("g").unwrap();
    let owner = g.owner();
    owner.try_charge(1000).unwrap();
    p.set_high(500).unwrap();
    g.set_high(500).unwrap();
    let mut bad = [Box::pin(g.below_high()), Box::pin(p.below_high())];
    let waker = Waker::from(Arc::new(Panics));
    assert!(bad.iter_mut().all(|b| b.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()));
    let mut good = [Task::new(g.below_high()), Task::new(p.below_high())];
    assert!(good.iter_mut().all(|t| !is_ready(t)));
    for _ in 0..2 {
        let free = std::panic::AssertUnwindSafe(|| owner.uncharge(500));
        assert!(std::panic::catch_unwind(free).is_err());
        owner.charge_forced(500);
    }
    owner.uncharge(500);
    assert!(good.iter_mut().all(|t| t.woken() == 1 && is_ready(t)));
    owner.uncharge(500);
    drop((bad, good));
    g.remove().unwrap();
    drop((g, owner));
    assert_eq!(ctl.stat().removed_held, 0);
}
