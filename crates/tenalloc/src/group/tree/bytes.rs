//! What the tree takes, and what of it can be given back.

use super::{NIL, Tree};
use crate::meta::Meta;
use core::sync::atomic::Ordering::Relaxed;

/// Bytes of the tree.
pub(crate) struct Parts {
    pub(crate) nodes: usize,
    pub(crate) names: usize,
    pub(crate) hash: usize,
}

impl Tree {
    /// Bytes of its parts that are resident: the nodes' records, names, hash.
    pub(crate) fn parts(&self) -> Parts {
        let s = self.state.lock();
        Parts { nodes: self.table.resident(s.high), names: s.name_bytes, hash: s.hash.bytes() }
    }

    /// Gives back the memory of records behind the last node. Bytes.
    pub(crate) fn trim(&self, meta: &Meta) -> usize {
        let mut s = self.state.lock();
        // Nodes become free under the lock.
        let is_free = |id: u32| self.node(id).is_removed() && self.node(id).holders.load(Relaxed) == 0;
        let touched = s.high;
        while s.high > 1 && is_free(s.high - 1) {
            s.high -= 1;
        }
        let (mut at, mut kept) = (s.free, NIL);
        while at != NIL && s.high < touched {
            let next = self.links(at, &s).next;
            if at < s.high {
                self.edit(at, &mut s, |l| l.next = kept);
                kept = at;
            }
            at = next;
        }
        if s.high < touched {
            s.free = kept;
        }
        // SAFETY: free records, which are written whole before they are used again.
        unsafe { self.table.shrink(s.high, touched, meta) }
    }
}
