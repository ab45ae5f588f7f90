//! Made-up machines: version 1, version 2, both, nothing allowed, rubbish.

use std::fs;
use std::path::Path;

use super::slabs::is_accounted;
use super::*;

struct Machine(tempfile::TempDir);

impl Machine {
    fn new(files: &[(&str, &str)]) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            machine.put(path, text);
        }
        machine
    }

    fn put(&self, path: &str, text: &str) {
        let place = self.0.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }

    fn folder(&self, path: &str) {
        fs::create_dir_all(self.0.path().join(path.trim_start_matches('/'))).unwrap();
    }

    fn link(&self, path: &str, to: &str) {
        let place = self.0.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, place).unwrap();
    }

    fn read(&self) -> Host {
        Host::read(self.0.path())
    }
}

const BASE: [(&str, &str); 6] = [
    ("/proc/sys/kernel/osrelease", "5.10.0-32-amd64\n"),
    ("/proc/self/smaps", "55-56 r--p\nSize: 4 kB\nKernelPageSize:        64 kB\n"),
    ("/sys/devices/system/node/possible", "0-1\n"),
    ("/sys/devices/system/cpu/possible", "0-7\n"),
    ("/proc/meminfo", "MemTotal:       1000 kB\nSlab:    100 kB\n"),
    ("/proc/cmdline", "quiet cgroup.memory=nosocket,nokmem\n"),
];

const V1: &str = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t9\t1\nmemory\t4\t7\t1\n";
const V2: &str = "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t0\t5\t1\n";

fn value<T: Clone>(read: &Option<Read<T>>) -> T {
    read.as_ref().unwrap().value.clone()
}

#[test]
fn a_machine_is_read() {
    let host = Machine::new(&BASE).read();
    assert_eq!(value(&host.kernel), ("5.10.0-32-amd64".into(), Version { major: 5, minor: 10 }));
    assert_eq!((value(&host.page_size), value(&host.nodes), value(&host.cpus)), (65_536, 2, 8));
    assert_eq!((value(&host.memory), value(&host.slab), value(&host.nokmem)), (1_024_000, 102_400, true));
    assert!(host.slabs.is_none() && host.groups.is_none() && host.mounts.is_none());
    let missing: Vec<_> = host.unread.iter().map(|u| u.what.as_str()).collect();
    assert_eq!(missing, ["cgroups", "/proc/*/mountinfo", "/proc/slabinfo"]);
}

#[test]
fn version_1_counts_folders_and_the_rest_is_dying() {
    let machine = Machine::new(&BASE);
    machine.put("/proc/cgroups", V1);
    machine.put("/proc/self/mountinfo", "30 20 0:25 / /cg\\040m rw - cgroup cgroup rw,memory\n");
    for group in ["/cg m/a", "/cg m/a/b", "/cg m/c"] {
        machine.folder(group);
    }
    machine.put("/cg m/memory.stat", "");
    let host = machine.read();
    assert_eq!((value(&host.groups), value(&host.dying)), (3, 3), "7 with the root");
}

