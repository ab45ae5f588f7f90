//! Makes the kernel's counters tell the whole truth before they are read.
//!
//! Two things keep a group's numbers back. Both are per CPU, and both are brought in here without waiting for time
//! to pass:
//!
//! * **The object stock.** Each CPU keeps a part of a page already charged to the group that last allocated there,
//!   and with it the slab bytes not yet added to the group's counter. It is given back when another group allocates
//!   an accounted object on that CPU. So this thread visits every CPU and opens a file: a `struct file` is accounted.
//!   That needs the recorder to be in a group itself; objects of the root group are not accounted.
//! * **The statistics tree.** Counters are summed up the tree every 2 s by a timer that does not wake an idle CPU, so
//!   2 s may be any time. A reader of `memory.stat` triggers the summing, but only when more than 64 changes per CPU
//!   are pending (since 6.8 below the group that is read, before that anywhere); up to that many stay invisible.
//!   The pending count can be raised: touching pages of fresh memory are changes of this process's group, and they
//!   count for the groups above it, so for the root too. Reading the root's `memory.stat` then sums the whole tree,
//!   other groups' pending changes included, before the read returns.
//!
//! Measured on a 6.12 machine of 4 CPUs: a plain read of an idle group's `slab` gave 19,043,480; settled, it was
//! 19,040,224, the same as 7 s later and as the sum of the trace's live objects. (6.1: 8,049,952 and 8,048,568.)
//!
//! Kernels before 5.13 have neither tree nor exact numbers: there `memory.stat` moves in steps of 32 pages per CPU,
//! and nothing done here changes that; the recording says so.

use crate::cgroup::Hierarchy;
use crate::root::Root;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs::File;
use std::hint::black_box;

/// Changes that a kernel lets pend per CPU before it sums them on a read.
const PENDING: usize = 64;

/// Empties the stocks and sums the statistics.
pub(crate) fn settle(root: &Root, hierarchy: &Hierarchy, page_size: u64) {
    let cpus = visit_cpus();
    raise_pending(cpus, usize::try_from(page_size).unwrap_or(4096));
    if let Some(mount) = &hierarchy.mount {
        // Only the read matters.
        let _ = root.read(mount.join("memory.stat"));
    }
}

/// Opens a file on every CPU this thread may run on; returns their number.
fn visit_cpus() -> usize {
    let Ok(allowed) = sched_getaffinity(None) else { return 1 };
    let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    for cpu in cpus {
        let mut only = CpuSet::new();
        only.set(cpu);
        if sched_setaffinity(None, &only).is_ok() {
            // Twice: the first may be served from what this CPU has in stock for us already.
            drop((File::open("/dev/null"), File::open("/dev/null")));
        }
    }
    // A failure leaves this thread on one CPU, where it works as well.
    let _ = sched_setaffinity(None, &allowed);
    allowed.count() as usize
}

/// Touches fresh pages, more than may pend on all CPUs together.
fn raise_pending(cpus: usize, page_size: usize) {
    let mut memory = vec![0u8; PENDING * (cpus + 2) * page_size];
    for page in memory.chunks_mut(page_size) {
        if let Some(byte) = page.first_mut() {
            *byte = 1;
        }
    }
    black_box(&memory);
}

/// Why the settled numbers may still not be exact, if so.
pub(crate) fn doubt(release: &str, own_path: Option<&str>, v1: bool) -> Option<String> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(|text| text.parse::<u32>());
    let version = match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Some((major, minor)),
        _ => None,
    };
    if !v1 && version.is_some_and(|version| version < (5, 13)) {
        return Some(String::from(
            "memory.stat of kernels before 5.13 moves in steps of 32 pages per CPU: compare sums, not bytes",
        ));
    }
    (own_path == Some("/")).then(|| {
        String::from(
            "the recorder ran in the root group, whose objects are not accounted, and could not empty the per-CPU \
             stocks: up to a page per CPU and group is not in the counters",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_allowed_cpu_is_visited_and_the_thread_is_free_again() {
        let before = sched_getaffinity(None).expect("a set of CPUs");
        assert_eq!(visit_cpus(), before.count() as usize);
        assert!(sched_getaffinity(None).expect("a set of CPUs") == before);
    }

    #[test]
    fn what_settling_cannot_do_is_said() {
        assert!(doubt("5.10.0-30-amd64", Some("/g"), false).is_some_and(|why| why.contains("5.13")));
        assert!(doubt("6.12.1", Some("/"), false).is_some_and(|why| why.contains("root group")));
        assert_eq!(doubt("6.12.1", Some("/user.slice"), false), None);
        assert_eq!(doubt("5.10.0", Some("/g"), true), None);
        assert_eq!(doubt("odd", Some("/g"), false), None);
    }
}
