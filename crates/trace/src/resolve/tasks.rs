//! Who pays for a task's objects (rule 3): the cgroup of its last move, of its parent when it was forked, or of the
//! list made before the recording.

use crate::program::GroupId;
use hashbrown::HashMap;

/// The cgroup of each task.
pub(crate) struct Tasks {
    of: HashMap<i32, GroupId>,
}

impl Default for Tasks {
    fn default() -> Self {
        // Number 0 is the idle task of every CPU; it never leaves the root.
        Self { of: HashMap::from([(0, GroupId::ROOT)]) }
    }
}

impl Tasks {
    /// A task was in, or moved to, a group.
    pub(crate) fn put(&mut self, tid: i32, group: GroupId) {
        self.of.insert(tid, group);
    }

    /// A new task is where its parent is. Its number may have been another's before.
    pub(crate) fn fork(&mut self, parent: i32, child: i32) {
        let group = self.owner(parent);
        self.of.insert(child, group);
    }

    /// A task exited: what it still allocates (a SIGCHLD) is charged to nobody.
    pub(crate) fn exit(&mut self, tid: i32) {
        self.of.insert(tid, GroupId::EXITED);
    }

    /// The group of a task.
    #[inline]
    pub(crate) fn owner(&self, tid: i32) -> GroupId {
        self.of.get(&tid).copied().unwrap_or(GroupId::UNKNOWN)
    }
}
