//! The objects alive: from pointer to slot, and the sums that do not depend on a design.

use crate::resolve::caches::Origin;
use hashbrown::HashMap;

/// A live object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    /// Its place in the program; `None`: left out (large, or an owner vector).
    pub(crate) step: Option<Step>,
    /// Where it came from, while its cache is not known.
    pub(crate) origin: Option<Origin>,
    /// Bytes of its slot.
    pub(crate) size: u32,
    pub(crate) accounted: bool,
    /// The recorded kernel's own state: see [`Op::own`](crate::program::Op::own).
    pub(crate) own: bool,
    /// The number of the superblock that it is.
    pub(crate) superblock: Option<u32>,
}

/// Where an object stands in the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) op: u32,
    pub(crate) slot: u32,
}

/// Live bytes, and the most there were.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

impl Sum {
    /// True: this is more than ever before.
    #[inline]
    pub(crate) fn peaked(&mut self) -> bool {
        let higher = self.now > self.peak;
        self.peak = self.peak.max(self.now);
        higher
    }
}

/// All live objects.
#[derive(Default)]
pub(crate) struct Objects {
    live: HashMap<u64, Object>,
    free_slots: Vec<u32>,
    slots: u32,
    /// Of every object.
    pub(crate) all: Sum,
    /// Of accounted objects.
    pub(crate) accounted: Sum,
    /// Of objects in the program, without the kernel's own.
    pub(crate) program: Sum,
}

impl Objects {
    /// Take out the object at `ptr`.
    #[inline]
    pub(crate) fn remove(&mut self, ptr: u64) -> Option<Object> {
        let object = self.live.remove(&ptr)?;
        let size = u64::from(object.size);
        self.all.now -= size;
        if object.accounted {
            self.accounted.now -= size;
        }
        if let Some(step) = object.step {
            self.program.now -= if object.own { 0 } else { size };
            self.free_slots.push(step.slot);
        }
        Some(object)
    }

    /// Put an object at `ptr`, where none is.
    #[inline]
    pub(crate) fn insert(&mut self, ptr: u64, object: Object) {
        let size = u64::from(object.size);
        self.all.now += size;
        if object.accounted {
            self.accounted.now += size;
        }
        if object.step.is_some() && !object.own {
            self.program.now += size;
        }
        self.live.insert(ptr, object);
    }

    /// A slot for a new object: the last one freed, else a new one.
    #[inline]
    pub(crate) fn slot(&mut self) -> u32 {
        self.free_slots.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        })
    }

    /// Slots ever in use at once.
    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    /// Objects alive.
    pub(crate) fn len(&self) -> u64 {
        self.live.len() as u64
    }

    /// All live objects, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Object> {
        self.live.values()
    }
}
