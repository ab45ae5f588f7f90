//! The text of `perf script` on standard input.

use super::support::{ended, replay, run, script, small};
use std::fs::File;
use std::process::{Command, Stdio};

const GROUPS: [&str; 4] = ["/shop/db", "/shop/web", "(not accounted)", "/shop"];

#[test]
fn a_text_is_read_from_a_stream_and_from_a_file_alike() {
    let stream = File::open(script()).expect("the text");
    let from_stream = run(replay().args(["-", "-f", "json"]).stdin(stream)).with(0);
    let from_file = run(replay().arg(script()).args(["-f", "json"])).with(0);
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    let (stream, file) = (parse(&from_stream.out), parse(&from_file.out));
    assert_eq!(stream["trace"]["path"], "standard input");
    assert_eq!(stream["trace"]["allocations"], 60);
    assert_eq!((&stream["trace"]["accounted"], &stream["trace"]["matched_frees"]), (&48.into(), &20.into()));
    assert_eq!((&stream["trace"]["unseen_frees"], &stream["trace"]["groups"]), (&1.into(), &2.into()));
    let peak = &stream["designs"][0];
    // 36 dentries of 192 bytes and 24 buffers of 1,024 bytes.
    assert_eq!(peak["at_peak"]["live"], 36 * 192 + 24 * 1024);
    for (design, same) in stream["designs"]
        .as_array()
        .expect("designs")
        .iter()
        .zip(file["designs"].as_array().expect("designs"))
    {
        let paths: Vec<_> = design["groups"].as_array().expect("groups").iter().map(|g| &g["path"]).collect();
        assert!(paths.iter().all(|p| GROUPS.iter().any(|g| *p == g)), "{paths:?}");
        assert_eq!((&design["caches"], &design["groups"]), (&same["caches"], &same["groups"]));
    }
}

/// perf's own text of the small recording, with the files beside it, says what the recording itself does: to the byte.
#[test]
fn what_perf_script_prints_gives_the_same_truth() {
    let perf = Command::new("perf")
        .args(["script", "--kallsyms=/dev/null", "-F", "comm,tid,cpu,time,event,trace", "-i"])
        .arg(small().join("perf.data"))
        .env("PERF_CONFIG", "/dev/null")
        .env("LC_ALL", "C")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut perf) = perf else { return println!("skipped: perf is not here") };
    let text = perf.stdout.take().expect("its output");
    let replay = replay()
        .args(["-", "-q", "-f", "json", "--sidecar"])
        .arg(small())
        .stdin(text)
        .output()
        .expect("it runs");
    let ended = ended(replay);
    // A perf that fails because nobody reads its text any more is no such perf.
    let all_was_read = ended.code == Some(0) || ended.err.contains("the input is empty");
    if !perf.wait().expect("perf ends").success() && all_was_read {
        return println!("skipped: this perf cannot read the recording");
    }
    let ended = ended.with(0);
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!(report["trace"]["events"], 529_874);
    assert_eq!(
        (&report["trace"]["allocations"], &report["trace"]["live_at_end"]),
        (&240_430.into(), &12_027.into())
    );
    let truth = &report["truth"][0];
    assert_eq!((&truth["equal"], &truth["groups"]), (&40.into(), &40.into()));
}
