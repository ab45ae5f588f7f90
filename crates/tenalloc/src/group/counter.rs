//! The counter of one group: bytes now, most ever, most allowed.
//!
//! Linux adds first and takes back what went too far, so a large charge that fails can briefly lock out a
//! small one, and `current` can be seen above `max`. Here a charge is a compare-and-swap from a value that it
//! has checked: nobody ever sees `current` above a `max` that was set before.

use crate::sync::atomic::{AtomicU64, Ordering::*, fence};

pub(crate) struct Counter {
    current: AtomicU64,
    peak: AtomicU64,
    max: AtomicU64,
}

impl Counter {
    pub(crate) fn new() -> Self {
        Self { current: AtomicU64::new(0), peak: AtomicU64::new(0), max: AtomicU64::new(u64::MAX) }
    }

    /// Adds `bytes`, or changes nothing and returns (current, max).
    ///
    /// `max` is read again after the addition: either this charge sees a lower `max` set meanwhile and takes
    /// itself back, or [`set_max`](Self::set_max) sees this charge. (Each side writes its own, passes a full
    /// fence, and reads the other's: Dekker.)
    pub(crate) fn try_charge(&self, bytes: u64) -> Result<(), (u64, u64)> {
        let mut now = self.current.load(Relaxed);
        loop {
            let max = self.max.load(Relaxed);
            let new = match now.checked_add(bytes) {
                Some(new) if new <= max => new,
                _ => return Err((now, max)),
            };
            match self.current.compare_exchange(now, new, AcqRel, Relaxed) {
                Ok(_) => {
                    fence(SeqCst);
                    let max = self.max.load(Relaxed);
                    if new > max {
                        self.uncharge(bytes);
                        return Err((now, max));
                    }
                    if new > self.peak.load(Relaxed) {
                        self.peak.fetch_max(new, Relaxed);
                    }
                    return Ok(());
                }
                Err(seen) => now = seen,
            }
        }
    }

    /// Adds `bytes` whatever `max` is.
    pub(crate) fn force(&self, bytes: u64) {
        let new = self.current.fetch_add(bytes, AcqRel) + bytes;
        self.peak.fetch_max(new, Relaxed);
    }

    /// Takes `bytes` back, all of which were charged here.
    pub(crate) fn uncharge(&self, bytes: u64) {
        // Sequentially consistent: who waits for the fall is looked for afterwards.
        let before = self.current.fetch_sub(bytes, SeqCst);
        debug_assert!(before >= bytes, "uncharged {bytes} of {before}");
    }

    pub(crate) fn current(&self) -> u64 {
        self.current.load(Acquire)
    }

    pub(crate) fn peak(&self) -> u64 {
        // A reader may come between a charge's two steps.
        self.peak.load(Relaxed).max(self.current.load(Relaxed))
    }

    /// Begins the peak again at `current` and returns what it was.
    pub(crate) fn restart_peak(&self) -> u64 {
        let now = self.current.load(Relaxed);
        self.peak.swap(now, Relaxed).max(now)
    }

    pub(crate) fn max(&self) -> u64 {
        self.max.load(Relaxed)
    }

    /// Sets `max` and returns `current` as it was just after: what is above `max` was charged before.
    pub(crate) fn set_max(&self, bytes: u64) -> u64 {
        self.max.store(bytes, Relaxed);
        fence(SeqCst);
        self.current.load(Acquire)
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn a_failed_charge_changes_nothing() {
        let c = Counter::new();
        c.set_max(100);
        assert_eq!(c.try_charge(60), Ok(()));
        assert_eq!(c.try_charge(41), Err((60, 100)));
        assert_eq!(c.try_charge(u64::MAX), Err((60, 100)));
        assert_eq!(c.try_charge(40), Ok(()));
        c.uncharge(90);
        assert_eq!((c.current(), c.peak(), c.max()), (10, 100, 100));
        assert_eq!((c.restart_peak(), c.peak()), (100, 10));
    }
}

#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Charges against `max`: never more than fits, and what was refused left nothing behind.
    #[test]
    fn two_charges_never_pass_max() {
        loom::model(|| {
            let c = Arc::new(Counter::new());
            c.set_max(10);
            let other = c.clone();
            let t = thread::spawn(move || {
                let ok = other.try_charge(6).is_ok();
                assert!(other.current() <= 10);
                u64::from(ok) * 6
            });
            let mine = u64::from(c.try_charge(6).is_ok()) * 6;
            assert!(c.current() <= 10);
            let theirs = t.join().unwrap();
            assert_eq!(c.current(), mine + theirs);
            assert_eq!(mine + theirs, 6);
        });
    }

    /// A `max` lowered during a charge: either the charge is refused or the setter sees it.
    #[test]
    fn a_lowered_max_is_seen_by_one_side() {
        loom::model(|| {
            let c = Arc::new(Counter::new());
            let other = c.clone();
            let t = thread::spawn(move || other.try_charge(8).is_ok());
            let seen = c.set_max(5);
            let charged = t.join().unwrap();
            assert!(!charged || seen == 8, "a charge passed a max that was set before it");
            assert_eq!(c.current(), if charged { 8 } else { 0 });
        });
    }
}
