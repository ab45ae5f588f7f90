//! The generations of Linux's list_lru as real code: one file each, with the idea of that generation and nothing else.
//!
//! ```text
//! linux.rs       what no generation changed: groups, items, lists for nobody, reparenting     implements ListDesign
//!   │ asks a Generation: "where is the head of (list_lru, id, node)?"
//!   ├ eager.rs        D1  4.0–5.17   list_lru → node → array[id] → head, all made in advance
//!   ├ transposed.rs   D2  patch 1    list_lru → array[id] → head[node], all made in advance
//!   ├ lazy.rs         D3  patch 10   the same, heads made with the group's first object
//!   ├ indexed.rs      D4  5.18–6.12  list_lru → tree(id) → head[node]
//!   └ locked.rs       D5  6.13–      the same, a lock in each head
//!   │
//!   ├ arrays.rs  for D1–D3        trees.rs, tree.rs  for D4, D5        groups.rs  keys → ids
//!   └ link.rs    heads, links     arena.rs  their memory               ledger.rs  what the kernel would have spent
//! ours.rs        tenalloc's own list_lru behind the same calls         implements ListDesign
//! ```
//! Patch numbers are those of Muchun Song's series "Optimize list lru memory consumption", v6.

mod arena;
mod arrays;
mod eager;
mod groups;
mod indexed;
mod lazy;
pub(crate) mod ledger;
mod link;
mod linux;
mod locked;
mod ours;
#[cfg(test)]
mod tests;
mod transposed;
mod tree;
mod trees;

pub(crate) use linux::Linux;
pub(crate) use ours::Ours;

use crate::Error;
use crate::kernel::generation::Lists;
use crate::lists::{LruKey, Parts};
use ledger::Ledger;
use link::One;

/// What a generation of Linux decides: where the head of a group's list is, and when it is made and freed.
///
/// Keys of list_lrus are dense; ids are given by [`take_id`](Generation::take_id). The caller checks all keys.
pub(crate) trait Generation {
    /// One sentence on how it works.
    fn summary(&self) -> &'static str;

    /// The id of a new group.
    fn take_id(&mut self, ledger: &mut Ledger) -> Result<u32, Error>;

    /// Gives an id back, after [`retire`](Self::retire) in every list_lru.
    fn put_id(&mut self, id: u32);

    /// The next list_lru.
    fn add_lru(&mut self, ledger: &mut Ledger);

    /// One that goes; no items are on its lists.
    fn remove_lru(&mut self, lru: LruKey, ledger: &mut Ledger);

    /// Makes the heads of a group that has none here; its parent's are there.
    fn prepare(&mut self, lru: LruKey, id: u32, ledger: &mut Ledger);

    /// The head of a group's list on a node, if there is one.
    fn head(&self, lru: LruKey, id: u32, node: u8) -> Option<&One>;

    /// The same, to change it.
    fn head_mut(&mut self, lru: LruKey, id: u32, node: u8) -> Option<&mut One>;

    /// Empties a list whose group goes; what was on it.
    fn drain(&mut self, lru: LruKey, id: u32, node: u8) -> Option<One> {
        self.head_mut(lru, id, node).filter(|one| one.number > 0).map(One::take)
    }

    /// The group of `id` goes; all its lists here were drained.
    fn retire(&mut self, lru: LruKey, id: u32, ledger: &mut Ledger);

    /// How many heads there are.
    fn heads(&self) -> u64;

    /// Heads and index as allocated by this process, bytes.
    fn here(&self) -> Parts;
}

/// The generation that keeps lists so, on a machine of `nodes` nodes.
pub(crate) fn generation(lists: Lists, nodes: u8) -> Box<dyn Generation> {
    match lists {
        Lists::Eager => Box::new(eager::Eager::new(nodes)),
        Lists::Transposed => Box::new(transposed::Transposed::new(nodes)),
        Lists::Lazy => Box::new(lazy::Lazy::new(nodes)),
        Lists::Sparse => Box::new(indexed::Indexed::<link::One>::new(nodes)),
        Lists::Locked => Box::new(indexed::Indexed::<locked::Locked>::new(nodes)),
    }
}
