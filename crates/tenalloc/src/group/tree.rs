//! The tree of groups: its nodes, and how they are found. `make` and `remove` are how they come and go.
//!
//! A node stays in its table until it is removed *and* its last handle is dropped *and* its last child's node
//! is gone; so a node's `parent` is always good to follow.

mod bytes;
#[cfg(not(feature = "loom"))]
mod fork;
mod make;
mod name;
mod names;
mod remove;

use self::name::Name;
pub(crate) use self::name::Path;
use self::names::{Ahead, Names, Spelled};
use super::counter::Counter;
use crate::group::knobs::Knobs;
use crate::group::owner::{Ids, Owners};
use crate::lru::index::Indexes;
use crate::lru::lists::{Lists, chain_in, chain_out, chain_turn};
use crate::meta::Meta;
use crate::sync::{Guard, Lock, Rank};
use crate::table::Table;
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};

/// Longest name of a group, bytes.
pub(crate) const NAME_MAX: usize = 255;

/// Levels of groups below the root. Walks go down by calling themselves, on the stack of whoever asks, and every charge that
/// misses a stock goes up through all of them.
pub(crate) const MAX_DEPTH: usize = 128;

/// A group.
pub(crate) struct Node {
    pub(crate) counter: Counter,
    /// Null for the root. Fixed while the node lives.
    parent: *const Node,
    name: Name,
    removed: AtomicBool,
    pub(crate) owner: u32,
    /// Handles; the tree, until it is removed; and removed children whose nodes are still there. (Those that are not removed
    /// need no count: a group with children is not removed.)
    holders: AtomicU32,
    id: u32,
    links: UnsafeCell<Links>,
    /// A ring of the group's lists; guarded by the lock of the indexes.
    chain: UnsafeCell<*mut Lists>,
    /// Null until the first knob is set.
    pub(crate) knobs: AtomicPtr<Knobs>,
    /// No growth here and below.
    pub(crate) frozen: AtomicBool,
    /// How many groups were made before it: siblings stand in falling order.
    made: u32,
}

/// Guarded by the tree's lock. Ids; `NIL` ends a list.
#[derive(Clone, Copy)]
struct Links {
    first_child: u32,
    next: u32,
    prev: u32,
    /// [`NIL`] while the record is free.
    children: u32,
}

const NIL: u32 = u32::MAX;

// 96 bytes of node, 24 of owner, 5 to 11 of hash, 16 or more of a long name: below 200 for an idle group.
const _: () = assert!(core::mem::size_of::<Node>() == 96);

// SAFETY: `links` is touched under the tree's lock, `chain` under that of the indexes; the rest is atomic or fixed while the node lives.
unsafe impl Sync for Node {}

impl Node {
    pub(crate) fn parent(&self) -> Option<&Node> {
        // SAFETY: a node holds its parent, so the parent's record lives at least as long.
        unsafe { self.parent.as_ref() }
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_str()
    }

    pub(crate) fn knobs(&self) -> Option<&Knobs> {
        // SAFETY: knobs live as long as their node.
        unsafe { self.knobs.load(Acquire).as_ref() }
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Acquire)
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.load(Acquire)
    }

    fn links(&self, _held: &Guard<'_, State>) -> Links {
        // SAFETY: the tree's lock is held.
        unsafe { *self.links.get() }
    }

    fn edit(&self, _held: &mut Guard<'_, State>, change: impl FnOnce(&mut Links)) {
        // SAFETY: the tree's lock is held, mutably.
        change(unsafe { &mut *self.links.get() });
    }

    /// Whether this is `other` or below it.
    pub(crate) fn is_within(&self, other: &Node) -> bool {
        let mut at = Some(self);
        while let Some(node) = at {
            if core::ptr::eq(node, other) {
                return true;
            }
            at = node.parent();
        }
        false
    }
}

/// What the tree's lock guards besides the nodes' links.
pub(crate) struct State {
    hash: Names,
    owners: Ids,
    groups: u32,
    free: u32,
    high: u32,
    /// Nodes in use, the removed but still held ones too.
    nodes: u32,
    /// Groups ever made.
    made: u32,
    name_bytes: usize,
}

// SAFETY: the hash belongs to this state alone.
unsafe impl Send for State {}

