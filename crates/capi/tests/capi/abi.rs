//! The binary interface, written down in `abi.txt`: symbols with their versions, sizes and offsets of structs.
//!
//! After a change that is meant: `TENALLOC_BLESS=1 cargo test -p tenalloc-capi abi`, then read the difference. Before
//! 1.0 anything may change; from then on lines are only added.

use crate::common::{built, compile, has, run};
use crate::header::structs;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// Names that the shared library exports, with their versions.
fn exported() -> BTreeSet<String> {
    let symbols =
        run(Command::new("nm").args(["-D", "--defined-only"]).arg(built().out.join("libtenalloc.so")));
    let names = symbols.lines().filter_map(|line| line.rsplit(' ').next());
    names.filter(|name| *name != "TENALLOC_0.1").map(str::to_owned).collect()
}

/// Names that the header declares.
fn declared() -> BTreeSet<String> {
    let text = fs::read_to_string(built().here.join("include/tenalloc.h")).expect("the header");
    let mut names = BTreeSet::new();
    // A declaration begins in the first column, and its name is what stands before the first parenthesis.
    for line in text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase())) {
        if let Some((head, _)) = line.split_once('(')
            && let Some(name) = head.rsplit([' ', '*']).next().filter(|name| name.starts_with("ten_"))
        {
            names.insert(name.to_owned());
        }
    }
    names
}

#[test]
fn what_is_declared_is_exported_and_nothing_else() {
    if !has("nm") {
        return;
    }
    let exported: BTreeSet<String> =
        exported().iter().map(|name| name.split('@').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(exported, declared());
}

#[test]
fn the_library_has_its_soname_and_needs_only_the_system() {
    if !has("readelf") {
        return;
    }
    let dynamic = run(Command::new("readelf").arg("-d").arg(built().out.join("libtenalloc.so")));
    assert!(dynamic.contains("soname: [libtenalloc.so.0]"), "{dynamic}");
    for line in dynamic.lines().filter(|line| line.contains("(NEEDED)")) {
        let known = ["libc.so.6", "libgcc_s.so.1", "libm.so.6", "ld-linux"];
        assert!(known.iter().any(|name| line.contains(name)), "{line}");
    }
}

#[test]
fn the_interface_is_the_one_written_down() {
    if !has("nm") || !has("gcc") {
        return;
    }
    let mut code =
        String::from("#include <stdio.h>\n#include <stddef.h>\n#include \"tenalloc.h\"\nint main(void) {\n");
    for (name, fields) in structs() {
        code += &format!("printf(\"struct {name} %zu\\n\", sizeof({name}));\n");
        for field in fields {
            code += &format!("printf(\"  {field} %zu\\n\", offsetof({name}, {field}));\n");
        }
    }
    let source = built().out.join("layout-now.c");
    fs::write(&source, code + "return 0; }\n").expect("a file");
    let layout = run(&mut Command::new(compile("gcc", &[], &source, "layout-now")));
    let mut now =
        String::from("# The binary interface of libtenalloc.so.0 on x86-64; see tests/capi/abi.rs.\n");
    exported().iter().for_each(|name| now += &format!("function {name}\n"));
    now += &layout;

    let file = built().here.join("abi.txt");
    if std::env::var_os("TENALLOC_BLESS").is_some() {
        fs::write(&file, &now).expect("abi.txt");
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    let missing: Vec<_> = written.lines().filter(|line| !now.lines().any(|l| l == *line)).collect();
    let new: Vec<_> = now.lines().filter(|line| !written.lines().any(|l| l == *line)).collect();
    assert!(missing.is_empty() && new.is_empty(), "abi.txt differs: gone {missing:#?}, new {new:#?}");
    assert_eq!(written, now, "abi.txt has another order");
}
