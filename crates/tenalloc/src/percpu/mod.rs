//! Per-CPU areas: what one CPU keeps near, and the right to touch it.
//!
//! ```text
//!   thread on CPU 3 ── sequence: stopped? taken? take ──► area 3 ── plain store ──► free again
//!   anybody else ───── gate, stop, interrupt all CPUs, wait until free ──► area 3 ──► go on
//! ```
//!
//! A thread takes the area of the CPU that it runs on in a restartable sequence: two loads and one store, no atomic
//! instruction. It may be preempted or moved while it holds the area: whoever runs on that CPU then finds it taken, and
//! waits. A thread that wants an area of another CPU, or of all, sets a flag that every sequence looks at, interrupts the
//! CPUs once (membarrier), so that no sequence is left that has not seen it, and waits until the area is free. An idle
//! CPU is not waited for. The gate lets threads through in the order in which they came: somebody who reads sums in a
//! loop has the areas stopped most of the time, and would starve all others else.
//!
//! Where there are no restartable sequences (no glibc 2.35, no kernel 4.18, another processor, a made-up machine) the
//! gate alone is the lock: a futex.
//!
//! * `seq`: the sequence itself, and the barrier.

#[cfg(all(test, feature = "loom"))]
mod models;
mod seq;

use self::seq::Sequences;
use crate::page::Topology;
use crate::sync::{Rank, Ticket};
use core::cell::{Cell, UnsafeCell};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, compiler_fence};

/// What sequences look at: both halves are zero in an area that is free.
#[repr(C, align(8))]
struct State {
    /// Held by who took it in a sequence.
    taken: AtomicU32,
    /// Somebody is behind the gate: no sequence takes it.
    stopped: AtomicU32,
}

/// One CPU's area.
#[repr(C, align(128))]
struct Area<T> {
    state: State,
    gate: Ticket,
    cpu: u16,
    node: u8,
    /// Whoever holds the area came through the gate, not in a sequence. The holder's.
    gated: Cell<bool>,
    /// The rank checks know nothing of who holds it. The holder's.
    unranked: Cell<bool>,
    value: UnsafeCell<T>,
}

/// The areas of all CPUs.
pub(crate) struct Areas<T> {
    areas: NonNull<Area<T>>,
    cpus: u16,
    sequences: Option<Sequences>,
    /// Times that all CPUs were interrupted.
    interrupts: AtomicU64,
}

// SAFETY: an area is reached by who holds it alone.
unsafe impl<T: Send> Sync for Areas<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Areas<T> {}

impl<T> Areas<T> {
    /// Bytes that the areas of so many CPUs take.
    pub(crate) const fn bytes(cpus: u16) -> usize {
        cpus as usize * size_of::<Area<T>>()
    }

    /// # Safety
    /// `place` has [`bytes`](Self::bytes) for the topology's CPUs, is aligned to 128 and nobody else's.
    pub(crate) unsafe fn new(place: NonNull<u8>, topology: &Topology, make: impl Fn() -> T) -> Self {
        let areas = place.cast::<Area<T>>();
        for cpu in 0..topology.cpus() {
            let area = Area {
                state: State { taken: AtomicU32::new(0), stopped: AtomicU32::new(0) },
                gate: Ticket::new(),
                cpu,
                node: 0,
                gated: Cell::new(false),
                unranked: Cell::new(false),
                value: UnsafeCell::new(make()),
            };
            // SAFETY: the caller's promise.
            unsafe { areas.add(cpu.into()).write(area) };
        }
        topology.for_each_cpu(|cpu, node| {
            // SAFETY: as above; written just now, and nobody else knows of it yet.
            unsafe { (*areas.add(cpu.into()).as_ptr()).node = node };
        });
        let sequences = if topology.is_simulated() { None } else { Sequences::detect() };
        Self { areas, cpus: topology.cpus(), sequences, interrupts: AtomicU64::new(0) }
    }

    /// As given to [`new`](Self::new).
    pub(crate) fn place(&self) -> NonNull<u8> {
        self.areas.cast()
    }

    fn area(&self, cpu: u16) -> &Area<T> {
        debug_assert!(cpu < self.cpus);
        // SAFETY: there is one a CPU, and callers pass CPUs of the topology.
        unsafe { self.areas.add(cpu.into()).as_ref() }
    }

