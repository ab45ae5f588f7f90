//! Models of removal, for loom: real owners, stocks and counters behind real locks, in every order of their steps.
//!
//! What [`charge`](super::charge) and [`tree`](super::tree) do with a whole controller is done here in the same order
//! with two groups, one CPU, and no names, lists or slabs.

use super::counter::Counter;
use super::owner::Owners;
use super::stock::{Slot, Stock};
use crate::meta::Meta;
use crate::page::Os;
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
        self.area.lock().drain(|slot| self.return_to_tree(slot));
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
