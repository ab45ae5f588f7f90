//! The perf program: finding it, learning what it can do, and the arguments of a recording.
//!
//! What a perf can do is read from its own help text and not from its version: distributions build it with and
//! without libraries, and the option either shows up as usable or does not.

use crate::error::Problem;
use crate::root::Root;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A perf that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Perf {
    pub(crate) program: PathBuf,
    /// Its own words, `perf version 6.1.187`.
    pub(crate) version: String,
    pub(crate) can: Abilities,
}

/// Options that not every perf has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// `--control fifo:`, since 5.10: starts recording at a moment that perf confirms.
    pub(crate) control: bool,
    /// `-z`, since 5.2 and where perf is built with zstd.
    pub(crate) compress: bool,
}

impl Abilities {
    /// Reads the text of `perf record -h`.
    pub(crate) fn parse(help: &str) -> Self {
        let option = |name: &str| {
            let mut lines = help.lines().skip_while(|line| !line.contains(name)).take(3);
            let first = lines.next();
            let built_in = first.is_some_and(|line| !line.contains("not built-in"))
                && !lines.take_while(|line| !line.contains(" --")).any(|line| line.contains("not built-in"));
            built_in.then_some(first.unwrap_or_default())
        };
        Abilities {
            control: option("--control").is_some_and(|line| line.contains("fifo:")),
            compress: option("--compression-level").is_some(),
        }
    }
}

/// Finds a perf that works: `wanted`, or the first in `search` (the text of `PATH`).
pub(crate) fn find(root: &Root, wanted: Option<&Path>, search: &str) -> Result<Perf, Problem> {
    let program = match wanted {
        Some(path) if path.is_file() => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        Some(path) => {
            let what = format!("there is no perf at {}", path.display());
            return Err(Problem::new(what, "name an existing file, or leave the option out to search PATH"));
        }
        None => in_path("perf", search).ok_or_else(|| {
            Problem::new("perf is not installed (nothing of that name in PATH)", install(root))
        })?,
    };
    let broken = |said: String| {
        // Debian's and Ubuntu's perf is a script that looks for the perf of the running kernel.
        let what = format!("{} does not run: {}", program.display(), said.trim().replace('\n', " "));
        Problem::new(what, install(root))
    };
    let version = run(&program, &["--version"]).map_err(broken)?;
    if !version.starts_with("perf version") {
        return Err(broken(version));
    }
    let help = run(&program, &["record", "-h"]).unwrap_or_else(|said| said);
    let mut can = Abilities::parse(&help);
    // Perf before 6.2 lists -z even when built without zstd.
    if run(&program, &["version", "--build-options"]).is_ok_and(|text| no_zstd(&text)) {
        can.compress = false;
    }
    Ok(Perf { program, version: version.trim().to_owned(), can })
}

fn no_zstd(build_options: &str) -> bool {
    build_options.lines().any(|line| line.trim_start().starts_with("zstd:") && line.contains("OFF"))
}

/// The program's output and errors together; as an error when it cannot run or fails.
fn run(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .env("PAGER", "cat")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(text) } else { Err(text) }
}

/// The first file called `name` in the folders of `search` that may be executed.
pub(crate) fn in_path(name: &str, search: &str) -> Option<PathBuf> {
    std::env::split_paths(search)
        .map(|folder| folder.join(name))
        .find(|place| executable(place))
        .and_then(|place| std::path::absolute(place).ok())
}

/// Whether a file may be executed by anyone.
pub(crate) fn executable(place: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    place.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// How to get perf on this distribution.
fn install(root: &Root) -> String {
    let release = root.read("/etc/os-release").unwrap_or_default();
    let mut names = Vec::new();
    for key in ["ID=", "ID_LIKE="] {
        for line in release.lines().filter_map(|line| line.strip_prefix(key)) {
            names.extend(line.trim_matches(['"', '\'']).split_whitespace());
        }
    }
    let packages = [
        ("ubuntu", "apt install linux-tools-common linux-tools-$(uname -r)"),
        ("debian", "apt install linux-perf"),
        ("fedora", "dnf install perf"),
        ("rhel", "dnf install perf"),
        ("arch", "pacman -S perf"),
        ("suse", "zypper install perf"),
        ("alpine", "apk add perf"),
    ];
    match packages.iter().find(|(name, _)| names.contains(name)) {
        Some((_, command)) => String::from(*command),
        None => String::from(
            "install it: Debian `apt install linux-perf`, Ubuntu `apt install linux-tools-$(uname -r)`, \
             Fedora `dnf install perf`, Arch `pacman -S perf`",
        ),
    }
}

/// How perf is told to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Events are off until `enable` is written to the fifo `control`; perf then answers through `ack`.
    Control,
    /// Events are on when perf starts its workload, `cat`, which then echoes what stands in its input.
    Echo,
}

/// The names of the two fifos in the folder of the recording.
pub(crate) const FIFOS: [&str; 2] = ["control", "ack"];

