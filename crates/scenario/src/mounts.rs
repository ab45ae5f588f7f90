//! Many groups, many mounts, each mount used by one group: what list_lru and shrinkers cost.
//!
//! The situation of the 10,000 containers and of the list_lru series: every mount has a list family for dentries and
//! one for inodes, and nearly every (mount × group) pair is never used. Linux paid for all pairs until 5.18, and pays
//! for them to this day in shrinker state.

use crate::{Error, Figure, Outcome, While};
use std::time::Instant;
use tenalloc::{CacheConfig, Config, Controller, Group, ListLru, LruItem, Scanned, Shrinker, Topology};

/// Frees nothing: it is bound so that its cost is in the figures.
struct Bound;

impl Shrinker for Bound {
    fn scan(&self, _: &ListLru, _: &Group, _: u8, number: u64) -> Scanned {
        Scanned { looked_at: number, stop: true, ..Scanned::default() }
    }
}

/// Families of lists for a mount: dentries and inodes.
const LISTS: usize = 2;
/// An inode's size in a kernel trace, near enough; it begins with its item.
const OBJECT: usize = 600;

/// `groups` groups and `mounts` mounts of two families on `nodes` nodes; mount i is used by group i modulo `groups`, with
/// one object a family.
///
/// # Errors
/// No memory.
pub fn run(groups: usize, mounts: usize, nodes: u8) -> Result<Outcome, Error> {
    let situation = format!(
        "{groups} groups, {mounts} mounts of {LISTS} list families, {nodes} nodes; each mount used by one group"
    );
    let mut outcome = Outcome::new("mounts", situation);
    let config = Config::new().hardened(false).topology(Topology::simulated(nodes, nodes.into()));
    let ctl = Controller::new(config).during("the controller")?;
    let bytes = || ctl.stat().metadata_bytes as f64;

    let start = bytes();
    let tenants: Vec<Group> = (0..groups)
        .map(|i| ctl.root().create(&format!("container-{i}")))
        .collect::<Result<_, _>>()
        .during("a group")?;
    let with_groups = bytes();

    let clock = Instant::now();
    let mut lists: Vec<ListLru> = Vec::with_capacity(mounts * LISTS);
    for _ in 0..mounts * LISTS {
        let lru = ListLru::new(&ctl, 0).during("a mount's list family")?;
        lru.set_shrinker(&Bound);
        lists.push(lru);
    }
    let mount_ns = clock.elapsed().as_nanos() as f64 / mounts.max(1) as f64;
    let with_mounts = bytes();
    let empty: f64 = lists.iter().map(|l| l.bytes() as f64).sum();

    let cache = ctl.cache(&CacheConfig::new("inode", OBJECT)).during("a cache")?;
    let clock = Instant::now();
    let mut objects = Vec::with_capacity(lists.len());
    for (i, lru) in lists.iter().enumerate().filter(|_| groups > 0) {
        let object = cache.alloc_lru(&tenants[i / LISTS % groups], lru).during("an object and its list")?;
        // SAFETY: a live object with an item at its start, added once and deleted below.
        unsafe { lru.add(object) };
        objects.push(object);
    }
    let use_ns = clock.elapsed().as_nanos() as f64 / objects.len().max(1) as f64;
    let used: f64 = lists.iter().map(|l| l.bytes() as f64).sum();
    let families = (mounts * LISTS).max(1) as f64;

    let clock = Instant::now();
    for tenant in &tenants {
        tenant.remove().during("removal of a group")?;
    }
    let remove_ns = clock.elapsed().as_nanos() as f64 / groups.max(1) as f64;
    for (object, lru) in objects.iter().zip(&lists) {
        // SAFETY: live, deleted once and then freed once.
        unsafe {
            debug_assert!(object.cast::<LruItem>().as_ref().is_listed());
            lru.del(*object);
            cache.free(*object).during("a free")?;
        }
    }
    let after: f64 = lists.iter().map(|l| l.bytes() as f64).sum();

    outcome.figures = vec![
        Figure::new("a group, idle", (with_groups - start) / groups.max(1) as f64, "B").within(200.0),
        Figure::new("a list family that nobody uses", empty / families, "B"),
        Figure::new("a list with one user", (used - empty) / families, "B").within(192.0),
        Figure::new("lists, indexes and shrinker state, all mounts used", used, "B"),
        Figure::new("  of it per (group × mount)", used / (groups.max(1) * mounts.max(1)) as f64, "B"),
        // The pressure that each list carries, 8 bytes, is all there is beside the lists.
        Figure::new("  of it shrinker state", shrinker_state(&lists, objects.len(), nodes), "B")
            .within(4.0 * 1048576.0),
        Figure::new("metadata that mounts added, by the statistics", with_mounts - with_groups, "B"),
        Figure::new("lists and indexes after all groups were removed", after, "B"),
        Figure::new("a mount", mount_ns, "ns"),
        Figure::new("an object with the first use of its list", use_ns, "ns"),
        Figure::new("removal of a group with its lists", remove_ns, "ns"),
    ];
    outcome.linux = vec![
        "5.10: 2 nodes × 2 families × (12,286 ids × 32 B + arrays) a mount: 2.1 MB a mount at 10,000 groups".into(),
        "6.12 measured, 10,000 groups × 10,000 mounts × 2 nodes: 3.21 GB, 32.9 B per (group × mount), shrinker state".into(),
        "6.13 and later: 1,952 B for a list with one user (64·N + 576 per index node + 96)".into(),
    ];
    Ok(outcome)
}

/// 8 bytes in every list that exists: root lists and used ones.
fn shrinker_state(lists: &[ListLru], used: usize, nodes: u8) -> f64 {
    ((lists.len() + used) * usize::from(nodes) * 8) as f64
}
