//! The kernel's tests of kernel-memory accounting (tools/testing/selftests/cgroup/test_kmem.c), numbers 1 to 6 of
//! reference/linux.md, section 4.1, in the words of this library.
//!
//! | number | kernel's name | here |
//! |---|---|---|
//! | 1 | kmem_basic | `t01_kmem_basic`; also tests/reclaim.rs `max_reclaims_before_it_fails` |
//! | 2 | kmem_memcg_deletion | `t02_kmem_memcg_deletion` |
//! | 3 | proc_kpagecgroup | `t03_proc_kpagecgroup`: the scan goes over objects, owners being kept for them and not for pages |
//! | 4 | kernel_stacks | `t04_kernel_stacks`: stacks are large objects and raw pages |
//! | 5 | dead_cgroups | `t05_dead_cgroups`: without the wait, which is what the kernel's test polls for |
//! | 6 | percpu_basic | `t06_percpu_basic`: the memory of groups themselves is in `stat`, charged to nobody |

mod common;
mod kernel_common;
use common::{free, lean};
use kernel_common::{Pool, Sent};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use tenalloc::{CacheConfig, Config, Controller};

/// 100,000 objects that can be had back; then `high` = 1 MB, and without a further charge the group is below half. (The
/// kernel is given a second for it; here it is done when the call returns.)
#[test]
fn t01_kmem_basic() {
    let (_, ctl) = lean(1, 2);
    let pool = Pool::new(&ctl, 192);
    let g = ctl.root().create("kmem_basic").unwrap();
    for _ in 0..100_000 {
        pool.make(&g).unwrap();
    }
    let (slab, current) = (ctl.slab_bytes(), g.current());
    assert!(slab >= 1 << 20 && current >= 100_000 * pool.charge());
    g.set_high(1 << 20).unwrap();
    assert!(ctl.slab_bytes() < slab / 2, "{} of {slab} bytes of slabs left", ctl.slab_bytes());
    assert!(g.current() < current / 2, "{g:?}");
    assert_eq!((g.events().high, g.events().max), (0, 0), "no charge was above it");
    for _ in 0..10_000 {
        pool.make(&g).unwrap();
    }
    assert!(g.events().high > 0 && g.events().max == 0, "{:?}", g.events());
    assert!(g.current() <= (1 << 20) + (128 << 10), "{g:?}");
    assert!(g.exact() > 0, "reclaim stopped at high, it did not empty the group");
}

/// 100 children, each used by two threads a CPU, of at most 16, and deleted while its objects live: the parent's charge is
/// theirs.
#[test]
fn t02_kmem_memcg_deletion() {
    let ctl = Controller::new(Config::new()).unwrap();
    let cache = ctl.cache(&CacheConfig::new("dentry", 192)).unwrap();
    let parent = ctl.root().create("parent").unwrap();
    let cpus = u64::from(ctl.topology().cpus());
    // There may be many more in the books than in the machine, and a thread for each would be too much for it.
    let threads = 2 * cpus.min(16);
    let mut live = Vec::new();
    for round in 0..100 {
        let child = parent.create(&format!("child{round}")).unwrap();
        let made = std::thread::scope(|s| {
            let workers: Vec<_> = (0..threads)
                .map(|_| s.spawn(|| (0..100).map(|_| Sent(cache.alloc(&child).unwrap())).collect::<Vec<_>>()))
                .collect();
            workers.into_iter().flat_map(|w| w.join().unwrap()).collect::<Vec<_>>()
        });
        live.extend(made);
        child.remove().unwrap();
    }
    let sum = live.len() as u64 * cache.charge();
    assert_eq!((live.len() as u64, parent.exact()), (100 * threads * 100, sum));
    assert!(parent.current() - sum <= cpus * Controller::SLACK_PER_CPU);
    assert_eq!((ctl.stat().orphans, ctl.stat().removed_held), (100, 0));
    live.into_iter().for_each(|o| free(&ctl, o.0));
    ctl.trim();
    assert_eq!((parent.exact(), parent.current(), ctl.stat().orphans), (0, 0, 0));
}

