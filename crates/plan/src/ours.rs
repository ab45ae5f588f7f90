//! What tenalloc takes for the same lists, in closed form, from the sizes of its structures.
//!
//! Source: `crates/tenalloc/src/lru/index.rs` (a family: record, root lists, hash; a user: head and a list a node),
//! `lru/list.rs` (the pressure that each list carries), `meta.rs` (blocks in steps of 16 bytes), `group/owner.rs`.
//! The sizes stand here as numbers because they are private there; `tests/ours.rs` builds families for real and
//! compares, so that a changed structure fails the test.

use crate::spend::Bytes;

/// A family itself: two inline owners, hash, root, counts, its shrinker.
pub const RECORD: u64 = 88;
/// The lists of one group in one family: this, and [`LIST`] a node.
pub const HEAD: u64 = 32;
/// One list with its lock.
pub const LIST: u64 = 40;
/// Of a list: the pressure it carries, all the shrinker state there is.
pub const CARRIED: u64 = 8;
/// Users that need no hash.
pub const INLINE: u64 = 2;
/// An entry of the hash, and its head.
pub const ENTRY: u64 = 16;
/// The owner of a group: what stays when the group goes, until its last object does.
pub const OWNER: u64 = 40;
/// An owner in a slab's vector, in slabs with more than one owner.
pub const VECTOR_ENTRY: u64 = 4;

/// A block of metadata: steps of 16 bytes up to 4 KiB, then pages of 4 KiB.
pub const fn block(bytes: u64) -> u64 {
    if bytes <= 4096 { bytes.next_multiple_of(16) } else { bytes.div_ceil(4096).saturating_mul(4096) }
}

/// The lists of one group in one family.
pub const fn lists(nodes: u64) -> u64 {
    block(HEAD.saturating_add(LIST.saturating_mul(nodes)))
}

/// Entries of the hash after `users` groups used a family one after another: it is made for the third, and made anew when
/// three quarters are filled.
pub const fn hash_capacity(users: u64) -> u64 {
    let mut capacity = 0_u64;
    loop {
        // How many users fit: the inline ones, and three quarters of the hash.
        let fit = INLINE + capacity / 4 * 3;
        if users <= fit {
            return capacity;
        }
        let wanted = match (fit + 1).checked_mul(2) {
            Some(wanted) => wanted,
            None => return capacity,
        };
        capacity = match wanted.checked_next_power_of_two() {
            Some(capacity) => capacity,
            None => return capacity,
        };
    }
}

/// The hash of a family with so many users; 0 for up to two.
pub const fn hash(users: u64) -> u64 {
    match hash_capacity(users) {
        0 => 0,
        capacity => block(ENTRY.saturating_add(ENTRY.saturating_mul(capacity))),
    }
}

/// One family with `users` groups in it, on `nodes` nodes; its shrinker state told apart from its lists.
pub const fn family(users: u64, nodes: u64) -> Bytes {
    let all = users.saturating_add(1).saturating_mul(nodes);
    let carried = CARRIED.saturating_mul(all);
    let heads = lists(nodes).saturating_mul(users);
    let own = CARRIED.saturating_mul(nodes);
    Bytes {
        root: block(RECORD) + lists(nodes) - own,
        heads: heads - own.saturating_mul(users),
        arrays: 0,
        index: hash(users),
        shrinkers: carried,
        handles: 0,
        vectors: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lists_and_hashes() {
        assert_eq!([1, 16, 17, 4096, 4097].map(block), [16, 16, 32, 4096, 8192]);
        assert_eq!([1, 2, 4].map(lists), [80, 112, 192]);
        assert_eq!([0, 2, 3, 8, 9, 26, 27, 50, 51].map(hash_capacity), [0, 0, 8, 8, 32, 32, 64, 64, 128]);
        assert_eq!(hash_capacity(u64::MAX), 1 << 63);
    }

    /// The budget of the design: at most 192 bytes for a list with one user on 2 nodes.
    #[test]
    fn one_user_on_two_nodes() {
        let one = family(1, 2);
        assert_eq!((one.heads + 16, one.root + 16, one.shrinkers, one.total()), (112, 208, 32, 320));
    }
}
