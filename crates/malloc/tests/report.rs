//! Groups without changing the program: what the report says is what the program counted, limits hold for each group,
//! and mistakes in the environment are told and stop nothing.

mod common;
use common::{library, plain, preloaded, program, run};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

/// The reports of an output, each a line of JSON.
fn reports(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

fn groups(report: &Value) -> HashMap<&str, &Value> {
    report["groups"].as_array().unwrap().iter().map(|g| (g["name"].as_str().unwrap(), g)).collect()
}

/// What the program itself counted: (name, bytes, failures).
fn counted(out: &str) -> Vec<(String, u64, u64)> {
    out.lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[0].into(), words[1].parse().unwrap(), words[2].parse().unwrap())
        })
        .collect()
}

#[test]
fn a_report_at_a_signal_has_each_threads_bytes_to_the_byte() {
    let program = program("signal", "tenants.c");
    let settings = [("TENALLOC_GROUP", "thread"), ("TENALLOC_REPORT", "stderr,json,signal=USR1")];
    let (out, err) = run(preloaded(&program, &settings).args(["16", "500", "signal"]));
    let all = reports(&err);
    assert_eq!(all.iter().map(|r| r["when"].as_str().unwrap()).collect::<Vec<_>>(), ["signal", "exit"]);
    let at_signal = groups(&all[0]);
    assert_eq!(counted(&out).len(), 16);
    for (name, bytes, failed) in counted(&out) {
        let group = at_signal[name.as_str()];
        assert_eq!((group["live"].as_u64(), failed), (Some(bytes), 0), "{name}");
        assert!(group["peak"].as_u64() >= Some(bytes) && group["tid"].as_u64() > Some(0));
    }
    // At the end they are gone: one left its memory to the process.
    let left = counted(&out)[0].1;
    assert!(groups(&all[1])["process"]["own"].as_u64() >= Some(left));
    let gone = all[1]["gone"].as_array().unwrap();
    assert_eq!(gone.iter().map(|g| g["threads"].as_u64().unwrap()).sum::<u64>(), 16);
    assert!(gone.iter().all(|g| g["name"].as_str().unwrap().starts_with("tenant-")));
}

/// Signals come wherever they come: no thread waits for itself, every report is whole, and after each signal one follows
/// whose figures were read after it.
#[test]
fn a_storm_of_signals_ends_well() {
    let program = program("storm", "threads.c");
    let folder = tempfile::tempdir().unwrap();
    for kind in ["process", "thread", "library"] {
        let file = folder.path().join(kind);
        let target = format!("{},json,signal=USR1", file.display());
        let settings = [("TENALLOC_GROUP", kind), ("TENALLOC_REPORT", &target)];
        let (out, _) = run(preloaded(&program, &settings).arg("reports").arg(&file));
        assert_eq!(out, "reports: done\n");
        let all = reports(&std::fs::read_to_string(&file).unwrap());
        let (last, asked) = all.split_last().unwrap();
        assert_eq!(last["when"], "exit");
        assert!(asked.iter().all(|report| report["when"] == "signal"));
        assert!(asked.len() >= 30, "{kind}: {} reports", asked.len());
    }
}

#[test]
fn who_is_asked_while_it_forks_reports_after_it() {
    let program = program("forker", "threads.c");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report");
    let target = format!("{},json,signal=USR1", file.display());
    let (out, _) = run(preloaded(&program, &[("TENALLOC_REPORT", &target)]).arg("forker").arg(&file));
    assert_eq!(out, "forker: done\n");
}

/// A fork comes while another thread writes, who is not in the child.
#[test]
fn a_child_reports_though_it_was_forked_within_a_report() {
    let program = program("children", "threads.c");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report");
    let target = format!("{},json,signal=USR1", file.display());
    let settings = [("TENALLOC_GROUP", "thread"), ("TENALLOC_REPORT", &target)];
    let (out, _) = run(preloaded(&program, &settings).arg("children"));
    assert_eq!(out, "children: done\n");
    let all = reports(&std::fs::read_to_string(&file).unwrap());
    let ends: HashSet<u64> =
        all.iter().filter(|report| report["when"] == "exit").map(|r| r["pid"].as_u64().unwrap()).collect();
    assert_eq!(ends.len(), 200 + 1);
}

#[test]
fn who_is_cancelled_within_a_report_writes_it_and_goes() {
    let program = program("cancelled", "cancelled.c");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fifo");
    let target = format!("{},json,signal=USR1", file.display());
    let (out, _) = run(preloaded(&program, &[("TENALLOC_REPORT", &target)]).arg(&file));
    assert_eq!(out, "cancelled: done\n");
}

