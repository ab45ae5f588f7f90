//! `recording.json`: what `tenalloc record` writes about machine and kernel. Every field is optional.

use super::ranges::{Range, hex};
use crate::error::Error;
use serde::Deserialize;

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Recording {
    schema: Option<String>,
    version: Option<u32>,
    /// `uname` text.
    pub(crate) kernel: Option<String>,
    /// Bytes.
    pub(crate) page_size: Option<u32>,
    pub(crate) cpus: Option<u16>,
    /// The node of each CPU.
    pub(crate) cpu_node: Option<Vec<u8>>,
    /// Number of the cgroup hierarchy that has the memory controller; 0 for v2.
    pub(crate) memory_hierarchy: Option<i32>,
    direct_map_base: Option<String>,
    nodes: Option<Vec<Node>>,
    /// From this second on, clock of the recording, every event is recorded.
    start: Option<f64>,
    moved_at_start: Vec<Moved>,
    /// Where it was read.
    #[serde(skip)]
    file: String,
}

#[derive(Debug, Deserialize)]
struct Node {
    node: u8,
    start: String,
    end: String,
}

/// A task that was elsewhere when it was first looked at; `pids.tsv` has the second place.
#[derive(Debug, Deserialize)]
struct Moved {
    tid: i32,
    from: String,
}

const HELP: &str = "give the recording.json of this recording, or take it away";

impl Recording {
    pub(crate) fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let mut r: Self = serde_json::from_str(text)
            .map_err(|e| Error::line(file, e.line() as u64, e.to_string(), HELP))?;
        r.file = file.to_owned();
        let schema = r.schema.as_deref().unwrap_or("tenalloc.recording");
        if schema != "tenalloc.recording" || r.version.unwrap_or(1) != 1 {
            let what = format!("schema {schema}, version {} is not known", r.version.unwrap_or(1));
            return Err(Error::line(file, 1, what, "use the tenalloc that recorded it"));
        }
        if r.page_size.is_some_and(|p| !p.is_power_of_two() || !(4096..=1 << 20).contains(&p)) {
            return Err(Error::line(file, 1, "`page_size` is no size of a page", HELP));
        }
        r.direct_map_base()?;
        Ok(r)
    }

    /// Virtual address of physical address 0 in the kernel's direct map.
    pub(crate) fn direct_map_base(&self) -> Result<Option<u64>, Error> {
        let Some(text) = &self.direct_map_base else { return Ok(None) };
        let bad = || {
            Error::line(&self.file, 1, "`direct_map_base` is no number such as \"0xffff888000000000\"", HELP)
        };
        hex(text).map(Some).ok_or_else(bad)
    }

    /// ns, clock of the recording.
    pub(crate) fn start(&self) -> Option<u64> {
        // A number that is none becomes 0, one that is too large the largest.
        self.start.map(|seconds| (seconds * 1e9) as u64)
    }

    /// Each task that moved while the recording was started, and where it was before.
    pub(crate) fn moved(&self) -> impl Iterator<Item = (i32, String)> + '_ {
        self.moved_at_start.iter().map(|m| (m.tid, m.from.clone()))
    }

    /// Physical memory of the nodes.
    pub(crate) fn ranges(&self) -> Result<Vec<Range>, Error> {
        let bad = || Error::line(&self.file, 1, "`nodes` has a range that is none", HELP);
        let nodes = self.nodes.as_deref().unwrap_or_default();
        nodes
            .iter()
            .map(|n| {
                let range = Range { node: n.node, start: hex(&n.start)?, end: hex(&n.end)? };
                (range.start <= range.end).then_some(range)
            })
            .map(|r| r.ok_or_else(bad))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_may_be_missing() {
        let r = Recording::parse("{}", "r").unwrap();
        assert!(r.ranges().unwrap().is_empty() && r.direct_map_base().unwrap().is_none());
        let text = r#"{"schema":"tenalloc.recording","version":1,"kernel":"Linux x","page_size":4096,"cpus":2,
            "cpu_node":[0,1],"memory_hierarchy":5,"direct_map_base":"0xffff888000000000","later":[1],
            "start":2.5,"moved_at_start":[{"tid":7,"from":"/g/a"}],
            "nodes":[{"node":1,"start":"0x10","end":"0x1f"}]}"#;
        let r = Recording::parse(text, "r").unwrap();
        assert_eq!(r.ranges().unwrap(), [Range { node: 1, start: 16, end: 31 }]);
        assert_eq!(r.direct_map_base().unwrap(), Some(0xffff_8880_0000_0000));
        assert_eq!((r.memory_hierarchy, r.cpus), (Some(5), Some(2)));
        assert_eq!(r.start(), Some(2_500_000_000));
        assert_eq!(r.moved().collect::<Vec<_>>(), [(7, "/g/a".to_owned())]);
    }

    #[test]
    fn another_schema_or_bad_numbers_are_told() {
        for bad in [
            "{\"version\":2}",
            "{\"schema\":\"x\"}",
            "[",
            "{\"page_size\":5}",
            "{\"direct_map_base\":\"12\"}",
            "{\"cpus\":-1}",
        ] {
            let e = Recording::parse(bad, "recording.json").unwrap_err().to_string();
            assert!(e.starts_with("recording.json, line 1"), "{e}");
        }
        assert!(
            Recording::parse(r#"{"nodes":[{"node":0,"start":"0x2","end":"0x1"}]}"#, "r")
                .unwrap()
                .ranges()
                .is_err()
        );
    }
}
