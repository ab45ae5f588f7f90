//! `recording.json`: the facts about machine and recording that the trace itself does not hold.
//!
//! Every field may be absent; a reader takes what it finds. Addresses are text (`"0x…"`), as JSON numbers of 64 bits
//! do not survive every reader. Times are seconds on CLOCK_MONOTONIC, the clock of the trace.

use crate::cgroup::Hierarchy;
use crate::directmap;
use crate::error::Missing;
use crate::nodes::{self, NodeRange};
use crate::root::Root;
use crate::tasks::Moved;
use serde::Serialize;

/// Names the file's kind.
pub(crate) const SCHEMA: &str = "tenalloc.recording";
/// Raised when a field changes its meaning; new fields do not raise it.
pub(crate) const VERSION: u32 = 1;

/// The contents of `recording.json`.
#[derive(Debug, Serialize)]
pub(crate) struct Recording {
    /// [`SCHEMA`].
    pub(crate) schema: &'static str,
    /// [`VERSION`].
    pub(crate) version: u32,
    /// The version of the recorder.
    pub(crate) tenalloc: &'static str,
    /// System, host, release, version and machine, as `uname -a` gives them.
    pub(crate) kernel: String,
    /// Bytes.
    pub(crate) page_size: u64,
    /// CPUs that may exist, numbered from 0.
    pub(crate) cpus: usize,
    /// The node of each CPU.
    pub(crate) cpu_node: Vec<u32>,
    /// Id of the memory controller's hierarchy: 0 is v2. Absent without a memory controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory_hierarchy: Option<u32>,
    /// Pointer minus this is a physical address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) direct_map_base: Option<String>,
    /// Physical addresses of each node, `end` inclusive.
    pub(crate) nodes: Vec<NodeRange>,
    /// The recorded events, `group:name`.
    pub(crate) events: Vec<String>,
    /// What the recording goes without, and why.
    pub(crate) missing: Vec<Missing>,
    /// perf's name and version.
    pub(crate) perf: String,
    /// Bytes of ring per CPU.
    pub(crate) ring: u64,
    /// The recorded command; absent when a time was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<Vec<String>>,
    /// From this moment on every event is recorded.
    pub(crate) start: f64,
    /// The last moment before perf was told to end.
    pub(crate) end: f64,
    /// Labels of the stamps in `steady.txt`, in order.
    pub(crate) stamps: Vec<String>,
    /// Tasks whose group changed while the recording was started; see `pids.tsv`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) moved_at_start: Vec<Moved>,
    /// What perf said at the end.
    pub(crate) perf_said: String,
}

/// The text that stands in `recording.json` until the recording is complete: should this process be killed, a reader
/// still has to know which cgroup events are those of the memory controller.
pub(crate) fn early(hierarchy: Option<&Hierarchy>) -> String {
    let mut facts = serde_json::json!({
        "schema": SCHEMA,
        "version": VERSION,
        "page_size": rustix::param::page_size(),
    });
    if let (Some(hierarchy), Some(facts)) = (hierarchy, facts.as_object_mut()) {
        facts.insert(String::from("memory_hierarchy"), hierarchy.id.into());
    }
    format!("{facts}\n")
}

/// What the machine is, as far as it can be learnt; the rest goes to `missing`.
pub(crate) struct Facts {
    pub(crate) kernel: String,
    pub(crate) release: String,
    pub(crate) page_size: u64,
    pub(crate) cpus: usize,
    pub(crate) cpu_node: Vec<u32>,
    pub(crate) nodes: Vec<NodeRange>,
    pub(crate) direct_map_base: Option<String>,
}

impl Facts {
    pub(crate) fn learn(root: &Root, missing: &mut Vec<Missing>) -> Facts {
        let page_size = rustix::param::page_size() as u64;
        let listed = root.read("/sys/devices/system/cpu/possible").unwrap_or_default();
        let cpus = nodes::cpulist(&listed).last().map_or(1, |last| last + 1);
        let ranges = nodes::ranges(root, page_size);
        if ranges.is_empty() {
            missing.push(Missing::new(
                "nodes",
                "neither /sys/devices/system/memory nor /proc/zoneinfo tells the memory of each node",
            ));
        }
        let direct_map_base = match directmap::base(root, &ranges) {
            Ok(base) => Some(format!("{base:#x}")),
            Err(why) => {
                let why = format!("{why}: the node of an object is not known from its address");
                missing.push(Missing::new("direct_map_base", why));
                None
            }
        };
        let word = |name: &str| root.word(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        let release = word("osrelease");
        let parts = [
            word("ostype"),
            word("hostname"),
            release.clone(),
            word("version"),
            std::env::consts::ARCH.into(),
        ];
        let cpu_node = nodes::of_cpus(root, cpus);
        Facts { kernel: parts.join(" "), release, page_size, cpus, cpu_node, nodes: ranges, direct_map_base }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::Machine;

    #[test]
    fn the_early_text_tells_the_hierarchy() {
        let hierarchy = Hierarchy { id: 4, version: crate::cgroup::Version::V1, mount: None };
        let json: serde_json::Value = serde_json::from_str(&early(Some(&hierarchy))).expect("json");
        assert_eq!((&json["schema"], json["memory_hierarchy"].as_u64()), (&SCHEMA.into(), Some(4)));
        assert!(!early(None).contains("hierarchy"));
    }

    #[test]
    fn facts_of_a_machine_and_what_it_hides() {
        let machine = Machine::new(&[
            ("/proc/sys/kernel/ostype", "Linux\n"),
            ("/proc/sys/kernel/hostname", "host1\n"),
            ("/proc/sys/kernel/osrelease", "6.12.1\n"),
            ("/proc/sys/kernel/version", "#1 SMP\n"),
            ("/sys/devices/system/cpu/possible", "0-3\n"),
            ("/sys/devices/system/node/node1/cpulist", "2-3\n"),
        ]);
        let mut missing = Vec::new();
        let facts = Facts::learn(&machine.root(), &mut missing);
        assert!(facts.kernel.starts_with("Linux host1 6.12.1 #1 SMP "), "{}", facts.kernel);
        assert_eq!((facts.cpus, facts.cpu_node), (4, vec![0, 0, 1, 1]));
        let what: Vec<&str> = missing.iter().map(|missing| missing.what.as_str()).collect();
        assert_eq!(what, ["nodes", "direct_map_base"]);
    }
}
