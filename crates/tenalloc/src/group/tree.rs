//! The tree of groups: nodes, names, creation, removal, look-up.
//!
//! A node stays in its table until it is removed *and* its last handle is dropped *and* its last child's node
//! is gone; so a node's `parent` is always good to follow.

mod bytes;
#[cfg(not(feature = "loom"))]
mod fork;
mod name;
mod names;

use self::name::Name;
pub(crate) use self::name::Path;
use self::names::{Names, hash};
use super::counter::Counter;
use crate::controller::Inner;
use crate::error::{Error, Result};
use crate::group::knobs::Knobs;
use crate::group::owner::Owners;
use crate::lru::index::Indexes;
use crate::lru::lists::{Lists, chain_in, chain_out, chain_turn};
use crate::meta::Meta;
use crate::sync::{Guard, Lock, Rank};
use crate::table::Table;
use core::cell::UnsafeCell;
use core::ptr::{NonNull, null, null_mut};
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
    /// Handles, and nodes of children.
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
}

impl Tree {
    pub(crate) fn new() -> Self {
        let state =
            State { hash: Names::new(), groups: 0, free: NIL, high: 0, nodes: 0, made: 0, name_bytes: 0 };
        Self { table: Table::new(), state: Lock::new(Rank::Tree, state) }
    }

    fn node(&self, id: u32) -> &Node {
        let node = self.table.get(id).expect("a node id in use has a record");
        // SAFETY: records are never unmapped before the controller goes; mutable parts are behind the lock.
        unsafe { node.as_ref() }
    }

    fn links(&self, id: u32, _held: &Guard<'_, State>) -> Links {
        // SAFETY: the tree's lock is held.
        unsafe { *self.node(id).links.get() }
    }

    fn edit(&self, id: u32, _held: &mut Guard<'_, State>, change: impl FnOnce(&mut Links)) {
        // SAFETY: the tree's lock is held, mutably.
        change(unsafe { &mut *self.node(id).links.get() });
    }

    /// Makes a group; `parent` is `None` once, for the root. The new node has one holder: the caller.
    pub(crate) fn create(&self, inner: &Inner, parent: Option<&Node>, name: &str) -> Result<NonNull<Node>> {
        let bad = name.is_empty()
            || name.len() > NAME_MAX
            || name.contains(['/', '\0'])
            || matches!(name, "." | "..");
        if parent.is_some() && bad {
            return Err(Error::BadName);
        }
        if core::iter::successors(parent, |node| node.parent()).nth(MAX_DEPTH).is_some() {
            return Err(Error::Full { table: "levels of groups" });
        }
        let hash = parent.map_or(0, |p| hash(p, name));
        let mut s = self.state.lock();
        if let Some(p) = parent {
            if p.is_removed() {
                return Err(Error::GroupRemoved);
            }
            if self.find(&s, p, name, hash).is_some() {
                return Err(Error::Exists);
            }
        }
        let id = if s.free == NIL { s.high } else { s.free };
        if parent.is_some() {
            self.make_place(&mut s, id, &inner.meta)?;
        }
        let record = self.table.grow(id, &inner.meta, "groups")?;
        let text = Name::new(name, &inner.meta)?;
        let owner = match inner.owners.create(record, &inner.meta) {
            Ok(owner) => owner,
            Err(e) => {
                // SAFETY: just made.
                unsafe { text.free(&inner.meta) };
                return Err(e);
            }
        };
        // Nothing fails from here on.
        if s.free == NIL {
            s.high += 1;
        } else {
            s.free = self.links(id, &s).next;
        }
        let first = parent.map(|p| self.links(p.id, &s).first_child);
        s.name_bytes += text.outside();
        // SAFETY: the record is free, so nobody else looks at it.
        unsafe {
            record.write(Node {
                counter: Counter::new(),
                parent: parent.map_or(null(), core::ptr::from_ref),
                name: text,
                removed: AtomicBool::new(false),
                owner,
                holders: AtomicU32::new(1),
                id,
                links: UnsafeCell::new(Links {
                    first_child: NIL,
                    next: first.unwrap_or(NIL),
                    prev: NIL,
                    children: 0,
                }),
                chain: UnsafeCell::new(null_mut()),
                knobs: AtomicPtr::new(null_mut()),
                frozen: AtomicBool::new(false),
                made: s.made,
            });
        }
        if let Some(p) = parent {
            p.holders.fetch_add(1, Relaxed);
            if let Some(first) = first.filter(|f| *f != NIL) {
                self.edit(first, &mut s, |l| l.prev = id);
            }
            self.edit(p.id, &mut s, |l| {
                l.first_child = id;
                l.children += 1;
            });
            s.hash.put(hash, id);
            s.groups += 1;
        }
        s.nodes += 1;
        s.made = s.made.wrapping_add(1);
        Ok(record)
    }

