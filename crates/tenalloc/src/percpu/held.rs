//! What who holds an area, or all of them, may do with it, and how it is given back. How it is taken is in [`super`].

use super::{Area, Areas, NODE_AT, Shelf, State, shelf};
use crate::sync::Rank;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::sync::atomic::{Ordering::*, compiler_fence};

/// An area, held until this is dropped.
pub(crate) struct Held<'a, T> {
    /// One of the areas. No reference, since its shelf is held too.
    pub(super) at: NonNull<Area<T>>,
    pub(super) areas: PhantomData<&'a Areas<T>>,
}

impl<T> Held<'_, T> {
    #[inline(always)]
    pub(super) fn area(&self) -> &Area<T> {
        // SAFETY: areas live as long as the `Areas` that this borrows, and what a holder changes of one is in cells.
        unsafe { self.at.as_ref() }
    }

    /// The area's CPU.
    #[inline]
    pub(crate) fn cpu(&self) -> u16 {
        self.area().cpu
    }

    /// The node of that CPU.
    #[inline]
    pub(crate) fn node(&self) -> u8 {
        (self.area().node >> NODE_AT) as u8
    }

    /// The CPU's shelf.
    pub(crate) fn shelf(&mut self) -> &mut Shelf {
        // SAFETY: from `at`; the area is held, and `&mut self` makes this the only reference.
        unsafe { shelf(self.at).as_mut() }
    }

    #[cold]
    fn through_the_gate(&self) {
        let area = self.area();
        area.gated.set(false);
        area.state.taken.store(0, Release); // if it was taken in a sequence all the same
        Areas::go_on(area);
    }

    #[cold]
    fn wake(&self) {
        crate::sync::wake(&self.area().state.taken, 1);
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the area is held.
        unsafe { &*self.area().value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the area is held, and `&mut self` makes this the only reference.
        unsafe { &mut *self.area().value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let area = self.area();
        if cfg!(debug_assertions) && !area.unranked.replace(false) {
            crate::sync::released(Rank::Cpu);
        }
        if area.gated.get() {
            return self.through_the_gate();
        }
        let State { taken, stopped } = &area.state;
        taken.store(0, Release);
        // Whoever stops the area interrupts this CPU before he looks whether it is taken: either he sees the store, or
        // this load comes after the interruption and sees him. The compiler orders the two here. No processor does, x86-64 as
        // little as aarch64, and none has to: the interruption is a full barrier between two instructions of this thread, and
        // a thread that does not run went through one when it was taken off its CPU.
        compiler_fence(SeqCst);
        if stopped.load(Relaxed) != 0 {
            self.wake();
        }
    }
}

/// All areas, held until this is dropped.
pub(crate) struct All<'a, T>(pub(super) &'a Areas<T>);

impl<T> All<'_, T> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        // SAFETY: all areas are held, and `&self` keeps the mutable way closed.
        (0..self.0.cpus).map(|cpu| unsafe { &*self.0.area(cpu).value.get() })
    }

    /// All CPUs, and the node of each.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = (u16, u8)> {
        (0..self.0.cpus).map(|cpu| (cpu, (self.0.area(cpu).node >> NODE_AT) as u8))
    }

    /// All CPUs' shelves.
    pub(crate) fn shelves(&self) -> impl Iterator<Item = &Shelf> {
        // SAFETY: all areas are held, and `&self` keeps the mutable way closed.
        (0..self.0.cpus).map(|cpu| unsafe { shelf(self.0.at(cpu)).as_ref() })
    }

    /// Each CPU's area and shelf.
    pub(crate) fn rows(&mut self) -> impl Iterator<Item = (u16, u8, &mut T, &mut Shelf)> {
        (0..self.0.cpus).map(|cpu| {
            let area = self.0.area(cpu);
            // SAFETY: all areas are held, and each is given out once.
            unsafe {
                (cpu, (area.node >> NODE_AT) as u8, &mut *area.value.get(), shelf(self.0.at(cpu)).as_mut())
            }
        })
    }

    /// Holds them on without this, until [`Areas::unlock_all`] or [`Areas::reset_in_child`]. As all locks are held then that
    /// the thread could take, its rank checks know nothing of these: another controller's are taken from the top.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn keep(self) {
        self.forget_ranks();
        core::mem::forget(self);
    }

    fn forget_ranks(&self) {
        (0..self.0.cpus).for_each(|_| crate::sync::released(Rank::Cpu));
    }
}

impl<T> Drop for All<'_, T> {
    fn drop(&mut self) {
        self.forget_ranks();
        // SAFETY: held until now.
        unsafe { self.0.unlock_all() };
    }
}
