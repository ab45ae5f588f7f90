//! The closed form of tenalloc's lists beside families that are built for real.

use tenalloc::{CacheConfig, Config, Controller, Group, ListLru, Topology};
use tenalloc_plan::ours;

/// An object that begins with its item.
const OBJECT: usize = 64;

/// Bytes of one family that so many groups used, by the library's own statistics.
fn built(users: usize, nodes: u8) -> u64 {
    let config = Config::new().hardened(false).topology(Topology::simulated(nodes, nodes.into()));
    let ctl = Controller::new(config).unwrap();
    let groups: Vec<Group> = (0..users).map(|i| ctl.root().create(&format!("g{i}")).unwrap()).collect();
    let cache = ctl.cache(&CacheConfig::new("inode", OBJECT)).unwrap();
    let lru = ListLru::new(&ctl, 0).unwrap();
    let objects: Vec<_> = groups.iter().map(|group| cache.alloc_lru(group, &lru).unwrap()).collect();
    let bytes = lru.bytes();
    for object in objects {
        // SAFETY: allocated above, on no list, freed once.
        unsafe { cache.free(object).unwrap() };
    }
    bytes
}

#[test]
fn families_take_what_the_closed_form_says() {
    for nodes in [1, 2, 4, 8] {
        for users in [0, 1, 2, 3, 8, 9, 26, 27, 50, 51, 300] {
            let closed = ours::family(users as u64, nodes.into()).total();
            assert_eq!(closed, built(users, nodes), "{users} users, {nodes} nodes");
        }
    }
}

/// The situation of `tenalloc scenario mounts`, smaller: lists, and nothing else that grows with mounts but small change.
#[test]
fn nothing_else_grows_with_mounts_or_shrinkers() {
    let (nodes, mounts, groups) = (2_u8, 500_usize, 100_usize);
    let config = Config::new().hardened(false).topology(Topology::simulated(nodes, nodes.into()));
    let ctl = Controller::new(config).unwrap();
    let tenants: Vec<Group> = (0..groups).map(|i| ctl.root().create(&format!("g{i}")).unwrap()).collect();
    let before = ctl.stat().metadata_bytes;
    let lists: Vec<ListLru> = (0..2 * mounts).map(|_| ListLru::new(&ctl, 0).unwrap()).collect();
    for (i, lru) in lists.iter().enumerate() {
        lru.prepare(&tenants[i / 2 % groups]).unwrap();
    }
    let grown = ctl.stat().metadata_bytes - before;
    let closed = 2 * mounts as u64 * ours::family(1, nodes.into()).total();
    // The statistics count whole pages of metadata.
    assert!(grown.abs_diff(closed) <= 2 * 4096 + closed / 100, "{grown} built, {closed} computed");
}

/// A group costs its owner and more; the owner is the part that Linux's handle is compared with.
#[test]
fn a_group_is_more_than_its_owner() {
    // On whatever machine.
    for (nodes, cpus) in [(1, 1), (2, 8), (8, 256)] {
        let config = Config::new().hardened(false).topology(Topology::simulated(nodes, cpus));
        let ctl = Controller::new(config).unwrap();
        let before = ctl.stat().metadata_bytes;
        let number = 10_000_u64;
        let groups: Vec<Group> = (0..number).map(|i| ctl.root().create(&format!("g{i}")).unwrap()).collect();
        let each = (ctl.stat().metadata_bytes - before) / number;
        assert!((ours::OWNER..=200).contains(&each), "{each} on {cpus} CPUs");
        drop(groups);
    }
}
