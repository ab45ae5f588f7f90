//! A lock that is passed on in the order in which threads asked for it (Mellor-Crummey and Scott's ticket lock, 1991, with
//! a futex to sleep on).
//!
//! Apart from the [`Lock`](super::Lock)s, of which one that was just released goes to whoever is there first: one thread
//! that takes such a lock again and again, and holds it for microseconds, can keep another from it for ever.

use super::event;
use core::sync::atomic::{AtomicU32, Ordering::*};

pub(crate) struct Ticket {
    /// The next thread to ask gets this number.
    next: AtomicU32,
    /// Whose turn it is.
    turn: AtomicU32,
}

/// Looks at the turn before sleeping.
const SPINS: u32 = 100;

impl Ticket {
    pub(crate) const fn new() -> Self {
        Self { next: AtomicU32::new(0), turn: AtomicU32::new(0) }
    }

    #[inline]
    pub(crate) fn lock(&self) {
        let mine = self.next.fetch_add(1, SeqCst);
        if self.turn.load(Acquire) != mine {
            self.wait(mine);
        }
    }

    #[cold]
    fn wait(&self, mine: u32) {
        for spins in 0.. {
            let turn = self.turn.load(Acquire);
            if turn == mine {
                return;
            }
            if spins < SPINS {
                core::hint::spin_loop();
            } else {
                event::sleep(&self.turn, turn, None);
            }
        }
    }

    /// Takes it if nobody has it or waits for it.
    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        let turn = self.turn.load(Acquire);
        self.next.compare_exchange(turn, turn.wrapping_add(1), Acquire, Relaxed).is_ok()
    }

    /// Free again, whoever waits: those threads are not in this process.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn reset(&self) {
        self.next.store(0, Relaxed);
        self.turn.store(0, Release);
    }

    /// Passes it on. Who asks at the same moment either sees his turn, or is seen here and woken.
    #[inline]
    pub(crate) fn unlock(&self) {
        let turn = self.turn.fetch_add(1, SeqCst).wrapping_add(1);
        if self.next.load(SeqCst) != turn {
            event::wake(&self.turn, i32::MAX as u32);
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    extern crate std;
    use core::cell::UnsafeCell;
    use core::sync::atomic::AtomicBool;

    struct Shared(Ticket, UnsafeCell<u64>);

    // SAFETY: the number is touched under the lock alone.
    unsafe impl Sync for Shared {}

    #[test]
    fn it_excludes() {
        let shared = &Shared(Ticket::new(), UnsafeCell::new(0));
        std::thread::scope(|s| {
            for t in 0..4 {
                s.spawn(move || {
                    for _ in 0..5_000 {
                        if t > 0 {
                            shared.0.lock();
                        } else if !shared.0.try_lock() {
                            continue;
                        }
                        // SAFETY: the lock is held.
                        unsafe { *shared.1.get() += u64::from(t > 0) };
                        shared.0.unlock();
                    }
                });
            }
        });
        // SAFETY: nobody else is left.
        assert_eq!(unsafe { *shared.1.get() }, 15_000);
    }

    /// A thread that never lets go for longer than it takes to ask again keeps nobody out.
    #[test]
    fn who_asks_gets_his_turn() {
        let (ticket, end) = (&Ticket::new(), &AtomicBool::new(false));
        std::thread::scope(|s| {
            s.spawn(move || {
                ticket.lock();
                while !end.load(Relaxed) {
                    ticket.unlock();
                    ticket.lock();
                }
                ticket.unlock();
            });
            for _ in 0..1000 {
                ticket.lock();
                ticket.unlock();
            }
            end.store(true, Relaxed);
        });
        assert!(ticket.try_lock() && !ticket.try_lock());
    }
}
