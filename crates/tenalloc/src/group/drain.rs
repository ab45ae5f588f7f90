//! What CPUs hold in advance, taken back or left out of account: their stocks, and what their ready objects are charged.

use super::owner::{Entered, Used};
use super::tree::Node;
use crate::controller::Inner;
use core::sync::atomic::Ordering::*;

impl Inner {
    /// Takes `owner`, just forwarded, off the CPUs that entered it, or `all` of them.
    #[inline(always)]
    pub(crate) fn drain_owner(&self, owner: u32, used: &Used, all: bool) {
        if used.entered == Entered::Nowhere && !all {
            return;
        }
        if let (Entered::Only(cpu), false) = (used.entered, all) {
            let mut here = self.lock_cpu();
            if here.cpu() == cpu {
                let mut bytes = here.stock.drain_owner(owner).map_or(0, |slot| slot.bytes.into());
                bytes += self.uncharge_ready_here(&mut here, owner, used);
                // Once for all: each time is a locked addition for each ancestor.
                return self.return_to_tree_inline(owner, bytes);
            }
        }
        self.drain_owner_everywhere(owner);
    }

    #[cold]
    fn drain_owner_everywhere(&self, owner: u32) {
        let mut all = self.areas.lock_all();
        self.uncharge_ready(&mut all, |id| id == owner, |id, bytes| self.return_to_tree(id, bytes));
        for (.., area, _) in all.rows() {
            if let Some(slot) = area.stock.drain_owner(owner) {
                self.return_to_tree(slot.owner, slot.bytes.into());
            }
        }
    }

    /// Returns to the tree what every CPU holds in advance for groups in `node` and below: its stock, and what its ready
    /// objects are charged. With no lock held.
    pub(crate) fn drain_within(&self, node: &Node) {
        self.drain(node, false);
    }

    /// As [`drain_within`](Self::drain_within) the root, and what is waited for is not kept in advance any more.
    pub(super) fn drain_for_waiters(&self) {
        self.drain(self.root_node(), true);
    }

    fn drain(&self, node: &Node, waited: bool) {
        // SAFETY: as in `return_to_tree`; every CPU's lock is held.
        let within = |owner| unsafe { &*self.owners.get(owner).node.load(Acquire) }.is_within(node);
        let mut all = self.areas.lock_all();
        self.uncharge_ready(&mut all, within, |owner, bytes| self.return_to_tree(owner, bytes));
        for (.., area, _) in all.rows() {
            area.waited |= waited;
            area.stock.drain(within, |slot| self.return_to_tree(slot.owner, slot.bytes.into()));
        }
        drop(all);
        self.settle();
    }

    /// Bytes charged to `node` and below without what stocks hold in advance: all CPUs' locks are held together
    /// for the reading, each of which is free unless its CPU is in the middle of an operation.
    pub(crate) fn exact(&self, node: &Node) -> u64 {
        let all = self.areas.lock_all();
        let mut ahead = 0;
        for slot in all.iter().flat_map(|area| area.stock.slots()) {
            // SAFETY: as in `return_to_tree`; every CPU's lock is held.
            let owner = unsafe { &*self.owners.get(slot.owner).node.load(Acquire) };
            if owner.is_within(node) {
                ahead += u64::from(slot.bytes);
            }
        }
        ahead += self.ready_bytes(&all, node);
        node.counter.current() - ahead
    }
}
