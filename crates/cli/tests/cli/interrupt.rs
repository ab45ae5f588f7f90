//! Ctrl-C: exit 130, and no half file. Nothing here waits for a time: what a process has read proves how far it is.

use super::support::{names, replay, script};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::process::{Child, Stdio};

fn interrupt(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it is there");
}

#[test]
fn in_the_midst_of_reading() {
    for signal in [Signal::INT, Signal::TERM] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = replay()
            .current_dir(folder.path())
            .args(["-", "-o", "out.txt", "--html", "page.html"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let text = std::fs::read(script()).expect("the text");
        let mut input = child.stdin.take().expect("its input");
        // Far more than a pipe and a buffer hold: when all is written, most of it was read, and signals are watched
        // for before the first byte is.
        for _ in 0..2_000_000 / text.len() {
            input.write_all(&text).expect("it reads");
        }
        interrupt(&child, signal);
        let ended = child.wait().expect("it ends");
        assert_eq!(ended.code(), Some(130));
        drop(input);
        assert!(names(folder.path()).is_empty());
    }
}

/// A pipe that nobody reads blocks its writer: Ctrl-C must not wait for that as it does for a file.
#[test]
fn while_a_pipe_waits_for_its_reader() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
    let mut child = replay()
        .arg(script())
        .arg("--html")
        .arg(&pipe)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    // The table comes before the page.
    let mut out = child.stdout.take().expect("its output");
    assert_eq!(out.read(&mut [0; 1]).expect("the table"), 1);
    interrupt(&child, Signal::INT);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}
