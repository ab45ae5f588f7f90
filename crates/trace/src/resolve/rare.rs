//! The events that are rare and change who pays: moves, groups made and removed; and mounts. Apart from `stream`, which
//! has the two events that come by the million.

use super::stream::Resolver;
use crate::program::GroupId;
use crate::program::OpKind;
use crate::read::event::{Event, Kind, Names};

/// mount(2) flags that make no new mount of a file system: REMOUNT, BIND, MOVE, UNBINDABLE, PRIVATE, SLAVE, SHARED.
const NO_NEW_MOUNT: u64 = 32 | 4096 | 8192 | 1 << 17 | 1 << 18 | 1 << 19 | 1 << 20;

impl Resolver {
    /// Moves, groups and mounts.
    pub(super) fn rare(&mut self, e: &Event, time: u64, names: &Names) {
        match e.kind {
            Kind::Attach { root, .. } | Kind::Mkdir { root, .. } | Kind::Rmdir { root, .. }
                if root != self.hierarchy =>
            {
                self.other_hierarchy += 1;
            }
            Kind::Attach { pid, path, .. } => {
                self.ours += 1;
                match self.named(e, time, &names.text(path)) {
                    Some(group) => self.tasks.put(pid, group),
                    None => self.bad_paths += 1,
                }
            }
            Kind::Mkdir { path, .. } => {
                self.ours += 1;
                self.mkdir(e, time, &names.text(path));
            }
            Kind::Rmdir { path, .. } => {
                self.ours += 1;
                let group = self.groups.rmdir(&names.text(path), time);
                self.late_groups(e, time);
                if let Some(group) = group {
                    self.push(time, 0, group, e.cpu, OpKind::Remove);
                }
            }
            Kind::MountEnter { flags } => {
                self.mounting.insert(e.tid, flags);
            }
            Kind::MountExit { ret } => {
                let flags = self.mounting.remove(&e.tid).unwrap_or(0);
                if ret == 0 && flags & NO_NEW_MOUNT == 0 {
                    self.push(time, self.mounts, self.owner(e), e.cpu, OpKind::Mount);
                    self.mounts += 1;
                }
            }
            Kind::UmountEnter => {
                self.unmounting.insert(e.tid, self.ops.len() as u32);
                self.push(time, self.unmounts, self.owner(e), e.cpu, OpKind::Unmount);
                self.unmounts += 1;
            }
            // Recordings without this event count every call as done.
            Kind::UmountExit { ret } => {
                if let Some(op) = self.unmounting.remove(&e.tid).filter(|_| ret != 0) {
                    self.cancelled.push(op);
                }
            }
            _ => {}
        }
    }

    fn named(&mut self, e: &Event, time: u64, path: &str) -> Option<GroupId> {
        let group = self.groups.named(path, time);
        self.late_groups(e, time);
        group
    }

    /// Make the groups whose mkdir was lost.
    fn late_groups(&mut self, e: &Event, time: u64) {
        for group in self.groups.late() {
            self.push(time, 0, group, e.cpu, OpKind::Create);
        }
    }

    fn mkdir(&mut self, e: &Event, time: u64, path: &str) {
        if self.reading_ends.is_some_and(|end| e.time <= end) {
            let charged = &self.charged;
            self.groups.not_before(path, time, |g| charged.get(g.0 as usize).is_some_and(|c| *c));
        }
        let made = self.groups.mkdir(path, time);
        self.late_groups(e, time);
        let Some(made) = made else {
            self.bad_paths += 1;
            return;
        };
        if let Some(old) = made.replaced {
            self.replaced_groups += 1;
            self.push(time, 0, old, e.cpu, OpKind::Remove);
        }
        // The new group's structures belong to its parent; they were made before the event.
        for op in self.making.remove(&e.tid).unwrap_or_default() {
            if let Some(op) = self.ops.get_mut(op as usize) {
                op.group = made.parent;
            }
            self.charge(made.parent);
        }
        if !made.known {
            self.push(time, 0, made.group, e.cpu, OpKind::Create);
        }
    }

    /// Structures of groups whose mkdir never came: their owner stays unknown.
    pub(super) fn settle_making(&mut self) {
        self.unknown_owner += self.making.drain().map(|m| m.1.len() as u64).sum::<u64>();
    }
}
