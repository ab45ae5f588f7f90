//! The library as the allocator of this very program: the standard library's collections and threads, whose they are, and
//! what happens at a limit and after a group's end.
#![cfg(feature = "std")]

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::channel;
use tenalloc::{Config, Controller, FutureExt, Global, Group, current_group};

#[global_allocator]
static A: Global = Global;

fn group(name: &str) -> Group {
    Global::controller().unwrap().root().create(name).unwrap()
}

#[test]
fn what_a_scope_allocates_is_its_groups_wherever_it_dies() {
    let tenant = group("wherever");
    let (send, receive) = channel();
    let made = tenant.scope(|| {
        let mut map: HashMap<u64, Vec<String>> = HashMap::new();
        for i in 0..1000u64 {
            map.entry(i % 100).or_default().push("value ".repeat(i as usize % 50));
        }
        map
    });
    let held = tenant.exact();
    let text: usize = made.values().flatten().map(String::len).sum();
    assert!(held > text as u64, "{held} bytes for {text} of text");
    send.send(made).unwrap();
    std::thread::spawn(move || {
        let mut map = receive.recv().unwrap();
        map.retain(|key, _| *key < 50);
        map
    })
    .join()
    .map(drop)
    .unwrap();
    assert_eq!(tenant.exact(), 0, "the bytes came back from another thread");
    tenant.remove().unwrap();
}

#[test]
fn what_grows_keeps_its_owner() {
    let (a, b) = (group("grows-a"), group("grows-b"));
    let mut text = a.scope(|| String::from("a's"));
    b.scope(|| (0..10_000).for_each(|_| text.push('x')));
    assert!(a.exact() >= 10_000 && b.exact() == 0);
    b.scope(|| text.shrink_to_fit());
    assert_eq!((a.exact() > 0, b.exact()), (true, 0));
    drop(text);
    assert_eq!(a.exact(), 0);
}

#[test]
fn alignments_and_zeros() {
    #[repr(align(512))]
    struct Wide([u8; 512]);
    let tenant = group("aligned");
    tenant.scope(|| {
        let wide: Vec<Box<Wide>> = (0..20).map(|i| Box::new(Wide([i; 512]))).collect();
        assert!(wide.iter().all(|w| std::ptr::from_ref(&**w).is_aligned()));
        assert!(wide.iter().zip(0..).all(|(w, i)| w.0 == [i; 512]));
        for bytes in [1usize, 100, 5000, 100_000] {
            drop(vec![0xffu8; bytes]); // so that what comes next is not fresh
            assert!(vec![0u8; bytes].iter().all(|b| *b == 0), "vec![0; {bytes}] is alloc_zeroed");
        }
    });
    assert_eq!(tenant.exact(), 0);
}

#[test]
fn at_a_limit_what_can_fail_fails_and_the_rest_lives() {
    let (full, other) = (group("full"), group("not-full"));
    full.set_max(64 << 10);
    let refused = full.scope(|| {
        let mut bytes = Vec::<u8>::new();
        bytes.try_reserve_exact(1 << 20).is_err()
    });
    assert!(refused);
    other.scope(|| drop(vec![1u8; 1 << 20]));
    full.scope(|| drop(vec![1u8; 32 << 10]));
    assert_eq!((full.exact(), other.exact()), (0, 0));
}

#[test]
fn a_removed_group_hands_its_scope_to_its_parent() {
    let parent = group("parent");
    let child = parent.create("child").unwrap();
    let grandchild = child.create("grandchild").unwrap();
    let all = grandchild.scope(|| {
        let before = vec![1u8; 1000];
        grandchild.remove().unwrap();
        let between = vec![2u8; 1000];
        assert!(child.exact() >= 2000);
        child.remove().unwrap();
        (before, between, vec![3u8; 1000])
    });
    assert!(parent.exact() >= 3000);
    drop(all);
    assert_eq!(parent.exact(), 0);
}

#[test]
fn a_scope_of_another_controller_counts_as_none() {
    let other = Controller::new(Config::new()).unwrap();
    let stranger = other.root().create("stranger").unwrap();
    let bytes = stranger.scope(|| vec![1u8; 3000]);
    assert_eq!((stranger.exact(), bytes.len()), (0, 3000));
}

#[test]
fn threads_and_futures_have_groups_of_their_own() {
    let tenants: Vec<Group> = (0..8).map(|i| group(&format!("thread-{i}"))).collect();
    let kept: Vec<BTreeMap<u32, String>> = std::thread::scope(|s| {
        let threads: Vec<_> = tenants
            .iter()
            .map(|tenant| {
                s.spawn(move || {
                    tenant.scope(|| (0..500).map(|i| (i, format!("{i} of {}", tenant.name()))).collect())
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let sums: Vec<u64> = tenants.iter().map(Group::exact).collect();
    assert!(sums.iter().all(|bytes| *bytes == sums[0] && *bytes > 5000), "{sums:?}");
    drop(kept);
    assert!(tenants.iter().all(|tenant| tenant.exact() == 0));

    let mut future = Box::pin(async { vec![0u8; 7000] }.in_group(&tenants[0]));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(bytes) = future.as_mut().poll(&mut context) else { panic!("ready at once") };
    assert!(tenants[0].exact() >= 7000 && current_group().is_none());
    drop((bytes, future));
    assert_eq!(tenants[0].exact(), 0);
}
