//! The protocol of an area, for loom: sequences on one CPU against somebody who stops it.
//!
//! Loom knows no processor that begins a sequence again, so here the CPU is a mutex: a sequence holds it from its first
//! load to its store, since it counts only if nothing came in between, and an interruption takes it once. An interruption
//! falls somewhere between a thread's instructions, and where that is, both sides agree on what came before; so a holder
//! takes the mutex once between giving the area back and looking whether somebody stopped it.

use crate::sync::atomic::{AtomicU32, Ordering::*};
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// What is done wrong, for the models that must find it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// Nobody is interrupted.
    NoInterruption,
    /// A holder does not look whether somebody waits.
    NoWake,
    /// A sequence does not look whether the area is stopped.
    NoLook,
}

struct Bed {
    cpu: Mutex<()>,
    gate: Mutex<()>,
    taken: AtomicU32,
    stopped: AtomicU32,
    /// The kernel's: who sleeps on `taken` sleeps here.
    futex: (Mutex<()>, Condvar),
    /// What the area guards: loom tells of two who touch it together.
    value: UnsafeCell<u32>,
    wrong: Wrong,
}

impl Bed {
    fn new(wrong: Wrong) -> Arc<Self> {
        let zero = || AtomicU32::new(0);
        let (cpu, gate, value) = (Mutex::new(()), Mutex::new(()), UnsafeCell::new(0));
        let futex = (Mutex::new(()), Condvar::new());
        Arc::new(Self { cpu, gate, taken: zero(), stopped: zero(), futex, value, wrong })
    }

    fn touch(&self) {
        // SAFETY: whoever comes here holds the area; loom fails the model if not.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    /// `Sequences::take`, and `Held` dropped.
    fn fast(&self) -> bool {
        {
            let _uninterrupted = self.cpu.lock().unwrap();
            // Every load of an x86-64 is an acquire; another processor would have to ask for it, for both.
            let stopped = self.wrong != Wrong::NoLook && self.stopped.load(Acquire) != 0;
            if stopped || self.taken.load(Acquire) != 0 {
                return false;
            }
            self.taken.store(1, Relaxed);
        }
        self.touch();
        self.taken.store(0, Release);
        drop(self.cpu.lock().unwrap());
        if self.wrong != Wrong::NoWake && self.stopped.load(Relaxed) != 0 {
            let _queue = self.futex.0.lock().unwrap();
            self.futex.1.notify_one();
        }
        true
    }

    /// `Sequences::pop` and `push`: the value is changed in the sequence itself, and nothing is taken.
    fn at_once(&self) -> bool {
        let _uninterrupted = self.cpu.lock().unwrap();
        let closed = self.stopped.load(Acquire) != 0 || self.taken.load(Acquire) != 0;
        if self.wrong == Wrong::NoLook || !closed {
            self.touch();
        }
        !closed
    }

    /// `Areas::lock`, and `Held` dropped: through the gate.
    fn slow(&self) {
        let gate = self.gate.lock().unwrap();
        self.stopped.store(1, SeqCst);
        if self.wrong != Wrong::NoInterruption {
            drop(self.cpu.lock().unwrap());
        }
        while self.taken.load(Acquire) != 0 {
            let queue = self.futex.0.lock().unwrap();
            // The kernel looks once more before it lets a thread sleep.
            if self.taken.load(Acquire) == 1 {
                drop(self.futex.1.wait(queue).unwrap());
            }
        }
        self.touch();
        self.stopped.store(0, Release);
        drop(gate);
    }
}

fn against(wrong: Wrong) {
    loom::model(move || {
        let bed = Bed::new(wrong);
        let other = bed.clone();
        let t = thread::spawn(move || {
            if !other.fast() {
                other.slow();
            }
        });
        bed.slow();
        t.join().unwrap();
        bed.fast();
        bed.value.with(|value| {
            // SAFETY: the other thread is gone.
            assert!(unsafe { *value } >= 3)
        });
    });
}

#[test]
fn a_sequence_against_a_stop() {
    against(Wrong::Nothing);
}

/// Two threads of one CPU, of which one is preempted while it holds the area, and a third that stops it.
#[test]
fn two_sequences_against_a_stop() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let bed = Bed::new(Wrong::Nothing);
        let others: [_; 2] = core::array::from_fn(|_| {
            let bed = bed.clone();
            thread::spawn(move || bed.fast())
        });
        bed.slow();
        for t in others {
            t.join().unwrap();
        }
    });
}

/// One thread pops at once, another holds the area of the same CPU, a third stops it.
fn at_once_against_both(wrong: Wrong) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let bed = Bed::new(wrong);
        let (popper, holder) = (bed.clone(), bed.clone());
        let threads = [thread::spawn(move || popper.at_once()), thread::spawn(move || holder.fast())];
        bed.slow();
        for t in threads {
            t.join().unwrap();
        }
    });
}

#[test]
fn a_pop_against_a_holder_and_a_stop() {
    at_once_against_both(Wrong::Nothing);
}

#[test]
#[should_panic]
fn a_pop_without_the_look_meets_a_holder() {
    at_once_against_both(Wrong::NoLook);
}

#[test]
#[should_panic]
fn a_pop_that_nobody_interrupts_meets_a_stop() {
    at_once_against_both(Wrong::NoInterruption);
}

#[test]
#[should_panic]
fn without_the_interruption_two_hold_it() {
    against(Wrong::NoInterruption);
}

#[test]
#[should_panic]
fn without_the_look_two_hold_it() {
    against(Wrong::NoLook);
}

#[test]
#[should_panic]
fn without_the_wake_up_one_sleeps_on() {
    against(Wrong::NoWake);
}
