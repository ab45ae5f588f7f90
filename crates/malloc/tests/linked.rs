//! The other ways in: linked with the library, opened by the program; and calls before and after everything else.

mod common;
use common::{library, plain, preloaded, program, run};
use std::collections::BTreeSet;
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

/// Names that a shared library exports.
fn exported(library: impl AsRef<std::ffi::OsStr>) -> BTreeSet<String> {
    let listed = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    assert!(listed.status.success());
    let text = String::from_utf8(listed.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.split(' ').next_back());
    names.map(|name| name.split('@').next().unwrap().to_owned()).collect()
}

/// A library that the compiler finds.
fn of_the_system(name: &str) -> String {
    let said = Command::new("gcc").arg(format!("-print-file-name={name}")).output().unwrap();
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}

/// What the library exports is the malloc family, and nothing else of ours.
#[test]
fn names() {
    let known = |name: &str| {
        name.starts_with("_Z")
            || ["alloc", "free", "align", "mallopt", "mallinfo"].iter().any(|part| name.contains(part))
    };
    let names = exported(library());
    let others: Vec<_> = names.iter().filter(|name| !known(name) || name.contains("tenalloc")).collect();
    assert!(names.contains("malloc") && others.is_empty(), "{others:?}");
}

/// Whatever a program calls of glibc's malloc and the C++ library's operators comes to us: no program has two heaps. A
/// later libc with a name more is seen here.
#[test]
fn no_name_of_the_family_is_left_to_others() {
    let ours = exported(library());
    let libc = exported(of_the_system("libc.so.6"));
    // What has such a part in its name and is something else: hooks that nobody calls any more, files' space, an end of
    // everything for valgrind, and functions that only libc itself can call, which are made of the others.
    let something_else = |name: &str| {
        name.ends_with("_hook")
            || ["__libc_alloc", "__libc_scratch", "_IO_", "obstack", "_obstack"]
                .iter()
                .any(|part| name.starts_with(part))
            || ["__libc_freeres", "__libc_reallocarray"].contains(&name)
    };
    let parts = ["malloc", "calloc", "realloc", "memalign", "aligned_alloc", "valloc", "mallinfo", "mallopt"];
    let family = |name: &&String| {
        parts.iter().any(|part| name.contains(part))
            || ["free", "cfree", "__libc_free"].contains(&name.as_str())
    };
    let family: Vec<_> = libc.iter().filter(family).filter(|name| !something_else(name)).collect();
    assert!(family.len() > 20, "{family:?}");
    let left: Vec<_> = family.into_iter().filter(|name| !ours.contains(*name)).collect();
    assert!(left.is_empty(), "{left:?}");

    // operator new, new[], delete, delete[].
    let cxx = exported(of_the_system("libstdc++.so.6"));
    let operators: Vec<_> = cxx
        .iter()
        .filter(|name| ["_Znw", "_Zna", "_Zdl", "_Zda"].iter().any(|part| name.starts_with(part)))
        .collect();
    assert_eq!(operators.len(), 20, "{operators:?}");
    let left: Vec<_> = operators.into_iter().filter(|name| !ours.contains(*name)).collect();
    assert!(left.is_empty(), "{left:?}");
    for later in ["free_sized", "free_aligned_sized"] {
        assert!(ours.contains(later), "C23's {later}");
    }
}