/// Nobody needs a deep stack for us: neither whoever allocates nor whoever is asked for a report.
#[test]
fn stacks_may_be_small() {
    let program = program("stacks", "stacks.c");
    for kind in ["process", "thread", "library"] {
        for form in ["stderr,json,signal=USR1", "stderr,signal=USR1"] {
            let settings = [("TENALLOC_GROUP", kind), ("TENALLOC_REPORT", form)];
            let (out, err) = run(&mut preloaded(&program, &settings));
            assert_eq!(out, "stacks: done\n", "{kind}");
            // One at least of each time that eight threads asked, and one of the small signal stack.
            let number = err.matches("signal").count();
            assert!(number > 25, "{kind}: {number} reports");
        }
    }
}

#[test]
fn a_report_at_exit_has_the_threads_that_are_there() {
    let program = program("exit", "tenants.c");
    let settings = [("TENALLOC_GROUP", "thread"), ("TENALLOC_REPORT", "stderr,json")];
    let (out, err) = run(preloaded(&program, &settings).args(["4", "300", "exit"]));
    let all = reports(&err);
    let at_exit = groups(&all[0]);
    for (name, bytes, _) in counted(&out) {
        assert_eq!(at_exit[name.as_str()]["live"].as_u64(), Some(bytes), "{name}");
    }
    let (_, table) = run(preloaded(&program, &[("TENALLOC_GROUP", "thread"), ("TENALLOC_REPORT", "stderr")])
        .args(["2", "10", "exit"]));
    assert!(table.starts_with("tenalloc: tenants (") && table.contains(" tenant-1 "), "{table}");
}

#[test]
fn who_is_over_his_limit_fails_and_others_notice_nothing() {
    let program = program("max", "tenants.c");
    let settings = [("TENALLOC_GROUP", "thread"), ("TENALLOC_MAX", "2M"), ("TENALLOC_REPORT", "stderr,json")];
    let (out, err) = run(preloaded(&program, &settings).args(["8", "1000", "exit"]));
    let all = reports(&err);
    let at_exit = groups(&all[0]);
    for (i, (name, bytes, failed)) in counted(&out).into_iter().enumerate() {
        let group = at_exit[name.as_str()];
        assert_eq!(group["live"].as_u64(), Some(bytes));
        assert_eq!(group["max"].as_u64(), Some(2 << 20));
        assert!(bytes <= 2 << 20);
        assert_eq!(failed > 0, i % 2 == 1, "{name}: {failed} failures");
        assert_eq!(group["events"]["max"].as_u64() > Some(0), i % 2 == 1);
    }
}

#[test]
fn each_library_has_its_group() {
    let program = program("library", "tenants.c");
    let settings = [("TENALLOC_GROUP", "library"), ("TENALLOC_REPORT", "stderr,json")];
    let (out, err) = run(preloaded(&program, &settings).args(["4", "300", "exit"]));
    let all = reports(&err);
    let at_exit = groups(&all[0]);
    let own: u64 = counted(&out).iter().map(|(_, bytes, _)| bytes).sum();
    assert_eq!(at_exit["tenants"]["live"].as_u64(), Some(own), "what the program's own code allocated");
    assert!(at_exit.keys().any(|name| name.starts_with("libc.so")), "its standard output has a buffer");
}

#[test]
fn a_library_is_known_again_when_there_are_descriptors() {
    let program = program("descriptors", "descriptors.c");
    let settings = [("TENALLOC_GROUP", "library"), ("TENALLOC_REPORT", "stderr,json")];
    let (out, err) = run(&mut preloaded(&program, &settings));
    let all = reports(&err);
    assert_eq!(groups(&all[0])["descriptors"]["live"].as_u64(), Some(counted(&out)[0].1));
}

#[test]
fn a_report_goes_to_a_file_for_each_process() {
    let folder = tempfile::tempdir().unwrap();
    let target = format!("{}/report-%p,json", folder.path().display());
    run(preloaded("bash", &[("TENALLOC_REPORT", &target)]).args(["-c", "bash -c 'exit 0'; exit 0"]));
    let mut pids = Vec::new();
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        let all = reports(&std::fs::read_to_string(&path).unwrap());
        assert_eq!(all.len(), 1);
        let pid = all[0]["pid"].as_u64().unwrap();
        assert!(path.ends_with(format!("report-{pid}")));
        pids.push(pid);
    }
    assert_eq!(pids.len(), 2);
}

