//! A running perf: started, switched on at a known moment, and ended in good order.
//!
//! perf runs in a process group of its own, so that a terminal's Ctrl-C reaches this process only, which then
//! decides. Its input is a pipe that ends when this process drops it (or dies): see [`perf::arguments`].

use crate::error::Error;
use crate::perf::{self, FIFOS, Perf, Start};
use crate::signals::Signals;
use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// A perf process. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    stderr: ChildStderr,
    said: String,
    /// perf's workload ends when this is dropped.
    lifeline: Option<ChildStdin>,
    switch: Switch,
}

/// The way of [`Start`] with its open ends.
enum Switch {
    Control { control: File, ack: File },
    Echo { echo: ChildStdout },
}

impl Running {
    /// Starts perf in `folder`, for `start` either up to the moment before it records ([`Start::Control`]), or into
    /// recording ([`Start::Echo`]). Returns when perf has said so.
    pub(crate) fn launch(
        perf: &Perf,
        events: &[&str],
        start: Start,
        ring: u64,
        folder: &Path,
        signals: &mut Signals,
    ) -> Result<Running, Error> {
        clear(folder);
        let fifos = match start {
            Start::Control => Some((fifo(folder, FIFOS[0])?, fifo(folder, FIFOS[1])?)),
            Start::Echo => None,
        };
        let mut child = Command::new(&perf.program)
            .args(perf::arguments(events, perf.can, start, ring >> 10))
            .current_dir(folder)
            // The user's perf configuration may ask for call chains and the like.
            .env("PERF_CONFIG", "/dev/null")
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| Error::Perf { status: None, said: error.to_string() })?;
        let (Some(stdin), Some(echo), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Error::Perf { status: None, said: String::from("no pipes") });
        };
        let switch = match fifos {
            Some((control, ack)) => Switch::Control { control, ack },
            None => Switch::Echo { echo },
        };
        let mut running = Running { child, stderr, said: String::new(), lifeline: Some(stdin), switch };
        let unblock = |fd: BorrowedFd<'_>| rustix::io::ioctl_fionbio(fd, true);
        unblock(running.stderr.as_fd()).map_err(|e| Error::system("reading perf's messages")(e.into()))?;
        if let Switch::Echo { echo } = &running.switch {
            unblock(echo.as_fd()).map_err(|e| Error::system("reading perf's workload")(e.into()))?;
        }
        match start {
            // A command that changes nothing: its answer means that perf is up and listens.
            Start::Control => running.order("disable", signals)?,
            Start::Echo => {
                // A perf that has ended already cannot be written to; `answer` finds out why.
                let _ = running.lifeline.as_mut().map(|lifeline| lifeline.write_all(b"recording\n"));
                running.answer(signals)?;
            }
        }
        Ok(running)
    }

    /// Begins recording, if it has not begun; every event from the return of this function on is recorded.
    pub(crate) fn enable(&mut self, signals: &mut Signals) -> Result<(), Error> {
        match self.switch {
            Switch::Control { .. } => self.order("enable", signals),
            Switch::Echo { .. } => Ok(()),
        }
    }

    fn order(&mut self, word: &str, signals: &mut Signals) -> Result<(), Error> {
        if let Switch::Control { control, .. } = &mut self.switch {
            control
                .write_all(format!("{word}\n").as_bytes())
                .map_err(Error::system("writing to perf's control"))?;
        }
        self.answer(signals)
    }

    /// Waits for perf's answer to an order, or for the echo of its workload.
    fn answer(&mut self, signals: &mut Signals) -> Result<(), Error> {
        loop {
            let mut bytes = [0; 64];
            let read = match &mut self.switch {
                Switch::Control { ack, .. } => ack.read(&mut bytes),
                Switch::Echo { echo } => echo.read(&mut bytes),
            };
            if read.is_ok_and(|count| count > 0) {
                return Ok(());
            }
            if let Some(status) = self.ended()? {
                return Err(self.failure(status));
            }
            let answer = match &self.switch {
                Switch::Control { ack, .. } => ack.as_fd(),
                Switch::Echo { echo } => echo.as_fd(),
            };
            signals.wait(&[answer], None)?;
            if signals.stopped() {
                return Err(Error::Interrupted);
            }
        }
    }

    /// How perf ended, if it has; also keeps what it has written.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        let status = self.child.try_wait().map_err(Error::system("waiting for perf"))?;
        self.listen();
        Ok(status)
    }

    /// perf's ending before it was told to.
    pub(crate) fn failure(&self, status: ExitStatus) -> Error {
        let said = match self.said.trim() {
            "" => String::from("it said nothing"),
            said => said.to_owned(),
        };
        Error::Perf { status: Some(status), said }
    }

    /// Ends the recording: perf writes out what its rings hold and ends. Returns what it said.
    ///
    /// A second stop signal gives the recording up.
    pub(crate) fn finish(mut self, folder: &Path, signals: &mut Signals) -> Result<String, Error> {
        self.lifeline = None;
        let status = loop {
            if let Some(status) = self.ended()? {
                break status;
            }
            signals.wait(&[self.messages()], None)?;
            if signals.given_up() {
                return Err(Error::Interrupted);
            }
        };
        if !status.success() {
            return Err(self.failure(status));
        }
        for name in FIFOS {
            // Absent when the recording was started without them.
            let _ = fs::remove_file(folder.join(name));
        }
        Ok(self.said.trim().to_owned())
    }

    fn listen(&mut self) {
        let mut bytes = [0; 4096];
        loop {
            match self.stderr.read(&mut bytes) {
                Ok(count @ 1..) => {
                    self.said += &String::from_utf8_lossy(bytes.get(..count).unwrap_or_default());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
            }
        }
    }

    /// perf's messages, to be waited for together with other things: a full pipe would stop it.
    pub(crate) fn messages(&self) -> BorrowedFd<'_> {
        self.stderr.as_fd()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.lifeline = None;
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// What was being done when a file system turned out to have no fifos.
pub(crate) const MAKING_FIFO: &str = "making a fifo";

/// Whether perf gave up because its rings are larger than the memory this user may lock.
pub(crate) fn rings_too_large(error: &Error) -> bool {
    match error {
        Error::Perf { said, .. } => {
            said.contains("mmap") || said.contains("mlock") || said.contains("mapping pages")
        }
        _ => false,
    }
}

/// Removes what an earlier try has left; perf would keep it as `perf.data.old`.
fn clear(folder: &Path) {
    for name in FIFOS.iter().chain(&["perf.data", "perf.data.old"]) {
        let _ = fs::remove_file(folder.join(name));
    }
}

/// A fifo, open for both directions so that opening waits for nobody and reading never meets an end.
fn fifo(folder: &Path, name: &str) -> Result<File, Error> {
    let place = folder.join(name);
    mkfifoat(CWD, &place, Mode::RUSR | Mode::WUSR).map_err(|e| Error::file(&place, MAKING_FIFO)(e.into()))?;
    let flags = OFlags::NONBLOCK.bits();
    let open = OpenOptions::new().read(true).write(true).custom_flags(flags as i32).open(&place);
    open.map_err(Error::file(&place, "opening"))
}
