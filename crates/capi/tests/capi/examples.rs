//! The examples in C: compiled without a warning and run, plain, with the sanitizers, and under valgrind.
//!
//! The server drives its own clients over sockets and compares its count of each client's bytes with the library's; it is
//! also tried with a wrong count, which it must find.

use crate::common::{built, compile, compiler, has, output, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ONE_FILE: [&str; 3] = ["hello", "lru_cache", "charge_only"];

fn folder() -> PathBuf {
    built().root.join("examples/c")
}

fn example(name: &str, flags: &[&str], suffix: &str) -> PathBuf {
    compile("gcc", flags, &folder().join(format!("{name}.c")), &format!("example-{name}{suffix}"))
}

/// The server out of the sources in `from`.
fn server(from: &Path, flags: &[&str], name: &str) -> PathBuf {
    let executable = built().out.join(name);
    let mut command = compiler("gcc");
    command.args(flags).args(["server.c", "store.c", "check.c"].map(|file| from.join(file)));
    command.arg("-o").arg(&executable).arg("-pthread").arg("-L").arg(&built().out).arg("-ltenalloc");
    run(command.arg(format!("-Wl,-rpath,{}", built().out.display())));
    executable
}

const SANITIZERS: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

fn valgrind(program: &Path, arguments: &[&str]) {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
    run(command.arg(program).args(arguments));
}

#[test]
fn the_examples_run() {
    if has("gcc") {
        for name in ONE_FILE {
            let printed = run(&mut Command::new(example(name, &[], "")));
            assert!(!printed.is_empty());
        }
    }
}

#[test]
fn the_sanitizers_find_nothing() {
    if has("gcc") {
        for name in ONE_FILE {
            run(&mut Command::new(example(name, &SANITIZERS, "-sanitized")));
        }
        let server = server(&folder().join("server"), &SANITIZERS, "server-sanitized");
        run(Command::new(server).args(["--self-check", "6", "5"]));
    }
}

#[test]
fn valgrind_finds_nothing() {
    if has("gcc") && has("valgrind") {
        for name in ONE_FILE {
            valgrind(&example(name, &[], "-valgrind"), &[]);
        }
        let server = server(&folder().join("server"), &[], "server-valgrind");
        valgrind(&server, &["--self-check", "3", "2"]);
    }
}

/// The first program of docs/c.md, as it stands there, prints what it says there, but for the address.
#[test]
fn the_page_says_what_its_program_prints() {
    let page = fs::read_to_string(built().root.join("docs/c.md")).expect("docs/c.md");
    let block =
        |from: &str| page.split_once(from).and_then(|(_, rest)| rest.split_once("```")).expect("a block").0;
    let source = built().out.join("first.c");
    fs::write(&source, block("```c\n")).expect("a file");
    if has("gcc") {
        let printed = run(&mut Command::new(compile("gcc", &[], &source, "first")));
        let told = block("./first\n");
        let rest = |text: &str| text.split_once(", ").expect("an address").1.to_owned();
        assert_eq!(rest(&printed), rest(told));
    }
}

/// Eight clients on real sockets: at each quiet point both countings are equal to the byte, and only the client that asks
/// for more than its limit is refused.
#[test]
fn the_server_counts_as_the_library_does() {
    if has("gcc") {
        let server = server(&folder().join("server"), &[], "server");
        let printed = run(Command::new(server).args(["--self-check", "8", "20"]));
        assert_eq!(printed.matches("equal to the byte").count(), 23, "{printed}");
        assert!(printed.ends_with("self-check passed\n"), "{printed}");
    }
}

/// The same with a server that counts a byte too little: it must say so, and fail.
#[test]
fn a_wrong_count_is_found() {
    if !has("gcc") {
        return;
    }
    let wrong = built().out.join("server-wrong-source");
    fs::create_dir_all(&wrong).expect("a folder");
    for file in ["server.h", "server.c", "store.c", "check.c"] {
        let text = fs::read_to_string(folder().join("server").join(file)).expect("a source");
        let text = match file {
            "store.c" => text.replace("+ TEN_OWNER_BYTES", "+ TEN_OWNER_BYTES - 1"),
            _ => text,
        };
        fs::write(wrong.join(file), text).expect("a source");
    }
    let server = server(&wrong, &[], "server-wrong");
    let output = output(Command::new(server).args(["--self-check", "3", "1"]));
    assert!(!output.status.success(), "a difference of a byte is a failure");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("the server counts"), "{told}");
}
