//! The life of lists: made for a group and all above it on first use, drained into the parent's when it goes.

use super::index::Record;
use super::lists::{Lists, chain_in, chain_out, ring};
use crate::controller::Inner;
use crate::error::{Error, Result};
use crate::group::tree::Node;
use crate::group::{Group, GroupStat};
use crate::lru::ListLru;
use crate::meta::Meta;
use crate::sync::Rank;
use core::ptr::{NonNull, null_mut};

impl Inner {
    /// Whether a group has lists. Its ancestors have them then, too.
    pub(crate) fn has_lists(&self, node: &Node) -> bool {
        self.tree.first_lists(node, &self.indexes.lock()).is_some()
    }

    /// How many families a group has lists in.
    pub(crate) fn number_of_lists(&self, node: &Node) -> usize {
        let held = self.indexes.lock();
        self.tree.first_lists(node, &held).map_or(0, |first| ring(first, &held).count())
    }

    /// Adds a group's own lists to `stat`.
    pub(crate) fn count_lists(&self, node: &Node, stat: &mut GroupStat) {
        let held = self.indexes.lock();
        let nodes = self.topology.nodes();
        for lists in self.tree.first_lists(node, &held).into_iter().flat_map(|first| ring(first, &held)) {
            stat.lists += u64::from(nodes);
            stat.list_bytes += Meta::rounded(Lists::bytes(nodes)) as u64;
            for n in 0..nodes {
                // SAFETY: lists on a ring are in place while the lock of the indexes is held.
                stat.listed += u64::from(unsafe { Lists::list(lists, n) }.lock().number);
            }
        }
    }

    /// The next family that `group` has lists in, in turn; `None` if it is just going.
    pub(crate) fn turn_lists(&self, group: &Group) -> Option<ListLru> {
        let mut held = self.indexes.lock();
        let lists = self.tree.turn_chain(group.node(), &mut held)?;
        // SAFETY: lists in a chain are in place, and so is their family, while the lock of the indexes is held.
        let lru = NonNull::from(unsafe { &*lists.as_ref().lru });
        ListLru::revive(group.controller(), lru)
    }

    /// Makes sure that `node` and all its ancestors have lists in `lru`.
    pub(crate) fn prepare_lists(&self, lru: &Record, node: &Node) -> Result<()> {
        {
            let _cpu = self.lock_cpu();
            if lru.find(self, node.owner).is_some() {
                return Ok(());
            }
        }
        let mut held = self.indexes.lock();
        // The farthest first: a group that goes must find its parent's lists.
        while let Some(missing) = self.farthest_missing(lru, node) {
            if missing.is_removed() {
                // Its objects are its parent's by now, whose lists are there.
                return Ok(());
            }
            let bytes = Lists::bytes(self.topology.nodes());
            let lists = Lists::create(lru, missing.owner, self.topology.nodes(), &self.meta);
            let lists = lists.ok_or(Error::NoMemory { bytes })?;
            if let Err(e) = lru.publish(self, lists, &mut held) {
                // SAFETY: published nowhere.
                unsafe { Lists::destroy(lists, &self.meta) };
                return Err(e);
            }
            self.tree.chain(missing, lists, &mut held);
        }
        Ok(())
    }

    fn farthest_missing<'a>(&self, lru: &Record, node: &'a Node) -> Option<&'a Node> {
        let mut farthest = None;
        let mut at = Some(node);
        while let Some(n) = at.filter(|n| n.parent().is_some()) {
            if lru.find(self, n.owner).is_none() {
                farthest = Some(n);
            }
            at = n.parent();
        }
        farthest
    }

    /// Gives every list of a group that goes to its parent: drain, mark dead, unpublish. Returns the ring of what is
    /// to be freed once every CPU was visited. Nobody makes new lists for the group: it is marked removed.
    pub(crate) fn reparent_lists(&self, node: &Node, parent: &Node) -> *mut Lists {
        let mut held = self.indexes.lock();
        let mut done = null_mut();
        while let Some(lists) = self.tree.first_lists(node, &held) {
            // SAFETY: lists on a chain are in place, and so is their ListLru.
            let lru = unsafe { &*lists.as_ref().lru };
            if let Some(heir) = lru.find(self, parent.owner) {
                for n in 0..self.topology.nodes() {
                    // SAFETY: both are in place; the lock of the indexes is held.
                    let (child, heir) = unsafe { (Lists::list(lists, n), Lists::list(heir, n)) };
                    let mut child = child.lock();
                    child.drain_into(&mut heir.lock_as(Rank::ParentList));
                }
            }
            lru.unpublish(node.owner);
            lru.shrink(self, &mut held);
            self.tree.unchain(&self.owners, lists, &mut held);
            chain_in(&mut done, lists);
        }
        done
    }

    /// Frees what [`reparent_lists`](Self::reparent_lists) took out.
    ///
    /// # Safety
    /// Every CPU's lock was visited since.
    pub(crate) unsafe fn free_lists(&self, mut ring: *mut Lists) {
        while let Some(lists) = NonNull::new(ring) {
            chain_out(&mut ring, lists);
            // SAFETY: the caller's promise: no reader is left.
            unsafe { Lists::destroy(lists, &self.meta) };
        }
    }
}
