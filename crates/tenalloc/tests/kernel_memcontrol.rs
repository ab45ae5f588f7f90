//! The kernel's tests of the memory controller (tools/testing/selftests/cgroup/test_memcontrol.c), numbers 7 to 19 of
//! reference/linux.md, section 4.2, in the words of this library.
//!
//! | number | kernel's name | here |
//! |---|---|---|
//! | 7 | subtree_control | no meaning: there is no controller to be switched on for a subtree, every group accounts |
//! | 8 | current_peak | `t08_current_peak`; a peak for each reader: see tests/handles.rs `a_peak_is_reset_for_its_reader_alone` |
//! | 9 | min, low | see tests/reclaim.rs `low_and_min_are_shared_out_among_children` |
//! | 10, 11 | high, high_sync | see tests/reclaim.rs `high_reclaims_and_slows_down` |
//! | 12 | max | see tests/reclaim.rs `max_reclaims_before_it_fails`, `the_error_names_who_holds_it` |
//! | 13 | reclaim | see tests/reclaim.rs `reclaim_says_what_it_got` |
//! | 14 | oom_events | see tests/reclaim.rs `the_policy_may_empty_a_victim` |
//! | 15 | swap_max_peak | no meaning: there is no swap, and so no second limit and no second peak |
//! | 16 | sock | `t16_sock`: memory from elsewhere, charged through an `Owner` |
//! | 17, 18 | oom.group leaf, parent | see tests/reclaim.rs `the_policy_may_empty_a_victim` |
//! | 19 | oom.group score | `t19_oom_group_score_events`: the policy chooses, and may spare |

mod common;
mod kernel_common;
use common::{free, machine};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock};
use tenalloc::page::Simulated;
use tenalloc::{CacheConfig, Config, Controller, Error, Group, OutOfMemory, Topology, Verdict};

/// A new group has used nothing; its peak, and its ancestors', is at least what it held.
#[test]
fn t08_current_peak() {
    let (_, ctl) = machine(1, 2);
    let parent = ctl.root().create("parent").unwrap();
    let g = parent.create("peak").unwrap();
    assert_eq!((g.current(), g.peak()), (0, 0));
    let held = 50 << 20;
    let object = ctl.malloc(&g, held, 8).unwrap();
    assert!(g.current() >= held as u64 && g.peak() >= held as u64 && parent.peak() >= held as u64);
    free(&ctl, object);
    ctl.trim();
    assert!(g.current() == 0 && g.peak() >= held as u64, "a peak stays when the charge is gone");
    let other = g.clone();
    g.reset_peak();
    assert_eq!((g.peak(), other.peak()), (0, 0));
    assert!(parent.peak() >= held as u64, "the parent's peak is its own");
    let object = ctl.malloc(&g, held / 2, 8).unwrap();
    drop(other);
    assert!((held as u64 / 2..held as u64).contains(&g.peak()), "{g:?}");
    free(&ctl, object);
}

/// Memory that the library did not give, as the kernel's socket buffers: charged while it lives, gone when it is given
/// back, and under the limit as everything else.
#[test]
fn t16_sock() {
    let (_, ctl) = machine(1, 2);
    let g = ctl.root().create("net").unwrap();
    g.set_max(1 << 20);
    let buffer = 30_000;
    let sock = g.owner();
    let mut open = 0;
    let error = loop {
        ctl.set_cpu(open as u16);
        match sock.try_charge(buffer) {
            Ok(()) => open += 1,
            Err(e) => break e,
        }
        assert!(g.current() >= open * buffer && g.current() <= g.max());
    };
    assert_eq!(open, (1 << 20) / buffer, "the whole limit can be used");
    assert!(matches!(error, Error::Limit(limit) if limit.path() == "/net"));
    assert_eq!(g.exact(), open * buffer);
    // The listener goes, the connections stay: they are the parent's now.
    g.remove().unwrap();
    assert_eq!((ctl.root().exact(), sock.group()), (open * buffer, ctl.root()));
    (0..open).for_each(|_| sock.uncharge(buffer));
    drop((sock, g));
    assert_eq!((ctl.root().exact(), ctl.stat().orphans), (0, 0));
}

/// Empties the child that holds most and is not spared, with all below it.
struct Policy {
    ctl: OnceLock<Controller>,
    /// Objects by the path of their group.
    held: Mutex<HashMap<String, Vec<usize>>>,
}

const SPARED: &str = "spared";

impl OutOfMemory for Policy {
    fn out_of_memory(&self, group: &Group, _wanted: u64) -> Verdict {
        let Some(victim) = group.children().filter(|c| c.name() != SPARED).max_by_key(Group::current) else {
            return Verdict::Fail;
        };
        let path = victim.path().to_string();
        let mut dead = 0;
        for (of, objects) in self.held.lock().unwrap().iter_mut() {
            if *of == path || of.starts_with(&format!("{path}/")) {
                for object in objects.drain(..) {
                    free(self.ctl.get().unwrap(), NonNull::new(object as *mut u8).unwrap());
                    dead += 1;
                }
            }
        }
        if dead == 0 {
            return Verdict::Fail;
        }
        victim.count_oom_victim();
        Verdict::Retry
    }
}

/// The victim is a subtree and goes whole; the member that the policy spares survives although it holds more; the
/// event is the victim's and its ancestors', nobody else's.
#[test]
fn t19_oom_group_score_events() {
    let policy: &'static Policy =
        Box::leak(Box::new(Policy { ctl: OnceLock::new(), held: Mutex::default() }));
    let source: &'static Simulated = Box::leak(Box::default());
    let config = Config::new().source(source).topology(Topology::simulated(1, 2)).out_of_memory(policy);
    let ctl = policy.ctl.get_or_init(|| Controller::new(config).unwrap());
    let cache = ctl.cache(&CacheConfig::new("c", 1000)).unwrap();
    let g = ctl.root().create("g").unwrap();
    g.set_max(100 * cache.charge());
    let (spared, victim) = (g.create(SPARED).unwrap(), g.create("victim").unwrap());
    let (leaf, small) = (victim.create("leaf").unwrap(), g.create("small").unwrap());
    // An event is counted where a knob is set.
    [&spared, &victim, &leaf, &small].iter().for_each(|g| g.set_low(1).unwrap());
    for (group, n) in [(&spared, 50), (&victim, 10), (&leaf, 30), (&small, 10)] {
        for _ in 0..n {
            let object = cache.alloc(group).unwrap();
            let mut held = policy.held.lock().unwrap();
            held.entry(group.path().to_string()).or_default().push(object.as_ptr() as usize);
        }
    }
    let one_more = cache.alloc(&small).unwrap();
    let n = |g: &Group| g.exact() / cache.charge();
    assert_eq!([n(&spared), n(&victim), n(&leaf), n(&small)], [50, 0, 0, 11]);
    let victims = |g: &Group| (g.events().oom_victim, g.events_local().oom_victim);
    assert_eq!([victims(&spared), victims(&small), victims(&leaf)], [(0, 0); 3]);
    assert_eq!([victims(&victim), victims(&g), victims(&ctl.root())], [(1, 1), (1, 0), (1, 0)]);
    assert_eq!(g.events_local().oom, 1);
    free(ctl, one_more);
}
