//! How many memory groups there are, living and dying, in either version of cgroups.
//!
//! `/proc/cgroups` says which version has the memory controller, `/proc/self/mountinfo` where it is mounted. In version 2
//! the kernel counts for us (`cgroup.stat`, since 6.13 by controller) or the folders with a `memory.current` are
//! counted; in version 1 every folder of the memory hierarchy is a group, and what `/proc/cgroups` counts beyond them is
//! dying. In a container only its own part of the tree can be seen, and the count is that part's.

use std::fs;
use std::path::PathBuf;

use super::root::{Root, number, why};
use super::{Host, Read};

/// Folders beyond which nobody walks on.
const MOST_FOLDERS: u64 = 2_000_000;

pub(super) fn read(root: &Root, host: &mut Host) {
    let cgroups = root.text("/proc/cgroups").unwrap_or_default();
    let memory = cgroups.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == "memory").then_some(())?;
        let mut number = || words.next()?.parse::<u64>().ok();
        Some((number()?, number()?, number()?))
    });
    if let Some((.., 0)) = memory {
        let from = "/proc/cgroups: the memory controller is off".to_owned();
        host.groups = Some(Read { value: 0, from: from.clone() });
        host.dying = Some(Read { value: 0, from });
        return;
    }
    let mounts = root.text("/proc/self/mountinfo").unwrap_or_default();
    match memory {
        Some((hierarchy, counted, _)) if hierarchy > 0 => version_1(root, host, &mounts, counted),
        // Newer kernels list a controller of version 2 no more.
        _ => version_2(root, host, &mounts, memory.map(|(_, counted, _)| counted)),
    }
}

/// The first mount of this type whose superblock options hold `option`.
fn mount_point(mounts: &str, kind: &str, option: &str) -> Option<String> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split_whitespace();
        let is_it =
            after.next()? == kind && after.nth(1)?.split(',').any(|o| option.is_empty() || o == option);
        is_it.then(|| before.split_whitespace().nth(4).map(unescape))?
    })
}

/// Blanks in a mount point are written `\040`.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

fn version_1(root: &Root, host: &mut Host, mounts: &str, counted: u64) {
    let place = mount_point(mounts, "cgroup", "memory").unwrap_or_else(|| "/sys/fs/cgroup/memory".into());
    match folders(root, &place, None) {
        Ok(folders) => {
            host.groups = Some(Read { value: folders, from: format!("folders below {place} (cgroup v1)") });
            // The root is counted too.
            let dying = counted.saturating_sub(folders).saturating_sub(1);
            let from = format!("/proc/cgroups: {counted} with the root, beyond those folders");
            host.dying = Some(Read { value: dying, from });
        }
        Err(error) => {
            let value = counted.saturating_sub(1);
            host.groups = Some(Read { value, from: "/proc/cgroups, dying ones among them".into() });
            host.missing(place, format!("{}; living and dying groups are not told apart", why(&error)));
        }
    }
}

fn version_2(root: &Root, host: &mut Host, mounts: &str, counted: Option<u64>) {
    let places = mount_point(mounts, "cgroup2", "").into_iter();
    let usual = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(String::from);
    let has_memory = |place: &String| {
        let controllers = root.text(&format!("{place}/cgroup.controllers"));
        controllers.is_ok_and(|text| text.split_whitespace().any(|name| name == "memory"))
    };
    let Some(place) = places.chain(usual).find(has_memory) else {
        host.missing("cgroups", "no mounted hierarchy has the memory controller: give --groups");
        return;
    };
    let stat = root.text(&format!("{place}/cgroup.stat")).unwrap_or_default();
    // The number includes the group itself, which is the root.
    if let Some(all) = number(&stat, "nr_subsys_memory") {
        let from = format!("{place}/cgroup.stat nr_subsys_memory (cgroup v2)");
        host.groups = Some(Read { value: all.saturating_sub(1), from });
    } else {
        match folders(root, &place, Some("memory.current")) {
            Ok(value) => {
                let from = format!("folders with memory.current below {place} (cgroup v2)");
                host.groups = Some(Read { value, from });
            }
            Err(error) => host.missing(place.clone(), format!("{}: give --groups", why(&error))),
        }
    }
    let dying = ["nr_dying_subsys_memory", "nr_dying_descendants"];
    let dying = dying.into_iter().find_map(|key| Some((key, number(&stat, key)?)));
    match dying {
        Some((key, value)) => host.dying = Some(Read { value, from: format!("{place}/cgroup.stat {key}") }),
        None => host.missing(
            format!("{place}/cgroup.stat"),
            "it does not tell dying groups (none is taken); inside a container the host's root is not to be seen",
        ),
    }
    let seen = host.groups.as_ref().map_or(0, |g| g.value) + host.dying.as_ref().map_or(0, |d| d.value) + 1;
    if let Some(counted) = counted.filter(|counted| *counted > seen) {
        host.missing(
            "groups elsewhere",
            format!(
                "/proc/cgroups counts {counted} groups of any controller, {seen} memory groups are seen below {place}"
            ),
        );
    }
}

/// Folders below `place`, in all depths; with `with` only those that hold a file of that name. Links are not followed.
fn folders(root: &Root, place: &str, with: Option<&str>) -> std::io::Result<u64> {
    let top = root.path(place);
    let mut open: Vec<PathBuf> = Vec::new();
    let enter = |folder: &PathBuf, open: &mut Vec<PathBuf>| -> std::io::Result<()> {
        for entry in fs::read_dir(folder)?.flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                open.push(entry.path());
            }
        }
        Ok(())
    };
    enter(&top, &mut open)?;
    let (mut number, mut seen) = (0, 0);
    while let Some(folder) = open.pop() {
        seen += 1;
        number += u64::from(with.is_none_or(|name| folder.join(name).exists()));
        // A group may go while we look: then it has none below.
        if seen < MOST_FOLDERS {
            let _ = enter(&folder, &mut open);
        }
    }
    Ok(number)
}
