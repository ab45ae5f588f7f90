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

/// Where a group is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Never,
    Alive,
    Removed,
}

/// A group as the trace has it now.
#[derive(Clone, Copy, Default)]
pub(super) struct Own {
    /// Objects allocated for it and live, and their slots' bytes.
    pub(super) objects: u64,
    pub(super) bytes: u64,
    /// What it pays for: its own objects, and those of removed groups below it.
    charge: u64,
    /// Living groups whose nearest living group above is this one.
    children: u32,
    pub(super) state: State,
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
    /// Nothing yet. Every group's parent must come before it in the program.
    pub(super) fn new(program: &'a Program) -> Self {
        let mut groups = vec![Own::default(); program.groups.len()];
        // The fixed rows need no `Create`.
        groups.iter_mut().take(GroupId::FIRST.0 as usize).for_each(|g| g.state = State::Alive);
        Self {
            program,
            slots: vec![None; program.slots as usize],
            groups,
            nobody: Own::default(),
            live_bytes: 0,
            caches: vec![0; program.caches.len()],
        }
    }

    pub(super) fn slot_size(&self, cache: CacheId) -> Option<u32> {
        self.program.caches.get(usize::from(cache.0)).map(|c| c.slot_size)
    }

    /// `None`: the program has no such group.
    pub(super) fn state(&self, group: GroupId) -> Option<State> {
        self.groups.get(group.0 as usize).map(|g| g.state)
    }

    fn own(&mut self, group: GroupId) -> &mut Own {
        self.groups.get_mut(group.0 as usize).unwrap_or(&mut self.nobody)
    }

    pub(super) fn get(&self, group: GroupId) -> Own {
        self.groups.get(group.0 as usize).copied().unwrap_or(self.nobody)
    }

    fn parent(&self, group: GroupId) -> Option<GroupId> {
        self.program.groups.get(group.0 as usize)?.parent
    }

    /// The group itself, or the nearest above it that lives; `None`: none does.
    pub(super) fn living(&self, group: GroupId) -> Option<GroupId> {
        let mut at = group;
        while self.state(at)? != State::Alive {
            at = self.parent(at)?;
        }
        Some(at)
    }

    /// The nearest living group above this one.
    pub(super) fn above(&self, group: GroupId) -> Option<GroupId> {
        self.living(self.parent(group)?)
    }

    /// The group that pays for objects of `group` now; `None`: nobody that is charged.
    fn payer(&self, group: GroupId) -> Option<GroupId> {
        self.living(group).filter(|g| self.program.groups[g.0 as usize].charged)
    }

    fn count(&mut self, group: GroupId, size: u32, add: bool) {
        let size = u64::from(size);
        let step = |n: &mut u64, by: u64| *n = if add { *n + by } else { *n - by };
        let own = self.own(group);
        step(&mut own.objects, 1);
        step(&mut own.bytes, size);
        if let Some(payer) = self.payer(group) {
            step(&mut self.groups[payer.0 as usize].charge, size + OWNER_POINTER);
        }
        step(&mut self.live_bytes, size);
    }

    /// An object came. False: its slot is taken, or slot or cache are unknown.
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
        self.own(group).state = State::Alive;
        if let Some(above) = self.above(group) {
            self.own(above).children += 1;
        }
    }

    /// A living group went: its parent pays from now on.
    pub(super) fn remove(&mut self, group: GroupId) {
        let own = self.own(group);
        own.state = State::Removed;
        let charge = std::mem::take(&mut own.charge);
        if let Some(above) = self.above(group) {
            let above = self.own(above);
            above.children = above.children.saturating_sub(1);
        }
        if let Some(payer) = self.payer(group) {
            self.groups[payer.0 as usize].charge += charge;
        }
    }

    /// A living group right below `group`, removed ones between them left out.
    pub(super) fn child(&self, group: GroupId) -> Option<GroupId> {
        if self.get(group).children == 0 {
            return None;
        }
        let below = group.0 as usize + 1..self.groups.len();
        below
            .map(|i| GroupId(i as u32))
            .find(|&child| self.state(child) == Some(State::Alive) && self.above(child) == Some(group))
    }

    /// What each group and its descendants pay for, by group.
    pub(super) fn charges(&self) -> Vec<u64> {
        let mut sums: Vec<u64> = self.groups.iter().map(|own| own.charge).collect();
        // Parents come before their children: from the end, each sum is whole when it is passed on.
        for i in (0..sums.len()).rev() {
            if let Some(parent) = self.program.groups[i].parent {
                sums[parent.0 as usize] += sums[i];
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
