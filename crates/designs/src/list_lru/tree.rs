//! The sparse index of D4 and D5: an XArray, a tree of 64-way nodes from ids to heads.
//!
//! ```text
//!   root ─ node of 4,096 ids each ─ node of 64 ids each ─ node of 1 id each ─► heads       an id below 64: one node,
//!                                                                                          below 4,096: two, else three
//! ```
//! Follows `lib/xarray.c`: `xas_create()`, `xas_expand()` as it grows; `xas_delete_node()`, `xas_shrink()` as entries go.
//! The kernel keeps an entry of id 0 in the root itself; ids of groups begin above that.

use super::arena::{Arena, Value};
use super::ledger::Ledger;
use super::link::Link;
use crate::kernel::xarray::NODE;
use crate::lists::What;

const SHIFT: u32 = 6;
const SLOTS: usize = 1 << SHIFT;

/// `struct xa_node`, of the kernel's size.
#[repr(C)]
#[derive(Clone)]
pub(super) struct Node {
    slots: [Link; SLOTS],
    used: u64,
    _rest: [u64; 7], // the kernel's shift, offset, parent, array, list, marks
}

const _: () = assert!(size_of::<Node>() as u64 == NODE);

impl Value for Node {
    const NEW: Self = Self { slots: [Link::NONE; SLOTS], used: 0, _rest: [0; 7] };

    fn free_link(&mut self) -> &mut Link {
        &mut self.slots[0]
    }
}

impl Node {
    /// Puts an entry into a slot, or takes it out; what was there.
    fn put(&mut self, slot: usize, entry: Link) -> Link {
        let old = core::mem::replace(&mut self.slots[slot], entry);
        self.used = self.used + u64::from(entry != Link::NONE) - u64::from(old != Link::NONE);
        old
    }
}

/// Nodes of all trees.
pub(super) type Nodes = Arena<Node>;

/// One tree.
pub(super) struct Tree {
    root: Link,
    levels: u32,
}

fn slot(id: u32, level: u32) -> usize {
    (id >> (SHIFT * level)) as usize % SLOTS
}

fn new(nodes: &mut Nodes, ledger: &mut Ledger) -> Link {
    ledger.made_in(What::Index, NODE, NODE, 1);
    nodes.alloc()
}

fn free(nodes: &mut Nodes, node: Link, ledger: &mut Ledger) {
    ledger.freed_in(What::Index, NODE, NODE, 1);
    nodes.free(node);
}

fn node(nodes: &mut Nodes, link: Link) -> Option<&mut Node> {
    nodes.get_mut(link)?.first_mut()
}

impl Tree {
    /// Without entries, and without nodes.
    pub(super) const EMPTY: Self = Self { root: Link::NONE, levels: 0 };

    /// Whether `id` lies within the levels there are.
    fn covers(&self, id: u32) -> bool {
        u64::from(id) >> (SHIFT * self.levels) == 0
    }

    /// The entry of `id`.
    #[inline]
    pub(super) fn get(&self, nodes: &Nodes, id: u32) -> Link {
        if !self.covers(id) {
            return Link::NONE;
        }
        let mut at = self.root;
        for level in (0..self.levels).rev() {
            match nodes.get(at).and_then(<[Node]>::first) {
                Some(node) => at = node.slots[slot(id, level)],
                None => return Link::NONE,
            }
        }
        at
    }

    /// Sets the entry of `id`, with the nodes that lead to it.
    pub(super) fn insert(&mut self, nodes: &mut Nodes, id: u32, entry: Link, ledger: &mut Ledger) {
        while !self.covers(id) {
            if self.root != Link::NONE {
                let above = new(nodes, ledger);
                node(nodes, above).map(|above| above.put(0, self.root));
                self.root = above;
            }
            self.levels += 1;
        }
        if self.root == Link::NONE {
            self.levels = self.levels.max(1);
            self.root = new(nodes, ledger);
        }
        let mut at = self.root;
        for level in (1..self.levels).rev() {
            let slot = slot(id, level);
            let mut below = node(nodes, at).map_or(Link::NONE, |node| node.slots[slot]);
            if below == Link::NONE {
                below = new(nodes, ledger);
                node(nodes, at).map(|node| node.put(slot, below));
            }
            at = below;
        }
        node(nodes, at).map(|leaf| leaf.put(slot(id, 0), entry));
    }

    /// Takes the entry of `id` out, and nodes that nothing is in any more.
    pub(super) fn remove(&mut self, nodes: &mut Nodes, id: u32, ledger: &mut Ledger) -> Link {
        let entry = self.get(nodes, id);
        if entry == Link::NONE {
            return entry;
        }
        let mut path = Vec::with_capacity(self.levels as usize);
        let mut at = self.root;
        for level in (0..self.levels).rev() {
            path.push((at, slot(id, level)));
            at = node(nodes, at).map_or(Link::NONE, |node| node.slots[slot(id, level)]);
        }
        while let Some((at, slot)) = path.pop() {
            let Some(found) = node(nodes, at) else { break };
            found.put(slot, Link::NONE);
            if found.used > 0 {
                break;
            }
            free(nodes, at, ledger);
            if path.is_empty() {
                *self = Self::EMPTY;
            }
        }
        self.shrink(nodes, ledger);
        entry
    }

    /// A root that leads only to the lowest ids gives way to what it leads to.
    fn shrink(&mut self, nodes: &mut Nodes, ledger: &mut Ledger) {
        while self.levels > 1 {
            let Some(root) = node(nodes, self.root) else { return };
            let below = root.slots[0];
            if root.used != 1 || below == Link::NONE {
                return;
            }
            free(nodes, self.root, ledger);
            self.root = below;
            self.levels -= 1;
        }
    }

    /// Frees all nodes; the entries.
    pub(super) fn clear(&mut self, nodes: &mut Nodes, ledger: &mut Ledger) -> Vec<Link> {
        let mut level: Vec<Link> = Some(self.root).filter(|root| *root != Link::NONE).into_iter().collect();
        for _ in 0..self.levels {
            let mut below = Vec::new();
            for at in level {
                let slots = node(nodes, at).map(|node| node.slots);
                below.extend(slots.iter().flatten().filter(|link| **link != Link::NONE));
                free(nodes, at, ledger);
            }
            level = below;
        }
        *self = Self::EMPTY;
        level
    }
}
