//! Where results go: a file that appears whole, or standard output; and what is said beside them.

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
pub(crate) fn end_cleanly_on_interrupt() -> Result<(), Failure> {
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

/// A line on standard error. Who has closed that does not want to hear it: no error, and no panic as with `eprintln!`.
pub(crate) fn say(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "tenalloc: {text}");
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Finds out before the work that its result could not be written. What can still go wrong later does so later.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    if is_stdout(path) {
        return Ok(());
    }
    let cannot = |why| Failure::new(1, format!("cannot write {}: {why}", path.display()));
    if path.is_dir() {
        return Err(cannot("it is a folder; name a file".to_owned()));
    }
    match path.parent() {
        Some(folder) if folder != Path::new("") && !folder.is_dir() => {
            Err(cannot(format!("there is no folder {}; make it first", folder.display())))
        }
        _ => Ok(()),
    }
}

/// Writes to `path`, or to standard output for `-`. A reader who leaves early (`| head`) is no error.
pub(crate) fn write(path: &Path, text: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let written = if is_stdout(path) {
        let mut out = BufWriter::new(io::stdout().lock());
        let written = text(&mut out).and_then(|()| out.flush());
        written.map_err(|e| io::Error::new(e.kind(), format!("cannot write to standard output: {e}")))
    } else {
        // A pipe or a terminal cannot be half a file, and may block for ever: Ctrl-C must not wait for it.
        let _held = (path.is_file() || !path.exists()).then(writing);
        write_atomically(path, |out| text(out))
    };
    match written {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(Failure::new(1, e)),
        Ok(()) => Ok(()),
    }
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Cells below which a width is taken for a mistake.
const NARROWEST: usize = 40;

/// Colours and width for a table that goes to `path`.
pub(crate) fn style(path: &Path, colour: Colour) -> Style {
    let terminal = is_stdout(path) && io::stdout().is_terminal();
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let colour = match colour {
        Colour::Auto => terminal && !no_color && std::env::var_os("TERM").is_none_or(|t| t != "dumb"),
        Colour::Always => true,
        Colour::Never => false,
    };
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).filter(|c| *c >= NARROWEST);
    let width = if terminal { terminal_width() } else { None };
    Style { colour, width: width.or(columns).unwrap_or(if terminal { 80 } else { 100 }) }
}

fn terminal_width() -> Option<usize> {
    rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col)).filter(|w| *w > 0)
}
