//! What a design says and does, against the plain model.
//!
//! Apart from the driver, which believes the design: here nothing is believed. [`sums`] compares figures and is
//! always called at the end; [`Marks`] watches memory and is kept in a run with `--check` only, because it costs a
//! search for each object.

use super::model::{Model, State};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use tenalloc_designs::{Design, GroupKey};
use tenalloc_trace::Program;
use tenalloc_trace::program::GroupId;

/// A figure that is not what it should be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) what: String,
    pub(super) found: u64,
    pub(super) expected: u64,
}

fn same(found: u64, expected: u64, what: impl FnOnce() -> String) -> Result<(), Wrong> {
    if found == expected { Ok(()) } else { Err(Wrong { what: what(), found, expected }) }
}

/// Every group's exact charge = Σ over its live objects; every cache's objects are those of the trace; the bytes of
/// the caches add up to those of the design. Gives the number of groups compared.
pub(super) fn sums(
    program: &Program,
    model: &Model<'_>,
    keys: &[Option<GroupKey>],
    design: &mut dyn Design,
) -> Result<u64, Wrong> {
    let charges = model.charges();
    let mut groups = 0;
    for (i, (group, key)) in program.groups.iter().zip(keys).enumerate() {
        let (Some(key), Some(State::Alive)) = (key, model.state(GroupId(i as u32))) else { continue };
        same(design.charge(*key), charges[i], || format!("the charge of group {}", group.path))?;
        groups += 1;
    }
    let caches = design.caches();
    same(caches.len() as u64, program.caches.len() as u64, || "the number of caches".into())?;
    for ((usage, expected), cache) in caches.iter().zip(model.cache_objects()).zip(&program.caches) {
        same(usage.objects, *expected, || format!("the number of objects of cache {}", cache.name))?;
    }
    let usage = design.usage();
    same(usage.live, model.live_bytes, || "the sum of live bytes".into())?;
    same(usage.slab, design.slab_bytes(), || "the figure of slab bytes in its usage".into())?;
    same(caches.iter().map(|c| c.slab_bytes).sum(), usage.slab, || {
        "the sum of its caches' slab bytes".into()
    })?;
    Ok(groups)
}

/// Where each live object lies, and what was written into it.
#[derive(Default)]
pub(super) struct Marks {
    places: BTreeMap<usize, Mark>,
    last: u64,
}

struct Mark {
    /// Bytes to the next object.
    slot_size: usize,
    /// Bytes that its user may write.
    usable: usize,
    value: u64,
}

const WORD: usize = size_of::<u64>();

impl Mark {
    /// Offsets at which the value stands: the object's first bytes and its last.
    fn offsets(&self) -> impl Iterator<Item = usize> + use<> {
        let first = (self.usable >= WORD).then_some(0);
        let last = (self.usable >= 2 * WORD).then(|| self.usable - WORD);
        first.into_iter().chain(last)
    }
}

impl Marks {
    /// A new object: it lies apart from all others, and is marked at both ends.
    pub(super) fn put(&mut self, object: NonNull<u8>, slot_size: u32, usable: u32) -> Result<(), Wrong> {
        let (start, slot_size) = (object.as_ptr() as usize, slot_size as usize);
        let before = self.places.range(..start.saturating_add(slot_size)).next_back();
        if let Some((&at, _)) = before.filter(|(at, mark)| **at + mark.slot_size > start) {
            let what = "the address of a new object, where a live one lies,".into();
            return Err(Wrong { what, found: start as u64, expected: at as u64 });
        }
        // Every object differs, so that a stale mark is no good one.
        self.last += 1;
        let value = self.last.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mark = Mark { slot_size, usable: (usable as usize).min(slot_size), value };
        for offset in mark.offsets() {
            // SAFETY: within a live object that nobody else uses; the design promises that it can be written to.
            unsafe { object.add(offset).cast::<u64>().write_unaligned(value) };
        }
        self.places.insert(start, mark);
        Ok(())
    }

    /// An object is about to be freed: its marks are untouched.
    pub(super) fn take(&mut self, object: NonNull<u8>) -> Result<(), Wrong> {
        match self.places.remove(&(object.as_ptr() as usize)) {
            Some(mark) => look(object, &mark),
            None => Ok(()),
        }
    }

    /// All marks of live objects are untouched.
    pub(super) fn look(&self) -> Result<(), Wrong> {
        self.places.iter().try_for_each(|(at, mark)| match NonNull::new(*at as *mut u8) {
            Some(object) => look(object, mark),
            None => Ok(()),
        })
    }
}

fn look(object: NonNull<u8>, mark: &Mark) -> Result<(), Wrong> {
    mark.offsets().try_for_each(|offset| {
        // SAFETY: the object is live still; `put` wrote here.
        let found = unsafe { object.add(offset).cast::<u64>().read_unaligned() };
        same(found, mark.value, || format!("the contents of a live object at its byte {offset}"))
    })
}
