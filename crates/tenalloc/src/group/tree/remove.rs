//! How a group goes: out of the tree at once, out of memory with its last holder.

use super::names::Spelled;
use super::{NIL, Node, Tree};
use crate::controller::Inner;
use crate::error::{Error, Result};
use core::ptr::null_mut;
use core::sync::atomic::Ordering::*;

impl Tree {
    /// Takes a group, which the caller holds, out of the tree: no new charges through its handles, its owner forwarded to
    /// the parent's. Cost: one visit of each CPU where it was used, whatever the number of objects.
    ///
    /// What removals mostly do is one piece of code, and the rest behind calls: where it is in no cache, that counts as much
    /// as the data.
    #[inline(never)]
    pub(crate) fn remove(&self, inner: &Inner, node: &Node) -> Result<()> {
        let Some(parent) = node.parent() else { return Err(Error::Root) };
        let spelled = Spelled::new(parent, node.name());
        self.ahead.fetch(&spelled);
        let mut s = self.state.lock();
        if node.is_removed() {
            return Err(Error::GroupRemoved);
        }
        let links = node.links(&s);
        if links.children > 0 {
            return Err(Error::GroupBusy { children: links.children });
        }
        // Until now the parent had a child, and stayed for that.
        self.hold(parent);
        node.removed.store(true, Release);
        s.hash.take(spelled.hash, node.id);
        parent.edit(&mut s, |l| {
            l.children -= 1;
            if links.prev == NIL {
                l.first_child = links.next;
            }
        });
        if links.prev != NIL {
            self.node(links.prev).edit(&mut s, |l| l.next = links.next);
        }
        if links.next != NIL {
            self.node(links.next).edit(&mut s, |l| l.prev = links.prev);
        }
        s.groups -= 1;
        // Lists first: an item's group is found through its owner.
        let drained = if inner.has_lists(node) { inner.reparent_lists(node, parent) } else { null_mut() };
        let used = inner.owners.forward(&mut s.owners, node.owner, parent.owner);
        inner.drain_owner(node.owner, &used, !drained.is_null());
        if !drained.is_null() {
            // SAFETY: draining visited every CPU.
            unsafe { inner.free_lists(drained) };
        }
        let before = node.holders.fetch_sub(1, Release);
        debug_assert!(before > 1, "the caller holds it");
        Ok(())
    }

    /// One more holder of a node that somebody holds already.
    pub(crate) fn hold(&self, node: &Node) {
        node.holders.fetch_add(1, Relaxed);
    }

    /// A holder lets go. A removed node without holders is free again, and then perhaps its parent's.
    #[inline]
    pub(crate) fn release(&self, inner: &Inner, node: &Node) {
        if node.holders.fetch_sub(1, AcqRel) == 1 {
            self.free(inner, node);
        }
    }

    #[cold]
    fn free(&self, inner: &Inner, mut node: &Node) {
        let mut s = self.state.lock();
        loop {
            let parent = node.parent();
            inner.owners.release(node.owner);
            // SAFETY: nobody holds the node, so nobody uses its knobs or reads its name.
            unsafe { inner.free_knobs(node) };
            // SAFETY: as above.
            unsafe { node.name.free(&inner.meta) };
            s.name_bytes -= node.name.outside();
            let free = s.free;
            node.edit(&mut s, |l| (l.next, l.children) = (free, NIL));
            s.free = node.id;
            s.nodes -= 1;
            match parent.filter(|parent| parent.holders.fetch_sub(1, AcqRel) == 1) {
                Some(parent) => node = parent,
                None => break,
            }
        }
    }
}
