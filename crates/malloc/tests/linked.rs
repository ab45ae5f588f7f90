//! The other ways in: linked with the library, opened by the program; and calls before and after everything else.

mod common;
use common::{library, plain, preloaded, program, run};
use std::process::Command;

const SAID: &str = "linked: done\n";

#[test]
fn before_main_in_fork_handlers_and_at_the_end() {
    let program = program("handlers", "linked.c");
    assert_eq!(run(&mut plain(&program)), (SAID.into(), String::new()));
    for kind in ["process", "thread", "library"] {
        let settings = [("TENALLOC_GROUP", kind), ("TENALLOC_REPORT", "/dev/null,signal=USR1")];
        assert_eq!(run(&mut preloaded(&program, &settings)), (SAID.into(), String::new()), "{kind}");
    }
}

#[test]
fn a_program_linked_with_it() {
    let plain_one = program("linked", "linked.c");
    let linked = plain_one.with_file_name("linked-with-it");
    let folder = plain_one.parent().unwrap();
    std::fs::copy(library(), folder.join("libtenalloc-malloc.so")).unwrap();
    let built = Command::new("gcc")
        .args(["-fno-builtin", "-pthread", "-o"])
        .arg(&linked)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/linked.c"))
        .arg(folder.join("libtenalloc-malloc.so"))
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .status()
        .unwrap();
    assert!(built.success());
    let (out, err) = run(plain(&linked).env("TENALLOC_REPORT", "stderr,json"));
    assert_eq!(out, SAID);
    // 50 children and the program: all of them run on it.
    assert_eq!(
        err.lines().filter(|line| line.starts_with("{\"program\":\"linked-with-it\"")).count(),
        51,
        "{err}"
    );
}

#[test]
fn a_program_that_opens_it() {
    let program = program("opened", "linked.c");
    assert_eq!(run(plain(&program).arg(library())), (SAID.into(), String::new()));
}

/// What the library exports is the malloc family, and nothing else of ours.
#[test]
fn names() {
    let listed = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output().unwrap();
    assert!(listed.status.success());
    let text = String::from_utf8(listed.stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next_back()).collect();
    for name in [
        "malloc",
        "calloc",
        "realloc",
        "reallocarray",
        "free",
        "cfree",
        "posix_memalign",
        "aligned_alloc",
        "memalign",
        "valloc",
        "pvalloc",
        "malloc_usable_size",
        "free_sized",
        "free_aligned_sized",
        "malloc_trim",
        "_Znwm",
        "_Znam",
        "_ZdlPv",
        "_ZdaPv",
        "_ZdlPvm",
        "_ZnwmSt11align_val_tRKSt9nothrow_t",
        "_ZdaPvSt11align_val_tRKSt9nothrow_t",
    ] {
        assert!(names.contains(&name), "{name}");
    }
    let known = |name: &str| {
        name.starts_with("_Z") || ["alloc", "free", "align", "mallopt"].iter().any(|part| name.contains(part))
    };
    let others: Vec<&str> = names.iter().filter(|name| !known(name)).copied().collect();
    assert!(others.is_empty() && names.iter().all(|name| !name.contains("tenalloc")), "{others:?}");
}
