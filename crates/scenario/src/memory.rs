//! How much memory a scenario may take, and how much of it that is.
//!
//! What a scenario will need is known before it begins, so that it can be made smaller, or refused, instead of being
//! killed in the middle. The bounds count what the designs here allocate (their structures have the kernel's sizes,
//! without the rounding of kmalloc).

use crate::table::thousands;
use crate::{Error, Figure};
use std::fs;

/// Without a wish of the user: at most so much,
const MOST: u64 = 16 << 30;
/// and where it cannot be found out what is free, so much.
const UNKNOWN: u64 = 2 << 30;

/// What the process takes besides: its code, its stacks, what the C library keeps.
pub(crate) const PROCESS: u64 = 24 << 20;

/// Bytes that new memory can be had of, by `MemAvailable` and the limit of the control group. `None`: unknown.
pub fn available() -> Option<u64> {
    let kib = |text: String| {
        let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?.to_owned();
        line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()
    };
    let free = fs::read_to_string("/proc/meminfo").ok().and_then(kib)? * 1024;
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limit = number("/sys/fs/cgroup/memory.max").zip(number("/sys/fs/cgroup/memory.current"));
    Some(limit.map_or(free, |(max, current)| free.min(max.saturating_sub(current))))
}

/// What a scenario may take: as asked, or a part of what is free.
///
/// # Errors
/// [`Error::Refused`] when more is asked for than there is.
pub fn allowed(asked: Option<u64>) -> Result<u64, Error> {
    let free = available();
    match (asked, free) {
        (Some(asked), Some(free)) if asked > free => Err(Error::Refused(format!(
            "--memory {}: only {} is free here; give less, or leave it out",
            size(asked),
            size(free)
        ))),
        (Some(asked), _) => Ok(asked),
        (None, Some(free)) => Ok(MOST.min(free / 5 * 4)),
        (None, None) => Ok(UNKNOWN),
    }
}

/// The largest scale from 1 to `whole` whose need is at most `memory`; `None`: not even 1. The need must rise.
pub(crate) fn largest(whole: u32, memory: u64, need: impl Fn(u32) -> u64) -> Option<u32> {
    if need(whole) <= memory {
        return Some(whole);
    }
    if need(1) > memory {
        return None;
    }
    let (mut fits, mut over) = (1, whole);
    while over - fits > 1 {
        let middle = fits + (over - fits) / 2;
        if need(middle) <= memory {
            fits = middle;
        } else {
            over = middle;
        }
    }
    Some(fits)
}

/// Bytes of this process that are in memory now. `None`: unknown.
pub(crate) fn resident() -> Option<u64> {
    status("VmRSS:")
}

/// The most that ever were. `None`: unknown.
pub(crate) fn peak() -> Option<u64> {
    status("VmHWM:")
}

fn status(field: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// The most memory that this process took, and may have taken.
pub(crate) fn figure(allowed: u64) -> Option<Figure> {
    peak().map(|peak| Figure::new("memory of this process, at most", peak as f64, "B").within(allowed as f64))
}

/// Bytes for a message.
pub(crate) fn size(bytes: u64) -> String {
    if bytes >= 10 << 30 {
        return format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64);
    }
    format!("{} MiB", thousands(bytes.div_ceil(1 << 20)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_scale_that_fits_is_found() {
        for memory in 0..60 {
            let by_hand = (1..=20_u32).filter(|n| u64::from(*n) * 2 < memory).max();
            assert_eq!(largest(20, memory, |n| u64::from(n) * 2 + 1), by_hand, "{memory}");
        }
        assert_eq!(largest(u32::MAX, u64::MAX, u64::from), Some(u32::MAX));
    }

    #[test]
    fn no_more_than_there_is() {
        assert!(matches!(allowed(Some(u64::MAX)), Err(Error::Refused(text)) if text.contains("--memory")));
        assert_eq!(allowed(Some(1)).ok(), Some(1));
        assert!(allowed(None).is_ok_and(|bytes| bytes > 0 && bytes <= MOST));
    }

    /// The kernel adds up what is resident only now and then, other tests run in this process, and pages may be swapped out:
    /// nothing exact is said of two readings, but that what was there once was there.
    #[test]
    fn memory_that_was_used_is_counted() {
        let block = std::hint::black_box(vec![1_u8; 32 << 20]);
        let (now, most) = (resident(), peak());
        drop(block);
        match (now, most, peak()) {
            (Some(now), Some(most), Some(after)) => {
                assert!(now > 1 << 20 && most > 16 << 20 && after > 16 << 20, "{now} {most} {after}");
            }
            unknown => println!("skipped: /proc/self/status does not tell: {unknown:?}"),
        }
    }
}
