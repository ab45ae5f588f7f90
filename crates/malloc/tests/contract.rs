//! The malloc contract: C and C++ programs, each under glibc's malloc, which shows that the program is right, and under
//! ours with every kind of group.

mod common;
use common::{plain, preloaded, program, run};
use std::process::Command;

const KINDS: [&str; 3] = ["process", "thread", "library"];

/// Runs a program everywhere; what it says must be the same, and nothing else is said.
fn everywhere(source: &str, arguments: &[&str]) {
    let program = program(arguments.first().unwrap_or(&source.split('.').next().unwrap()), source);
    let (expected, _) = run(plain(&program).args(arguments));
    for kind in KINDS {
        let (out, err) = run(preloaded(&program, &[("TENALLOC_GROUP", kind)]).args(arguments));
        assert_eq!((&out, err.as_str()), (&expected, ""), "{kind}");
    }
}

#[test]
fn what_c_promises() {
    everywhere("contract.c", &[]);
}

#[test]
fn what_cxx_promises() {
    if Command::new("g++").arg("--version").output().is_err() {
        println!("skipped: no g++ for the tests in C++");
        return;
    }
    everywhere("new.cc", &[]);
}

#[test]
fn what_glibcs_malloc_can_be_asked() {
    everywhere("info.c", &[]);
    let program = program("stats", "info.c");
    let (out, err) = run(preloaded(&program, &[("TENALLOC_GROUP", "thread")]).arg("stats"));
    assert_eq!(out, "info holds\n");
    assert!(err.starts_with("tenalloc: info (") && err.contains(" at malloc_stats, bytes\n"), "{err}");
}

#[test]
fn threads_that_free_each_others_memory() {
    everywhere("threads.c", &["stress"]);
}

#[test]
fn a_thousand_threads_come_and_go() {
    everywhere("threads.c", &["gone"]);
}

/// The core's own test forks a thousand times.
#[test]
fn forks_among_eight_threads() {
    let program = program("forks", "threads.c");
    for (kind, number) in [("process", "100"), ("thread", "40"), ("library", "40")] {
        let (out, err) = run(preloaded(&program, &[("TENALLOC_GROUP", kind)]).args(["forks", number]));
        assert_eq!((out.as_str(), err.as_str()), ("forks: done\n", ""), "{kind}");
    }
}

#[test]
fn signals_in_the_middle() {
    everywhere("threads.c", &["signals"]);
}

#[test]
fn libraries_opened_and_closed() {
    everywhere("threads.c", &["libraries"]);
}

#[test]
fn under_a_limit_malloc_fails_and_the_program_lives() {
    let program = program("limit", "limit.c");
    let bounds = ["6000000", "8388608"];
    // A thread's and the process's group are the same here: there is one thread.
    for kind in ["process", "thread", "library"] {
        let settings = [("TENALLOC_GROUP", kind), ("TENALLOC_MAX", "8M")];
        let (out, err) = run(preloaded(&program, &settings).args(bounds));
        let got: usize = out.trim().parse().unwrap();
        assert!((6_000_000..8 << 20).contains(&got) && err.is_empty(), "{kind}: {got} {err}");
    }
}
