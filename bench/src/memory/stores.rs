//! Who takes part in the tables of memory: a peer, with what it does when a group is removed while objects of it live.

use super::Failure;
use super::ours::Ours;
use crate::peers::hand::{Owned, Place, Raw};
use crate::peers::heaps::{Heaped, make};
use crate::peers::library::{Allocator, find};
use crate::peers::table::Heaps;
use crate::peers::{Peer, Policy};
use std::path::Path;
use std::ptr::NonNull;
use tenalloc::Stat;

/// A peer and its groups' end.
pub(super) trait Store: Peer {
    /// Group `group` comes to be. False if there can be no more.
    fn create(&mut self, _group: usize) -> Result<bool, Failure> {
        Ok(true)
    }
    /// Group `group` goes; its live objects, with their sizes, stay usable, at another address if need be.
    fn remove(&mut self, group: usize, alive: &mut [(Self::Object, usize)]);
    /// Gives to the system what can be given. `alive`: all objects that live, with their sizes, which may be moved or go.
    fn purge(&mut self, alive: &mut Vec<(Self::Object, usize)>);
    /// What it says about itself.
    fn stat(&self) -> Option<Stat> {
        None
    }
    /// Where its bytes are: name and bytes of each part.
    fn parts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Something to do with a store, whatever its objects are.
pub(super) trait Visit {
    /// `make` makes the store, without groups yet; it is called once.
    fn visit<S: Store>(self, make: impl FnOnce() -> Result<S, Failure>)
    -> Result<serde_json::Value, Failure>;
}

/// Visits the store of these names.
pub(super) fn with(
    folder: &Path,
    peer: &str,
    policy: &str,
    groups: usize,
    visit: impl Visit,
) -> Result<serde_json::Value, Failure> {
    if let Some(kind) = super::ours::Objects::named(policy) {
        // Handles are the program's, as the addresses of its objects are: their room is not the library's memory.
        let handles = super::tenants::room(groups);
        return visit.visit(|| Ours::new(handles, kind));
    }
    let found = find(peer, folder)?;
    // What an allocator takes for itself at its first call is no group's.
    drop(touch(&found));
    match Policy::named(policy) {
        Some(Policy::Raw) => visit.visit(|| Ok(Bare(Raw::new(&found.table), found))),
        Some(Policy::Header) => visit.visit(|| Ok(Bare(Owned::<false>::new(&found.table, groups), found))),
        Some(Policy::Heap) => {
            let heaps = found.table.heaps.ok_or_else(|| format!("{peer} has no heaps"))?;
            let mut each = super::tenants::room(groups);
            each.resize(groups, 0);
            visit.visit(|| {
                let (peer, raw) = (Heaped::new(&heaps, each), Raw::new(&found.table));
                Ok(Own { peer, heaps, raw, found })
            })
        }
        _ => Err(format!("{policy}: no table of memory has it").into()),
    }
}

fn touch(found: &Allocator) -> impl Drop {
    struct Back(*mut std::ffi::c_void, crate::peers::table::Free);
    impl Drop for Back {
        fn drop(&mut self) {
            // SAFETY: taken below, given back once.
            unsafe { (self.1)(self.0) };
        }
    }
    // SAFETY: malloc has no preconditions.
    Back(unsafe { (found.table.malloc)(64) }, found.table.free)
}

/// One heap for all: nothing moves when a group goes (an owner would be rewritten, in place).
struct Bare<P>(P, Allocator);

impl<P: Peer> Peer for Bare<P> {
    type Object = P::Object;

    fn alloc(&self, group: usize, size: usize) -> P::Object {
        self.0.alloc(group, size)
    }

    fn address(object: P::Object) -> NonNull<u8> {
        P::address(object)
    }

    unsafe fn free(&self, object: P::Object, size: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.free(object, size) };
    }
}

impl<P: Peer> Store for Bare<P> {
    fn remove(&mut self, _: usize, _: &mut [(P::Object, usize)]) {}

    fn purge(&mut self, _: &mut Vec<(Self::Object, usize)>) {
        // SAFETY: it has no preconditions.
        unsafe { (self.1.table.purge)() };
    }
}

/// A heap a group. Where a heap takes its objects with it, survivors are copied to the common one first.
struct Own {
    peer: Heaped,
    heaps: Heaps,
    raw: Raw,
    found: Allocator,
}

impl Peer for Own {
    type Object = Place;

    fn alloc(&self, group: usize, size: usize) -> Place {
        self.peer.alloc(group, size)
    }

    fn address(object: Place) -> NonNull<u8> {
        object.0
    }

    unsafe fn free(&self, object: Place, size: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.peer.free(object, size) };
    }
}

impl Store for Own {
    fn create(&mut self, group: usize) -> Result<bool, Failure> {
        let heap = make(&self.heaps, 1).first().copied().unwrap_or(0);
        self.peer.each[group] = heap;
        Ok(heap != 0)
    }

    fn remove(&mut self, group: usize, alive: &mut [(Place, usize)]) {
        if !self.heaps.survive {
            for (object, size) in alive {
                let copy = self.raw.alloc(0, *size);
                // SAFETY: both hold `size` bytes; the old one is live until here and used by nobody from here on.
                unsafe {
                    copy.0.copy_from_nonoverlapping(object.0, *size);
                    self.peer.free(*object, *size);
                }
                *object = copy;
            }
        }
        // SAFETY: each heap is deleted once.
        unsafe { (self.heaps.delete)(self.peer.each[group]) };
    }

    fn purge(&mut self, _: &mut Vec<(Self::Object, usize)>) {
        // SAFETY: it has no preconditions.
        unsafe { (self.found.table.purge)() };
    }
}
