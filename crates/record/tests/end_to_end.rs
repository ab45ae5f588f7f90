//! Real recordings of this machine, wherever that is possible: root, perf and tracefs. Elsewhere each test says
//! `skipped: …` with the very problems the recorder lists.
//!
//! The recorder takes over signals of its process, so the tests run one after the other.

mod groups;

use groups::{REMOVE, memory_groups, unique};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use tenalloc_record::{CommandEnd, Error, Options, Progress, Summary, What, record};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn command(words: &[&str]) -> What {
    What::Command(words.iter().map(Into::into).collect())
}

/// Records, or tells why this machine cannot.
fn try_record(options: &Options, tell: &mut dyn FnMut(Progress<'_>)) -> Option<Result<Summary, Error>> {
    match record(options, tell) {
        Err(Error::Refused(problems)) => {
            let what: Vec<&str> = problems.iter().map(|problem| problem.what.as_str()).collect();
            println!("skipped: {}", what.join("; "));
            None
        }
        result => Some(result),
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn text(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// `perf script` of the recording, the fields `tid time event trace`.
fn script(folder: &Path) -> String {
    let output = Command::new("perf")
        .args(["script", "-F", "tid,time,event,trace", "-i"])
        .arg(folder.join("perf.data"))
        .output()
        .expect("perf runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn seconds_of(line: &str) -> Option<f64> {
    line.split_whitespace().nth(1)?.trim_end_matches(':').parse().ok()
}

#[test]
fn a_command_in_a_group_of_its_own() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let place = tempfile::tempdir().expect("a folder");
    let Some(groups) = memory_groups() else { return };
    let name = unique("tenalloc-record");
    let job = format!(
        "{REMOVE}; mkdir {groups}/{name} && sh -c 'echo $$ > {groups}/{name}/cgroup.procs; ls -R /etc > /dev/null; exit 7'; \
         end=$?; remove {groups}/{name}; exit $end"
    );
    let mut options = Options::new(place.path().join("out, -x"), command(&["sh", "-c", &job]));
    options.stamp_at = vec![0.0];
    let mut labels = Vec::new();
    let mut tell = |progress: Progress<'_>| {
        if let Progress::Stamped { label, .. } = progress {
            labels.push(label.to_owned());
        }
    };
    let Some(result) = try_record(&options, &mut tell) else { return };
    let summary = result.expect("a recording");
    assert_eq!(summary.command, Some(CommandEnd::Exited(7)));
    assert_eq!(labels.first().map(String::as_str), Some("before"));
    assert_eq!(labels.last().map(String::as_str), Some("after"));
    assert_eq!(labels, summary.stamps);
    assert_eq!(names(place.path()), ["out, -x"]);
    let folder = &summary.folder;
    for file in ["formats.txt", "perf.data", "pids.tsv", "recording.json", "side.tsv", "steady.txt"] {
        assert!(names(folder).contains(&file.to_owned()), "{file} in {:?}", names(folder));
    }

    let json: serde_json::Value = serde_json::from_str(&text(folder, "recording.json")).expect("json");
    let (start, end) = (json["start"].as_f64().expect("start"), json["end"].as_f64().expect("end"));
    let trace = script(folder);
    for event in ["cgroup_mkdir", "cgroup_attach_task", "cgroup_rmdir"] {
        let seen = trace.lines().any(|line| line.contains(event) && line.contains(&name));
        assert!(seen || !summary.events.iter().any(|known| known.ends_with(event)), "{event}");
    }
    let allocations = trace.lines().filter(|line| line.contains("kmem_cache_alloc:")).count();
    assert!(allocations > 100, "{allocations}");
    // Every stamp lies inside the trace, on the trace's own clock.
    let times: Vec<f64> = trace.lines().filter_map(seconds_of).collect();
    let (first, last) =
        (times.iter().copied().fold(f64::MAX, f64::min), times.iter().copied().fold(0.0, f64::max));
    let side = text(folder, "side.tsv");
    let stamps: Vec<f64> =
        side.lines().skip(1).filter_map(|row| row.split('\t').next()?.parse().ok()).collect();
    assert_eq!(stamps.len(), 2 * summary.stamps.len());
    assert!(stamps.iter().all(|at| first <= *at && *at <= last && start <= *at && *at <= end), "{side}");
    // This process was there before, and the command was not.
    let pids = text(folder, "pids.tsv");
    let row = format!("\t{}\t", std::process::id());
    assert!(pids.lines().any(|line| line.contains(&row)), "{pids}");
    assert_eq!(pids.lines().count(), summary.tasks);
}

#[test]
fn a_signal_ends_a_recording_and_keeps_it() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let place = tempfile::tempdir().expect("a folder");
    let out = place.path().join("out");
    let options = Options::new(&out, command(&["sleep", "1000"]));
    let mut tell = |progress: Progress<'_>| {
        if let Progress::Recording { .. } = progress {
            signal(SIGUSR1);
            signal(SIGINT);
        }
    };
    let Some(result) = try_record(&options, &mut tell) else { return };
    let summary = result.expect("a recording");
    assert!(summary.interrupted);
    assert_eq!(summary.stamps, ["before", "stamp1", "after"]);
    assert_eq!(summary.command, Some(CommandEnd::Signalled(15)));
    assert!(script(&out).lines().count() > 10);

    // A second signal, later than the first, while the rest is written: nothing is kept.
    let mut options = Options::new(&out, What::Seconds(1000.0));
    options.force = true;
    let mut tell = |progress: Progress<'_>| match progress {
        Progress::Recording { .. } => signal(SIGTERM),
        Progress::Stopping => {
            // Closer together they would count as one.
            std::thread::sleep(std::time::Duration::from_millis(350));
            signal(SIGTERM);
        }
        _ => {}
    };
    let before = names(&out);
    let result = try_record(&options, &mut tell).expect("it recorded just now");
    assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
    assert_eq!(names(place.path()), ["out"]);
    assert_eq!(names(&out), before);
}

