//! A closer look at one moment: caches, groups, and who shares slabs with whom.

use super::model::{Model, OWNER_POINTER, State};
use crate::report::{Cache, Group, Sharing};
use std::cmp::Reverse;
use tenalloc_designs::{Design, GroupKey};
use tenalloc_trace::Program;
use tenalloc_trace::program::GroupId;

/// Groups in the matrix.
const MATRIX: usize = 16;
/// The last entry of the histogram stands for this many groups or more.
const MANY: usize = 8;

/// The row of objects that are not accounted.
const NOBODY: &str = "(not accounted)";

/// Caches that have slabs, those that waste most first.
pub(super) fn caches(program: &Program, model: &Model<'_>, design: &mut dyn Design) -> Vec<Cache> {
    let mut rows: Vec<_> = design
        .caches()
        .into_iter()
        .zip(&program.caches)
        .zip(model.cache_objects())
        .filter(|((usage, _), _)| usage.slabs > 0)
        .map(|((usage, cache), objects)| Cache {
            name: cache.name.clone(),
            slot_size: cache.slot_size,
            objects: *objects,
            live: objects * u64::from(cache.slot_size),
            slab: usage.slab_bytes,
            slabs: usage.slabs,
        })
        .collect();
    rows.sort_by(|a, b| Reverse(a.wasted()).cmp(&Reverse(b.wasted())).then_with(|| a.name.cmp(&b.name)));
    rows
}

/// Groups that have objects or pay for pages, those with most bytes first.
pub(super) fn groups(
    program: &Program,
    model: &Model<'_>,
    keys: &[Option<GroupKey>],
    design: &mut dyn Design,
) -> Vec<Group> {
    // A group's own pages are those of its subtree without those of its living children.
    let mut pages: Vec<u64> = keys.iter().map(|key| key.map_or(0, |key| design.pages(key))).collect();
    let subtree = pages.clone();
    for (i, own) in subtree.iter().enumerate() {
        let id = GroupId(i as u32);
        if let Some(above) = model.above(id).filter(|_| model.state(id) == Some(State::Alive)) {
            let above = &mut pages[above.0 as usize];
            *above = above.saturating_sub(*own);
        }
    }
    let mut rows: Vec<Group> = program
        .groups
        .iter()
        .enumerate()
        .map(|(i, group)| {
            let own = model.get(GroupId(i as u32));
            let pointers = if group.charged { own.objects * OWNER_POINTER } else { 0 };
            Group {
                path: group.path.clone(),
                removed: own.state == State::Removed,
                objects: own.objects,
                used: own.bytes + pointers,
                charged: pages[i],
            }
        })
        .filter(|row| row.objects > 0 || row.charged > 0)
        .collect();
    if model.nobody.objects > 0 {
        let own = model.nobody;
        let path = NOBODY.into();
        rows.push(Group { path, removed: false, objects: own.objects, used: own.bytes, charged: 0 });
    }
    rows.sort_by(|a, b| Reverse(a.used).cmp(&Reverse(b.used)).then_with(|| a.path.cmp(&b.path)));
    rows
}

/// Which groups have objects in the same slabs.
pub(super) fn sharing(program: &Program, model: &Model<'_>, design: &mut dyn Design) -> Sharing {
    let mut pairs: Vec<(usize, GroupId)> =
        model.live().filter_map(|live| Some((design.slab_of(live.object)?, live.group))).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let owned = |group: &GroupId| program.groups.get(group.0 as usize).is_some_and(|g| g.charged);
    let slabs: Vec<Vec<GroupId>> = pairs
        .chunk_by(|a, b| a.0 == b.0)
        .map(|slab| slab.iter().map(|pair| pair.1).filter(owned).collect())
        .collect();
    let mut by_owners = vec![0; MANY + 1];
    let mut in_slabs = vec![0u64; program.groups.len()];
    for slab in &slabs {
        by_owners[slab.len().min(MANY)] += 1;
        slab.iter().for_each(|group| in_slabs[group.0 as usize] += 1);
    }
    // Slabs without a live object serve nobody.
    let all: u64 = design.caches().iter().map(|c| c.slabs).sum();
    by_owners[0] += all.saturating_sub(slabs.len() as u64);
    let used = by_owners.iter().rposition(|n| *n > 0).map_or(0, |last| last + 1);
    by_owners.truncate(used);
    let mut most: Vec<usize> = (0..in_slabs.len()).filter(|g| in_slabs[*g] > 0).collect();
    most.sort_by_key(|g| (Reverse(in_slabs[*g]), *g));
    most.truncate(MATRIX);
    let mut matrix = vec![vec![0; most.len()]; most.len()];
    for slab in &slabs {
        let here: Vec<usize> = (0..most.len()).filter(|i| slab.contains(&GroupId(most[*i] as u32))).collect();
        for &a in &here {
            here.iter().for_each(|&b| matrix[a][b] += 1);
        }
    }
    Sharing { by_owners, groups: most.iter().map(|g| program.groups[*g].path.clone()).collect(), matrix }
}
