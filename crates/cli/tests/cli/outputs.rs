//! Files appear whole or not at all, streams may close, and nothing is written where it cannot be.

use super::support::{copied, ended, names, replay, run, script, small, unprivileged};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

#[test]
fn a_file_appears_whole_and_replaces_an_older_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out.json");
    fs::write(&path, "old").expect("an older file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a mode");
    let ended = run(replay().arg(script()).args(["-q", "--format", "json", "-o"]).arg(&path)).with(0);
    assert!(ended.out.is_empty() && ended.err.is_empty(), "{}", ended.err);
    let text = fs::read_to_string(&path).expect("a file");
    serde_json::from_str::<serde_json::Value>(&text).expect("JSON");
    assert_eq!(fs::metadata(&path).expect("it").permissions().mode() & 0o777, 0o640);
    assert_eq!(names(folder.path()), ["out.json"]);
}

#[test]
fn a_target_that_cannot_be_is_told_before_the_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    for (option, target, why) in [
        ("-o", "no/such/out", "there is no folder no/such; make it first"),
        ("--html", "no/page.html", "there is no folder no; make it first"),
        ("-o", ".", "it is a folder; name a file"),
    ] {
        // The input would take its time, and is not even opened.
        let ended = run(replay().current_dir(at).arg(small()).args([option, target])).with(1);
        assert_eq!(ended.err, format!("tenalloc: cannot write {target}: {why}\n"));
        assert!(ended.out.is_empty());
    }
    assert!(names(at).is_empty());
}

#[test]
fn a_disk_without_room_is_told_after_it() {
    let ended = run(replay().arg(script()).args(["-q", "-o", "/dev/full"])).with(1);
    let expected = "tenalloc: cannot write /dev/full: No space left on device (os error 28)\n";
    assert_eq!(ended.err, expected);
}

#[test]
fn a_folder_that_may_not_be_written_to_is_told_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let trace = copied(&script(), at.join("script.txt"), 0o644);
    fs::create_dir(at.join("closed")).expect("a folder");
    fs::set_permissions(at.join("closed"), fs::Permissions::from_mode(0o555)).expect("a mode");
    fs::set_permissions(at, fs::Permissions::from_mode(0o755)).expect("a mode");
    let Some(mut command) = unprivileged(at) else { return };
    let target = at.join("closed/out");
    let ended = run(command.arg("replay").arg(&trace).arg("-o").arg(&target)).with(1);
    let expected = format!("tenalloc: cannot write {}: Permission denied (os error 13)\n", target.display());
    assert_eq!(ended.err, expected);
    assert!(names(&at.join("closed")).is_empty());
}

#[test]
fn a_reader_who_leaves_early_is_no_error() {
    for format in ["table", "json", "csv", "html"] {
        let mut child = replay()
            .arg(script())
            .args(["-q", "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        drop(child.stdout.take());
        let ended = ended(child.wait_with_output().expect("it ends")).with(0);
        assert_eq!(ended.err, "", "{format}");
    }
}

#[test]
fn nobody_listening_to_errors_changes_no_exit_code() {
    for (arguments, code) in
        [(&["--fail-if", "slab>1B"][..], 1), (&["--design", "slob"], 2), (&["-f", "csv"], 0)]
    {
        let mut child = replay()
            .arg(script())
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        drop(child.stderr.take());
        assert_eq!(child.wait().expect("it ends").code(), Some(code), "{arguments:?}");
    }
}
