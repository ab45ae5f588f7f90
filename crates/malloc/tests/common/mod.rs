//! Builds the C and C++ programs of `tests/c`, and runs programs with and without the library.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The library, with all checks of a debug build (or another one, if the environment names it). Cargo does not build it
/// for tests that cannot link to it, so the first to ask has it built.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        if let Some(given) = std::env::var_os("TENALLOC_MALLOC_LIBRARY") {
            return given.into();
        }
        // Where this test was built to, whatever the environment says about it, and from which folder.
        let test = std::env::current_exe().unwrap();
        let target = test.ancestors().nth(3).unwrap();
        let built = Command::new(env!("CARGO"))
            .args(["build", "--profile", "test", "--locked", "-p", "tenalloc-malloc", "--target-dir"])
            .arg(target)
            .env_remove("CARGO_BUILD_TARGET")
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        target.join("debug/libtenalloc_malloc.so")
    })
}

/// A program of `tests/c`, built once for each test file.
pub fn program(test: &str, source: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(source);
    let to = folder.join(source.file_stem().unwrap());
    let cxx = source.extension().is_some_and(|e| e == "cc");
    let built = Command::new(if cxx { "g++" } else { "gcc" })
        .args(if cxx { ["-std=c++17"] } else { ["-std=gnu11"] })
        .args([
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fno-builtin",
            "-Wno-use-after-free",
            "-Wno-free-nonheap-object",
            "-pthread",
            "-o",
        ])
        .args([&to, &source])
        .args(["-ldl"])
        .output()
        .expect("gcc and g++");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    to
}

/// A program with the library in front, and nothing of ours in its environment but `settings`.
pub fn preloaded(program: impl AsRef<std::ffi::OsStr>, settings: &[(&str, &str)]) -> Command {
    let mut command = plain(program);
    command.env("LD_PRELOAD", library()).envs(settings.iter().copied());
    command
}

/// A program as it is.
pub fn plain(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name == "LD_PRELOAD" || name.to_string_lossy().starts_with("TENALLOC_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs it to a good end; what it printed, and what it complained of.
pub fn run(command: &mut Command) -> (String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}{err}");
    (out.into(), err.into())
}
