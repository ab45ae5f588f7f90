//! A lock of loom's in place of the futex, for models: loom then tries every order in which threads get it.

use core::cell::UnsafeCell;
use loom::sync::{Mutex, MutexGuard};

pub(super) struct Futex {
    /// The guard of whoever holds the mutex; declared first, so that it goes first.
    held: UnsafeCell<Option<MutexGuard<'static, ()>>>,
    mutex: Mutex<()>,
}

impl Futex {
    pub(super) fn new() -> Self {
        Self { held: UnsafeCell::new(None), mutex: Mutex::new(()) }
    }

    pub(super) fn lock(&self) {
        let guard = self.mutex.lock().expect("a model that panics ends");
        // SAFETY: the guard is dropped by `unlock`, before the mutex; until then only the holder touches `held`.
        unsafe {
            *self.held.get() =
                Some(core::mem::transmute::<MutexGuard<'_, ()>, MutexGuard<'static, ()>>(guard))
        };
    }

    pub(super) fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        drop(unsafe { (*self.held.get()).take() });
    }
}
