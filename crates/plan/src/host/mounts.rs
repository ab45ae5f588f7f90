//! How many file systems are mounted, over all mount namespaces: each superblock has lists and a shrinker.
//!
//! A file system that is mounted in many places, or in many namespaces, is one superblock: lines of
//! `/proc/*/mountinfo` with the same device number are one. Superblocks that the kernel mounts for itself (pipes,
//! sockets, block devices) are in no namespace; root sees all of them as shrinkers in debugfs, others a usual number.

use std::collections::HashSet;

use super::root::Root;
use super::{Host, Read};

pub(super) fn read(root: &Root, host: &mut Host) {
    let mut namespaces: HashSet<String> = HashSet::new();
    let mut devices: HashSet<(u32, u32)> = HashSet::new();
    let (mut processes, mut hidden) = (0_u64, 0_u64);
    let names = root.names("/proc");
    let numbers = names.iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
    for name in ["self"].into_iter().chain(numbers.map(String::as_str)) {
        processes += u64::from(name != "self");
        // Without permission the namespace has no name: then its mounts are simply read again.
        if root.link(&format!("/proc/{name}/ns/mnt")).is_some_and(|namespace| !namespaces.insert(namespace)) {
            continue;
        }
        match root.text(&format!("/proc/{name}/mountinfo")) {
            Ok(text) => devices.extend(text.lines().filter_map(device)),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => hidden += 1,
            // Ended meanwhile, or a thread of the kernel.
            Err(_) => {}
        }
    }
    if devices.is_empty() {
        host.missing("/proc/*/mountinfo", "no mount could be read: give --mounts");
        return;
    }
    if hidden > 0 {
        let why = format!(
            "no permission for {hidden} of {processes} processes: their mounts may be more; run as root"
        );
        host.missing("/proc/*/mountinfo", why);
    }
    let seen = devices.len() as u64;
    let from = match namespaces.len() {
        0 => "/proc/*/mountinfo, by device".to_owned(),
        1 => "/proc/*/mountinfo, by device, 1 mount namespace".to_owned(),
        n => format!("/proc/*/mountinfo, by device, {n} mount namespaces"),
    };
    host.mounts = Some(Read { value: seen, from });

    const DEBUG: &str = "/sys/kernel/debug/shrinker";
    let shrinkers = root.names(DEBUG);
    let all = shrinkers.iter().filter(|name| knows_groups(name)).count() as u64;
    if all > 0 {
        let value = all.saturating_sub(seen);
        host.extra_shrinkers = Some(Read { value, from: format!("{DEBUG}, beyond the mounts") });
    } else {
        host.missing(DEBUG, "needs root and a kernel that has it (6.0, CONFIG_SHRINKER_DEBUG)");
    }
}

/// Shrinkers that keep state for each group: file systems', and two of the kernel's own.
fn knows_groups(name: &str) -> bool {
    ["sb-", "mm-shadow", "thp-deferred_split", "thp-zero-deferred_split"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// The third field, `major:minor`.
fn device(line: &str) -> Option<(u32, u32)> {
    let (major, minor) = line.split_whitespace().nth(2)?.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
