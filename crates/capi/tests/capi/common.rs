//! The library as this build made it, the compilers, and what is missing on this machine.

use std::fs;
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

/// Links it once for all tests, out of the static library that was built together with them: it lies beside the test's
/// executable, under a name with a hash. Where there are several (other features, another profile), the newest is of
/// the sources as they are: what is built for this test is built after every change of them.
pub(crate) fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let root = here.join("../..").canonicalize().expect("the checkout");
        let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("capi");
        fs::create_dir_all(&out).expect("a folder");
        let executable = std::env::current_exe().expect("an executable");
        let beside = executable.parent().expect("a folder");
        let archive = fs::read_dir(beside)
            .expect("the folder of what was built")
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == "a"))
            .filter(|path| path.to_string_lossy().contains("/libtenalloc_capi-"))
            .max_by_key(|path| fs::metadata(path).and_then(|of| of.modified()).ok());
        let archive = archive.unwrap_or_else(|| panic!("no libtenalloc_capi-….a in {}", beside.display()));
        run(Command::new(here.join("link")).arg(&archive).arg(&out));
        Built { archive, here, root, out }
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
