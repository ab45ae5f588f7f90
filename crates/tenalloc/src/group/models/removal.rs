//! Removal: what [`charge`](crate::group::charge) and [`tree`](crate::group::tree) do with a whole controller is done here
//! in the same order with two groups and two CPUs, and no names, lists or slabs.

use crate::group::counter::Counter;
use crate::group::owner::{Entered, Ids, Owners};
use crate::group::stock::{Slot, Stock};
use crate::meta::Meta;
use crate::page::Os;
use crate::sync::{Guard, Lock, Rank};
use core::ptr::NonNull;
use core::sync::atomic::Ordering::*;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// Of the two CPUs that they run on.
const CPUS: usize = 2;

/// A parent and its child.
struct Bed {
    /// Behind the tree's lock.
    ids: Lock<Ids>,
    owners: Owners,
    areas: [Lock<Stock>; CPUS],
    parent: (u32, Counter),
    child: (u32, Counter),
    /// The child's node: looked at by charges, written to once it is gone. Loom tells of both at once.
    node: UnsafeCell<()>,
    /// Wrong: charges do not enter the owner.
    stays_out: bool,
}

// SAFETY: the cell is there to be watched by loom, and has nothing in it.
unsafe impl Sync for Bed {}

impl Bed {
    fn new() -> Self {
        let (owners, mut ids, meta) = (Owners::new(), Ids::new(), Meta::new(&Os));
        let mut make = || owners.create(&mut ids, NonNull::dangling(), &meta).unwrap();
        let (parent, child) = ((make(), Counter::new()), (make(), Counter::new()));
        let areas = core::array::from_fn(|_| Lock::new(Rank::Cpu, Stock::default()));
        let ids = Lock::new(Rank::Tree, ids);
        Self { ids, owners, areas, parent, child, node: UnsafeCell::new(()), stays_out: false }
    }

    /// The counters of an owner's group and its ancestors.
    fn path(&self, owner: u32) -> impl Iterator<Item = &Counter> {
        let child = (owner == self.child.0).then(|| {
            self.node.with(|_| ());
            &self.child.1
        });
        child.into_iter().chain([&self.parent.1])
    }

    fn enter(&self, id: u32, cpu: usize) -> bool {
        self.owners.get(id).enter(cpu as u16)
    }

    /// `Inner::charge`: the owner that pays. What the tree gives in advance is what it is asked for again.
    fn charge(&self, cpu: usize, owner: u32, bytes: u64) -> u32 {
        let mut stock = self.areas[cpu].lock();
        loop {
            let id = self.owners.resolve(owner);
            if stock.take(id, bytes) {
                return id;
            }
            if self.stays_out || self.enter(id, cpu) {
                self.path(id).for_each(|c| c.try_charge(2 * bytes).unwrap());
                self.owners.get(id).charged.fetch_add(2 * bytes, Relaxed);
                assert!(matches!(stock.give(id, bytes), (None, 0)));
                return id;
            }
        }
    }

    /// `Inner::uncharge`.
    fn uncharge(&self, cpu: usize, owner: u32, bytes: u64) {
        let mut stock = self.areas[cpu].lock();
        let mut id = owner;
        while !self.enter(id, cpu) {
            id = self.owners.hand_over(id, bytes);
        }
        assert!(matches!(stock.give(id, bytes), (None, 0)));
    }

