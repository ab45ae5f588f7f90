//! `make install`, into a folder of its own, and what a program then needs: pkg-config, CMake, man.
//!
//! Run with the library of this build and other files for the command and the malloc, so that little is built for it.

use crate::common::{built, has, output, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn installed(to: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(built().root.join("scripts/install"));
    command.args(arguments).env("PREFIX", to).env("LIBRARY", &built().archive);
    command.env("COMMAND", "/bin/true").env("MALLOC", "/bin/true");
    command.env_remove("DESTDIR").env_remove("LIBDIR");
    command
}

fn folder(name: &str) -> PathBuf {
    let folder = built().out.join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Files below a folder, sorted.
fn files(below: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut left = vec![below.to_path_buf()];
    while let Some(at) = left.pop() {
        for entry in fs::read_dir(&at).expect("a folder").flatten() {
            match entry.file_type().expect("a type").is_dir() {
                true => left.push(entry.path()),
                false => all.push(entry.path().strip_prefix(below).expect("below").display().to_string()),
            }
        }
    }
    all.sort();
    all
}

const FILES: [&str; 13] = [
    "bin/tenalloc",
    "include/tenalloc.h",
    "lib/cmake/tenalloc/tenalloc-config-version.cmake",
    "lib/cmake/tenalloc/tenalloc-config.cmake",
    "lib/libtenalloc-malloc.so",
    "lib/libtenalloc.a",
    "lib/libtenalloc.so",
    "lib/libtenalloc.so.0",
    "lib/libtenalloc.so.0.1.0",
    "lib/pkgconfig/tenalloc.pc",
    "share/man/man1/tenalloc.1",
    "share/man/man3/tenalloc.3",
    "share/man/man7/tenalloc-malloc.7",
];

#[test]
fn it_installs_what_it_says_and_takes_it_away_again() {
    let to = folder("prefix");
    run(&mut installed(&to, &[]));
    assert_eq!(files(&to), FILES);
    fs::write(to.join("lib/another"), "stays").expect("a file");
    run(&mut installed(&to, &["--uninstall"]));
    assert_eq!(files(&to), ["lib/another"]);

    let stage = folder("stage");
    run(installed(Path::new("/opt/somewhere"), &[])
        .env("DESTDIR", &stage)
        .env("LIBDIR", "/opt/somewhere/lib64"));
    let staged = files(&stage);
    assert!(staged.contains(&"opt/somewhere/lib64/libtenalloc.so.0".to_owned()), "{staged:?}");
    assert_eq!(staged.len(), FILES.len());
}

/// What cannot be is told before anything is built, in a line.
#[test]
fn it_says_where_it_cannot_install() {
    let file = folder("no-prefix").join("file");
    fs::write(&file, "").expect("a file");
    for (prefix, told) in [
        ("some/where", "must be a path from the root"),
        (&file.display().to_string(), "cannot be written to"),
    ] {
        for arguments in [&["--check"][..], &[]] {
            let said = output(&mut installed(Path::new(prefix), arguments));
            let text = String::from_utf8_lossy(&said.stderr);
            assert_eq!(said.status.code(), Some(2), "{text}");
            assert!(
                text.starts_with("install: ") && text.contains(told) && text.lines().count() == 1,
                "{text}"
            );
        }
    }
    let free = folder("free").join("a/b");
    run(&mut installed(&free, &["--check"]));
    assert!(!free.exists());
}

#[test]
fn pkg_config_leads_a_compiler_to_it() {
    if !has("pkg-config") || !has("gcc") {
        return;
    }
    let to = folder("for-pkg-config");
    run(&mut installed(&to, &[]));
    let ask = |arguments: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.args(arguments).arg("tenalloc").env("PKG_CONFIG_PATH", to.join("lib/pkgconfig"));
        run(&mut command).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ask(&["--modversion"]), ["0.1.0"]);
    for (kind, name) in
        [(&["--cflags", "--libs"][..], "shared"), (&["--static", "--cflags", "--libs"], "static")]
    {
        let executable = to.join(name);
        let mut gcc = Command::new("gcc");
        gcc.arg(built().root.join("examples/c/hello.c")).arg("-o").arg(&executable);
        let flags = ask(kind);
        // What stands in the static library is taken from it, the system's libraries as always.
        let archive = to.join("lib/libtenalloc.a").display().to_string();
        gcc.args(
            flags.iter().map(|flag| if name == "static" && flag == "-ltenalloc" { &archive } else { flag }),
        );
        run(&mut gcc);
        let mut program = Command::new(&executable);
        if name == "shared" {
            program.env("LD_LIBRARY_PATH", to.join("lib"));
        }
        run(&mut program);
    }
}

#[test]
fn cmake_finds_it() {
    if !has("cmake") || !has("gcc") || !has("make") {
        return;
    }
    let to = folder("for-cmake");
    run(&mut installed(&to, &[]));
    let build = folder("cmake-build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(built().root.join("examples/c")).arg("-B").arg(&build);
    run(configure
        .arg(format!("-DCMAKE_PREFIX_PATH={}", to.display()))
        .arg("-DCMAKE_C_FLAGS=-Wall -Wextra -Werror"));
    run(Command::new("cmake").arg("--build").arg(&build));
    for program in ["hello", "lru_cache", "charge_only", "hello-static"] {
        run(&mut Command::new(build.join(program)));
    }
    run(Command::new(build.join("tenant-server")).args(["--self-check", "4", "3"]));
}

/// The malloc is one that is built, here with the checks of a debug build, and a program runs on it where it was installed.
#[test]
fn a_program_runs_on_the_malloc() {
    run(Command::new(env!("CARGO"))
        .args(["build", "--profile", "test", "--locked", "-p", "tenalloc-malloc"])
        .current_dir(&built().root));
    let debug = std::env::current_exe().expect("an executable").ancestors().nth(2).map(Path::to_owned);
    let malloc = debug.expect("a folder").join("libtenalloc_malloc.so");
    let to = folder("for-malloc");
    run(installed(&to, &[]).env("MALLOC", malloc));
    let mut command = Command::new("sort");
    std::env::vars_os().for_each(|(name, _)| {
        if name.to_string_lossy().starts_with("TENALLOC_") {
            command.env_remove(name);
        }
    });
    command.args(["-r", "/dev/null"]).env("LD_PRELOAD", to.join("lib/libtenalloc-malloc.so"));
    let said = output(command.env("TENALLOC_REPORT", "stderr"));
    assert!(said.status.success() && said.stdout.is_empty());
    let report = String::from_utf8_lossy(&said.stderr);
    assert!(report.starts_with("tenalloc: sort (") && report.contains(" resident for it: "), "{report}");
}

#[test]
fn the_manual_pages_are_clean() {
    if !has("man") {
        return;
    }
    for page in ["tenalloc.1", "tenalloc.3", "tenalloc-malloc.7"] {
        let file = built().root.join("docs/man").join(page);
        let shown = output(
            Command::new("man").args(["--warnings", "-l", "-Tutf8"]).arg(&file).env("MANWIDTH", "100"),
        );
        assert!(
            shown.status.success() && shown.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&shown.stderr)
        );
    }
    let text = fs::read_to_string(built().root.join("docs/man/tenalloc.3")).expect("the page");
    let abi = fs::read_to_string(built().here.join("abi.txt")).expect("abi.txt");
    let functions = abi.lines().filter_map(|line| line.strip_prefix("function ")?.split('@').next());
    let missing: Vec<_> = functions.filter(|name| !text.contains(*name)).collect();
    assert!(missing.is_empty(), "tenalloc.3 does not name {missing:?}");
}
