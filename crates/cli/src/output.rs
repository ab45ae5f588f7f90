//! Where results go: a file that appears whole, or standard output.

use crate::Failure;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tenalloc_replay::report::atomic::write_atomically;
use tenalloc_replay::report::table::Style;

/// Held while a file is being written: Ctrl-C waits for it, so that no half file stays.
static WRITING: Mutex<()> = Mutex::new(());

fn writing() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on Ctrl-C and SIGTERM end the process with 130, but not in the middle of a file.
pub fn end_cleanly_on_interrupt() -> Result<(), Failure> {
    let signals = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
    let mut signals = signal_hook::iterator::Signals::new(signals).map_err(|e| Failure::new(1, e))?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            let _no_file_is_half = writing();
            std::process::exit(130);
        }
    });
    Ok(())
}

/// Writes to `path`, or to standard output for `-`. A reader who leaves early (`| head`) is no error.
pub fn write(path: &Path, text: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    if path == Path::new("-") {
        let mut out = BufWriter::new(io::stdout().lock());
        return match text(&mut out).and_then(|()| out.flush()) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(e) => Err(Failure::new(1, format!("cannot write to standard output: {e}"))),
            Ok(()) => Ok(()),
        };
    }
    let _held = writing();
    write_atomically(path, |out| text(out))
        .map_err(|e| Failure::new(1, format!("cannot write {}: {e}", path.display())))
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Colours and width for a table that goes to `path`.
pub fn style(path: &Path, colour: Colour) -> Style {
    let terminal = path == Path::new("-") && io::stdout().is_terminal();
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let colour = match colour {
        Colour::Auto => terminal && !no_color && std::env::var_os("TERM").is_none_or(|t| t != "dumb"),
        Colour::Always => true,
        Colour::Never => false,
    };
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let width = if terminal { terminal_width() } else { None };
    Style { colour, width: width.or(columns).unwrap_or(if terminal { 80 } else { 100 }) }
}

fn terminal_width() -> Option<usize> {
    rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col)).filter(|w| *w > 0)
}
