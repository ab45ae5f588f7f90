//! `tenalloc plan` from outside: hosts made of files, numbers given, numbers that cannot be.

use crate::support::{run, tenalloc, unprivileged};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn plan(arguments: &[&str]) -> Command {
    let mut command = tenalloc();
    command.arg("plan").args(arguments);
    command
}

fn put(root: &Path, path: &str, text: &str) {
    let place = root.join(path);
    fs::create_dir_all(place.parent().expect("a folder")).expect("folders");
    fs::write(place, text).expect("a file");
}

/// A made-up 5.10 host of two nodes with 3 groups and 2 mounts.
fn host() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let put = |path, text| put(root.path(), path, text);
    put("proc/sys/kernel/osrelease", "5.10.0-32-amd64\n");
    put("proc/meminfo", "MemTotal: 1000000 kB\nSlab: 5000 kB\n");
    put("proc/cmdline", "quiet\n");
    put("proc/cgroups", "memory\t0\t4\t1\n");
    put(
        "proc/self/mountinfo",
        "1 1 0:5 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n2 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
    );
    put("sys/devices/system/node/possible", "0-1\n");
    put("sys/devices/system/cpu/possible", "0-3\n");
    put("sys/fs/cgroup/cgroup.controllers", "memory\n");
    put("sys/fs/cgroup/cgroup.stat", "nr_dying_descendants 1\n");
    put("sys/fs/cgroup/a/memory.current", "0\n");
    put("sys/fs/cgroup/b/memory.current", "0\n");
    root
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let ended = run(plan(arguments).args(["--format", "json"])).with(0);
    serde_json::from_str(&ended.out).expect("JSON")
}

#[test]
fn a_host_is_read_from_a_folder() {
    let root = host();
    let root = root.path().to_str().expect("a path");
    let plan = json(&["--root", root]);
    let input = |name: &str| {
        let inputs = plan["inputs"].as_array().expect("inputs");
        let input = inputs.iter().find(|input| input["name"] == name).expect("the input");
        (input["value"].clone(), input["origin"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(input("kernel"), ("5.10.0-32-amd64".into(), "host".into()));
    assert_eq!(
        [input("nodes").0, input("groups").0, input("dying-groups").0, input("mounts").0],
        [2, 2, 1, 2]
    );
    assert_eq!(input("page-size"), (4096.into(), "assumed".into()));
    let running = plan["designs"].as_array().expect("designs").iter().find(|d| d["running"] == true);
    assert_eq!(running.expect("one")["design"], "linux-5.9");
    let unread: Vec<_> =
        plan["unread"].as_array().expect("unread").iter().map(|u| u["what"].clone()).collect();
    assert!(unread.contains(&"/proc/slabinfo".into()), "{unread:?}");
    // The same host with another kernel is the same host.
    let then = json(&["--root", root, "--kernel", "6.12"]);
    assert_eq!((&then["memory"], &then["hypothetical"]), (&plan["memory"], &true.into()));
    assert_eq!(then["designs"][6]["running"], true);
}

#[test]
fn everything_can_be_given() {
    let all = [
        "--kernel",
        "6.12",
        "--nodes",
        "2",
        "--cpus",
        "4",
        "--groups",
        "10000",
        "--mounts",
        "10_000",
        "--lists-per-mount",
        "2",
        "--used-per-group",
        "1",
        "--page-size",
        "4096",
        "--nokmem",
        "false",
        "--extra-shrinkers",
        "0",
        "--peak-groups",
        "10000",
    ];
    let plan = json(&all);
    assert_eq!(plan["designs"][6]["bytes"]["shrinkers"], 20_002_u64 * 162_816);
    let inputs = plan["inputs"].as_array().expect("inputs");
    assert!(inputs.iter().all(|input| input["origin"] == "given"), "{inputs:?}");
    let shown = run(&mut self::plan(&all)).with(0).out;
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("shrinker state, 3.03 GiB (16.3 B for each group, mount and node"), "{shown}");
}

#[test]
fn impossible_numbers_take_one_line() {
    let cases: [(&[&str], &str); 10] = [
        (&["--nodes", "0"], "--nodes 0 is not possible: 1 to 1,024"),
        (&["--groups", "10000001"], "--groups 10000001 is not possible"),
        (&["--groups", "9..3"], "begins above its end"),
        (&["--groups", "1..9", "--mounts", "1..9"], "only one of --groups and --mounts can be a range"),
        (&["--mounts", "many"], "is not a number or a range such as 100..100000"),
        (&["--page-size", "5000"], "a power of two from 4096 to 65536"),
        (&["--kernel", "new"], "\"new\" is not a kernel release: write it as 6.12"),
        (&["--used-per-group", "-1"], "--used-per-group"),
        (&["--slabinfo", "/dev/null"], "/dev/null: not a slabinfo of version 2"),
        (&["--root", "/nowhere/at/all"], "no /proc of a Linux machine in there"),
    ];
    for (arguments, text) in cases {
        let ended = run(&mut plan(arguments)).with(2);
        assert!(ended.err.contains(text) && ended.out.is_empty(), "{arguments:?}: {}", ended.err);
    }
}

#[test]
fn growth_is_written_in_every_form() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("plan.html");
    let arguments = ["--kernel", "5.10", "--nodes", "4", "--mounts", "952", "--groups", "100..100000"];
    let ended = run(plan(&arguments).arg("--html").arg(&page)).with(0);
    assert!(ended.out.contains("log scale") && ended.out.contains("100,000"), "{}", ended.out);
    assert!(fs::read_to_string(&page).expect("the page").contains("<polyline"));
    let csv = run(plan(&arguments).args(["--format", "csv"])).with(0).out;
    assert!(
        csv.starts_with("design,over,step,cause,bytes\n") && csv.contains("\ntenalloc,groups,100000,total,")
    );
}

#[test]
fn the_published_figures_are_compared() {
    let shown = run(&mut plan(&["--check-published"])).with(0).out;
    assert!(shown.contains("10000 × 10000") && shown.contains("mount, settled"), "{shown}");
    let json = run(&mut plan(&["--check-published", "--format", "json"])).with(0).out;
    let checks: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(checks.as_array().is_some_and(|checks| checks.len() > 30));
}

#[test]
fn an_ordinary_user_is_answered_too() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    let Some(mut command) = unprivileged(folder.path()) else { return };
    let ended = run(command.arg("plan")).with(0);
    assert!(ended.out.starts_with("This host: Linux "), "{}", ended.out);
}
