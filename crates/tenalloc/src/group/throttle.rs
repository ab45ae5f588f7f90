//! How long a charge above `high` waits.
//!
//! Follows Linux `mm/memcontrol.c` `calculate_high_delay()`: the square of the overage in proportion to `high`, so
//! that a little too much costs nearly nothing, scaled by what was charged.

use core::time::Duration;

/// Linux's charge batch: 64 pages of 4 KiB. A charge of that size at twice `high` waits the longest.
const FULL_CHARGE: u64 = 64 * 4096;
const LONGEST: Duration = Duration::from_secs(2);
/// What is below is not worth a sleep (Linux: HZ / 100).
const SHORTEST: Duration = Duration::from_millis(10);

/// The wait after a charge of `charged` bytes brought `current` above `high`; zero if it is not worth one.
pub(super) fn delay(current: u64, high: u64, charged: u64) -> Duration {
    let over = current.saturating_sub(high) as f64 / high.max(1) as f64;
    let seconds = 64.0 * over * over * charged.min(FULL_CHARGE) as f64 / FULL_CHARGE as f64;
    let delay = Duration::from_nanos((seconds.min(LONGEST.as_secs_f64()) * 1e9) as u64);
    if delay < SHORTEST { Duration::ZERO } else { delay }
}

/// Waits. A signal cuts it short, which is no harm: the next charge waits again.
pub(super) fn sleep(delay: Duration) {
    if delay > Duration::ZERO {
        let time =
            libc::timespec { tv_sec: delay.as_secs() as libc::time_t, tv_nsec: delay.subsec_nanos().into() };
        // SAFETY: the time is a live timespec; the remainder is not asked for.
        unsafe { libc::nanosleep(&time, core::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_grows_with_the_square_of_the_overage() {
        let at = |percent: u64| delay(1_000_000 + percent * 10_000, 1_000_000, FULL_CHARGE);
        assert_eq!(at(0), Duration::ZERO);
        assert_eq!(at(1), Duration::ZERO, "6.4 ms");
        assert_eq!(at(5).as_millis(), 160);
        assert_eq!(at(10).as_millis(), 640);
        assert_eq!(at(100), LONGEST);
        assert_eq!(delay(1_100_000, 1_000_000, FULL_CHARGE / 8).as_millis(), 80);
        assert_eq!(delay(5, 0, u64::MAX), LONGEST);
    }
}
