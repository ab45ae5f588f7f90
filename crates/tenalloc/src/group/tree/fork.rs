//! What a fork needs of the tree: its lock, and every record, without walking links.

use super::{Node, Tree};
use crate::lru::lists::Lists;
use crate::sync::Raw;

impl Tree {
    /// Its lock, for a fork.
    pub(crate) fn raw_lock(&self) -> &Raw {
        self.state.raw()
    }

    /// Calls `each` for every record that was ever a group's: those removed have no lists, and knobs only while held.
    ///
    /// # Safety
    /// The caller has the tree's lock and that of the indexes.
    pub(crate) unsafe fn for_each_record(&self, mut each: impl FnMut(&Node, *mut Lists)) {
        // SAFETY: the tree's lock is held, and nothing writes.
        let high = unsafe { self.state.peek().high };
        for id in 0..high {
            let node = self.node(id);
            // SAFETY: the lock of the indexes is held.
            each(node, unsafe { *node.chain.get() });
        }
    }
}
