//! The physical addresses of each NUMA node, and the node of each CPU.
//!
//! The trace gives an object's address but not its node; `node` in the events is the node asked for, mostly none.
//! Memory blocks (`/sys/devices/system/node/nodeN/memoryM`) are exact to a block of 128 MiB or more, and a block
//! that two nodes share is listed under both. The zones of `/proc/zoneinfo` are exact to a page, but span holes. A
//! node's ranges are what both agree on; where there are no blocks (no memory hotplug), the zones alone.

use crate::root::Root;
use serde::Serialize;
use std::collections::BTreeMap;

/// Physical addresses of a node: `start` and `end` inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// One row of `nodes` in `recording.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NodeRange {
    pub(crate) node: u32,
    #[serde(serialize_with = "hexadecimal")]
    pub(crate) start: u64,
    /// The last byte, not the one after.
    #[serde(serialize_with = "hexadecimal")]
    pub(crate) end: u64,
}

/// JSON has no integers of 64 bits that every reader keeps exact: addresses are written as `"0x…"`.
pub(crate) fn hexadecimal<S: serde::Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{value:#x}"))
}

type Ranges = BTreeMap<u32, Vec<Range>>;

/// The ranges of all nodes, by node and address; empty when the machine tells nothing.
pub(crate) fn ranges(root: &Root, page_size: u64) -> Vec<NodeRange> {
    let zones = zones(&root.read("/proc/zoneinfo").unwrap_or_default(), page_size);
    let blocks = blocks(root);
    let ranges = match (blocks.is_empty(), zones.is_empty()) {
        (true, _) => zones,
        (false, true) => blocks,
        (false, false) => agreed(&blocks, &zones),
    };
    let row = |node| move |range: &Range| NodeRange { node, start: range.start, end: range.end };
    ranges.iter().flat_map(|(&node, list)| list.iter().map(row(node))).collect()
}

/// The node of every CPU from 0 to the last possible one; a CPU that no node names is on node 0.
pub(crate) fn of_cpus(root: &Root, cpus: usize) -> Vec<u32> {
    let mut nodes = vec![0; cpus];
    for (node, folder) in node_folders(root) {
        for cpu in cpulist(&root.read(format!("{folder}/cpulist")).unwrap_or_default()) {
            if let Some(entry) = nodes.get_mut(cpu) {
                *entry = node;
            }
        }
    }
    nodes
}

/// The numbers of a kernel list such as `0-3,8`. Larger numbers than any machine has are left out.
pub(crate) fn cpulist(text: &str) -> Vec<usize> {
    const MOST: usize = 1 << 16;
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cpus.extend(first..=last.min(MOST));
        }
    }
    cpus
}

/// Number and folder of each NUMA node.
pub(crate) fn node_folders(root: &Root) -> Vec<(u32, String)> {
    let mut folders: Vec<(u32, String)> = numbered(root, "/sys/devices/system/node", "node")
        .map(|node| (node, format!("/sys/devices/system/node/node{node}")))
        .collect();
    folders.sort_unstable();
    folders
}

fn numbered(root: &Root, folder: &str, prefix: &'static str) -> impl Iterator<Item = u32> {
    root.names(folder).into_iter().filter_map(move |name| name.strip_prefix(prefix)?.parse().ok())
}

fn blocks(root: &Root) -> Ranges {
    let size = root.word("/sys/devices/system/memory/block_size_bytes");
    let Some(size) = size.and_then(|text| u64::from_str_radix(&text, 16).ok()).filter(|&size| size > 0)
    else {
        return Ranges::new();
    };
    let mut folders = node_folders(root);
    if folders.is_empty() {
        folders.push((0, String::from("/sys/devices/system/memory")));
    }
    let mut ranges = Ranges::new();
    for (node, folder) in folders {
        let mut list: Vec<Range> = numbered(root, &folder, "memory")
            .filter_map(|block| {
                let index = root.word(format!("{folder}/memory{block}/phys_index"))?;
                let start = u64::from_str_radix(&index, 16).ok()?.checked_mul(size)?;
                Some(Range { start, end: start.checked_add(size - 1)? })
            })
            .collect();
        merge(&mut list);
        if !list.is_empty() {
            ranges.insert(node, list);
        }
    }
    ranges
}

/// The spans of the zones, from lines `Node 0, zone DMA32`, `spanned 1044480` and `start_pfn: 4096`.
fn zones(zoneinfo: &str, page_size: u64) -> Ranges {
    let mut ranges = Ranges::new();
    let (mut node, mut spanned) = (None, 0);
    for line in zoneinfo.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("Node"), Some(number)) => {
                node = number.trim_end_matches(',').parse::<u32>().ok();
                spanned = 0;
            }
            (Some("spanned"), Some(pages)) => spanned = pages.parse::<u64>().unwrap_or(0),
            (Some("start_pfn:"), Some(first)) => {
                let range = || {
                    let start = first.parse::<u64>().ok()?.checked_mul(page_size)?;
                    let bytes = spanned.checked_mul(page_size)?.checked_sub(1)?;
                    Some(Range { start, end: start.checked_add(bytes)? })
                };
                if let (Some(node), Some(range)) = (node, range()) {
                    ranges.entry(node).or_default().push(range);
                }
            }
            _ => {}
        }
    }
    ranges.values_mut().for_each(merge);
    ranges
}

