//! The only place that touches what lies below the designs: pages of a node, and groups that count bytes.
//!
//! Until the core crate lands this is a stand-in over `std::alloc` and a plain tree of counters, with the calls that
//! the core crate offers and no others, so that it can become a thin layer without a change above it.

use core::ptr::NonNull;
use std::alloc::Layout;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Bytes of a page of the engine, whatever the page of the recorded machine.
pub(crate) const PAGE: usize = 4096;

/// Runs are aligned to their size, up to this.
const MAX_ALIGN: usize = 64 * 1024;

/// Why the memory or the groups refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system has no such run of pages.
    #[error("no memory: {pages} pages of node {node}")]
    NoPages {
        /// Pages asked for, of 4,096 bytes.
        pages: usize,
        /// Node asked for.
        node: u8,
    },
    /// A counter would pass what it can hold.
    #[error("a charge of {0} bytes is too much")]
    Charge(u64),
    /// A call for a group that is gone or still has children, or a name that is taken.
    #[error("the group {0:?} cannot do that")]
    Group(String),
}

/// Pages and groups of one run. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Engine {
    runs: Rc<RefCell<HashMap<usize, Layout>>>,
    tree: Rc<RefCell<Vec<Counter>>>,
    nodes: u8,
}

struct Counter {
    parent: Option<usize>,
    name: String,
    bytes: u64,
    children: usize,
    removed: bool,
}

impl Engine {
    /// An engine of `nodes` nodes and `cpus` CPUs.
    pub(crate) fn new(nodes: u8, _cpus: u16) -> Result<Self, Error> {
        let engine = Self { nodes, ..Self::default() };
        engine.tree.borrow_mut().push(Counter {
            parent: None,
            name: String::new(),
            bytes: 0,
            children: 0,
            removed: false,
        });
        Ok(engine)
    }

    /// A run of `count` pages of `node`, charged to nobody.
    pub(crate) fn pages(&self, count: usize, node: u8) -> Result<NonNull<u8>, Error> {
        let refused = || Error::NoPages { pages: count, node };
        let bytes = count.checked_mul(PAGE).filter(|&b| b > 0 && node < self.nodes).ok_or_else(refused)?;
        let align = bytes.checked_next_power_of_two().ok_or_else(refused)?.min(MAX_ALIGN);
        let layout = Layout::from_size_align(bytes, align).map_err(|_| refused())?;
        // SAFETY: the layout has a size above 0.
        let run = NonNull::new(unsafe { std::alloc::alloc(layout) }).ok_or_else(refused)?;
        self.runs.borrow_mut().insert(run.as_ptr().addr(), layout);
        Ok(run)
    }

    /// Gives a run back.
    ///
    /// # Safety
    /// `run` came from [`pages`](Self::pages) and nothing in it is used any more.
    pub(crate) unsafe fn free_pages(&self, run: NonNull<u8>) {
        if let Some(layout) = self.runs.borrow_mut().remove(&run.as_ptr().addr()) {
            // SAFETY: allocated by `pages` with this layout, and taken out of the table, so that it is freed once.
            unsafe { std::alloc::dealloc(run.as_ptr(), layout) }
        }
    }

    /// The root of the groups.
    pub(crate) fn root(&self) -> Group {
        Group { tree: self.tree.clone(), id: 0 }
    }

    /// Runs handed out and not given back.
    #[cfg(test)]
    pub(crate) fn runs(&self) -> usize {
        self.runs.borrow().len()
    }
}

/// A memory group.
pub(crate) struct Group {
    tree: Rc<RefCell<Vec<Counter>>>,
    id: usize,
}

impl Group {
    /// A child.
    pub(crate) fn create(&self, name: &str) -> Result<Group, Error> {
        let mut tree = self.tree.borrow_mut();
        let id = tree.len();
        let taken = |c: &Counter| !c.removed && c.parent == Some(self.id) && c.name == name;
        if tree[self.id].removed || tree.iter().any(taken) {
            return Err(Error::Group(name.to_owned()));
        }
        tree[self.id].children += 1;
        tree.push(Counter {
            parent: Some(self.id),
            name: name.to_owned(),
            bytes: 0,
            children: 0,
            removed: false,
        });
        Ok(Group { tree: self.tree.clone(), id })
    }

    /// Removes it: what it was charged stays with its ancestors, its owners speak for the parent.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        let mut tree = self.tree.borrow_mut();
        let group = &mut tree[self.id];
        let (true, Some(parent)) = (!group.removed && group.children == 0, group.parent) else {
            return Err(Error::Group(group.name.clone()));
        };
        group.removed = true;
        tree[parent].children -= 1;
        Ok(())
    }

    /// The handle through which objects charge.
    pub(crate) fn owner(&self) -> Owner {
        Owner { tree: self.tree.clone(), id: self.id }
    }

    /// Bytes charged to it and its descendants, exact.
    pub(crate) fn exact(&self) -> u64 {
        self.tree.borrow()[self.id].bytes
    }
}

/// What an object (here: a slab) knows of its group. Survives the group.
#[derive(Clone)]
pub(crate) struct Owner {
    tree: Rc<RefCell<Vec<Counter>>>,
    id: usize,
}

impl Owner {
    /// Charges up the tree, or not at all.
    pub(crate) fn try_charge(&self, bytes: u64) -> Result<(), Error> {
        let mut tree = self.tree.borrow_mut();
        if tree[0].bytes.checked_add(bytes).is_none() {
            return Err(Error::Charge(bytes));
        }
        let mut at = Some(self.id);
        while let Some(id) = at {
            // A removed group counts no more, its ancestors held its bytes all along.
            if !tree[id].removed {
                tree[id].bytes += bytes;
            }
            at = tree[id].parent;
        }
        Ok(())
    }

    /// Takes a charge back.
    pub(crate) fn uncharge(&self, bytes: u64) {
        let mut tree = self.tree.borrow_mut();
        let mut at = Some(self.id);
        while let Some(id) = at {
            if !tree[id].removed {
                tree[id].bytes = tree[id].bytes.saturating_sub(bytes);
            }
            at = tree[id].parent;
        }
    }
}
