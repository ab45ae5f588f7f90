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
//! loop has the areas stopped most of the time, and would starve all others else. A thread that finds its area stopped or
//! taken queues there too, and behind the gate takes it in a sequence again.
//!
//! Behind each area lies a [`Shelf`]: stacks of pointers that are popped and pushed in a sequence of their own, which only
//! looks that nobody has the area.
//!
//! Where there are no restartable sequences (no glibc 2.35, no kernel 5.10, another processor, a made-up machine) the
//! gate alone is the lock: a futex.
//!
//! * `seq`: the sequences themselves, and the barrier.
//! * `held`: what the holder may do, and how he lets go.
//! * `shelf`: where a CPU has its stacks; `slot`: where on it; `stack`: one of them; `place`: one on its shelf.

mod held;
#[cfg(all(test, feature = "loom"))]
mod models;
mod place;
mod seq;
mod shelf;
mod slot;
mod stack;
#[cfg(all(test, not(feature = "loom")))]
mod tests;

pub(crate) use self::held::{All, Held};
use self::seq::Sequences;
pub(crate) use self::shelf::Shelf;
pub(crate) use self::slot::{NODE_AT, Slot};
pub(crate) use self::stack::{Bundle, Piles, Seen, rounded};
use crate::page::Topology;
use crate::sync::{Rank, Ticket};
use core::cell::{Cell, UnsafeCell};
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering::*};

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
    /// Read by sequences: the CPU's node, from bit [`NODE_AT`] on.
    node: u32,
    cpu: u16,
    /// Whoever holds the area came through the gate, not in a sequence. The holder's.
    gated: Cell<bool>,
    /// The rank checks know nothing of who holds it. The holder's.
    unranked: Cell<bool>,
    value: UnsafeCell<T>,
}

/// The areas of all CPUs.
#[repr(C)]
pub(crate) struct Areas<T> {
    /// First, where whoever has the address of all needs no other.
    sequences: Option<Sequences>,
    areas: NonNull<Area<T>>,
    cpus: u16,
}

/// From one CPU's area to the next one's: its area and its shelf.
const fn row<A>() -> usize {
    (size_of::<A>() + size_of::<Shelf>()).next_multiple_of(128)
}

const fn shelf_of<A>() -> usize {
    size_of::<A>()
}

#[allow(dead_code, reason = "for sequences")]
const fn node_of() -> usize {
    // All areas begin alike, whatever they guard.
    offset_of!(Area<()>, node)
}

// SAFETY: an area is reached by who holds it alone.
unsafe impl<T: Send> Sync for Areas<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Areas<T> {}

impl<T> Areas<T> {
    /// Bytes of an area without its shelf.
    pub(crate) const AREA: usize = size_of::<Area<T>>();

    /// Bytes that the areas of so many CPUs take.
    pub(crate) const fn bytes(cpus: u16) -> usize {
        cpus as usize * row::<Area<T>>()
    }

    /// # Safety
    /// `place` has [`bytes`](Self::bytes) for the topology's CPUs, is zeroed, aligned to 128 and nobody else's.
    pub(crate) unsafe fn new(place: NonNull<u8>, topology: &Topology, make: impl Fn() -> T) -> Self {
        let areas = place.cast::<Area<T>>();
        for cpu in 0..topology.cpus() {
            let area = Area {
                state: State { taken: AtomicU32::new(0), stopped: AtomicU32::new(0) },
                gate: Ticket::new(),
                node: 0,
                cpu,
                gated: Cell::new(false),
                unranked: Cell::new(false),
                value: UnsafeCell::new(make()),
            };
            // SAFETY: the caller's promise.
            unsafe {
                at(areas, cpu).write(area);
                shelf(at(areas, cpu)).as_mut().begin();
            }
        }
        topology.for_each_cpu(|cpu, node| {
            // SAFETY: as above; written just now, and nobody else knows of it yet.
            unsafe { (*at(areas, cpu).as_ptr()).node = u32::from(node) << NODE_AT };
        });
        let cpus = topology.cpus();
        let sequences = if topology.is_simulated() {
            None
        } else {
            // SAFETY: made above; they stay as long as this, which nobody uses afterwards.
            unsafe { Sequences::detect(areas.cast(), cpus.into()) }
        };
        Self { sequences, areas, cpus }
    }

