//! Models of waiting, for loom, with those of [`removal`] beside them: real owners, stocks and counters behind real locks,
//! in every order of their steps.
//!
//! What [`wait`](super::wait) and [`signal`](super::signal) do with a whole controller is done here in the same order with
//! one group, one CPU, and no names, lists or slabs.

mod removal;

use super::counter::Counter;
use super::stock::Stock;
use crate::sync::atomic::{AtomicU32, fence};
use crate::sync::{Lock, Rank};
use core::sync::atomic::Ordering::*;
use loom::sync::Arc;
use loom::thread;

/// What the waiter does wrong, for the models that must find it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// It does not look again once it is linked.
    LooksOnce,
    /// It leaves what was freed before in the stock.
    LeavesStock,
}

/// A group with a `high`, one task that waits for it, and what they meet through. Loom takes an access for sequentially
/// consistent only at a fence, so the two on which this rests have one beside them here.
struct Wait {
    area: Lock<(Stock, bool)>,
    group: Counter,
    high: AtomicU32,
    removed: AtomicU32,
    /// `Signals::waiters`, `Knobs::waiting`, and the list: whether the waiter is on it.
    waiters: AtomicU32,
    waiting: AtomicU32,
    list: Lock<bool>,
    /// The queue `fell`: whether the group says that it is there, and whether it is.
    queued: AtomicU32,
    fell: AtomicU32,
    woken: AtomicU32,
    wrong: Wrong,
}

const GROUP: u32 = 7;
const HIGH: u32 = 10;

impl Wait {
    /// 20 bytes are charged, of which 10 too many.
    fn new(wrong: Wrong) -> Arc<Self> {
        let zero = || AtomicU32::new(0);
        let (group, high) = (Counter::new(), AtomicU32::new(HIGH));
        group.try_charge(20).unwrap();
        let area = Lock::new(Rank::Cpu, (Stock::default(), false));
        let (removed, waiters, waiting, queued, fell, woken) =
            (zero(), zero(), zero(), zero(), zero(), zero());
        let list = Lock::new(Rank::Leaf, false);
        Arc::new(Self { area, group, high, removed, waiters, waiting, list, queued, fell, woken, wrong })
    }

    fn is_below(&self) -> bool {
        self.group.current() <= self.high.load(Relaxed).into()
    }

    /// `BelowHigh::is_done`.
    fn is_done(&self) -> bool {
        self.removed.load(Acquire) == 1 || self.is_below()
    }

    /// `Inner::look_below`.
    fn look_below(&self) {
        fence(SeqCst);
        if self.waiters.load(SeqCst) > 0
            && self.waiting.load(Relaxed) > 0
            && self.is_below()
            && self.queued.swap(1, AcqRel) == 0
        {
            self.fell.store(1, Release);
        }
    }

    /// `Inner::settle`, and `wait::wake`.
    fn settle(&self) {
        if self.fell.load(Relaxed) == 1 && self.fell.swap(0, AcqRel) == 1 {
            self.queued.swap(0, AcqRel);
            if self.waiting.load(Relaxed) > 0 && self.is_below() {
                self.pop();
            }
        }
    }

    /// `wait::pop`, and the waker.
    fn pop(&self) {
        let mut linked = self.list.lock();
        if core::mem::take(&mut *linked) {
            self.waiting.fetch_sub(1, Relaxed);
            self.waiters.fetch_sub(1, Relaxed);
            drop(linked);
            self.woken.store(1, Release);
        }
    }

    /// `Inner::uncharge` and `Inner::see_to`: into the stock, or past it where somebody waits.
    fn uncharge(&self, bytes: u64) {
        let mut area = self.area.lock();
        let past = area.1 && self.waiters.load(SeqCst) > 0 && self.waiting.load(Relaxed) > 0;
        if past {
            self.group.uncharge(bytes);
            self.look_below();
        } else {
            assert!(matches!(area.0.give(GROUP, bytes), (None, 0)));
        }
        drop(area);
        self.settle();
    }

    /// `Inner::drain_for_waiters`, or a drain as others do it.
    fn drain(&self, waited: bool) {
        let mut area = self.area.lock();
        area.1 |= waited;
        area.0.drain(
            |_| true,
            |slot| {
                self.group.uncharge(slot.bytes.into());
                self.look_below();
            },
        );
        drop(area);
        self.settle();
    }

    /// `BelowHigh::poll`: true if it is ready.
    fn poll(&self) -> bool {
        if self.is_done() {
            return true;
        }
        let mut linked = self.list.lock();
        *linked = true;
        self.waiting.fetch_add(1, Relaxed);
        self.waiters.fetch_add(1, SeqCst);
        drop(linked);
        fence(SeqCst);
        if self.wrong != Wrong::LeavesStock {
            self.drain(true);
        } else {
            self.area.lock().1 = true;
        }
        self.wrong != Wrong::LooksOnce && self.is_done()
    }

    /// Nobody is at it: who is still waiting was told, or has to, also without what a stock holds in advance.
    fn check(&self, ready: bool) {
        let told = ready || self.woken.load(Acquire) == 1;
        let ahead: u64 = self.area.lock().0.slots().map(|slot| u64::from(slot.bytes)).sum();
        let below = self.group.current() - ahead <= self.high.load(Relaxed).into();
        assert!(told || !below && !self.is_done(), "a wake-up was lost");
    }

    /// One thread waits while another does `what`.
    fn against(wrong: Wrong, what: impl Fn(&Self) + Copy + Send + Sync + 'static) {
        loom::model(move || {
            let wait = Self::new(wrong);
            let other = wait.clone();
            let t = thread::spawn(move || what(&other));
            let ready = wait.poll();
            t.join().unwrap();
            wait.check(ready);
        });
    }
}

/// Bytes are freed while a task begins to wait: it sees them, or whoever frees them sees it. In two steps, of which only
/// the second brings the group to its `high`, and through the stock.
#[test]
fn a_waiter_against_uncharges() {
    Wait::against(Wrong::Nothing, |wait| (0..2).for_each(|_| wait.uncharge(5)));
}

/// The same when stocks are drained by somebody else meanwhile.
#[test]
fn a_waiter_against_a_drain() {
    Wait::against(Wrong::Nothing, |wait| {
        wait.uncharge(10);
        wait.drain(false);
    });
}

/// `Group::set_high` upwards, and `Group::remove` with `wait::wake_removed`.
#[test]
fn a_waiter_against_its_group() {
    Wait::against(Wrong::Nothing, |wait| {
        wait.high.store(100, SeqCst);
        wait.look_below();
        wait.settle();
    });
    Wait::against(Wrong::Nothing, |wait| {
        wait.removed.store(1, Release);
        fence(SeqCst);
        if wait.waiters.load(Relaxed) > 0 {
            wait.pop();
        }
    });
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn a_waiter_that_looks_once_would_be_found() {
    Wait::against(Wrong::LooksOnce, |wait| {
        wait.group.uncharge(10);
        wait.look_below();
        wait.settle();
    });
}

/// Bytes in a stock are free for whoever asks; a waiter that leaves them there waits for nothing.
#[test]
#[should_panic(expected = "a wake-up was lost")]
fn a_waiter_that_leaves_the_stock_would_be_found() {
    Wait::against(Wrong::LeavesStock, |wait| wait.uncharge(10));
}