#[test]
fn version_2_counts_groups_with_the_controller() {
    let machine = Machine::new(&BASE);
    machine.put("/proc/cgroups", V2);
    machine.put("/proc/self/mountinfo", "30 20 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n");
    machine.put("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    machine.put("/sys/fs/cgroup/cgroup.stat", "nr_descendants 3\nnr_dying_descendants 12\n");
    machine.put("/sys/fs/cgroup/a/memory.current", "0\n");
    machine.put("/sys/fs/cgroup/a/b/memory.current", "0\n");
    machine.folder("/sys/fs/cgroup/without");
    machine.link("/sys/fs/cgroup/again", ".");
    let host = machine.read();
    assert_eq!((value(&host.groups), value(&host.dying)), (2, 12));
    // Since 6.13 the kernel counts by controller.
    machine.put(
        "/sys/fs/cgroup/cgroup.stat",
        "nr_subsys_memory 41\nnr_dying_subsys_memory 7\nnr_dying_descendants 9\n",
    );
    let host = machine.read();
    assert_eq!((value(&host.groups), value(&host.dying)), (40, 7));
}

#[test]
fn both_versions_at_once_and_the_controller_is_found() {
    let machine = Machine::new(&BASE);
    machine.put("/proc/cgroups", V1);
    machine.put(
        "/proc/self/mountinfo",
        "30 20 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
         31 20 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
         32 20 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    );
    machine.put("/sys/fs/cgroup/unified/cgroup.controllers", "\n");
    machine.folder("/sys/fs/cgroup/memory/a");
    assert_eq!((value(&machine.read().groups), value(&machine.read().mounts)), (1, 3));
    // A newer kernel lists no controller of version 2; memory is in the unified hierarchy.
    machine.put("/proc/cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t9\t1\n");
    machine.put("/sys/fs/cgroup/unified/cgroup.controllers", "memory\n");
    machine.put("/sys/fs/cgroup/unified/a/memory.current", "1\n");
    assert_eq!(value(&machine.read().groups), 1);
}

#[test]
fn a_controller_that_is_off_has_no_groups() {
    let machine = Machine::new(&BASE);
    machine.put("/proc/cgroups", "memory\t0\t5\t0\n");
    assert_eq!((value(&machine.read().groups), value(&machine.read().dying)), (0, 0));
}

#[test]
fn one_superblock_in_many_namespaces_is_one() {
    let machine = Machine::new(&BASE);
    let line = |device: &str| format!("1 1 {device} / /x rw - tmpfs tmpfs rw\n");
    machine.put("/proc/self/mountinfo", &(line("0:1") + &line("0:2") + "rubbish\n1 1 x:y\n"));
    for (process, text) in [("1", line("0:1") + &line("8:1")), ("2", line("0:9")), ("3", line("0:3"))] {
        machine.put(&format!("/proc/{process}/mountinfo"), &text);
    }
    machine.link("/proc/1/ns/mnt", "mnt:[1]");
    machine.link("/proc/2/ns/mnt", "mnt:[1]");
    machine.put("/proc/notanumber/mountinfo", &line("0:77"));
    let host = machine.read();
    // Process 2 shares the namespace of 1 or the other way round: only one of them is read.
    let mounts = value(&host.mounts);
    assert!((4..=5).contains(&mounts), "{mounts}");
    assert_eq!(host.extra_shrinkers, None);
    for name in ["sb-tmpfs-1", "sb-proc-2", "sb-a", "sb-b", "sb-c", "sb-d", "mm-shadow-6", "rcu-kfree-0"] {
        machine.folder(&format!("/sys/kernel/debug/shrinker/{name}"));
    }
    assert_eq!(value(&machine.read().extra_shrinkers), 7 - mounts);
}

#[test]
fn accounted_caches_are_told_by_their_folder() {
    let cases = [
        (Some("../:aA-0000192"), "dentry", true),
        (Some(":A-0000064"), "x", true),
        (Some(":a-0000192"), "x", false),
        (Some(":0000192"), "dentry", true),
        (None, "ext4_inode_cache", true),
        (None, "kmalloc-64", false),
        (None, "kmalloc-cg-64", true),
    ];
    for (link, name, accounted) in cases {
        assert_eq!(is_accounted(link, name), accounted, "{link:?} {name}");
    }
}

#[test]
fn what_may_not_be_read_is_said() {
    use std::os::unix::fs::PermissionsExt;
    let machine = Machine::new(&BASE);
    let slabinfo = machine.0.path().join("proc/slabinfo");
    fs::write(&slabinfo, "slabinfo - version: 2.1\n").unwrap();
    fs::set_permissions(&slabinfo, fs::Permissions::from_mode(0o000)).unwrap();
    let host = machine.read();
    let told = host.unread.iter().find(|u| u.what == "/proc/slabinfo").unwrap();
    // Root reads it all the same, and finds no cache in it.
    let expected =
        if fs::read(&slabinfo).is_ok() { "no cache in it" } else { "no permission: run as root, or give" };
    assert!(told.why.starts_with(expected), "{told:?}");
}

#[test]
fn rubbish_and_emptiness_leave_numbers_unknown() {
    let empty = Machine::new(&[]).read();
    assert!(empty.is_empty() && empty.unread.len() >= 6, "{empty:?}");
    assert!(Host::read(Path::new("/nowhere/at/all")).is_empty());
    let rubbish = "\u{0}\u{fffd}99999999999999999999 - - -\n0-\n: : :\nmemory memory memory\n";
    let files: Vec<(&str, &str)> = [
        "/proc/sys/kernel/osrelease",
        "/proc/self/smaps",
        "/sys/devices/system/node/possible",
        "/sys/devices/system/cpu/possible",
        "/proc/meminfo",
        "/proc/cmdline",
        "/proc/cgroups",
        "/proc/self/mountinfo",
        "/proc/slabinfo",
        "/sys/fs/cgroup/cgroup.stat",
        "/sys/fs/cgroup/cgroup.controllers",
    ]
    .map(|path| (path, rubbish))
    .to_vec();
    let machine = Machine::new(&files);
    machine.folder("/proc/1/mountinfo");
    let host = machine.read();
    assert!(host.kernel.is_none() && host.nodes.is_none() && host.cpus.is_none() && host.slabs.is_none());
    assert!(host.mounts.is_none() && host.page_size.is_none() && host.slab.is_none());
}