#[test]
fn mistakes_in_the_environment_are_told_and_stop_nothing() {
    let settings = [
        ("TENALLOC_GROUP", "threads"),
        ("TENALLOC_MAX", "12X"),
        ("TENALLOC_HIGH", "-1"),
        ("TENALLOC_REPORT", "stderr,signal=KILL"),
    ];
    let (out, err) = run(preloaded("echo", &settings).arg("said"));
    assert_eq!(out, "said\n");
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(lines.len(), 4, "{err}");
    for ((name, value), line) in settings.iter().zip(lines) {
        assert!(line.starts_with(&format!("tenalloc: {name}={value} is not used: ")), "{line}");
    }
    let (out, err) = run(preloaded("echo", &[("TENALLOC_REPORT", "/nowhere/report")]).arg("said"));
    assert_eq!((out.as_str(), err.lines().count()), ("said\n", 1), "{err}");
    let (_, err) = run(preloaded("echo", &[("TENALLOC_LIMIT", "1M")]).arg("said"));
    assert!(err.starts_with("tenalloc: TENALLOC_LIMIT is not used: ") && err.lines().count() == 1, "{err}");
    // What is empty is not set.
    let (_, err) = run(preloaded("echo", &[("TENALLOC_GROUP", ""), ("TENALLOC_REPORT", "")]).arg("said"));
    assert_eq!(err, "");
}

/// A report never stops a program, and never lands in a file of its own.
#[test]
fn a_report_that_nobody_reads_harms_nobody() {
    // A pipe whose reader is gone before the report comes.
    let mut cat = preloaded("cat", &[("TENALLOC_REPORT", "stderr")]);
    let mut cat = cat.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(cat.stderr.take());
    drop(cat.stdin.take());
    let end = cat.wait().unwrap();
    assert!(end.success(), "{end}");

    // A file that may not grow, which is told.
    let folder = tempfile::tempdir().unwrap();
    let mut shell = plain("bash");
    shell.args(["-c", r#"ulimit -f 0; exec env LD_PRELOAD="$library" TENALLOC_REPORT="$0" true"#]);
    let (_, err) = run(shell.env("library", library()).arg(folder.path().join("report")));
    assert!(err.contains("the report could not be written to "), "{err}");

    // Standard error is closed, and a file that the program opens has its number.
    let program = program("closed", "files.c");
    let file = folder.path().join("data");
    for settings in ["TENALLOC_REPORT=stderr", "TENALLOC_GROUP=nonsense"] {
        let script = format!(r#"env LD_PRELOAD="$library" {settings} "$0" "$1" 2>&-"#);
        let mut shell = plain("bash");
        shell.env("library", library()).arg("-c").arg(script).args([&program, &file]);
        assert_eq!(run(&mut shell).0, "2\n", "the file that it opened");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine\n");
    }
}

#[test]
fn what_must_not_be_freed_is_told() {
    let program = program("mistakes", "mistakes.c");
    run(plain(&program).arg("none"));
    let (out, err) = run(preloaded(&program, &[]).arg("foreign"));
    assert_eq!(out, "lives\n");
    assert!(
        err.lines().count() <= 10 && err.starts_with("tenalloc: free(0x") && err.contains("not from"),
        "{err}"
    );
    // The library of this test tells every double free, as debug builds do.
    for what in ["interior", "double"] {
        let end = preloaded(&program, &[]).arg(what).output().unwrap();
        let err = String::from_utf8_lossy(&end.stderr);
        assert_eq!(end.status.signal(), Some(libc_abort()), "{what}: {err}");
        assert!(err.starts_with("tenalloc: free(0x") && err.lines().count() == 1, "{err}");
    }
}

/// SIGABRT.
fn libc_abort() -> i32 {
    6
}

/// `high` does not fail: it slows down.
#[test]
fn above_high_all_is_had() {
    let program = program("high", "tenants.c");
    let settings =
        [("TENALLOC_GROUP", "thread"), ("TENALLOC_HIGH", "720K"), ("TENALLOC_REPORT", "stderr,json")];
    let (out, err) = run(preloaded(&program, &settings).args(["2", "60", "exit"]));
    let all = reports(&err);
    let at_exit = groups(&all[0]);
    for (name, bytes, failed) in counted(&out) {
        let group = at_exit[name.as_str()];
        assert_eq!(
            (group["live"].as_u64(), group["high"].as_u64(), failed),
            (Some(bytes), Some(720 << 10), 0)
        );
        assert_eq!(group["events"]["high"].as_u64() > Some(0), bytes > 720 << 10, "{name} {bytes}");
    }
}
