//! Nodes of the index by which a list finds the list of a group since 5.18: an XArray of 64-way nodes.
//!
//! Source: `lib/xarray.c`, `include/linux/xarray.h`: `XA_CHUNK_SHIFT` 6, a node of 576 bytes in cache `radix_tree_node`. A
//! tree is as high as its largest id needs, and has a node wherever an id lies below. An id of 0 alone needs none, but
//! ids of groups begin at 1.

/// Bytes of `struct xa_node`.
pub const NODE: u64 = 576;
/// A node leads to 64 others.
const SHIFT: u32 = 6;

/// Levels of a tree whose largest id is `largest`.
const fn height(largest: u64) -> u32 {
    if largest == 0 { 0 } else { largest.ilog2() / SHIFT + 1 }
}

/// Nodes of a tree that holds exactly these ids, in rising order. 0 for none.
pub fn nodes(ids: &[u64]) -> u64 {
    let Some(largest) = ids.iter().copied().max() else { return 0 };
    (1..=height(largest))
        .map(|level| {
            let mut last = None;
            let places = ids.iter().map(|id| id.checked_shr(SHIFT * level).unwrap_or(0));
            places.filter(|place| last.replace(*place) != Some(*place)).count() as u64
        })
        .sum()
}

/// Nodes of a tree that holds the ids 1 to `users`, side by side.
pub const fn dense(users: u64) -> u64 {
    spread(users, users)
}

/// The most nodes that `users` ids up to `ids` take, the largest among them: spread so that each has nodes of its own as
/// long as there are enough. What groups cost that are strangers to each other; one user among 10,000 takes 3 nodes.
pub const fn spread(users: u64, ids: u64) -> u64 {
    let users = if users < ids { users } else { ids };
    if users == 0 {
        return 0;
    }
    let (mut sum, mut level) = (0_u64, 1);
    while level <= height(ids) {
        // Places of this level below the root: with `shift` of 64 or more there is the root alone.
        let shift = SHIFT * level;
        let places = if shift < 64 { (ids >> shift).saturating_add(1) } else { 1 };
        sum = sum.saturating_add(if users < places { users } else { places });
        level += 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_id_takes_a_node_a_level() {
        let of = [1, 63, 64, 4095, 4096, 9000, 65535, u64::MAX];
        assert_eq!(of.map(|id| nodes(&[id])), [1, 1, 2, 2, 3, 3, 3, 11]);
        assert_eq!(of.map(|id| spread(1, id)), of.map(|id| nodes(&[id])));
        assert_eq!(NODE * nodes(&[9000]), 1728);
    }

    /// Computed figures of others: 4 ids of 10,000 at random take 7 nodes, 1,000 take 160. Spread out they take no less.
    #[test]
    fn more_users_share_nodes() {
        let even = |users: u64| -> Vec<u64> { (1..=users).map(|k| k * 10_000 / users).collect() };
        assert_eq!([4, 1000, 10_000].map(|users| nodes(&even(users))), [8, 161, 161]);
        assert_eq!([4, 1000, 10_000].map(|users| spread(users, 10_000)), [8, 161, 161]);
        assert_eq!([0, 1, 63, 64, 4095, 4096].map(dense), [0, 1, 1, 3, 65, 68]);
        assert_eq!((nodes(&[]), spread(0, 9), spread(7, 0)), (0, 0, 0));
    }

    proptest! {
        #[test]
        fn no_set_of_ids_takes_more_than_the_spread(mut ids in prop::collection::btree_set(1_u64..65536, 1..300)) {
            ids.insert(65535);
            let sorted: Vec<u64> = ids.iter().copied().collect();
            let by_hand: u64 = (1..=3)
                .map(|l| ids.iter().map(|id| id >> (6 * l)).collect::<std::collections::BTreeSet<_>>().len() as u64)
                .sum();
            prop_assert_eq!(nodes(&sorted), by_hand);
            prop_assert!(by_hand <= spread(ids.len() as u64, 65535));
        }
    }
}
