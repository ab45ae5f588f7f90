//! Programs in C and C++ that call every function, plain, with the compiler's sanitizers, and under valgrind.

use crate::common::{built, compile, has, output, run};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

const PROGRAMS: [&str; 5] = ["groups", "objects", "lists", "bulk", "forks"];

fn source(name: &str) -> PathBuf {
    built().here.join("tests/c").join(name)
}

/// One for each test: they run at the same time.
fn compiled(name: &str, test: &str) -> PathBuf {
    compile("gcc", &[], &source(&format!("{name}.c")), &format!("c-{name}-{test}"))
}

#[test]
fn every_call_does_what_the_header_says() {
    if has("gcc") {
        for name in PROGRAMS {
            run(&mut Command::new(compiled(name, "plain")));
        }
    }
}

/// The end of address space, signals, a thousand threads. Not under the sanitizers, which need address space themselves.
#[test]
fn nothing_is_lost_where_memory_ends() {
    if has("gcc") {
        run(&mut Command::new(compiled("memory", "plain")));
    }
}

/// The programs above call each function that there is.
#[test]
fn no_function_is_left_untried() {
    let text: String = PROGRAMS
        .iter()
        .map(|name| std::fs::read_to_string(source(&format!("{name}.c"))).expect("a source"))
        .collect();
    let abi = std::fs::read_to_string(built().here.join("abi.txt")).expect("abi.txt");
    let functions = abi.lines().filter_map(|line| line.strip_prefix("function ")?.split('@').next());
    let untried: Vec<_> = functions.filter(|name| !text.contains(&format!("{name}("))).collect();
    assert!(untried.is_empty(), "{untried:?}");
}

#[test]
fn the_header_serves_cpp() {
    if has("g++") {
        run(&mut Command::new(compile("g++", &[], &source("cpp.cpp"), "c-cpp")));
    }
}

/// C++ may not throw through the library: who does is stopped at once, not somewhere later.
#[test]
fn an_exception_does_not_pass() {
    if !has("g++") {
        return;
    }
    let program = compile("g++", &[], &source("throws.cpp"), "c-throws");
    for which in ["scope", "each", "oom"] {
        let end = output(Command::new(&program).arg(which));
        assert_eq!(
            end.status.signal(),
            Some(6),
            "{which}: {} {}",
            end.status,
            String::from_utf8_lossy(&end.stderr)
        );
    }
}

/// The C side's own mistakes would show here: memory of `malloc`, and undefined behaviour.
#[test]
fn the_sanitizers_find_nothing() {
    if !has("gcc") {
        return;
    }
    for name in PROGRAMS {
        let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        let program = compile("gcc", &flags, &source(&format!("{name}.c")), &format!("c-{name}-sanitized"));
        run(&mut Command::new(program));
    }
}

#[test]
fn valgrind_finds_nothing() {
    if !has("valgrind") || !has("gcc") {
        return;
    }
    for name in PROGRAMS {
        let mut command = Command::new("valgrind");
        command.args([
            "--quiet",
            "--error-exitcode=9",
            "--errors-for-leak-kinds=definite",
            "--fair-sched=yes",
        ]);
        // In the child of a fork the handles of threads that were not copied are nobody's.
        command.arg(if name == "forks" { "--leak-check=no" } else { "--leak-check=full" });
        run(command.arg(compiled(name, "valgrind")).arg("6"));
    }
}

/// What the library writes as JSON is JSON: python says so, where it is.
#[test]
fn json_is_json() {
    if !has("gcc") || !has("python3") {
        return;
    }
    let text = output(&mut Command::new(compiled("groups", "json"))).stdout;
    let file = built().out.join("controller.json");
    std::fs::write(&file, text).expect("a file");
    run(Command::new("python3").arg("-m").arg("json.tool").arg(&file));
}
