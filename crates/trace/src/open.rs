//! The ways in: a folder, a file, or text on a stream.

use crate::error::Error;
use crate::program::Program;
use crate::read::event::{Event, Names};
use crate::read::format::Formats;
use crate::read::head::Head;
use crate::read::{Recording, Sink, perf, script};
use crate::resolve::stream::Resolver;
use crate::sidecar::{Sidecar, functions, geometry, ranges, recording, sites, slabinfo, stamps, tasks};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// How to read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Folder with the files beside the recording. Without it: the folder in which the recording lies; none for
    /// text on a stream.
    pub sidecar: Option<PathBuf>,
    /// Where to take the tracepoint formats from when the recording was cut short and lost its own: another
    /// `perf.data` of the same kernel, or a text with its `format` files. Without it: `formats.txt` of the
    /// sidecar folder.
    pub formats: Option<PathBuf>,
}

/// How far reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read.
    pub read: u64,
    /// Bytes there are; `None` for a stream.
    pub total: Option<u64>,
}

/// Read a recording: a folder with a `perf.data` in it, a `perf.data` as it is (compressed or not, recorded to a file
/// or to a pipe), or a file with the text of `perf script`.
///
/// `progress` is called about once per MiB. A file that was cut short or is damaged gives what was readable, with
/// [`Program::truncated`] set and a note.
///
/// # Errors
/// What cannot be read at all, has no slab events, or a sidecar that does not fit. Each tells file, place and what
/// to do.
pub fn open(path: &Path, options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Program, Error> {
    let folder = path.is_dir();
    let file = if folder { path.join("perf.data") } else { path.to_owned() };
    let beside = match (&options.sidecar, folder) {
        (Some(s), _) => s.clone(),
        (None, true) => path.to_owned(),
        (None, false) => path.parent().map(Path::to_owned).unwrap_or_default(),
    };
    let name = file.display().to_string();
    let mut input = File::open(&file).map_err(|e| Error::io(&file, e))?;
    let len = input.metadata().map_err(|e| Error::io(&file, e))?.len();
    let mut side = Sidecar::read(&beside)?;

    let mut first = [0; 8];
    let n = input.read(&mut first).map_err(|e| Error::io(&file, e))?;
    input.seek(SeekFrom::Start(0)).map_err(|e| Error::io(&file, e))?;
    let total = Some(len);
    if n > 0
        && first.iter().take(n).all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace())
        && !known(&first)
    {
        let mut tell = |read| progress(Progress { read, total });
        return run_script(BufReader::with_capacity(1 << 18, input), side, &name, &mut tell);
    }
    let spare = match &options.formats {
        Some(path) => Some(spare_formats(path)?),
        None => side.formats.take(),
    };
    run_perf(input, len, spare, side, &name, &mut |read| progress(Progress { read, total }))
}

