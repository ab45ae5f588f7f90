//! `steady.txt` and `side.tsv`: the kernel's own counters at named moments, to hold a replay against.
//!
//! ```text
//! /g/c0013 413696 kernel 258048 … slab_unreclaimable 55424 slab 170568      one line for each memory group
//! ## /proc/meminfo                                                          then these files, each after its name
//! ## /proc/slabinfo
//! ## /sys/devices/system/node/node0/meminfo                                 … of every node
//! # before 21.014364933 memcgs_read 21.031179161 end 21.042521488           names the moment of all lines above
//! ```
//!
//! The groups come first and their times are the tightest. A space in a group's path is written `\040`. On v2 the
//! number after the path is `memory.current`; on v1 it is `memory.usage_in_bytes`, and the names are `kmem` (all
//! kernel memory, `memory.kmem.usage_in_bytes`) and those of v1's `memory.stat`, which has no slab bytes.
//!
//! `side.tsv` has a row for each stamp at its time and one with `_end` at the end of its reading, both on
//! CLOCK_MONOTONIC, the clock of the trace. All stamps are taken while perf records, `before` and `after` too:
//! a counter can be compared with a trace only at a moment that lies inside it.

use crate::cgroup::{Hierarchy, Version};
use crate::nodes::node_folders;
use crate::root::Root;
use crate::settle::settle;
use crate::tasks::field;
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The heading of `side.tsv`.
pub(crate) const SIDE_HEAD: &str = "ts_mono\top\ttid\tcontainer\tfstype\ttarget\n";

const V2_NAMES: &[&str] =
    &["kernel", "kernel_stack", "pagetables", "percpu", "slab_reclaimable", "slab_unreclaimable", "slab"];
const V1_NAMES: &[&str] =
    &["cache", "rss", "shmem", "mapped_file", "total_cache", "total_rss", "total_shmem"];

/// A moment on CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(i64, i64);

impl Moment {
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        Moment(now.tv_sec, now.tv_nsec)
    }

    /// Seconds, for durations and JSON.
    pub(crate) fn seconds(self) -> f64 {
        self.0 as f64 + self.1 as f64 * 1e-9
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:09}", self.0, self.1)
    }
}

/// What one reading of the counters gave.
#[derive(Debug)]
pub(crate) struct Stamp {
    /// Lines for `steady.txt`.
    pub(crate) steady: String,
    /// Rows for `side.tsv`.
    pub(crate) side: String,
    /// Groups read.
    pub(crate) groups: usize,
}

/// Settles the counters and reads them.
pub(crate) fn stamp(root: &Root, hierarchy: Option<&Hierarchy>, page_size: u64, label: &str) -> Stamp {
    let folders = hierarchy.map(|hierarchy| folders(root, hierarchy)).unwrap_or_default();
    let mut steady = String::new();
    if let Some(hierarchy) = hierarchy {
        // Once for nothing: from now on the files' dentries and inodes exist and the reading allocates less.
        groups(root, hierarchy, &folders);
        settle(root, hierarchy, page_size);
    }
    let start = Moment::now();
    let lines = hierarchy.map(|hierarchy| groups(root, hierarchy, &folders)).unwrap_or_default();
    let read = Moment::now();
    let groups = lines.len();
    steady.extend(lines);
    let mut files = vec![String::from("/proc/meminfo"), String::from("/proc/slabinfo")];
    files.extend(node_folders(root).into_iter().map(|(_, folder)| format!("{folder}/meminfo")));
    for file in files {
        if let Ok(text) = root.read(&file) {
            let _ = write!(steady, "## {file}\n{text}");
        }
    }
    let end = Moment::now();
    let _ = writeln!(steady, "# {label} {start} memcgs_read {read} end {end}");
    let side = format!("{start}\t{label}\t0\t\t\t\n{end}\t{label}_end\t0\t\t\t\n");
    Stamp { steady, side, groups }
}

/// The folders of all groups of the hierarchy, parents before children, with their paths in it.
fn folders(root: &Root, hierarchy: &Hierarchy) -> Vec<(String, PathBuf)> {
    let Some(mount) = &hierarchy.mount else { return Vec::new() };
    let mut found = vec![(String::from("/"), mount.clone())];
    let mut next = 0;
    while let Some((path, folder)) = found.get(next).cloned() {
        next += 1;
        for name in root.names(&folder) {
            let below = folder.join(&name);
            // Only folders are groups; a link in a cgroup file system does not exist.
            if root.path(&below).is_dir() {
                found.push((format!("{}/{name}", path.trim_end_matches('/')), below));
            }
        }
    }
    found
}

