//! Records the slab allocations of a whole machine, with stock `perf`, in a form that can be replayed.
//!
//! `perf record` sees every allocation and free, every fork and every task that changes its group. It does not see
//! where the tasks were before it began, how large the slabs of each cache are, which NUMA node an address lies on,
//! what the call sites are called, and what the kernel itself believes each group uses. This crate runs perf with
//! the right events for the running kernel and keeps the rest beside it, in one folder:
//!
//! | file | what |
//! |---|---|
//! | `perf.data` | the recording, zstd-compressed where perf can, on CLOCK_MONOTONIC |
//! | `pids.tsv` | thread, process, memory group and name of every task at the start |
//! | `slabgeom.txt` | `C cache object_size slab_size order objs_per_slab` and `A alias target` |
//! | `slab.before.txt`, `slab.after.txt` | `/proc/slabinfo` |
//! | `steady.txt`, `side.tsv` | the kernel's counters at the stamps `before`, `stamp1`, `stamp2` …, `after` |
//! | `kallsyms.tsv` | the kernel's functions by address, to name call sites |
//! | `formats.txt` | the `format` texts of the events, for a `perf.data` that was cut short and lost its own |
//! | `recording.json` | kernel, CPUs, nodes, direct map, events, and what is missing and why |
//!
//! # What it takes
//!
//! Linux with the `kmem` tracepoints (every distribution), perf from the distribution's package, tracefs mounted,
//! and root. Memory groups may be on cgroup v1, v2 or a hybrid of both. What is not there is told before anything
//! starts, all of it at once, each with the command that helps ([`Error::Refused`]); what only costs a detail ends
//! up in [`Summary::missing`] and in `recording.json`.
//!
//! # How it behaves
//!
//! * The folder appears whole or not at all: it is written as `DIR.partial-PID` and renamed at the end.
//! * Ctrl-C or SIGTERM ends the recording and keeps it; the command, if it still runs, gets SIGTERM. A second one
//!   (0.3 s later or more: `timeout` and `sudo` may deliver one twice) while the rest is being written gives
//!   everything up and removes the partial folder; once the folder has its name, it only ends the waiting for the
//!   command.
//! * SIGUSR1 stamps the kernel's counters in between.
//! * The command's input and output are its own. Under sudo it runs as the user who called sudo (with all of that
//!   user's groups, and `HOME`, `USER` and `LOGNAME` set), and that user becomes the owner of the folder.
//! * If this process is killed, perf ends by itself: its workload waits on a pipe from here.
//!
//! # What no recording knows
//!
//! A task put into a group at its birth (`clone3` with `CLONE_INTO_CGROUP`) has no attach event; the trace shows it
//! in its parent's group. Objects freed in bulk, by `kfree_rcu`, and those allocated in bulk have no events.
//!
//! # Layers
//!
//! Each file of this crate may use the ones above it:
//! `root error` (the machine's files, what can go wrong) → `cgroup nodes directmap slabs symbols tasks events perf`
//! (one fact each) → `settle truth describe folder signals command` → `check`
//! `running` → `session` (the order of it all).

#![deny(unsafe_code)]

mod cgroup;
mod check;
mod command;
mod describe;
mod directmap;
mod error;
mod events;
mod folder;
mod nodes;
mod perf;
mod root;
mod running;
mod session;
mod settle;
mod signals;
mod slabs;
mod symbols;
mod tasks;
mod truth;

pub use command::CommandEnd;
pub use error::{Error, Missing, Problem};

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What to record, and where to.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The folder to make (`-o`). Its parent has to exist.
    pub out: PathBuf,
    /// Replace `out` if it is a recording or an empty folder (`--force`).
    pub force: bool,
    /// A command or a time.
    pub what: What,
    /// Bytes of perf's ring per CPU, rounded up to a power of two; by default 32 MiB, less on small machines. When
    /// the user may not lock that much it is halved, down to 512 KiB.
    pub ring: Option<u64>,
    /// Seconds after the start of the command at which to stamp the kernel's counters (`--stamp-at`).
    pub stamp_at: Vec<f64>,
    /// The perf to use; by default the first in `PATH`.
    pub perf: Option<PathBuf>,
}

impl Options {
    /// Options with every default.
    pub fn new(out: impl Into<PathBuf>, what: What) -> Self {
        Options { out: out.into(), force: false, what, ring: None, stamp_at: Vec::new(), perf: None }
    }
}

/// How long a recording goes on. In either case the whole machine is recorded.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Until this program, with these arguments, ends.
    Command(Vec<OsString>),
    /// For so many seconds; a fraction is welcome.
    Seconds(f64),
}

/// Told to the caller as a recording goes on, to be shown or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress<'a> {
    /// Everything is there; perf is being started.
    Preparing,
    /// Every event is recorded from here on; the command starts now.
    Recording {
        /// Bytes of ring per CPU.
        ring: u64,
    },
    /// About once a second.
    Tick {
        /// Since the start of the command.
        elapsed: Duration,
        /// Size of `perf.data` so far.
        bytes: u64,
    },
    /// The kernel's counters were read.
    Stamped {
        /// `before`, `stamp1`, `stamp2` …, `after`.
        label: &'a str,
        /// Memory groups read.
        groups: usize,
    },
    /// The command or the time has ended, or a signal came.
    Stopping,
    /// perf has ended; the remaining files are being written.
    Finishing,
}

/// A finished recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Its folder.
    pub folder: PathBuf,
    /// Size of all its files.
    pub bytes: u64,
    /// Seconds recorded.
    pub seconds: f64,
    /// The events recorded, `group:name`.
    pub events: Vec<String>,
    /// What the recording goes without.
    pub missing: Vec<Missing>,
    /// Labels of the stamps taken.
    pub stamps: Vec<String>,
    /// Tasks there were at the start.
    pub tasks: usize,
    /// Bytes of ring per CPU.
    pub ring: u64,
    /// What perf said; it tells of lost events here.
    pub perf_said: String,
    /// A signal ended the recording early.
    pub interrupted: bool,
    /// How the command ended; nothing when a time was recorded.
    pub command: Option<CommandEnd>,
}

/// Records, and returns when the folder is complete and the command has ended.
///
/// Takes over SIGINT, SIGTERM, SIGUSR1 and SIGCHLD while it runs and does not give them back: they do nothing
/// afterwards. One recording at a time.
///
/// # Errors
///
/// [`Error::Refused`] with everything that has to be put right first; any other error means that recording was
/// begun and failed. In both cases nothing is left behind.
pub fn record(options: &Options, tell: &mut dyn FnMut(Progress<'_>)) -> Result<Summary, Error> {
    session::run(options, tell)
}
