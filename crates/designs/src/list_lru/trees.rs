//! A tree by group id for each list_lru, for D4 and D5; beside [`Arrays`](super::arrays::Arrays), which it replaced.
//!
//! No array, so nothing grows with the number of groups: a list_lru that nobody uses has no node. Ids are those that
//! memory groups have anyway (`memcg->id`), 16 bits, lowest free one first; 0 is nobody and 1 the root.

use super::ledger::Ledger;
use super::link::Link;
use super::tree::{Nodes, Tree};
use crate::Error;
use crate::linux_5_8::ids::KmemIds;

/// The first id that is not the root's.
const FIRST: u32 = 2;
/// `MEM_CGROUP_ID_MAX`.
const LAST: u32 = 65535;

/// All trees of a generation.
pub(super) struct Trees {
    ids: KmemIds, // less FIRST
    lrus: Vec<Option<Tree>>,
    nodes: Nodes,
}

impl Trees {
    /// None.
    pub(super) fn new() -> Self {
        Self { ids: KmemIds::default(), lrus: Vec::new(), nodes: Nodes::new(1) }
    }

    /// The lowest free id.
    pub(super) fn take_id(&mut self) -> Result<u32, Error> {
        let id = self.ids.take()?;
        if id > LAST - FIRST {
            self.ids.put(id);
            return Err(Error::TooMany("living groups: Linux has 65,535 ids, one of them the root's"));
        }
        Ok(id + FIRST)
    }

    /// Gives an id back.
    pub(super) fn put_id(&mut self, id: u32) {
        self.ids.put(id - FIRST);
    }

    /// The next list_lru.
    pub(super) fn add(&mut self) {
        self.lrus.push(Some(Tree::EMPTY));
    }

    /// Frees a list_lru's tree; its entries.
    pub(super) fn remove(&mut self, lru: usize, ledger: &mut Ledger) -> Vec<Link> {
        let tree = self.lrus.get_mut(lru).and_then(Option::take);
        tree.map_or_else(Vec::new, |mut tree| tree.clear(&mut self.nodes, ledger))
    }

    /// The entry of an id: `xa_load()`.
    #[inline]
    pub(super) fn get(&self, lru: usize, id: u32) -> Link {
        let tree = self.lrus.get(lru).and_then(Option::as_ref);
        tree.map_or(Link::NONE, |tree| tree.get(&self.nodes, id))
    }

    /// Publishes an entry: `xa_store()`.
    pub(super) fn insert(&mut self, lru: usize, id: u32, entry: Link, ledger: &mut Ledger) {
        if let Some(Some(tree)) = self.lrus.get_mut(lru) {
            tree.insert(&mut self.nodes, id, entry, ledger);
        }
    }

    /// Takes it out: `xa_erase()`.
    pub(super) fn erase(&mut self, lru: usize, id: u32, ledger: &mut Ledger) -> Link {
        let tree = self.lrus.get_mut(lru).and_then(Option::as_mut);
        tree.map_or(Link::NONE, |tree| tree.remove(&mut self.nodes, id, ledger))
    }

    /// Bytes of nodes allocated by this process.
    pub(super) fn here(&self) -> u64 {
        self.nodes.bytes()
    }
}
