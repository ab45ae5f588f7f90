//! Signals as things that can be waited for, among pipes and child processes, in one `poll`.
//!
//! A handler may do next to nothing, so each of the four signals of interest writes a byte into a socket of its own;
//! the recorder polls the other ends. Nothing is ever waited for with a sleep.

use crate::error::Error;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::low_level::{pipe, unregister};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Two stop signals closer together than this are one: `timeout` and `sudo` may deliver a signal both to this process
/// and to its group.
const ONE: Duration = Duration::from_millis(300);

/// The handlers, for as long as this value lives. Afterwards the signals do nothing (that is how the signal-hook
/// crate leaves them), so a program should end soon after its recording.
pub(crate) struct Signals {
    streams: Vec<(i32, UnixStream)>,
    handlers: Vec<signal_hook::SigId>,
    /// The first SIGINT or SIGTERM.
    first_stop: Option<Instant>,
    given_up: bool,
    stamps: usize,
}

impl Signals {
    /// Takes over SIGINT, SIGTERM, SIGUSR1 and SIGCHLD of this process.
    pub(crate) fn take() -> Result<Signals, Error> {
        let mut signals = Signals {
            streams: Vec::new(),
            handlers: Vec::new(),
            first_stop: None,
            given_up: false,
            stamps: 0,
        };
        for signal in [SIGINT, SIGTERM, SIGUSR1, SIGCHLD] {
            let doing = "taking over signals";
            let (ours, handlers) = UnixStream::pair().map_err(Error::system(doing))?;
            ours.set_nonblocking(true).map_err(Error::system(doing))?;
            signals.handlers.push(pipe::register(signal, handlers).map_err(Error::system(doing))?);
            signals.streams.push((signal, ours));
        }
        Ok(signals)
    }

    /// Waits until a signal comes, one of `others` can be read (or has ended), or `limit` is over. Returns how many
    /// stamps were asked for (SIGUSR1) since the last wait.
    pub(crate) fn wait(
        &mut self,
        others: &[BorrowedFd<'_>],
        limit: Option<Duration>,
    ) -> Result<usize, Error> {
        let mut fds: Vec<PollFd<'_>> = self
            .streams
            .iter()
            .map(|(_, stream)| PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN))
            .collect();
        fds.extend(others.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match poll(&mut fds, limit.as_ref()) {
            // Interrupted by one of our signals: its byte is in the socket.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::System { doing: "waiting", source: error.into() }),
        }
        self.look();
        Ok(std::mem::take(&mut self.stamps))
    }

    /// Takes note of the signals that have come, without waiting.
    pub(crate) fn look(&mut self) -> &Self {
        for (signal, stream) in &mut self.streams {
            let count = drain(stream);
            match *signal {
                SIGUSR1 => self.stamps += count,
                SIGINT | SIGTERM if count > 0 => match self.first_stop {
                    None => self.first_stop = Some(Instant::now()),
                    Some(first) => self.given_up |= first.elapsed() >= ONE,
                },
                // The end of a child has done its work by ending the wait.
                _ => {}
            }
        }
        self
    }

    /// Whether a SIGINT or SIGTERM has come: stop, keep what there is.
    pub(crate) fn stopped(&self) -> bool {
        self.first_stop.is_some()
    }

    /// Whether a second one has come: stop, keep nothing.
    pub(crate) fn given_up(&self) -> bool {
        self.given_up
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            unregister(handler);
        }
    }
}

fn drain(stream: &mut UnixStream) -> usize {
    let mut total = 0;
    let mut bytes = [0; 64];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return total,
            Ok(count) => total += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, getpid, kill_process};

    #[test]
    fn signals_and_pipes_end_a_wait() {
        let mut signals = Signals::take().expect("handlers");
        kill_process(getpid(), Signal::USR1).expect("a signal to ourselves");
        let mut stamps = 0;
        // Children of other tests of this process may end meanwhile, which ends a wait as well.
        while stamps == 0 {
            stamps = signals.wait(&[], None).expect("a wait");
        }
        assert_eq!((stamps, signals.stopped()), (1, false));
        let (reader, writer) = UnixStream::pair().expect("a pair");
        drop(writer);
        signals.wait(&[reader.as_fd()], None).expect("the end of a pipe ends a wait");
        signals.first_stop = Instant::now().checked_sub(ONE);
        assert!(signals.stopped() && !signals.given_up());
        kill_process(getpid(), Signal::TERM).expect("a signal to ourselves");
        while !signals.given_up() {
            signals.wait(&[], None).expect("a wait");
        }
    }
}
