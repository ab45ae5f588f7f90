//! A world whose pages come from Rust's heap and whose machine is made up, so that miri can look at all of it: it knows
//! neither the library's mappings nor its restartable sequences.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Mutex;
use tenalloc::page::Source;
use tenalloc::{Config, Controller, Group, Topology};

/// Pages of the heap. Unmapping is told no alignment, so it is kept.
struct Heap(Mutex<Option<HashMap<usize, Layout>>>);

impl Source for Heap {
    fn map(&self, bytes: usize, align: usize, _: Option<u8>) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, align).ok()?;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let mut all = self.0.lock().unwrap();
        all.get_or_insert_default().insert(start.as_ptr().expose_provenance(), layout);
        Some(start)
    }

    unsafe fn unmap(&self, start: NonNull<u8>, _: usize) {
        let layout = self.0.lock().unwrap().get_or_insert_default().remove(&start.as_ptr().addr()).unwrap();
        // SAFETY: a whole allocation of `map`.
        unsafe { dealloc(start.as_ptr(), layout) };
    }

    unsafe fn purge(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: inside a mapping, and nobody needs its contents.
        unsafe { start.write_bytes(0, bytes) };
    }
}

/// A controller whose figures are exact, and a group.
pub(crate) fn world() -> (Controller, Group) {
    static HEAP: Heap = Heap(Mutex::new(None));
    let config = Config::new().exact_charges(true).source(&HEAP).topology(Topology::simulated(1, 1));
    let ctl = Controller::new(config).unwrap();
    let group = ctl.root().create("group").unwrap();
    (ctl, group)
}
