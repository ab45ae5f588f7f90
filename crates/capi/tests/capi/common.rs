//! The library as this build made it, the compilers, and what is missing on this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Where things are.
pub(crate) struct Built {
    /// `crates/capi`.
    pub(crate) here: PathBuf,
    /// The checkout.
    pub(crate) root: PathBuf,
    /// A folder for what tests make; `libtenalloc.so` is in it.
    pub(crate) out: PathBuf,
    /// The static library.
    pub(crate) archive: PathBuf,
}

/// Builds and links it once for all tests. The build is the one that the tests themselves were built with, so nothing is
/// compiled again.
pub(crate) fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let root = here.join("../..").canonicalize().expect("the checkout");
        let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("capi");
        std::fs::create_dir_all(&out).expect("a folder");
        let told = run(Command::new(env!("CARGO"))
            .args(["build", "--locked", "--profile", "test", "-p", "tenalloc-capi", "--message-format=json"])
            .current_dir(&root));
        let archive = told
            .split('"')
            .find(|part| part.ends_with("/libtenalloc_capi.a"))
            .unwrap_or_else(|| panic!("cargo told of no libtenalloc_capi.a:\n{told}"));
        run(Command::new(here.join("link")).arg(archive).arg(&out));
        Built { archive: archive.into(), here, root, out }
    })
}

/// Runs a command that must succeed; returns what it printed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = output(command);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{printed}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    printed
}

/// Runs a command.
pub(crate) fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// Whether a program is installed; says so if not.
pub(crate) fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    if !there {
        println!("skipped: {program} is not installed");
    }
    there
}

/// A compiler with all warnings as errors, and the header's folder.
pub(crate) fn compiler(program: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-g", "-O1"]);
    command.arg(if program.ends_with("++") { "-std=c++17" } else { "-std=c11" });
    command.arg("-I").arg(built().here.join("include"));
    command
}

/// Compiles a program with the shared library; `name` is that of the executable.
pub(crate) fn compile(program: &str, flags: &[&str], source: &Path, name: &str) -> PathBuf {
    let built = built();
    let executable = built.out.join(name);
    let mut command = compiler(program);
    command.args(flags).arg(source).arg("-o").arg(&executable).arg("-pthread");
    command.arg("-L").arg(&built.out).arg("-ltenalloc").arg(format!("-Wl,-rpath,{}", built.out.display()));
    run(&mut command);
    executable
}
