//! Where the memory controller lives: on the unified (v2) hierarchy, or on a hierarchy of its own (v1).
//!
//! Three layouts are in use. On v2 alone, and in hybrid machines that keep memory on v2, the controller's hierarchy
//! has the id 0 and a task's path is the `0::` line of `/proc/PID/cgroup`. On v1, and in hybrid machines that keep
//! memory on v1, the id is the one `/proc/cgroups` gives, and the path is in the line with that id. The id matters
//! to the reader as well: `cgroup_attach_task` fires once for every hierarchy and carries it as `dst_root`.

use crate::root::Root;
use std::path::PathBuf;

/// The two generations of the cgroup interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

/// The hierarchy that the memory controller is attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    /// The id in `/proc/PID/cgroup` and in the events' root field; 0 for v2.
    pub(crate) id: u32,
    pub(crate) version: Version,
    /// Where it is mounted with its own root, if anywhere.
    pub(crate) mount: Option<PathBuf>,
}

impl Hierarchy {
    /// Finds the memory controller; nothing when the kernel has none or it is disabled at boot.
    pub(crate) fn find(root: &Root) -> Option<Hierarchy> {
        let mounts = root.read("/proc/self/mountinfo").unwrap_or_default();
        match controller(&root.read("/proc/cgroups").unwrap_or_default()) {
            Some(Controller { enabled: false, .. }) => None,
            Some(Controller { id, .. }) if id != 0 => {
                Some(Hierarchy { id, version: Version::V1, mount: mount(&mounts, Version::V1) })
            }
            // A v2 controller has the id 0; kernels since 6.14 or so no longer list it in /proc/cgroups at all.
            listed => {
                let mount = mount(&mounts, Version::V2);
                let offered = match &mount {
                    Some(at) => root
                        .read(at.join("cgroup.controllers"))
                        .is_ok_and(|text| text.split_whitespace().any(|name| name == "memory")),
                    None => listed.is_some(),
                };
                offered.then_some(Hierarchy { id: 0, version: Version::V2, mount })
            }
        }
    }

    /// The task's path in this hierarchy, from the text of `/proc/PID/cgroup`.
    pub(crate) fn path_of<'a>(&self, cgroup: &'a str) -> Option<&'a str> {
        cgroup.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let id: u32 = fields.next()?.parse().ok()?;
            let path = fields.nth(1)?;
            (id == self.id).then_some(path)
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Controller {
    id: u32,
    enabled: bool,
}

/// The memory controller's row of `/proc/cgroups`: name, hierarchy, number of groups, enabled.
fn controller(cgroups: &str) -> Option<Controller> {
    cgroups.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        if fields.next()? != "memory" {
            return None;
        }
        let id = fields.next()?.parse().ok()?;
        Some(Controller { id, enabled: fields.nth(1)? != "0" })
    })
}

/// The mount point of the memory hierarchy in the text of `/proc/self/mountinfo`. A mount that shows the hierarchy's
/// own root is preferred; a bind mount of a part of it would give shortened paths and is not taken.
fn mount(mountinfo: &str, version: Version) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ');
        let (shown, point) = (left.nth(3)?, left.next()?);
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        let ours = match version {
            Version::V2 => kind == "cgroup2",
            Version::V1 => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
        };
        (ours && shown == "/").then(|| PathBuf::from(unescape(point)))
    })
}

/// Undoes the octal escapes (`\040` for a space) of `/proc/self/mountinfo`.
pub(crate) fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail.get(..3).filter(|_| first == b'\\').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::Machine;

    const V1_LINES: &str = "9:name=systemd:/user\n4:memory:/docker/a:b\n1:cpu,cpuacct:/\n0::/user.slice\n";

    #[test]
    fn hybrid_with_memory_on_v1() {
        let machine = Machine::new(&[
            (
                "/proc/cgroups",
                "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t1\t1\nmemory\t4\t9\t1\n",
            ),
            (
                "/proc/self/mountinfo",
                "33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                 35 31 0:32 / /sys/fs/cgroup/my\\040memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
                 41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            ),
        ]);
        let found = Hierarchy::find(&machine.root()).expect("a memory hierarchy");
        let mount = Some(PathBuf::from("/sys/fs/cgroup/my memory"));
        assert_eq!(found, Hierarchy { id: 4, version: Version::V1, mount });
        assert_eq!(found.path_of(V1_LINES), Some("/docker/a:b"));
    }

    #[test]
    fn v2_listed_or_no_longer_listed() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        for listed in ["memory\t0\t20\t1\n", ""] {
            let machine = Machine::new(&[
                ("/proc/cgroups", listed),
                ("/proc/self/mountinfo", mounts),
                ("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n"),
            ]);
            let found = Hierarchy::find(&machine.root()).expect("a memory hierarchy");
            assert_eq!((found.id, found.version), (0, Version::V2));
            assert_eq!(found.path_of(V1_LINES), Some("/user.slice"));
            assert_eq!(found.path_of("4:memory:/x\n"), None);
        }
    }

    #[test]
    fn a_disabled_or_absent_controller_is_none() {
        let disabled = Machine::new(&[("/proc/cgroups", "memory\t0\t1\t0\n")]);
        assert_eq!(Hierarchy::find(&disabled.root()), None);
        assert_eq!(Hierarchy::find(&Machine::new(&[]).root()), None);
    }

    #[test]
    fn a_bind_mount_of_a_part_is_not_taken() {
        let part = "35 31 0:32 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(mount(part, Version::V2), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "[\\x00-\\x7f]{0,200}") {
            let hierarchy = Hierarchy { id: 0, version: Version::V2, mount: None };
            let _ = (hierarchy.path_of(&text), controller(&text), mount(&text, Version::V1), unescape(&text));
        }
    }
}
