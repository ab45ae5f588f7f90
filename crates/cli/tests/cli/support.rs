//! A command to be run and what came of it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Of this crate.
pub(crate) fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The trace of the repository.
pub(crate) fn small() -> PathBuf {
    here("../../data/small")
}

/// A few lines of `perf script`: two groups in /shop, 60 objects, 20 of them freed.
pub(crate) fn script() -> PathBuf {
    here("tests/data/script.txt")
}

/// `tenalloc replay` with nothing of this process's surroundings that could change what it prints.
pub(crate) fn replay() -> Command {
    let mut command = tenalloc();
    command.arg("replay");
    command
}

/// The bare command.
pub(crate) fn tenalloc() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenalloc"));
    command.stdin(Stdio::null()).env_remove("NO_COLOR").env_remove("COLUMNS").env_remove("CLICOLOR_FORCE");
    command.env("TERM", "xterm");
    command
}

/// Exit code, standard output, standard error.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    #[track_caller]
    pub(crate) fn with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }
}

pub(crate) fn ended(output: Output) -> Ended {
    let text = |bytes| String::from_utf8(bytes).expect("what is printed is UTF-8");
    Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs to the end.
pub(crate) fn run(command: &mut Command) -> Ended {
    ended(command.output().expect("the command starts"))
}

/// Names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A copy with a mode that lets others use it, whatever the umask of this checkout was.
///
/// A process of its own writes it: were it this one, the children that other tests start meanwhile would hold the file
/// open for writing until they run their programs, and nobody could run it until then ("Text file busy").
pub(crate) fn copied(from: &Path, to: PathBuf, mode: u32) -> PathBuf {
    let done = Command::new("cp").arg("--").args([from, &to]).status().expect("cp runs");
    assert!(done.success(), "{}", to.display());
    std::fs::set_permissions(&to, std::fs::Permissions::from_mode(mode)).expect("a mode");
    to
}

/// The command as an ordinary user, copied into `folder`, as its own may be closed to others; `None`, and it is said why:
/// that cannot be done here. What it reads must be readable by everybody.
pub(crate) fn unprivileged(folder: &Path) -> Option<Command> {
    let binary = copied(Path::new(env!("CARGO_BIN_EXE_tenalloc")), folder.join("tenalloc"), 0o755);
    let command = || {
        let mut command = Command::new(&binary);
        if rustix::process::geteuid().is_root() {
            // By its path: a test may set another PATH.
            command = Command::new("/usr/bin/setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&binary);
        }
        command.stdin(Stdio::null());
        command
    };
    // setpriv may be missing, or not allowed to; the place of temporary files may be closed to that user, or to programs.
    let tried = command().arg("--version").output();
    if tried.as_ref().is_ok_and(|output| output.status.success()) {
        return Some(command());
    }
    println!("skipped: an ordinary user cannot run the command from {}: {tried:?}", folder.display());
    None
}
