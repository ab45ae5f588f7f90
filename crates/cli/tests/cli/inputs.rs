//! What cannot be used is exit 2 and one message that says what, where, and what to do. The messages are kept in
//! `tests/data/messages.txt`, to be read as a user would; `TENALLOC_BLESS=1` writes that file.

use super::support::{here, names, replay, run, script, small};
use std::fmt::Write;
use std::fs;
use std::path::Path;

fn put(folder: &Path, name: &str, bytes: &[u8]) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    fs::write(path, bytes).expect("a file");
}

/// Numbers without any pattern.
fn noise(n: usize) -> Vec<u8> {
    let mut x = 0x1234_5678_9abc_def1u64;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    (0..n).map(|_| next()).collect()
}

#[test]
fn messages_are_as_expected() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let whole = fs::read(small().join("perf.data")).expect("the trace");
    put(at, "empty", b"");
    put(at, "readme.txt", b"Dear reader,\nthis is no trace.\n");
    put(at, "binary", &noise(3000));
    fs::create_dir(at.join("folder")).expect("a folder");
    for n in [4, 60, 104, 2000, 200_000] {
        put(at, &format!("cut-{n}.data"), &whole[..n]);
    }
    put(at, "garbage.data", &[&whole[..104], &noise(5000)].concat());
    put(at, "other.txt", b"  sh  100 [000]  1.000125: sched:sched_switch: prev_comm=sh prev_pid=100\n");
    put(at, "side/pids.tsv", b"tid\ttgid\tcgroup\tcomm\nseven\t7\t/\tsh\n");
    put(at, "script.txt", &fs::read(script()).expect("the text"));
    let cases: &[&[&str]] = &[
        &["missing"],
        &["empty"],
        &["readme.txt"],
        &["binary"],
        &["folder"],
        &["cut-4.data"],
        &["cut-60.data"],
        &["cut-104.data"],
        &["cut-2000.data"],
        &["cut-200000.data"],
        &["garbage.data"],
        &["other.txt"],
        &["-"],
        &["script.txt", "--sidecar", "side"],
        &["script.txt", "--sidecar", "missing"],
        &["script.txt", "--formats", "missing"],
        &["script.txt", "--design", "slob"],
        &["script.txt", "--design", ","],
        &["script.txt", "--fail-if", "waste"],
        &["script.txt", "--fail-if", "wast>1%"],
        &["script.txt", "--fail-if", "waste>20parsecs"],
        &["script.txt", "--fail-if", "linux-2.4:waste>20%"],
        &["script.txt", "--check", "0"],
        &["script.txt", "--check", "often"],
        &["script.txt", "--format", "xml"],
        &["script.txt", "--colour", "mauve"],
        &["script.txt", "another.txt"],
        &["script.txt", "--no-such-option"],
        &[],
    ];
    let before = names(at);
    let mut text = String::new();
    for case in cases {
        let ended = run(replay().current_dir(at).args(*case).args(["-o", "result"])).with(2);
        assert!(ended.out.is_empty(), "{case:?}: {}", ended.out);
        let _ = writeln!(text, "$ tenalloc replay {}\n{}\n", case.join(" "), ended.err.trim_end());
        assert!(ended.err.starts_with("tenalloc: ") || ended.err.starts_with("error: "), "{}", ended.err);
        if ended.err.starts_with("tenalloc: ") {
            assert_eq!(ended.err.lines().count(), 1, "{case:?}: {}", ended.err);
        }
        assert_eq!(names(at), before, "{case:?} left something");
    }
    let path = here("tests/data/messages.txt");
    if std::env::var_os("TENALLOC_BLESS").is_some() {
        fs::write(&path, &text).expect("writes the expected messages");
    }
    let expected = fs::read_to_string(&path).expect("the expected messages");
    assert!(text == expected, "messages differ; now they are\n{text}");
}

#[test]
fn a_bare_recording_is_run_and_says_what_it_lacks() {
    let folder = tempfile::tempdir().expect("a folder");
    let bare = folder.path().join("perf.data");
    fs::copy(small().join("perf.data"), &bare).expect("a copy");
    let ended = run(replay().arg(&bare).args(["--format", "json"])).with(0);
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!(report["trace"]["allocations"], 240_430);
    assert_eq!(report["truth"], serde_json::json!([]));
    let groups = report["designs"][0]["groups"].as_array().expect("groups");
    assert!(groups.iter().any(|g| g["path"] == "(unknown)"), "tasks older than the recording have a row");
    for lack in ["no pids.tsv", "row (unknown)", "all objects lie on node 0", "no callsites.tsv"] {
        assert!(ended.err.contains(lack) || lack == "no callsites.tsv", "{lack}: {}", ended.err);
    }
    // The folder that has it all may lie elsewhere.
    let ended = run(replay().arg(&bare).arg("--sidecar").arg(small()).args(["--format", "json"])).with(0);
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!((&report["truth"][0]["equal"], &report["trace"]["groups"]), (&40.into(), &62.into()));
}

#[test]
fn a_recording_that_was_cut_is_run_with_the_formats_of_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = fs::read(small().join("perf.data")).expect("the trace");
    put(folder.path(), "cut.data", &whole[..whole.len() / 2]);
    let formats = small().join("perf.data");
    let ended = run(replay()
        .current_dir(folder.path())
        .arg("cut.data")
        .arg("--formats")
        .arg(formats)
        .args(["-f", "json"]));
    let ended = ended.with(0);
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    let events = report["trace"]["events"].as_u64().expect("a number");
    assert!((100_000..500_000).contains(&events), "{events}");
    let notes = report["notes"].to_string();
    let place = notes.split("up to byte ").nth(1).and_then(|n| n.split(' ').next()?.parse::<usize>().ok());
    assert!(place.is_some_and(|n| n > 0 && n <= whole.len() / 2), "the place where it breaks off: {notes}");
}