/// A scan of every object's owner while others allocate, free, and remove groups: it ends, and each owner that it sees
/// is the object's group or an ancestor that took over.
#[test]
fn t03_proc_kpagecgroup() {
    for hardened in [false, true] {
        let ctl = Controller::new(Config::new().hardened(hardened)).unwrap();
        let cache = ctl.cache(&CacheConfig::new("page", 96)).unwrap();
        let parents: Vec<_> = (0..4).map(|i| ctl.root().create(&format!("p{i}")).unwrap()).collect();
        let groups: Vec<_> = (0..40).map(|i| parents[i % 4].create(&format!("g{i}")).unwrap()).collect();
        let pinned: Vec<_> =
            (0..2000).map(|i| (Sent(cache.alloc(&groups[i % 40]).unwrap()), i % 40)).collect();
        let done = AtomicBool::new(false);
        std::thread::scope(|s| {
            let (ctl, cache, groups, done) = (&ctl, &cache, &groups, &done);
            s.spawn(move || {
                // Neighbours in the same slabs come and go.
                for i in 0.. {
                    if done.load(SeqCst) {
                        break;
                    }
                    if let Ok(object) = cache.alloc(&groups[i % 40]) {
                        free(ctl, object);
                    }
                }
            });
            s.spawn(move || groups.iter().for_each(|g| g.remove().unwrap()));
            let scanner = s.spawn(|| {
                let mut seen = 0u64;
                for _ in 0..20 {
                    for (object, g) in &pinned {
                        let group = ctl.group_of_object(object.0).unwrap().unwrap();
                        assert!(group == groups[*g] || group == parents[g % 4], "{group:?}");
                        let (base, bytes) = ctl.slab_of(object.0).unwrap();
                        assert!((base..base + bytes).contains(&(object.0.as_ptr() as usize)));
                        seen += 1;
                    }
                }
                seen
            });
            let seen = scanner.join();
            done.store(true, SeqCst);
            assert_eq!(seen.unwrap(), 20 * 2000);
        });
        for (i, p) in parents.iter().enumerate() {
            let n = pinned.iter().filter(|(_, g)| g % 4 == i).count() as u64;
            assert_eq!(p.exact(), n * cache.charge());
        }
        drop(groups);
        pinned.iter().for_each(|(o, _)| free(&ctl, o.0));
        assert_eq!((ctl.root().exact(), ctl.stat().orphans), (0, 0));
    }
}

/// A thousand long-lived stacks are all seen, in the group's charge and in the statistics.
#[test]
fn t04_kernel_stacks() {
    const STACK: usize = 16 << 10;
    let (_, ctl) = lean(2, 2);
    let g = ctl.root().create("kernel_stacks").unwrap();
    let stacks: Vec<_> = (0..1000).map(|_| ctl.malloc(&g, STACK, 4096).unwrap()).collect();
    let stat = ctl.stat();
    assert_eq!((stat.large_bytes, stat.objects), (1000 * STACK as u64, 1000));
    assert_eq!(g.exact(), 1000 * (STACK as u64 + u64::from(tenalloc::OWNER_BYTES)));
    let raw: Vec<_> = (0..1000).map(|i| ctl.pages(1, i as u8 % 2).unwrap()).collect();
    assert_eq!(ctl.stat().raw_bytes, 1000 * 4096, "pages that nobody pays for are counted as well");
    stacks.into_iter().for_each(|o| free(&ctl, o));
    // SAFETY: given back once.
    raw.into_iter().for_each(|p| unsafe { ctl.free_pages(p) }.unwrap());
    let stat = ctl.stat();
    assert_eq!((stat.large_bytes, stat.raw_bytes, g.exact()), (0, 0, 0));
}

/// 30 groups deleted while they hold objects: the dying ones are counted, and gone with their last object, at once.
#[test]
fn t05_dead_cgroups() {
    let (_, ctl) = lean(1, 2);
    let cache = ctl.cache(&CacheConfig::new("dentry", 192)).unwrap();
    let parent = ctl.root().create("dead_cgroups").unwrap();
    for round in 0..30u16 {
        ctl.set_cpu(round);
        let child = parent.create("child").unwrap();
        let objects: Vec<_> = (0..100).map(|_| cache.alloc(&child).unwrap()).collect();
        child.remove().unwrap();
        assert_eq!((ctl.stat().orphans, ctl.stat().removed_held), (1, 1));
        drop(child);
        assert_eq!((ctl.stat().orphans, ctl.stat().removed_held), (1, 0));
        objects.into_iter().for_each(|o| free(&ctl, o));
        assert_eq!((ctl.stat().orphans, parent.exact()), (0, 0), "round {round}");
    }
    assert_eq!(ctl.stat().groups, 1);
}

/// 1,000 children: what they cost themselves shows, is charged to no group, and is used again by the next 1,000.
#[test]
fn t06_percpu_basic() {
    let (_, ctl) = lean(1, 2);
    let parent = ctl.root().create("percpu_basic").unwrap();
    let before = ctl.stat().metadata_bytes;
    let mut after_first = 0;
    for round in 0..3 {
        for i in 0..1000 {
            parent.create(&format!("child{i}")).unwrap();
        }
        let bytes = ctl.stat().metadata_bytes - before;
        assert!(bytes >= 1000 * 100, "{bytes} bytes for 1,000 groups: something is not counted");
        assert_eq!((parent.current(), ctl.stat().groups), (0, 1001));
        if round == 0 {
            after_first = bytes;
        }
        assert_eq!(bytes, after_first, "round {round}");
        for i in 0..1000 {
            parent.lookup(&format!("child{i}")).unwrap().remove().unwrap();
        }
    }
}
