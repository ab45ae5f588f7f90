//! Who owns how much, by plain addition: what every design is held against.

use std::ptr::NonNull;
use tenalloc_trace::Program;
use tenalloc_trace::program::{CacheId, GroupId};

/// What Linux charges an object's group beyond its slot.
pub(super) const OWNER_POINTER: u64 = 8;

/// A live object.
#[derive(Clone, Copy)]
pub(super) struct Live {
    pub(super) object: NonNull<u8>,
    /// The group that it was allocated for.
    pub(super) group: GroupId,
    pub(super) cache: CacheId,
}

/// A group as the trace has it now.
#[derive(Clone, Copy, Default)]
pub(super) struct Own {
    /// Objects allocated for it and live, and their slots' bytes.
    pub(super) objects: u64,
    pub(super) bytes: u64,
    /// What it pays for: its own objects, and those of removed groups below it.
    pub(super) charge: u64,
    pub(super) alive: bool,
}

pub(super) struct Model<'a> {
    program: &'a Program,
    slots: Vec<Option<Live>>,
    groups: Vec<Own>,
    /// Objects without accounting.
    pub(super) nobody: Own,
    pub(super) live_bytes: u64,
    /// Live objects by cache.
    caches: Vec<u64>,
}

impl<'a> Model<'a> {
    pub(super) fn new(program: &'a Program) -> Self {
        let mut groups = vec![Own::default(); program.groups.len()];
        // The fixed rows need no `Create`.
        groups.iter_mut().take(GroupId::FIRST.0 as usize).for_each(|g| g.alive = true);
        Self {
            program,
            slots: vec![None; program.slots as usize],
            groups,
            nobody: Own::default(),
            live_bytes: 0,
            caches: vec![0; program.caches.len()],
        }
    }

    pub(super) fn slot_size(&self, cache: CacheId) -> Option<u64> {
        self.program.caches.get(usize::from(cache.0)).map(|c| u64::from(c.slot_size))
    }

    fn own(&mut self, group: GroupId) -> &mut Own {
        self.groups.get_mut(group.0 as usize).unwrap_or(&mut self.nobody)
    }

    pub(super) fn get(&self, group: GroupId) -> Own {
        self.groups.get(group.0 as usize).copied().unwrap_or(self.nobody)
    }

    /// The group that pays for objects of `group` now; `None`: nobody that is charged.
    fn payer(&self, group: GroupId) -> Option<GroupId> {
        let mut at = group;
        loop {
            let row = self.program.groups.get(at.0 as usize)?;
            if self.groups[at.0 as usize].alive {
                return row.charged.then_some(at);
            }
            at = row.parent?;
        }
    }

    fn count(&mut self, group: GroupId, size: u64, add: bool) {
        let step = |n: &mut u64, by: u64| *n = if add { *n + by } else { *n - by };
        let own = self.own(group);
        step(&mut own.objects, 1);
        step(&mut own.bytes, size);
        if let Some(payer) = self.payer(group) {
            step(&mut self.groups[payer.0 as usize].charge, size + OWNER_POINTER);
        }
        step(&mut self.live_bytes, size);
    }

    /// An object came. False: its slot is taken or unknown.
    pub(super) fn alloc(&mut self, slot: u32, live: Live) -> bool {
        let Some(size) = self.slot_size(live.cache) else { return false };
        match self.slots.get_mut(slot as usize) {
            Some(place @ None) => *place = Some(live),
            _ => return false,
        }
        self.caches[usize::from(live.cache.0)] += 1;
        self.count(live.group, size, true);
        true
    }

    /// An object went.
    pub(super) fn free(&mut self, slot: u32) -> Option<Live> {
        let live = self.slots.get_mut(slot as usize)?.take()?;
        self.caches[usize::from(live.cache.0)] -= 1;
        let size = self.slot_size(live.cache)?;
        self.count(live.group, size, false);
        Some(live)
    }

    pub(super) fn create(&mut self, group: GroupId) {
        self.own(group).alive = true;
    }

    /// A group went: its parent pays from now on.
    pub(super) fn remove(&mut self, group: GroupId) {
        let own = self.own(group);
        own.alive = false;
        let charge = std::mem::take(&mut own.charge);
        if let Some(payer) = self.payer(group) {
            self.groups[payer.0 as usize].charge += charge;
        }
    }

    /// What each group and its descendants pay for, by group.
    pub(super) fn charges(&self) -> Vec<u64> {
        let mut sums = vec![0; self.groups.len()];
        for (i, own) in self.groups.iter().enumerate().filter(|(_, own)| own.charge > 0) {
            let mut at = Some(GroupId(i as u32));
            while let Some(group) = at {
                sums[group.0 as usize] += own.charge;
                at = self.program.groups[group.0 as usize].parent;
            }
        }
        sums
    }

    pub(super) fn live(&self) -> impl Iterator<Item = &Live> {
        self.slots.iter().flatten()
    }

    pub(super) fn cache_objects(&self) -> &[u64] {
        &self.caches
    }
}
