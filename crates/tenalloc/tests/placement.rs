//! Which slabs a group's objects lie in: those of a group together, so that slabs become empty when it goes.

mod common;

use common::{Random, free, lean};
use std::collections::BTreeSet;
use std::ptr::NonNull;
use tenalloc::{Cache, CacheConfig, Controller, Group};

const PAGE: usize = 4096;
const SIZE: usize = 64;

struct Tenant {
    group: Group,
    objects: Vec<NonNull<u8>>,
}

impl Tenant {
    fn come(ctl: &Controller, cache: &Cache, name: &str, objects: usize) -> Self {
        let group = ctl.root().create(name).unwrap();
        let objects = (0..objects).map(|_| cache.alloc(&group).unwrap()).collect();
        Self { group, objects }
    }

    fn go(self, ctl: &Controller) {
        self.objects.into_iter().for_each(|object| free(ctl, object));
        self.group.remove().unwrap();
    }
}

/// Groups of 50 to 250 objects come and go at random, 64 at a time; those of one that goes are freed in any order.
fn churn(ctl: &Controller, cache: &Cache, seed: u64) -> Vec<Tenant> {
    let mut random = Random(seed);
    let mut live: Vec<Tenant> = Vec::new();
    for number in 0..640 {
        if live.len() == 64 {
            let mut tenant = live.swap_remove(random.below(64));
            for at in (1..tenant.objects.len()).rev() {
                tenant.objects.swap(at, random.below(at + 1));
            }
            tenant.go(ctl);
        }
        live.push(Tenant::come(ctl, cache, &format!("tenant-{number}"), 50 + random.below(201)));
    }
    live
}

#[test]
fn groups_share_few_pages() {
    let (_, ctl) = lean(1, 1);
    let cache = ctl.cache(&CacheConfig::new("c", SIZE)).unwrap();
    let live = churn(&ctl, &cache, 3);
    let of = |(at, tenant): (usize, &Tenant)| {
        tenant.objects.iter().map(move |o| (o.as_ptr() as usize / PAGE, at)).collect::<Vec<_>>()
    };
    let shared: BTreeSet<_> = live.iter().enumerate().flat_map(of).collect();
    let pages: BTreeSet<_> = shared.iter().map(|(page, _)| page).collect();
    // There are 64 objects in a page, and 2 groups in one where they follow each other without a gap.
    assert!(shared.len() <= 5 * pages.len(), "{} groups in {} pages", shared.len(), pages.len());
    ctl.trim();
    let objects: usize = live.iter().map(|tenant| tenant.objects.len()).sum();
    let slabs = ctl.slab_bytes();
    assert!(slabs * 9 <= (objects * SIZE * 10) as u64, "{slabs} bytes for {objects} objects");
    live.into_iter().for_each(|tenant| tenant.go(&ctl));
}

/// Of 64 groups 48 go, in no order.
#[test]
fn groups_that_go_leave_whole_slabs() {
    let (mut back, mut gone) = (0, 0);
    for seed in 0..8 {
        let (_, ctl) = lean(1, 1);
        let cache = ctl.cache(&CacheConfig::new("c", SIZE)).unwrap();
        let mut live = churn(&ctl, &cache, seed);
        ctl.trim();
        let before = ctl.slab_bytes();
        gone += live.drain(16..).map(|tenant| (tenant.objects.len(), tenant.go(&ctl)).0).sum::<usize>();
        ctl.trim();
        back += before - ctl.slab_bytes();
        live.into_iter().for_each(|tenant| tenant.go(&ctl));
    }
    // It was 37 to 40 %; out of sheaves it was 0 to 7.
    assert!(back * 4 >= (gone * SIZE) as u64, "{back} bytes of slabs for {gone} objects");
}

#[test]
fn what_a_group_had_ready_goes_back_to_its_slabs() {
    let (_, ctl) = lean(1, 1);
    let cache = ctl.cache(&CacheConfig::new("c", SIZE)).unwrap();
    Tenant::come(&ctl, &cache, "first", 250).go(&ctl);
    let second = Tenant::come(&ctl, &cache, "second", 1);
    let stat = cache.stat();
    assert_eq!((stat.objects, stat.cached, stat.slabs), (1, 0, 1));
    second.go(&ctl);
}

