//! Kernel, pages, nodes, CPUs, memory and boot options.

use super::root::{Root, number, why};
use super::{Host, Read};

/// Numbers in a kernel list beyond this are no machine's.
const MOST: u64 = 1 << 20;

pub(super) fn read(root: &Root, host: &mut Host) {
    const RELEASE: &str = "/proc/sys/kernel/osrelease";
    match root.text(RELEASE) {
        Ok(text) => match text.parse() {
            Ok(version) => {
                let release: String = text.trim().chars().filter(|c| !c.is_control()).take(64).collect();
                host.kernel = Some(Read { value: (release, version), from: RELEASE.into() });
            }
            Err(error) => host.missing(RELEASE, format!("{error}")),
        },
        Err(error) => host.missing(RELEASE, why(&error)),
    }
    host.page_size = page_size(root);
    if host.page_size.is_none() {
        host.missing("page size", "/proc/self/smaps tells none: give --page-size if it is not 4096");
    }
    host.nodes = possible(root, host, "/sys/devices/system/node/possible");
    if host.nodes.is_none() {
        // A kernel without NUMA has no such file.
        host.missing(
            "/sys/devices/system/node/possible",
            "taken for one node: give --nodes if that is wrong",
        );
    }
    host.cpus = possible(root, host, "/sys/devices/system/cpu/possible");
    const MEMINFO: &str = "/proc/meminfo";
    match root.text(MEMINFO) {
        Ok(text) => {
            let kib = |key| number(&text, key).and_then(|kib| kib.checked_mul(1024));
            host.memory = kib("MemTotal").map(|value| Read { value, from: MEMINFO.into() });
            host.slab = kib("Slab").map(|value| Read { value, from: MEMINFO.into() });
            if host.slab.is_none() {
                host.missing(MEMINFO, "it tells no Slab");
            }
        }
        Err(error) => host.missing(MEMINFO, why(&error)),
    }
    const CMDLINE: &str = "/proc/cmdline";
    match root.text(CMDLINE) {
        Ok(text) => {
            let is_off = |option: &str| {
                option.strip_prefix("cgroup.memory=").is_some_and(|o| o.split(',').any(|o| o == "nokmem"))
            };
            let value = text.split_whitespace().any(is_off);
            host.nokmem = Some(Read { value, from: CMDLINE.into() });
        }
        Err(error) => host.missing(CMDLINE, why(&error)),
    }
}

/// `/proc/self/smaps` tells the page size of each mapping; a large page would be a mapping of its own kind.
fn page_size(root: &Root) -> Option<Read<u64>> {
    const SMAPS: &str = "/proc/self/smaps";
    let text = root.text(SMAPS).ok()?;
    let sizes = text.lines().filter(|line| line.starts_with("KernelPageSize:"));
    let value = sizes.filter_map(|line| number(line, "KernelPageSize")).min()?.checked_mul(1024)?;
    tenalloc_designs::kernel::Kmalloc::with_pages(value)?;
    Some(Read { value, from: SMAPS.into() })
}

fn possible(root: &Root, host: &mut Host, path: &str) -> Option<Read<u64>> {
    let text = root.text(path).ok()?;
    let value = members(&text);
    if value.is_none() {
        host.missing(path, "it is not a list such as 0-3");
    }
    value.map(|value| Read { value, from: path.into() })
}

/// How many numbers a kernel list such as `0-3,8` has. `None`: it is none, or longer than any machine's.
fn members(text: &str) -> Option<u64> {
    let mut sum = 0_u64;
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        sum += last.checked_sub(first)?.checked_add(1).filter(|n| *n <= MOST)?;
    }
    (sum <= MOST).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_lists() {
        assert_eq!(["0", "0-3", "0-3,8\n", "0,2"].map(members), [Some(1), Some(4), Some(5), Some(2)]);
        for text in ["", "x", "3-0", "0-", "0-99999999999", "0-18446744073709551615", "-1"] {
            assert_eq!(members(text), None, "{text}");
        }
    }
}
