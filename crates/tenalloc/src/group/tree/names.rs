//! Names of groups: a hash of (parent, name) whose chains go through the nodes.

use super::{Guard, NIL, Node, State, Tree};
use crate::error::{Error, Result};
use crate::meta::Meta;
use core::ptr::NonNull;

impl Tree {
    pub(super) fn find<'a>(&'a self, s: &Guard<'_, State>, parent: &Node, name: &str) -> Option<&'a Node> {
        if s.buckets.is_null() {
            return None;
        }
        // SAFETY: there are `mask + 1` buckets.
        let mut id = unsafe { s.buckets.add((hash(parent.id, name) & s.mask) as usize).read() };
        while id != NIL {
            let node = self.node(id);
            if core::ptr::eq(node.parent, parent) && node.name() == name {
                return Some(node);
            }
            id = self.links(id, s).hash_next;
        }
        None
    }

    pub(super) fn hash_in(&self, s: &mut Guard<'_, State>, id: u32) {
        let node = self.node(id);
        let parent = node.parent().map_or(NIL, |p| p.id);
        let bucket = s.buckets.wrapping_add((hash(parent, node.name()) & s.mask) as usize);
        // SAFETY: there are `mask + 1` buckets, and the lock is held.
        unsafe {
            let first = bucket.read();
            self.edit(id, s, |l| l.hash_next = first);
            bucket.write(id);
        }
    }

    pub(super) fn hash_out(&self, s: &mut Guard<'_, State>, node: &Node) {
        let parent = node.parent().map_or(NIL, |p| p.id);
        let bucket = s.buckets.wrapping_add((hash(parent, node.name()) & s.mask) as usize);
        let after = self.links(node.id, s).hash_next;
        // SAFETY: as in `hash_in`.
        let mut at = unsafe { bucket.read() };
        if at == node.id {
            // SAFETY: as above.
            return unsafe { bucket.write(after) };
        }
        while at != NIL {
            let next = self.links(at, s).hash_next;
            if next == node.id {
                return self.edit(at, s, |l| l.hash_next = after);
            }
            at = next;
        }
    }

    /// Keeps at most one group a bucket on average.
    pub(super) fn grow_buckets(&self, s: &mut Guard<'_, State>, meta: &Meta) -> Result<()> {
        let old = if s.buckets.is_null() { 0 } else { s.mask + 1 };
        if s.groups < old {
            return Ok(());
        }
        let new = (old * 2).max(16);
        let bytes = new as usize * 4;
        let Some(buckets) = meta.alloc(bytes) else {
            // A crowded table is slower, not wrong; without any there is no place for a name.
            return if old > 0 { Ok(()) } else { Err(Error::NoMemory { bytes }) };
        };
        let (old_buckets, old_mask) = (s.buckets, s.mask);
        s.buckets = buckets.as_ptr().cast();
        s.mask = new - 1;
        for i in 0..new as usize {
            // SAFETY: the new array has `new` entries.
            unsafe { s.buckets.add(i).write(NIL) };
        }
        for i in 0..old as usize {
            // SAFETY: the old array has `old` entries.
            let mut id = unsafe { old_buckets.add(i).read() };
            while id != NIL {
                let next = self.links(id, s).hash_next;
                self.hash_in(s, id);
                id = next;
            }
        }
        if let Some(old_buckets) = NonNull::new(old_buckets) {
            // SAFETY: the old array, used no more.
            unsafe { meta.free(old_buckets.cast(), (old_mask as usize + 1) * 4) };
        }
        Ok(())
    }
}

/// FNV-1a over the parent's id and the name, folded: names are short and looked up rarely.
fn hash(parent: u32, name: &str) -> u32 {
    let mut h = 0xcbf2_9ce4_8422_2325u64;
    for b in parent.to_le_bytes().into_iter().chain(name.bytes()) {
        h = (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    }
    (h ^ h >> 32) as u32
}