    /// `Inner::drain_owner`, on `cpu`.
    fn drain(&self, cpu: usize, owner: u32, entered: Entered) {
        let held: &mut [Option<Guard<'_, Stock>>] = &mut [const { None }; CPUS];
        match entered {
            Entered::Nowhere => return,
            Entered::Only(only) if usize::from(only) == cpu => held[cpu] = Some(self.areas[cpu].lock()),
            _ => held.iter_mut().zip(&self.areas).for_each(|(held, area)| *held = Some(area.lock())),
        }
        for stock in held.iter_mut().flatten() {
            if let Some(slot) = stock.drain_owner(owner) {
                self.return_to_tree(slot);
            }
        }
    }

    fn return_to_tree(&self, slot: Slot) {
        self.path(slot.owner).for_each(|c| c.uncharge(slot.bytes.into()));
        self.owners.get(slot.owner).charged.fetch_sub(slot.bytes.into(), Release);
    }

    /// `Tree::remove` on `cpu`, and the last handle dropped: the node is somebody else's.
    fn remove(&self, cpu: usize) {
        let mut ids = self.ids.lock();
        let used = self.owners.forward(&mut ids, self.child.0, self.parent.0);
        self.drain(cpu, self.child.0, used.entered);
        drop(ids);
        self.node.with_mut(|_| ());
        self.owners.release(self.child.0);
    }

    /// Nobody is at it, and no bytes of objects are left.
    fn check(&self) {
        for area in &self.areas {
            area.lock().drain(
                |_| true,
                |slot| {
                    assert_eq!(slot.owner, self.parent.0, "bytes were left with who went");
                    self.return_to_tree(slot);
                },
            );
        }
        assert_eq!(self.parent.1.current(), 0, "something is charged, and nothing live");
        assert_eq!(self.owners.forwarded(&self.ids.lock()), 0, "an owner stayed");
        assert_eq!(self.owners.get(self.parent.0).charged.load(Relaxed), 0);
    }
}

/// The last object of a group dies while the group is removed, on the same CPU or another: no byte is lost, and the owner
/// does not stay.
#[test]
fn owner_death_against_last_free() {
    for cpu in 0..CPUS {
        loom::model(move || {
            let bed = Arc::new(Bed::new());
            let object = bed.charge(0, bed.child.0, 10);
            let other = bed.clone();
            let t = thread::spawn(move || other.uncharge(cpu, object, 10));
            bed.remove(0);
            t.join().unwrap();
            bed.check();
        });
    }
}

fn charge_against_removal(stays_out: bool, cpu: usize) {
    loom::model(move || {
        let bed = Arc::new(Bed { stays_out, ..Bed::new() });
        let other = bed.clone();
        let t = thread::spawn(move || {
            let object = other.charge(cpu, other.child.0, 10);
            other.uncharge(cpu, object, 10);
        });
        bed.remove(0);
        t.join().unwrap();
        bed.check();
    });
}

/// An object is made and freed while stocks are drained for a removal that is under way: it is its own group's or the
/// parent's, what was taken in advance is given back by one of the two, and nobody looks at the node once it is gone.
#[test]
fn stock_against_drain() {
    (0..CPUS).for_each(|cpu| charge_against_removal(false, cpu));
}

/// Who charges without saying where is not waited for.
#[test]
#[should_panic]
fn a_charge_that_does_not_enter_is_not_seen() {
    charge_against_removal(true, 1);
}

/// A group that CPU 0 has entered is entered on CPU 1 too while CPU 0 removes it: the removal sees both, or who comes sees
/// the forward.
#[test]
fn another_cpu_enters() {
    loom::model(|| {
        let bed = Arc::new(Bed::new());
        let object = bed.charge(0, bed.child.0, 10);
        let other = bed.clone();
        let t = thread::spawn(move || {
            let object = other.charge(1, other.child.0, 10);
            other.uncharge(1, object, 10);
        });
        bed.remove(0);
        bed.uncharge(0, object, 10);
        t.join().unwrap();
        bed.check();
    });
}

/// Something is made ready for a group on CPU 0 while that goes: the removal is told of which cache, or who comes sees the
/// forward.
#[test]
fn a_note_against_removal() {
    const CACHE: u64 = 9;
    loom::model(|| {
        let bed = Arc::new(Bed::new());
        let ready = Arc::new(Lock::new(Rank::Cpu, false));
        let (other, shelf) = (bed.clone(), ready.clone());
        let t = thread::spawn(move || {
            let mut ready = shelf.lock();
            *ready = other.enter(other.child.0, 0) && other.owners.note(other.child.0, CACHE);
        });
        let used = bed.owners.forward(&mut bed.ids.lock(), bed.child.0, bed.parent.0);
        if used.entered != Entered::Nowhere {
            let mut ready = ready.lock();
            used.each_cache(|number| *ready &= number != CACHE);
        }
        t.join().unwrap();
        assert!(!*ready.lock(), "it was left with who went");
    });
}

/// Two objects of a removed group die on two threads while its parent's owner takes over: the chain is walked,
/// shortened and freed by both.
#[test]
fn two_frees_of_a_chain() {
    loom::model(|| {
        let bed = Arc::new(Bed::new());
        let (mut ids, meta) = (bed.ids.lock(), Meta::new(&Os));
        // The grandchild's two objects; it was removed before.
        let deep = bed.owners.create(&mut ids, NonNull::dangling(), &meta).unwrap();
        for id in [deep, deep] {
            bed.path(bed.child.0).for_each(|c| c.try_charge(10).unwrap());
            bed.owners.get(id).charged.fetch_add(10, Relaxed);
        }
        bed.owners.forward(&mut ids, deep, bed.child.0);
        drop(ids);
        bed.owners.release(deep);
        let frees: [_; 2] = core::array::from_fn(|_| {
            let bed = bed.clone();
            thread::spawn(move || bed.uncharge(0, deep, 10))
        });
        bed.remove(0);
        frees.into_iter().for_each(|t| t.join().unwrap());
        bed.check();
    });
}