#[test]
fn objects_of_groups_in_turns_lie_in_runs() {
    let (_, ctl) = lean(1, 1);
    let cache = ctl.cache(&CacheConfig::new("c", SIZE)).unwrap();
    let mut tenants: Vec<_> = (0..4).map(|n| Tenant::come(&ctl, &cache, &format!("{n}"), 0)).collect();
    for _ in 0..300 {
        for tenant in &mut tenants {
            tenant.objects.push(cache.alloc(&tenant.group).unwrap());
        }
    }
    for tenant in tenants {
        let next = |pair: &&[NonNull<u8>]| pair[1].as_ptr() as usize == pair[0].as_ptr() as usize + SIZE;
        let runs = tenant.objects.windows(2).filter(|pair| !next(pair)).count() + 1;
        assert!(runs <= 60, "300 objects in {runs} runs");
        tenant.go(&ctl);
    }
}

/// Waves of several threads, in runs some of which no slab has room for: nobody gets what another has, each object is its group's,
/// and in the end nothing is left.
fn waves(ctl: &Controller, move_to: &(dyn Fn(u64) + Sync)) {
    const THREADS: u64 = 6;
    // A slab has eight of them, and a miss brings up to 32.
    let cache = &ctl.cache(&CacheConfig::new("large", 3000)).unwrap();
    let tenant = |at: u64| ctl.root().create(&format!("thread-{at}")).unwrap();
    let (mut send, receive): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| std::sync::mpsc::channel()).unzip();
    send.rotate_left(1);
    std::thread::scope(|s| {
        for ((at, inbox), to) in (0..).zip(receive).zip(send) {
            let group = tenant(at);
            s.spawn(move || {
                let mut random = Random(at);
                for wave in 0..60u64 {
                    let number = 20 + random.below(150) as u64;
                    let objects = (0..number).map(|n| {
                        move_to(random.next());
                        let object = cache.alloc(&group).unwrap().cast::<[u64; 2]>();
                        // SAFETY: fresh and large enough.
                        unsafe { object.write([at, wave << 32 | n]) };
                        object.as_ptr().expose_provenance()
                    });
                    to.send((group.clone(), at, wave, objects.collect::<Vec<_>>())).unwrap();
                    // Another thread's, in another order.
                    let (owner, at, wave, mut objects): (Group, _, _, Vec<usize>) = inbox.recv().unwrap();
                    let mut numbers = BTreeSet::new();
                    while !objects.is_empty() {
                        let object = objects.swap_remove(random.below(objects.len()));
                        let object = std::ptr::with_exposed_provenance_mut::<[u64; 2]>(object);
                        // SAFETY: live, and given away by who had it.
                        let [by, n] = unsafe { object.read() };
                        assert_eq!((by, n >> 32), (at, wave));
                        assert!(numbers.insert(n));
                        let object = NonNull::new(object.cast()).unwrap();
                        let of = ctl.group_of_object(object).unwrap().unwrap();
                        assert_eq!(of.path().to_string(), owner.path().to_string());
                        free(ctl, object);
                    }
                }
            });
        }
    });
    assert_eq!(ctl.root().exact(), 0);
    assert_eq!(cache.stat().objects, 0);
    ctl.root().children().for_each(|group| group.remove().unwrap());
    ctl.trim();
    assert_eq!(ctl.slab_bytes(), 0);
}

#[test]
fn what_one_has_nobody_else_gets() {
    waves(&Controller::new(tenalloc::Config::new()).unwrap(), &|_| {});
}

/// On a machine of 2 nodes and 16 CPUs, between which all threads are moved at random.
#[test]
fn nor_on_many_cpus() {
    let (_, ctl) = lean(2, 16);
    waves(&ctl, &|random| {
        if random % 8 == 0 {
            ctl.set_cpu((random >> 32) as u16 % 16);
        }
    });
}
