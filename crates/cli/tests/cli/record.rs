//! `record` where nothing is there to record with. A recording itself needs root and is tested in its own crate.

use super::support::{names, run, tenalloc, unprivileged};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn without_root_all_that_is_missing_is_told_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
    let Some(mut command) = unprivileged(folder.path()) else { return };
    let command = command.current_dir(folder.path()).env("PATH", "/nowhere");
    let ended = run(command.args(["record", "-o", "trace", "--", "no-such-command"])).with(2);
    let mut lines = ended.err.lines();
    let head = lines.next().unwrap_or_default();
    assert!(
        head.starts_with("tenalloc: cannot record, ") && head.ends_with(" things to put right first:"),
        "{head}"
    );
    let found = lines.clone().filter(|l| l.starts_with("  - ")).count();
    // Each with what to do about it.
    assert_eq!(lines.count(), 2 * found, "{}", ended.err);
    assert!(head.contains(&format!(" {found} things")), "{}", ended.err);
    for part in ["there is no command `no-such-command`", "perf is not installed"] {
        assert!(ended.err.contains(part), "{part}: {}", ended.err);
    }
    assert_eq!(names(folder.path()), ["tenalloc"]);
}

#[test]
fn usage_is_told() {
    for (arguments, part) in [
        (&["record"][..], "--output"),
        (&["record", "-o", "x", "--ring", "5T"], "unknown unit \"T\": use K, M or G"),
        (&["record", "-o", "x", "--seconds", "1", "--", "true"], "cannot be used with"),
        (&["record", "-o", "x", "--seconds", "soon"], "invalid value 'soon'"),
    ] {
        let ended = run(tenalloc().args(arguments)).with(2);
        assert!(ended.err.contains(part), "{}", ended.err);
    }
}