    /// Takes a group out of the tree: no new charges through its handles, its owner forwarded to the parent's.
    /// Cost: one visit of each CPU, whatever the number of objects.
    pub(crate) fn remove(&self, inner: &Inner, node: &Node) -> Result<()> {
        let mut s = self.state.lock();
        let Some(parent) = node.parent() else { return Err(Error::Root) };
        if node.is_removed() {
            return Err(Error::GroupRemoved);
        }
        let links = self.links(node.id, &s);
        if links.children > 0 {
            return Err(Error::GroupBusy { children: links.children });
        }
        node.removed.store(true, Release);
        self.hash_out(&mut s, node);
        if links.prev == NIL {
            self.edit(parent.id, &mut s, |l| l.first_child = links.next);
        } else {
            self.edit(links.prev, &mut s, |l| l.next = links.next);
        }
        if links.next != NIL {
            self.edit(links.next, &mut s, |l| l.prev = links.prev);
        }
        self.edit(parent.id, &mut s, |l| l.children -= 1);
        s.groups -= 1;
        // Lists first: an item's group is found through its owner.
        let drained = inner.reparent_lists(node, parent);
        inner.owners.forward(node.owner, parent.owner);
        inner.drain_owner(node.owner);
        // SAFETY: draining the stocks visited every CPU.
        unsafe { inner.free_lists(drained) };
        Ok(())
    }

    /// One more holder of a node that somebody holds already.
    pub(crate) fn hold(&self, node: &Node) {
        node.holders.fetch_add(1, Relaxed);
    }

    /// A holder lets go. A removed node without holders is free again, and then perhaps its parent's.
    pub(crate) fn release(&self, inner: &Inner, node: &Node) {
        // The common case: not the last holder, or not removed.
        let mut seen = node.holders.load(Relaxed);
        while seen > 1 {
            match node.holders.compare_exchange_weak(seen, seen - 1, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
        let mut s = self.state.lock();
        let mut node = node;
        while node.holders.fetch_sub(1, AcqRel) == 1 && node.is_removed() {
            let parent = node.parent();
            inner.owners.release(node.owner);
            // SAFETY: nobody holds the node, so nobody uses its knobs or reads its name.
            unsafe { inner.free_knobs(node) };
            // SAFETY: as above.
            unsafe { node.name.free(&inner.meta) };
            s.name_bytes -= node.name.outside();
            let free = s.free;
            self.edit(node.id, &mut s, |l| l.next = free);
            s.free = node.id;
            s.nodes -= 1;
            match parent {
                Some(parent) => node = parent,
                None => break,
            }
        }
    }

    /// Bytes of the nodes' records that are resident.
    pub(crate) fn resident(&self) -> usize {
        self.table.resident(self.state.lock().high)
    }

    /// The child of `parent` called `name`, held for the caller.
    pub(crate) fn child(&self, parent: &Node, name: &str) -> Option<NonNull<Node>> {
        let s = self.state.lock();
        let node = self.find(&s, parent, name, hash(parent, name))?;
        self.hold(node);
        Some(NonNull::from(node))
    }

    /// The first child, or the next one after `after`, held for the caller. Siblings come newest first; those
    /// made during the walk may be missed. Where `after` was removed meanwhile its place is looked for: O(siblings).
    pub(crate) fn next_child(&self, parent: &Node, after: Option<&Node>) -> Option<NonNull<Node>> {
        let s = self.state.lock();
        let id = match after {
            None => self.links(parent.id, &s).first_child,
            Some(node) if node.is_removed() => {
                let mut id = self.links(parent.id, &s).first_child;
                // By the distance: after four billion groups the numbers begin again.
                while id != NIL && self.node(id).made.wrapping_sub(node.made) as i32 >= 0 {
                    id = self.links(id, &s).next;
                }
                id
            }
            Some(node) => self.links(node.id, &s).next,
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
