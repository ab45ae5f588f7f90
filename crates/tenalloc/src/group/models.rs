//! Models of removal and of waiting, for loom: real owners, stocks and counters behind real locks, in every order of their
//! steps.
//!
//! What [`charge`](super::charge), [`tree`](super::tree), [`wait`](super::wait) and [`signal`](super::signal) do with a
//! whole controller is done here in the same order with two groups or one, one CPU, and no names, lists or slabs.

use super::counter::Counter;
use super::owner::Owners;
use super::stock::{Slot, Stock};
use crate::meta::Meta;
use crate::page::Os;
use crate::sync::atomic::{AtomicU32, fence};
use crate::sync::{Lock, Rank};
use core::ptr::NonNull;
use core::sync::atomic::Ordering::*;
use loom::sync::Arc;
use loom::thread;

/// A parent and its child.
struct Bed {
    owners: Owners,
    area: Lock<Stock>,
    parent: (u32, Counter),
    child: (u32, Counter),
}

impl Bed {
    fn new() -> Self {
        let (owners, meta) = (Owners::new(), Meta::new(&Os));
        let make = || (owners.create(NonNull::dangling(), &meta).unwrap(), Counter::new());
        let (parent, child) = (make(), make());
        Self { owners, area: Lock::new(Rank::Cpu, Stock::default()), parent, child }
    }

    /// The counters of an owner's group and its ancestors.
    fn path(&self, owner: u32) -> impl Iterator<Item = &Counter> {
        let child = (owner == self.child.0).then_some(&self.child.1);
        child.into_iter().chain([&self.parent.1])
    }

    /// `Inner::charge`: the owner that pays. What the tree gives in advance is what it is asked for again.
    fn charge(&self, owner: u32, bytes: u64) -> u32 {
        let mut cpu = self.area.lock();
        let id = self.owners.resolve(owner);
        if !cpu.take(id, bytes) {
            self.path(id).for_each(|c| c.try_charge(2 * bytes).unwrap());
            self.owners.get(id).charged.fetch_add(2 * bytes, Relaxed);
            assert!(matches!(cpu.give(id, bytes), (None, 0)));
        }
        id
    }

    /// `Inner::uncharge`.
    fn uncharge(&self, owner: u32, bytes: u64) {
        let mut cpu = self.area.lock();
        let forwarded = self.owners.get(owner).is_forwarded();
        let id = if forwarded { self.owners.hand_over(owner, bytes) } else { owner };
        assert!(matches!(cpu.give(id, bytes), (None, 0)));
    }

    /// `Inner::drain_owner`.
    fn drain(&self, owner: u32) {
        let mut cpu = self.area.lock();
        if let Some(slot) = cpu.drain_owner(owner) {
            self.return_to_tree(slot);
        }
    }

    fn return_to_tree(&self, slot: Slot) {
        self.path(slot.owner).for_each(|c| c.uncharge(slot.bytes.into()));
        self.owners.get(slot.owner).charged.fetch_sub(slot.bytes.into(), Release);
    }

    /// `Tree::remove`, and the last handle dropped.
    fn remove(&self) {
        self.owners.forward(self.child.0, self.parent.0);
        self.drain(self.child.0);
        self.owners.release(self.child.0);
    }

    /// Nobody is at it, and `live` bytes of objects are left.
    fn check(&self, live: u64) {
        self.area.lock().drain(|_| true, |slot| self.return_to_tree(slot));
        assert_eq!(self.parent.1.current(), live, "charged and live differ");
        let (owners, forwarded) = self.owners.counts();
        assert_eq!(
            (owners, forwarded),
            if live == 0 { (1, 0) } else { (owners, forwarded) },
            "an owner stayed"
        );
        assert_eq!(self.owners.get(self.parent.0).charged.load(Relaxed), if live == 0 { 0 } else { live });
    }
}

/// The last object of a group dies while the group is removed: no byte is lost, and the owner does not stay.
#[test]
fn owner_death_against_last_free() {
    loom::model(|| {
        let bed = Arc::new(Bed::new());
        let object = bed.charge(bed.child.0, 10);
        let other = bed.clone();
        let t = thread::spawn(move || other.uncharge(object, 10));
        bed.remove();
        t.join().unwrap();
        bed.check(0);
    });
}

/// An object is made and freed while stocks are drained for a removal that is under way: it is its own group's or the
/// parent's, and what was taken in advance is given back by one of the two.
#[test]
fn stock_against_drain() {
    loom::model(|| {
        let bed = Arc::new(Bed::new());
        let other = bed.clone();
        let t = thread::spawn(move || {
            let object = other.charge(other.child.0, 10);
            other.uncharge(object, 10);
        });
        bed.remove();
        t.join().unwrap();
        bed.check(0);
    });
}

/// Two objects of a removed group die on two threads while its parent's owner takes over: the chain is walked,
/// shortened and freed by both.
#[test]
fn two_frees_of_a_chain() {
    loom::model(|| {
        let bed = Arc::new(Bed::new());
        let meta = Meta::new(&Os);
        // The grandchild's two objects; it was removed before.
        let deep = bed.owners.create(NonNull::dangling(), &meta).unwrap();
        for id in [deep, deep] {
            bed.path(bed.child.0).for_each(|c| c.try_charge(10).unwrap());
            bed.owners.get(id).charged.fetch_add(10, Relaxed);
        }
        bed.owners.forward(deep, bed.child.0);
        bed.owners.release(deep);
        let frees: [_; 2] = core::array::from_fn(|_| {
            let bed = bed.clone();
            thread::spawn(move || bed.uncharge(deep, 10))
        });
        bed.remove();
        frees.into_iter().for_each(|t| t.join().unwrap());
        bed.check(0);
    });
}

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