#[test]
fn an_old_perf_and_a_command_that_is_not_there() {
    use std::os::unix::fs::PermissionsExt;
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let place = tempfile::tempdir().expect("a folder");
    // The perf of this machine, without what perf has learnt since 5.2, and refusing rings of 10,000 KiB and more.
    let old = place.path().join("perf");
    let hide = "#!/bin/sh\ncase \"$*\" in\n 'record -h') echo ' -a, --all-cpus' ;;\n *-m' '[0-9][0-9][0-9][0-9][0-9]*K*) \
                echo 'Permission error mapping pages.' >&2; exit 255 ;;\n *) exec perf \"$@\" ;;\nesac\n";
    fs::write(&old, hide).expect("a script");
    fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).expect("a mode");
    let mut options = Options::new(place.path().join("out"), What::Seconds(0.3));
    options.perf = Some(old);
    // What is taken by itself is less where little memory is free, and would not be refused.
    options.ring = Some(16 << 20);
    let Some(result) = try_record(&options, &mut |_| {}) else { return };
    let summary = result.expect("a recording");
    assert!(summary.seconds >= 0.3, "{}", summary.seconds);
    assert_eq!(summary.ring, 8 << 20);
    assert!(
        summary.missing.iter().any(|missing| missing.what.starts_with("rings larger")),
        "{:?}",
        summary.missing
    );
    assert!(!names(&summary.folder).iter().any(|name| name == "control" || name == "perf.data.old"));
    assert!(script(&summary.folder).contains("kmalloc"));

    let wrong = Options::new(place.path().join("out2"), command(&["no-such-command-here"]));
    let error = record(&wrong, &mut |_| {}).expect_err("no such command");
    assert_eq!(error.exit_code(), 2);
    assert_eq!(names(place.path()), ["out", "perf"]);
}

/// A signal to this very thread, which has seen it when this returns. One to the process is for whichever thread, and that
/// may get to run only after the recorder has looked.
fn signal(number: i32) {
    signal_hook::low_level::raise(number).expect("a signal to ourselves");
}