/// The arguments of the recording, to be run inside the folder it is written to: relative names keep commas and
/// leading dashes of the user's folder out of perf's option parser.
///
/// `-B` leaves out build ids: finding them takes a pass over the whole recording at its end, and they are about user
/// programs. The workload is `cat` with a pipe from this process as its input: when the pipe closes, because the
/// recording is over or because this process has died, `cat` ends and perf with it, in good order.
pub(crate) fn arguments(events: &[&str], can: Abilities, start: Start, ring_kib: u64) -> Vec<OsString> {
    let mut words: Vec<String> = ["record", "-a", "-B", "-k", "CLOCK_MONOTONIC"].map(String::from).into();
    for event in events {
        words.extend([String::from("-e"), String::from(*event)]);
    }
    if can.compress {
        words.push(String::from("-z1"));
    }
    words.extend([String::from("-m"), format!("{ring_kib}K"), String::from("-o"), String::from("perf.data")]);
    if start == Start::Control {
        let fifos = format!("fifo:{},{}", FIFOS[0], FIFOS[1]);
        words.extend(["-D", "-1", "--control"].map(String::from));
        words.push(fifos);
    }
    words.extend(["--", "cat"].map(String::from));
    words.into_iter().map(OsString::from).collect()
}

/// Bytes of ring per CPU when nothing is asked for: 32 MiB, with which traces of up to 87,000 events/s on 4 CPUs were
/// recorded without a loss, but all rings together take at most a sixteenth of the memory that is free. Always a
/// power of two, as perf wants it.
pub(crate) fn default_ring(available: u64, cpus: u64) -> u64 {
    const MOST: u64 = 32 << 20;
    let share = available / 16 / cpus.max(1);
    let share = share.clamp(LEAST_RING, MOST);
    1 << share.ilog2()
}

/// The smallest ring worth a recording: 512 KiB, what an unprivileged user may lock per CPU by default (516 KiB with
/// the page that perf needs beside it).
pub(crate) const LEAST_RING: u64 = 512 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::Machine;

    #[test]
    fn abilities_come_from_the_help_text() {
        let new = "    -z, --compression-level[=<n>]\n                  Compress records\n        \
                   --control <fd:ctl-fd[,ack-fd] or fifo:ctl-fifo[,ack-fifo]>\n                  Listen\n";
        assert_eq!(Abilities::parse(new), Abilities { control: true, compress: true });
        let without = "    -z, --compression-level[=<n>]\n                Compress records (not built-in because NO_LIBZSTD=1)\n";
        assert_eq!(Abilities::parse(without), Abilities { control: false, compress: false });
        let first = "        --control <fd:ctl-fd[,ack-fd]>\n";
        assert_eq!(Abilities::parse(first), Abilities { control: false, compress: false });
        assert!(no_zstd("     zstd: [ OFF ]  # HAVE_ZSTD_SUPPORT\n") && !no_zstd("  zstd: [ on  ]\n"));
    }

    #[test]
    fn a_missing_perf_names_the_distributions_package() {
        let ubuntu = Machine::new(&[("/etc/os-release", "NAME=x\nID=ubuntu\nID_LIKE=debian\n")]);
        let rocky = Machine::new(&[("/etc/os-release", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n")]);
        let remedy = |machine: &Machine| find(&machine.root(), None, "").expect_err("no perf").remedy;
        assert!(remedy(&ubuntu).contains("linux-tools-$(uname -r)"));
        assert_eq!(remedy(&rocky), "dnf install perf");
        assert!(remedy(&Machine::new(&[])).contains("pacman"));
    }

    #[test]
    fn a_perf_that_fails_is_a_problem_with_its_own_words() {
        let machine = Machine::new(&[]);
        machine.program("perf", "#!/bin/sh\necho 'E: linux-perf-6.12 is not installed.'\nexit 1\n");
        let bin = machine.root().path("/bin");
        let problem = find(&machine.root(), None, &bin.display().to_string()).expect_err("a broken perf");
        assert!(problem.what.contains("linux-perf-6.12 is not installed"), "{problem}");
    }

    #[test]
    fn rings_fit_the_memory() {
        assert_eq!(default_ring(64 << 30, 4), 32 << 20);
        assert_eq!(default_ring(2 << 30, 4), 32 << 20);
        assert_eq!(default_ring(1 << 30, 128), 512 << 10);
        assert_eq!(default_ring(0, 0), LEAST_RING);
    }

    #[test]
    fn arguments_of_a_new_and_of_an_old_perf() {
        let words = |can, start| {
            let words = arguments(&["kmem:kfree"], can, start, 512);
            words.join(std::ffi::OsStr::new(" ")).into_string().expect("text")
        };
        let new = words(Abilities { control: true, compress: true }, Start::Control);
        let tail = "-z1 -m 512K -o perf.data -D -1 --control fifo:control,ack -- cat";
        assert_eq!(new, format!("record -a -B -k CLOCK_MONOTONIC -e kmem:kfree {tail}"));
        let old = words(Abilities { control: false, compress: false }, Start::Echo);
        assert!(old.ends_with("-m 512K -o perf.data -- cat"), "{old}");
    }
}