fn groups(root: &Root, hierarchy: &Hierarchy, folders: &[(String, PathBuf)]) -> Vec<String> {
    folders.iter().filter_map(|(path, folder)| line(root, hierarchy.version, path, folder)).collect()
}

/// A group's line; nothing for one without the memory controller, or removed meanwhile.
fn line(root: &Root, version: Version, path: &str, folder: &Path) -> Option<String> {
    let (usage, names) = match version {
        Version::V2 => ("memory.current", V2_NAMES),
        Version::V1 => ("memory.usage_in_bytes", V1_NAMES),
    };
    let mut text = format!("{} {}", field(path).replace(' ', "\\040"), root.word(folder.join(usage))?);
    if version == Version::V1
        && let Some(kmem) = root.word(folder.join("memory.kmem.usage_in_bytes"))
    {
        let _ = write!(text, " kmem {kmem}");
    }
    for entry in root.read(folder.join("memory.stat")).ok()?.lines() {
        if entry.split(' ').next().is_some_and(|name| names.contains(&name)) {
            let _ = write!(text, " {entry}");
        }
    }
    text.push('\n');
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::Machine;

    #[test]
    fn a_v2_stamp_reads_as_those_of_the_shared_traces() {
        let machine = Machine::new(&[
            ("/cg/memory.stat", "slab 9\n"),
            ("/cg/g a/memory.current", "4096\n"),
            ("/cg/g a/memory.stat", "anon 5\nkernel 3\nslab_reclaimable 1\nslab_unreclaimable 1\nslab 2\n"),
            ("/cg/g a/sub/memory.current", "0\n"),
            ("/cg/g a/sub/memory.stat", "slab 0\n"),
            ("/cg/off/cgroup.procs", ""),
            ("/proc/meminfo", "MemTotal: 1 kB\n"),
            ("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 1 kB\n"),
        ]);
        let hierarchy = Hierarchy { id: 0, version: Version::V2, mount: Some("/cg".into()) };
        let stamp = stamp(&machine.root(), Some(&hierarchy), 4096, "before");
        let (text, last) = stamp.steady.trim_end().rsplit_once('\n').expect("lines");
        assert_eq!(
            text,
            "/g\\040a 4096 kernel 3 slab_reclaimable 1 slab_unreclaimable 1 slab 2\n/g\\040a/sub 0 slab 0\n\
             ## /proc/meminfo\nMemTotal: 1 kB\n## /sys/devices/system/node/node0/meminfo\nNode 0 MemTotal: 1 kB"
        );
        assert_eq!(stamp.groups, 2);
        let words: Vec<&str> = last.split(' ').collect();
        assert_eq!((words[0], words[1], words[3], words[5]), ("#", "before", "memcgs_read", "end"));
        assert!(stamp.side.starts_with(&format!("{}\tbefore\t0\t\t\t\n", words[2])), "{}", stamp.side);
        assert!(stamp.side.ends_with(&format!("{}\tbefore_end\t0\t\t\t\n", words[6])), "{}", stamp.side);
    }

    #[test]
    fn a_v1_stamp_has_kernel_memory_instead_of_slab() {
        let machine = Machine::new(&[
            ("/cg/memory.usage_in_bytes", "8192\n"),
            ("/cg/memory.kmem.usage_in_bytes", "4096\n"),
            ("/cg/memory.stat", "cache 1\nrss 2\npgpgin 7\ntotal_cache 1\n"),
        ]);
        let hierarchy = Hierarchy { id: 4, version: Version::V1, mount: Some("/cg".into()) };
        let stamp = stamp(&machine.root(), Some(&hierarchy), 4096, "after");
        assert!(
            stamp.steady.starts_with("/ 8192 kmem 4096 cache 1 rss 2 total_cache 1\n# after "),
            "{}",
            stamp.steady
        );
    }

    #[test]
    fn moments_keep_their_nanoseconds() {
        assert_eq!(Moment(21, 14_364_933).to_string(), "21.014364933");
    }
}