/// Read the text of `perf script`, say from standard input.
///
/// # Errors
/// Text that is no output of `perf script`, or without slab events; a sidecar that does not fit.
pub fn read_script(
    input: impl BufRead,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<Program, Error> {
    let side = match &options.sidecar {
        Some(folder) => Sidecar::read(folder)?,
        None => Sidecar::default(),
    };
    run_script(input, side, "standard input", &mut |read| progress(Progress { read, total: None }))
}

/// perf's magic numbers are text, too.
fn known(first: &[u8; 8]) -> bool {
    matches!(first, b"PERFILE2" | b"2ELIFREP" | b"PERFFILE")
}

fn run_perf<R: Read + Seek>(
    mut input: R,
    len: u64,
    spare: Option<Formats>,
    mut side: Sidecar,
    name: &str,
    progress: &mut dyn FnMut(u64),
) -> Result<Program, Error> {
    let head = Head::read(&mut input, len, name)?;
    input.seek(SeekFrom::Start(head.data)).map_err(|e| Error::io(name, e))?;
    let input = BufReader::with_capacity(1 << 18, input);
    let mut resolver = Resolver::new(&mut side)?;
    let read = perf::read(input, head, spare, name, &mut resolver, progress)?;
    resolver.finish(read, side, name)
}

fn run_script(
    input: impl BufRead,
    mut side: Sidecar,
    name: &str,
    progress: &mut dyn FnMut(u64),
) -> Result<Program, Error> {
    let mut resolver = Resolver::new(&mut side)?;
    let read: Recording = script::read(input, name, &mut resolver, progress)?;
    resolver.finish(read, side, name)
}

/// Formats from another recording or a text.
fn spare_formats(path: &Path) -> Result<Formats, Error> {
    let name = path.display().to_string();
    let mut input = File::open(path).map_err(|e| Error::io(path, e))?;
    let len = input.metadata().map_err(|e| Error::io(path, e))?.len();
    let mut first = [0; 8];
    let n = input.read(&mut first).map_err(|e| Error::io(path, e))?;
    input.seek(SeekFrom::Start(0)).map_err(|e| Error::io(path, e))?;
    if n == 8 && known(&first) {
        return Head::read(&mut input, len, &name)?.formats.ok_or_else(|| {
            Error::at(&name, len, "this recording has no tracepoint formats", "give one that is whole")
        });
    }
    let mut text = String::new();
    input.take(64 << 20).read_to_string(&mut text).map_err(|e| Error::io(path, e))?;
    Formats::from_texts(&text, &name)
}

/// The bytes of a `perf.data`, without sidecars.
#[doc(hidden)]
pub fn perf_bytes(bytes: &[u8], formats: Option<&str>) -> Result<Program, Error> {
    let spare = formats.map(|t| Formats::from_texts(t, "formats")).transpose()?;
    let len = bytes.len() as u64;
    run_perf(std::io::Cursor::new(bytes), len, spare, Sidecar::default(), "bytes", &mut |_| {})
}

/// Read the bytes of a `perf.data` without resolving; gives the number of its events.
#[doc(hidden)]
pub fn perf_events(bytes: &[u8]) -> Result<u64, Error> {
    struct Count(u64);
    impl Sink for Count {
        fn event(&mut self, _: &Event, _: &Names) {
            self.0 += 1;
        }
        fn symbol(&mut self, _: u64, _: &str) {}
        fn end(&mut self, _: &Names) {}
    }
    let mut input = std::io::Cursor::new(bytes);
    let head = Head::read(&mut input, bytes.len() as u64, "bytes")?;
    input.set_position(head.data);
    let mut count = Count(0);
    perf::read(input, head, None, "bytes", &mut count, &mut |_| {})?;
    Ok(count.0)
}

/// A TRACING_DATA section; gives the number of its tracepoints.
#[doc(hidden)]
pub fn formats(bytes: &[u8]) -> Result<usize, Error> {
    let formats = Formats::parse(bytes, "bytes", 0)?;
    let made = formats.events.iter().filter(|f| crate::read::layout::Layout::new(f).is_ok());
    Ok(made.count())
}

/// A text as each of the sidecars; gives how many took it.
#[doc(hidden)]
pub fn sidecar_text(text: &str) -> usize {
    let notes = &mut Vec::new();
    let rows = stamps::rows(text, "side.tsv");
    let taken = [
        tasks::parse(text, "pids.tsv", notes).is_ok(),
        stamps::parse(text, "steady.txt", rows.as_deref().unwrap_or_default(), notes).is_ok(),
        rows.is_ok(),
        sites::parse(text, "callsites.tsv").is_ok(),
        functions::parse(text, "kallsyms.tsv").is_ok(),
        geometry::Table::parse(text, "slabgeom.txt").is_ok(),
        ranges::parse(text, "srat.txt").is_ok(),
        recording::Recording::parse(text, "recording.json").is_ok_and(|r| r.ranges().is_ok()),
        slabinfo::parse(text, "slabinfo").is_ok(),
        Formats::from_texts(text, "formats.txt").is_ok(),
    ];
    taken.iter().filter(|t| **t).count()
}