/// Sorts ranges and joins those that touch or overlap.
fn merge(ranges: &mut Vec<Range>) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, kept| {
        let joins = next.start <= kept.end.saturating_add(1);
        if joins {
            kept.end = kept.end.max(next.end);
        }
        joins
    });
}

/// What blocks and zones have in common. The zones' first pages (below 1 MiB and such holes at the very start of a
/// block) carry no slab, so cutting them off loses nothing.
fn agreed(blocks: &Ranges, zones: &Ranges) -> Ranges {
    let mut ranges = Ranges::new();
    for (node, blocks) in blocks {
        let mut list = Vec::new();
        for block in blocks {
            for zone in zones.get(node).map(Vec::as_slice).unwrap_or_default() {
                let range = Range { start: block.start.max(zone.start), end: block.end.min(zone.end) };
                if range.start <= range.end {
                    list.push(range);
                }
            }
        }
        merge(&mut list);
        ranges.insert(*node, if list.is_empty() { blocks.clone() } else { list });
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::Machine;

    fn rows(root: &Root) -> Vec<(u32, u64, u64)> {
        ranges(root, 4096).iter().map(|row| (row.node, row.start, row.end)).collect()
    }

    #[test]
    fn a_block_shared_by_two_nodes_is_cut_by_the_zones() {
        let machine = Machine::new(&[
            ("/sys/devices/system/memory/block_size_bytes", "8000000\n"),
            ("/sys/devices/system/node/node0/cpulist", "0,2-3\n"),
            ("/sys/devices/system/node/node0/memory0/phys_index", "00000000\n"),
            ("/sys/devices/system/node/node0/memory1/phys_index", "00000001\n"),
            ("/sys/devices/system/node/node1/cpulist", "1\n"),
            ("/sys/devices/system/node/node1/memory1/phys_index", "00000001\n"),
            ("/sys/devices/system/node/node1/memory32/phys_index", "00000020\n"),
            (
                "/proc/zoneinfo",
                "Node 0, zone      DMA\n  per-node stats\n        spanned  4095\n  start_pfn:           1\n\
                 Node 0, zone    DMA32\n        spanned  45056\n  start_pfn:           4096\n\
                 Node 0, zone  Movable\n        spanned  0\n\
                 Node 1, zone    DMA32\n        spanned  1048576\n  start_pfn:           49152\n",
            ),
        ]);
        let found = [(0, 0x1000, 0xbff_ffff), (1, 0xc00_0000, 0xfff_ffff), (1, 0x1_0000_0000, 0x1_07ff_ffff)];
        assert_eq!(rows(&machine.root()), found);
        assert_eq!(of_cpus(&machine.root(), 5), [0, 1, 0, 0, 0]);
    }

    #[test]
    fn without_blocks_the_zones_are_all_there_is() {
        let machine =
            Machine::new(&[("/proc/zoneinfo", "Node 3, zone Normal\n spanned 16\n start_pfn: 1048576\n")]);
        assert_eq!(rows(&machine.root()), [(3, 0x1_0000_0000, 0x1_0000_ffff)]);
        assert!(rows(&Machine::new(&[]).root()).is_empty());
    }

    #[test]
    fn addresses_are_written_as_text() {
        let row = NodeRange { node: 0, start: 0, end: 0xffff_ffff };
        let json = serde_json::to_string(&row).expect("json");
        assert_eq!(json, r#"{"node":0,"start":"0x0","end":"0xffffffff"}"#);
    }

    proptest::proptest! {
        #[test]
        fn merged_ranges_are_apart_and_cover_the_same(list in proptest::collection::vec((0u64..200, 0u64..20), 0..20)) {
            let given: Vec<Range> = list.iter().map(|&(start, len)| Range { start, end: start + len }).collect();
            let mut merged = given.clone();
            merge(&mut merged);
            let covers = |ranges: &[Range], at: u64| ranges.iter().any(|r| r.start <= at && at <= r.end);
            for at in 0..230 {
                proptest::prop_assert_eq!(covers(&given, at), covers(&merged, at));
            }
            proptest::prop_assert!(merged.windows(2).all(|pair| pair[0].end + 1 < pair[1].start));
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in "(Node|spanned|start_pfn:|[0-9 ,\n-]){0,60}") {
            let _ = (zones(&text, 4096), cpulist(&text));
        }
    }
}