    /// Takes the area of the CPU that the caller is on; `cpu` says which it is where no sequence can.
    #[inline]
    pub(crate) fn lock_here(&self, cpu: impl FnOnce() -> u16) -> Held<'_, T> {
        if self.sequences.is_some()
            && let Some(held) = self.try_lock_here(|| 0)
        {
            return held;
        }
        self.lock(cpu())
    }

    /// Takes the area of the CPU that the caller is on, if that can be done without waiting; `cpu` as above. (The caller
    /// may be moved to another CPU right after: that he holds the area, not where he runs, keeps it to him.)
    #[inline(always)]
    pub(crate) fn try_lock_here(&self, cpu: impl FnOnce() -> u16) -> Option<Held<'_, T>> {
        let area = self.take_here(cpu)?;
        crate::sync::acquired(Rank::Cpu, core::ptr::from_ref(area) as usize);
        Some(Held(area))
    }

    /// As [`try_lock_here`](Self::try_lock_here), from wherever the thread is: in a signal handler it may hold any lock,
    /// and since this waits for none their ranks do not matter.
    pub(crate) fn try_lock_from_anywhere(&self, cpu: impl FnOnce() -> u16) -> Option<Held<'_, T>> {
        let area = self.take_here(cpu)?;
        area.unranked.set(true);
        Some(Held(area))
    }

    #[inline(always)]
    fn take_here(&self, cpu: impl FnOnce() -> u16) -> Option<&Area<T>> {
        if let Some(sequences) = &self.sequences {
            // SAFETY: the areas are in place, as many as that, each beginning with a `State`.
            return unsafe { Some(sequences.take(self.areas, self.cpus.into())?.as_ref()) };
        }
        let area = self.area(cpu());
        let taken = area.gate.try_lock();
        if taken {
            area.gated.set(true);
        }
        taken.then_some(area)
    }

    /// Takes the area of any CPU.
    #[cold]
    pub(crate) fn lock(&self, cpu: u16) -> Held<'_, T> {
        self.stop(cpu);
        self.interrupt();
        self.wait(cpu);
        let area = self.area(cpu);
        area.gated.set(true);
        Held(area)
    }

    /// Takes all areas together.
    pub(crate) fn lock_all(&self) -> All<'_, T> {
        for cpu in 0..self.cpus {
            self.stop(cpu);
        }
        self.interrupt();
        for cpu in 0..self.cpus {
            self.wait(cpu);
        }
        All(self)
    }

    /// In the child of a fork whose thread held all areas: they are free, and who waited for them is not there.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn reset_in_child(&self) {
        if let Some(sequences) = &self.sequences {
            sequences.register_again();
        }
        for cpu in (0..self.cpus).rev() {
            crate::sync::released(Rank::Cpu);
            let area = self.area(cpu);
            area.gate.reset();
            area.state.stopped.store(0, Release);
        }
    }

    /// Lets go of all areas, of which the guard was forgotten.
    ///
    /// # Safety
    /// The caller has held them since [`lock_all`](Self::lock_all).
    #[cfg(not(feature = "loom"))]
    pub(crate) unsafe fn unlock_all(&self) {
        drop(All(self));
    }

    /// Goes through the gate; no sequence takes the area once all CPUs were interrupted.
    fn stop(&self, cpu: u16) {
        let area = self.area(cpu);
        crate::sync::acquired(Rank::Cpu, core::ptr::from_ref(area) as usize);
        area.gate.lock();
        if self.sequences.is_some() {
            area.state.stopped.store(1, SeqCst);
        }
    }

    fn interrupt(&self) {
        if let Some(sequences) = &self.sequences {
            self.interrupts.fetch_add(1, Relaxed);
            sequences.interrupt();
        }
    }

    /// Waits until who took the area before it was stopped lets go of it.
    fn wait(&self, cpu: u16) {
        let taken = &self.area(cpu).state.taken;
        let mut spins = 0;
        while taken.load(Acquire) != 0 {
            if spins < 100 {
                spins += 1;
                core::hint::spin_loop();
            } else {
                crate::sync::sleep(taken, 1, None);
            }
        }
    }

    fn go_on(area: &Area<T>) {
        area.state.stopped.store(0, Release);
        area.gate.unlock();
    }
}

/// An area, held until this is dropped.
pub(crate) struct Held<'a, T>(&'a Area<T>);

impl<T> Held<'_, T> {
    /// The area's CPU.
    #[inline]
    pub(crate) fn cpu(&self) -> u16 {
        self.0.cpu
    }

    /// The node of that CPU.
    #[inline]
    pub(crate) fn node(&self) -> u8 {
        self.0.node
    }

    #[cold]
    fn through_the_gate(&self) {
        self.0.gated.set(false);
        Areas::go_on(self.0);
    }

    #[cold]
    fn wake(&self) {
        crate::sync::wake(&self.0.state.taken, 1);
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the area is held.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the area is held, and `&mut self` makes this the only reference.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if cfg!(debug_assertions) && !self.0.unranked.replace(false) {
            crate::sync::released(Rank::Cpu);
        }
        if self.0.gated.get() {
            return self.through_the_gate();
        }
        let State { taken, stopped } = &self.0.state;
        taken.store(0, Release);
        // Whoever stops the area interrupts this CPU before he looks whether it is taken: either he sees the store, or
        // this load comes after the interruption and sees him. The processor orders the two for us only then; the
        // compiler does here.
        compiler_fence(SeqCst);
        if stopped.load(Relaxed) != 0 {
            self.wake();
        }
    }
}

/// All areas, held until this is dropped.
pub(crate) struct All<'a, T>(&'a Areas<T>);

impl<T> All<'_, T> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        // SAFETY: all areas are held, and `&self` keeps the mutable way closed.
        (0..self.0.cpus).map(|cpu| unsafe { &*self.0.area(cpu).value.get() })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        // SAFETY: all areas are held, and each is given out once.
        (0..self.0.cpus).map(|cpu| unsafe { &mut *self.0.area(cpu).value.get() })
    }

    /// All CPUs, and the node of each.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = (u16, u8)> {
        (0..self.0.cpus).map(|cpu| (cpu, self.0.area(cpu).node))
    }
}

impl<T> Drop for All<'_, T> {
    fn drop(&mut self) {
        for cpu in (0..self.0.cpus).rev() {
            crate::sync::released(Rank::Cpu);
            Areas::go_on(self.0.area(cpu));
        }
    }
}
