//! The one form in which every reader hands over what was recorded.
//!
//! An [`Event`] is 56 bytes and `Copy`: a reader holds a whole perf round of them to put it in time order.
//! Text (cache names, cgroup paths) is interned in [`Names`], since a trace of millions of frees knows
//! a few hundred different names.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// One sample of a tracepoint, whatever file it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Clock of the recording, ns.
    pub(crate) time: u64,
    /// Task that ran; 0 for the idle task.
    pub(crate) tid: i32,
    /// CPU it ran on.
    pub(crate) cpu: u16,
    /// Index into [`Names`]-like table of event names, for counting: see `Recording::events`.
    pub(crate) sample: u16,
    /// In a soft or hard interrupt (`common_flags & 0x18`).
    pub(crate) interrupt: bool,
    /// What happened.
    pub(crate) kind: Kind,
}

/// What an [`Event`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `kmalloc`, `kmem_cache_alloc` and their `_node` twins.
    Alloc(Alloc),
    /// `kfree` (no name) and `kmem_cache_free`.
    Free {
        /// Address of the object; 0 occurs.
        ptr: u64,
        /// Cache, from 6.1 on for `kmem_cache_free`.
        name: Option<Name>,
    },
    /// `sched_process_fork`.
    Fork {
        /// Task that forked.
        parent: i32,
        /// The new task.
        child: i32,
    },
    /// `sched_process_exit` of the event's own task.
    Exit,
    /// `cgroup_attach_task`.
    Attach {
        /// Task that moved.
        pid: i32,
        /// Hierarchy: 0 for cgroup v2.
        root: i32,
        /// Path of the cgroup it moved to.
        path: Name,
    },
    /// `cgroup_mkdir`.
    Mkdir {
        /// Hierarchy: 0 for cgroup v2.
        root: i32,
        /// Path of the new cgroup.
        path: Name,
    },
    /// `cgroup_rmdir`.
    Rmdir {
        /// Hierarchy: 0 for cgroup v2.
        root: i32,
        /// Path of the cgroup removed.
        path: Name,
    },
    /// `sys_enter_mount`, with the flags of mount(2).
    MountEnter {
        /// `MS_*`; 0 where the text does not tell.
        flags: u64,
    },
    /// `sys_exit_mount`.
    MountExit {
        /// What the system call returned.
        ret: i64,
    },
    /// `sys_enter_umount`.
    UmountEnter,
    /// `sys_exit_umount`.
    UmountExit {
        /// What the system call returned.
        ret: i64,
    },
    /// Any other event: counted only.
    Other,
}

/// An allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alloc {
    /// Address of the object; 0 where the allocation failed.
    pub(crate) ptr: u64,
    /// Address of the caller, or the number of its symbol in a text without addresses.
    pub(crate) site: u64,
    /// Bytes of the slot (`bytes_alloc`).
    pub(crate) size: u32,
    /// `__GFP_*` bits; all that slab looks at lie below bit 32.
    pub(crate) gfp: u32,
    /// The cache, where the event names it (6.18).
    pub(crate) name: Option<Name>,
    /// The node asked for, -1 for any.
    pub(crate) node: i16,
    /// From `kmalloc` or `kmalloc_node`.
    pub(crate) kmalloc: bool,
    /// Whether its owner is charged: the event's `accounted`, or `__GFP_ACCOUNT`.
    pub(crate) accounted: bool,
}

/// `___GFP_ACCOUNT`, the same bit from 5.10 to 6.18.
pub(crate) const GFP_ACCOUNT: u32 = 1 << 22;
/// `___GFP_RECLAIMABLE`.
pub(crate) const GFP_RECLAIMABLE: u32 = 1 << 4;
/// `___GFP_DMA`.
pub(crate) const GFP_DMA: u32 = 1;

/// An interned text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name(std::num::NonZeroU32);

impl Name {
    /// Place in [`Names`], from 0.
    pub(crate) fn index(self) -> usize {
        (self.0.get() - 1) as usize
    }
}

/// Every text of a recording, each once.
#[derive(Default)]
pub(crate) struct Names {
    texts: Vec<Box<[u8]>>,
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Names {
    /// The name with these bytes, made if new.
    pub(crate) fn intern(&mut self, bytes: &[u8]) -> Name {
        let hash = self.hasher.hash_one(bytes);
        let (texts, hasher) = (&mut self.texts, &self.hasher);
        let entry = self.places.entry(
            hash,
            |&i| texts.get(i as usize).is_some_and(|t| **t == *bytes),
            |&i| hasher.hash_one(texts.get(i as usize).map_or(&[][..], |t| t)),
        );
        let index = match entry {
            hashbrown::hash_table::Entry::Occupied(e) => *e.get(),
            hashbrown::hash_table::Entry::Vacant(e) => {
                let i = texts.len() as u32;
                e.insert(i);
                texts.push(bytes.into());
                i
            }
        };
        // A recording would need 2^32 different names, so 2^32 samples with one, to wrap this.
        Name(std::num::NonZeroU32::MIN.saturating_add(index))
    }

    /// The text of a name, with what is not UTF-8 replaced.
    pub(crate) fn text(&self, name: Name) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.texts.get(name.index()).map_or(&[][..], |t| t))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_stays_small() {
        assert!(size_of::<Event>() <= 56, "{}", size_of::<Event>());
    }

    #[test]
    fn a_name_is_kept_once() {
        let mut names = Names::default();
        let (a, b, c) = (names.intern(b"dentry"), names.intern(b"filp"), names.intern(b"dentry"));
        assert_eq!(a, c);
        assert_ne!(a, b);
        assert_eq!(names.text(b), "filp");
        for i in 0..1000 {
            names.intern(format!("n{i}").as_bytes());
        }
        assert_eq!(names.intern(b"dentry"), a);
    }
}
