//! What the tree takes, and what of it can be given back.

use super::{NIL, Tree};
use crate::group::owner::Owners;
use crate::meta::Meta;

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

    /// Gives back the memory of records behind the last node, and the last owner. Bytes.
    pub(crate) fn trim(&self, owners: &Owners, meta: &Meta) -> usize {
        let mut s = self.state.lock();
        let given = owners.trim(&mut s.owners, meta);
        let touched = s.high;
        while s.high > 1 && self.node(s.high - 1).links(&s).children == NIL {
            s.high -= 1;
        }
        let (mut at, mut kept) = (s.free, NIL);
        while at != NIL && s.high < touched {
            let next = self.node(at).links(&s).next;
            if at < s.high {
                self.node(at).edit(&mut s, |l| l.next = kept);
                kept = at;
            }
            at = next;
        }
        if s.high < touched {
            s.free = kept;
        }
        // SAFETY: free records, which are written whole before they are used again.
        given + unsafe { self.table.shrink(s.high, touched, meta) }
    }
}
