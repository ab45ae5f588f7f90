//! `srat.txt`: the physical memory of each NUMA node, from the lines of the boot log that read
//! `SRAT: Node 0 PXM 0 [mem 0x00100000-0x7fffffff]`. All other lines are left alone.

use super::{NOT_OURS, tasks::short};
use crate::error::Error;

/// Physical addresses of a node, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) node: u8,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

pub(crate) fn parse(text: &str, file: &str) -> Result<Vec<Range>, Error> {
    let mut ranges = Vec::new();
    for (line, n) in text.lines().zip(1..) {
        if let Some((_, rest)) = line.split_once("SRAT: Node ") {
            let range = one(rest).ok_or_else(|| {
                Error::line(file, n, format!("`{}` is no node with its memory", short(rest)), NOT_OURS)
            })?;
            ranges.push(range);
        }
    }
    Ok(ranges)
}

fn one(text: &str) -> Option<Range> {
    let node = text.split(' ').next()?.parse().ok()?;
    let (start, rest) = text.split_once("[mem ")?.1.split_once('-')?;
    let range = Range { node, start: hex(start)?, end: hex(rest.split_once(']')?.0)? };
    (range.start <= range.end).then_some(range)
}

/// A number with `0x` before it.
pub(crate) fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_log_lines() {
        let text = "[ 0.0] ACPI: SRAT: Node 1 PXM 1 [mem 0x80000000-0xbfffffff]\n[ 0.0] node 0: [mem 0x1-0x2]\n\
                    [ 0.0] ACPI: SRAT 0x00000000BFFE1BE1 000160\n[ 0.0] SRAT: PXM 0 -> APIC 0x00 -> Node 0\n";
        let r = parse(text, "srat.txt").unwrap();
        assert_eq!(r, [Range { node: 1, start: 0x8000_0000, end: 0xbfff_ffff }]);
        for bad in ["SRAT: Node x", "SRAT: Node 0 PXM 0 [mem 0x9-0x1]", "SRAT: Node 300 PXM 0 [mem 0x0-0x1]"]
        {
            assert!(parse(bad, "srat.txt").is_err(), "{bad}");
        }
    }
}
