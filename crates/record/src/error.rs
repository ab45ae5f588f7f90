//! What can go wrong, said so that the reader can put it right, and what a finished recording had to leave out.
//!
//! Two kinds of shortfall are kept apart. A [`Problem`] stops the recording before it starts; all of them are found
//! and listed at once. A [`Missing`] is something the recording goes on without; it is written into
//! `recording.json`, so that whoever replays the trace later knows what was never there.

use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// A reason not to start: what is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, as half a sentence without a full stop.
    pub what: String,
    /// What to do: a command or an option where there is one.
    pub remedy: String,
}

impl Problem {
    pub(crate) fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Problem { what: what.into(), remedy: remedy.into() }
    }
}

/// Something a recording does without, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The thing that is not in the recording: an event, a file, a field of `recording.json`.
    pub what: String,
    /// Why it could not be kept, and what a replay cannot tell because of it.
    pub why: String,
}

impl Missing {
    pub(crate) fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Missing { what: what.into(), why: why.into() }
    }
}

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something is asked for wrongly, or missing on this machine. Nothing was started and nothing written.
    #[error("{}", list(.0))]
    Refused(Vec<Problem>),
    /// perf did not start, or ended before it was told to.
    #[error("perf record failed{}: {said}", status.as_ref().map(|s| format!(" ({s})")).unwrap_or_default())]
    Perf {
        /// How perf ended, if it did.
        status: Option<std::process::ExitStatus>,
        /// What perf wrote to its standard error.
        said: String,
    },
    /// The command to record could not be started.
    #[error("cannot run `{command}`: {source}")]
    Command {
        /// The command's first word.
        command: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of the recording could not be written.
    #[error("{}: {doing}: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What was being done to it.
        doing: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// Stopped before there was anything to keep, or stopped a second time while the rest was being written.
    #[error("interrupted: nothing was kept")]
    Interrupted,
    /// The kernel refused something that it grants every process (a pipe, a signal handler).
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Error {
    /// The exit status a program should end with: 2 when the request or the machine has to change first, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Refused(_) => 2,
            _ => 1,
        }
    }

    pub(crate) fn file(
        path: impl Into<PathBuf>,
        doing: &'static str,
    ) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { path, doing, source }
    }

    pub(crate) fn system(doing: &'static str) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::System { doing, source }
    }
}

fn list(problems: &[Problem]) -> String {
    let mut text = match problems.len() {
        1 => String::from("cannot record:"),
        n => format!("cannot record, {n} things to put right first:"),
    };
    for problem in problems {
        text += &format!("\n  - {problem}");
    }
    text
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n      {}", self.what, self.remedy)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_listed_at_once() {
        let error = Error::Refused(vec![
            Problem::new("perf is not installed", "apt install linux-perf"),
            Problem::new("tracefs is not mounted", "mount -t tracefs nodev /sys/kernel/tracing"),
        ]);
        let text = error.to_string();
        assert_eq!(error.exit_code(), 2);
        assert!(
            text.contains("2 things") && text.contains("linux-perf") && text.contains("mount -t tracefs"),
            "{text}"
        );
        assert_eq!(Error::Interrupted.exit_code(), 1);
    }
}