    /// As given to [`new`](Self::new).
    pub(crate) fn place(&self) -> NonNull<u8> {
        self.areas.cast()
    }

    fn at(&self, cpu: u16) -> NonNull<Area<T>> {
        debug_assert!(cpu < self.cpus);
        // SAFETY: there is one a CPU, and callers pass CPUs of the topology.
        unsafe { at(self.areas, cpu) }
    }

    fn area(&self, cpu: u16) -> &Area<T> {
        // SAFETY: `new` made it, it lives as long as this, and what its holder changes is in cells.
        unsafe { self.at(cpu).as_ref() }
    }

    /// The caller has taken the area at `at`, and says so of it here.
    #[inline(always)]
    fn held(&self, at: NonNull<Area<T>>) -> Held<'_, T> {
        crate::sync::acquired(Rank::Cpu, at.addr().get());
        Held { at, areas: PhantomData }
    }

    /// The caller has come through the gate of the area of `cpu`, and said so when he began to wait there.
    fn held_behind_gate(&self, cpu: u16) -> Held<'_, T> {
        self.area(cpu).gated.set(true);
        Held { at: self.at(cpu), areas: PhantomData }
    }

    /// A pointer from the stack in `slot` of this CPU's shelf. `None`: it has none, or somebody has the area.
    #[inline(always)]
    pub(crate) fn pop(&self, slot: Slot, cpu: impl FnOnce() -> u16) -> Option<NonNull<u8>> {
        match &self.sequences {
            // SAFETY: the rows are of such areas.
            Some(sequences) => unsafe { sequences.pop::<Area<T>>(slot) },
            None => self.pop_locked(slot, cpu),
        }
    }

    /// As [`pop`](Self::pop), where there are no sequences.
    #[cold]
    #[inline(never)]
    fn pop_locked(&self, slot: Slot, cpu: impl FnOnce() -> u16) -> Option<NonNull<u8>> {
        let mut held = self.try_lock_from_anywhere(cpu)?;
        held.shelf().pop(slot.set(), slot.key)
    }

    /// The reverse; the low half of the key is what is read at that moment `LOW` bytes behind `beside`, without the node of
    /// this CPU. False: there is no such stack, it is full, or somebody has the area.
    ///
    /// # Safety
    /// An atomic word lies there.
    #[inline(always)]
    pub(crate) unsafe fn push<const LOW: usize>(
        &self,
        slot: Slot,
        beside: NonNull<u8>,
        pointer: NonNull<u8>,
        cpu: impl FnOnce() -> u16,
    ) -> bool {
        match &self.sequences {
            // SAFETY: as in `pop`, and the caller's promise.
            Some(sequences) => unsafe { sequences.push::<Area<T>, LOW>(slot, beside, pointer) },
            // SAFETY: the caller's promise.
            None => self.push_locked(slot, unsafe { beside.add(LOW).cast().as_ref() }, pointer, cpu),
        }
    }

    /// As [`push`](Self::push), where there are no sequences.
    #[cold]
    #[inline(never)]
    fn push_locked(
        &self,
        slot: Slot,
        low: &AtomicU32,
        pointer: NonNull<u8>,
        cpu: impl FnOnce() -> u16,
    ) -> bool {
        self.try_lock_from_anywhere(cpu).is_some_and(|mut held| {
            let low = low.load(Relaxed) ^ held.area().node;
            held.shelf().push(slot.set(), slot.key | u64::from(low), pointer)
        })
    }

    /// Takes the area of the CPU that the caller is on; `cpu` says which it is where no sequence can.
    #[inline]
    pub(crate) fn lock_here(&self, cpu: impl FnOnce() -> u16) -> Held<'_, T> {
        if self.sequences.is_none() {
            return self.lock(cpu());
        }
        self.try_lock_here(|| 0).unwrap_or_else(|| self.queue_here(cpu()))
    }

    /// Takes the area of the CPU that the caller is on, which somebody has or stops, in turn with others who want it. He
    /// stops nobody for that unless he has to: if each who was stopped stopped the next, one who reads sums now and then
    /// would have all threads go that way for ever.
    #[cold]
    fn queue_here(&self, cpu: u16) -> Held<'_, T> {
        let area = self.area(cpu);
        area.gate.lock();
        // Behind the gate nobody stops it.
        match self.take_here(|| cpu) {
            Some(here) if here == self.at(cpu) => {
                area.gated.set(true);
                self.held(here)
            }
            // He was moved meanwhile.
            Some(elsewhere) => {
                area.gate.unlock();
                self.held(elsewhere)
            }
            // Whoever has it does not run, or another CPU's is stopped.
            None => {
                crate::sync::acquired(Rank::Cpu, core::ptr::from_ref(area) as usize);
                area.state.stopped.store(1, SeqCst);
                self.interrupt();
                self.wait(cpu);
                self.held_behind_gate(cpu)
            }
        }
    }

    /// Takes the area of the CPU that the caller is on, if that can be done without waiting; `cpu` as above. (The caller
    /// may be moved to another CPU right after: that he holds the area, not where he runs, keeps it to him.)
    #[inline(always)]
    pub(crate) fn try_lock_here(&self, cpu: impl FnOnce() -> u16) -> Option<Held<'_, T>> {
        Some(self.held(self.take_here(cpu)?))
    }

    /// As [`try_lock_here`](Self::try_lock_here), from wherever the thread is: in a signal handler it may hold any lock,
    /// and since this waits for none their ranks do not matter.
    pub(crate) fn try_lock_from_anywhere(&self, cpu: impl FnOnce() -> u16) -> Option<Held<'_, T>> {
        let held = Held { at: self.take_here(cpu)?, areas: PhantomData };
        held.area().unranked.set(true);
        Some(held)
    }

    #[inline(always)]
    fn take_here(&self, cpu: impl FnOnce() -> u16) -> Option<NonNull<Area<T>>> {
        if let Some(sequences) = &self.sequences {
            // SAFETY: the rows are of such areas.
            return unsafe { sequences.take() };
        }
        let cpu = cpu();
        let area = self.area(cpu);
        let taken = area.gate.try_lock();
        if taken {
            area.gated.set(true);
        }
        taken.then(|| self.at(cpu))
    }

    /// Takes the area of any CPU.
    #[cold]
    pub(crate) fn lock(&self, cpu: u16) -> Held<'_, T> {
        self.stop(cpu);
        self.interrupt();
        self.wait(cpu);
        self.held_behind_gate(cpu)
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
            let area = self.area(cpu);
            area.gate.reset();
            area.state.stopped.store(0, Release);
        }
    }

    /// Lets go of all areas.
    ///
    /// # Safety
    /// The caller holds them.
    pub(crate) unsafe fn unlock_all(&self) {
        (0..self.cpus).rev().for_each(|cpu| Self::go_on(self.area(cpu)));
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

/// The area of `cpu`.
///
/// # Safety
/// `areas` are the rows of more CPUs than that.
unsafe fn at<T>(areas: NonNull<Area<T>>, cpu: u16) -> NonNull<Area<T>> {
    // SAFETY: the caller's promise.
    unsafe { areas.byte_add(usize::from(cpu) * row::<Area<T>>()) }
}

/// The shelf behind an area.
///
/// # Safety
/// `area` comes from [`at`], and not from a reference to the area, which ends where the shelf begins.
unsafe fn shelf<T>(area: NonNull<Area<T>>) -> NonNull<Shelf> {
    // SAFETY: a row is an area and a shelf, and the pointer may go over all rows.
    unsafe { area.byte_add(shelf_of::<Area<T>>()).cast() }
}
