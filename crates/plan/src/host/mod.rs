//! What can be read of a Linux machine without privileges, and what could not be read and why.
//!
//! ```text
//! root.rs     one prefix before /proc and /sys
//! machine.rs  kernel, pages, nodes, CPUs, memory, boot options
//! cgroups.rs  groups: version 1, version 2, both; living and dying
//! mounts.rs   superblocks over all mount namespaces
//! slabs.rs    slab totals; with privileges the caches
//! ```
//! Nothing here fails: a file that is not there, or not as expected, leaves its number unknown and says so.

use std::path::Path;

use serde::Serialize;
use tenalloc_designs::kernel::Version;

use crate::vectors::SlabTable;

mod cgroups;
mod machine;
mod mounts;
mod root;
mod slabs;

/// A number and the file it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read<T> {
    /// What was read.
    pub value: T,
    /// Where.
    pub from: String,
}

/// Something that could not be read, or is to be known about what was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// What was wanted.
    pub what: String,
    /// Why it is missing or uncertain, and what to do.
    pub why: String,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// The release, in full and as a version.
    pub kernel: Option<Read<(String, Version)>>,
    /// Bytes of a page.
    pub page_size: Option<Read<u64>>,
    /// Possible nodes.
    pub nodes: Option<Read<u64>>,
    /// Possible CPUs.
    pub cpus: Option<Read<u64>>,
    /// Bytes of memory.
    pub memory: Option<Read<u64>>,
    /// Bytes of slab pages.
    pub slab: Option<Read<u64>>,
    /// Living memory groups below the root.
    pub groups: Option<Read<u64>>,
    /// Removed ones that are still held.
    pub dying: Option<Read<u64>>,
    /// Superblocks.
    pub mounts: Option<Read<u64>>,
    /// Shrinkers beyond those of the superblocks counted in `mounts`.
    pub extra_shrinkers: Option<Read<u64>>,
    /// Booted with `cgroup.memory=nokmem`.
    pub nokmem: Option<Read<bool>>,
    /// The caches.
    pub slabs: Option<Read<SlabTable>>,
    /// What is missing.
    pub unread: Vec<Unread>,
}

impl Host {
    /// Reads the machine whose `/proc` and `/sys` lie under `root`; `/` is this one.
    pub fn read(root: &Path) -> Self {
        let root = root::Root::at(root);
        let mut host = Self::default();
        machine::read(&root, &mut host);
        cgroups::read(&root, &mut host);
        mounts::read(&root, &mut host);
        slabs::read(&root, &mut host);
        host
    }

    /// Not one number of it could be read: this is no machine.
    pub fn is_empty(&self) -> bool {
        self.kernel.is_none() && self.nodes.is_none() && self.groups.is_none() && self.mounts.is_none()
    }

    fn missing(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.unread.push(Unread { what: what.into(), why: why.into() });
    }
}

#[cfg(test)]
mod tests;