pub(crate) struct Tree {
    table: Table<Node>,
    state: Lock<State>,
    ahead: Ahead,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let (hash, owners) = (Names::new(), Ids::new());
        let state = State { hash, owners, groups: 0, free: NIL, high: 0, nodes: 0, made: 0, name_bytes: 0 };
        Self { table: Table::new(), state: Lock::new(Rank::Tree, state), ahead: Ahead::new() }
    }

    fn node(&self, id: u32) -> &Node {
        let node = self.table.get(id).expect("a node id in use has a record");
        // SAFETY: records are never unmapped before the controller goes; mutable parts are behind the lock.
        unsafe { node.as_ref() }
    }

    /// Bytes of the nodes' records that are resident.
    pub(crate) fn resident(&self) -> usize {
        self.table.resident(self.state.lock().high)
    }

    /// The child of `parent` called `name`, held for the caller.
    pub(crate) fn child(&self, parent: &Node, name: &str) -> Option<NonNull<Node>> {
        let spelled = Spelled::new(parent, name);
        self.ahead.fetch(&spelled);
        let s = self.state.lock();
        let node = self.find(&s, &spelled)?;
        self.hold(node);
        Some(NonNull::from(node))
    }

    /// The first child, or the next one after `after`, held for the caller. Siblings come newest first; those
    /// made during the walk may be missed. Where `after` was removed meanwhile its place is looked for: O(siblings).
    pub(crate) fn next_child(&self, parent: &Node, after: Option<&Node>) -> Option<NonNull<Node>> {
        let s = self.state.lock();
        let id = match after {
            None => parent.links(&s).first_child,
            Some(node) if node.is_removed() => {
                let mut id = parent.links(&s).first_child;
                // By the distance: after four billion groups the numbers begin again.
                while id != NIL && self.node(id).made.wrapping_sub(node.made) as i32 >= 0 {
                    id = self.node(id).links(&s).next;
                }
                id
            }
            Some(node) => node.links(&s).next,
        };
        (id != NIL).then(|| {
            let node = self.node(id);
            self.hold(node);
            NonNull::from(node)
        })
    }

    /// Enters lists into their group's chain.
    pub(crate) fn chain(&self, node: &Node, lists: NonNull<Lists>, _held: &mut Guard<'_, Indexes>) {
        // SAFETY: the lock of the indexes is held.
        chain_in(unsafe { &mut *node.chain.get() }, lists);
    }

    /// Takes lists out of their group's chain.
    pub(crate) fn unchain(&self, owners: &Owners, lists: NonNull<Lists>, _held: &mut Guard<'_, Indexes>) {
        // SAFETY: lists in a chain are in place, and so is their group: it drains its chain before it goes.
        let node = unsafe { &*owners.get(lists.as_ref().owner).node.load(Acquire) };
        // SAFETY: the lock of the indexes is held.
        chain_out(unsafe { &mut *node.chain.get() }, lists);
    }

    /// The lists at the head of a group's chain, which begins one further from now on.
    pub(crate) fn turn_chain(&self, node: &Node, _held: &mut Guard<'_, Indexes>) -> Option<NonNull<Lists>> {
        // SAFETY: the lock of the indexes is held.
        chain_turn(unsafe { &mut *node.chain.get() })
    }

    /// The lists at the head of a group's chain.
    pub(crate) fn first_lists(&self, node: &Node, _held: &Guard<'_, Indexes>) -> Option<NonNull<Lists>> {
        // SAFETY: the lock of the indexes is held.
        NonNull::new(unsafe { *node.chain.get() })
    }

    /// Groups (without the root), and nodes still in the table.
    pub(crate) fn counts(&self) -> (u32, u32) {
        let s = self.state.lock();
        (s.groups, s.nodes)
    }

    /// Owners whose group was removed.
    pub(crate) fn orphans(&self, owners: &Owners) -> u32 {
        owners.forwarded(&self.state.lock().owners)
    }

    /// # Safety
    /// No node is used again.
    pub(crate) unsafe fn drop_table(&self, meta: &Meta) {
        let s = self.state.lock();
        // SAFETY: the caller's promise.
        unsafe { s.hash.free(meta) };
        // SAFETY: the caller's promise.
        unsafe { self.table.release(meta) };
    }
}
