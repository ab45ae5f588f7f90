//! What a trace tells of mounts and lists, once for all designs: which superblocks come and go, and which group uses
//! which list.
//!
//! Three kinds of recordings tell three things, and each is taken for what it is:
//! - Call sites have names, kernel 5.18 or later: superblocks are seen made and freed, and each group's part of a list is
//!   seen made on first use. *Which* list is not told: it is taken to be one of a superblock that the group's own tasks
//!   made, the newest first; when those are used up, one of an older file system, the same for all groups in their order.
//! - Call sites have names, an older kernel: superblocks are seen; lists were made for all groups in advance, so that
//!   their use is not. Each group is taken to use the two lists of each superblock it made, and no other: the least that
//!   can be.
//! - No names: each mount(2) of a new file system is a superblock, used by the group that made it; each umount(2) takes the
//!   group's newest. Name spaces that end unmount without a call: such mounts stay.
//!
//! Lists older than the recording are in the picture where the trace tells their number, or their use.

use std::collections::HashMap;

use tenalloc_trace::Program;
use tenalloc_trace::program::{GroupId, OpKind};

/// A list of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// The n-th that is older than the recording.
    Older(u32),
    /// Of superblock n: its inodes, or else its dentries.
    Of(u32, bool),
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Create(GroupId),
    Remove(GroupId),
    Mount(u32),
    Unmount(u32),
    /// A task of the group, on this CPU, puts the first object on a list.
    Use(GroupId, List, u16),
}

/// An event, and where it stands in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) op: usize,
    pub(super) time: u64,
    pub(super) event: Event,
}

/// All of it.
#[derive(Debug, Default)]
pub(in crate::run) struct Plan {
    /// Lists that stand before the first step.
    pub(super) older: u32,
    pub(super) steps: Vec<Step>,
}

/// What is known while the plan is made.
#[derive(Default)]
struct Known {
    /// Lists of its own superblocks that a group does not use yet.
    unused: HashMap<GroupId, Vec<List>>,
    /// Older lists that a group uses.
    older: HashMap<GroupId, u32>,
    /// Superblocks made by mount(2) alone: those of each group that live.
    mounted: HashMap<GroupId, Vec<u32>>,
    maker: HashMap<u32, GroupId>,
}

impl Plan {
    pub(in crate::run) fn new(program: &Program) -> Self {
        let counts = &program.counts;
        let used = counts.list_uses > 0;
        // Where any function has a name, superblocks would be seen if there were any.
        let seen = used || counts.supers > 0 || counts.own > 0;
        let mut plan = Self {
            older: counts.older_lists.and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
            steps: Vec::new(),
        };
        let mut known = Known::default();
        for (op, o) in program.ops.iter().enumerate() {
            let mut push = |event| plan.steps.push(Step { op, time: o.time, event });
            match o.kind {
                OpKind::Create => push(Event::Create(o.group)),
                OpKind::Remove => push(Event::Remove(o.group)),
                OpKind::Super | OpKind::Mount if seen == (o.kind == OpKind::Super) => {
                    push(Event::Mount(o.slot));
                    let lists = [List::Of(o.slot, false), List::Of(o.slot, true)];
                    if used {
                        known.unused.entry(o.group).or_default().extend(lists);
                        known.maker.insert(o.slot, o.group);
                    } else {
                        lists.into_iter().for_each(|list| push(Event::Use(o.group, list, o.cpu)));
                        known.mounted.entry(o.group).or_default().push(o.slot);
                    }
                }
                OpKind::SuperGone => {
                    push(Event::Unmount(o.slot));
                    if let Some(lists) = known.maker.remove(&o.slot).and_then(|g| known.unused.get_mut(&g)) {
                        lists.retain(|list| !matches!(list, List::Of(n, _) if *n == o.slot));
                    }
                }
                OpKind::Unmount if !seen => {
                    if let Some(n) = known.mounted.get_mut(&o.group).and_then(Vec::pop) {
                        push(Event::Unmount(n));
                    }
                }
                // Parts of the groups above come along with it.
                OpKind::ListUse if o.slot == 0 => {
                    let list = known.unused.get_mut(&o.group).and_then(Vec::pop).unwrap_or_else(|| {
                        let next = known.older.entry(o.group).or_default();
                        *next += 1;
                        List::Older(*next - 1)
                    });
                    push(Event::Use(o.group, list, o.cpu));
                }
                _ => {}
            }
        }
        // Those that are seen in use stood there, too.
        plan.older = plan.older.max(known.older.into_values().max().unwrap_or(0));
        plan
    }
}
