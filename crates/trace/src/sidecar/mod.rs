//! The files that lie beside a `perf.data` and tell what perf cannot know.
//!
//! Each is optional: what is not known without it, a note says when the trace is resolved. One that is there and
//! cannot be understood is an error with file and line, since it probably belongs to another recording.

pub(crate) mod functions;
pub(crate) mod geometry;
pub(crate) mod ranges;
pub(crate) mod recording;
pub(crate) mod sites;
pub mod slabinfo;
pub(crate) mod stamps;
pub(crate) mod tasks;

use crate::error::Error;
use crate::read::format::Formats;
use hashbrown::HashMap;
use std::path::Path;

/// Everything the sidecars told.
#[derive(Debug, Default)]
pub(crate) struct Sidecar {
    /// cgroup of each task when the recording began (`pids.tsv`).
    pub(crate) tasks: Option<Vec<(i32, String)>>,
    /// The kernel's own counters (`steady.txt`, `side.tsv`), by time.
    pub(crate) stamps: Vec<stamps::RawStamp>,
    /// Symbol of each call site (`callsites.tsv`).
    pub(crate) sites: Option<HashMap<u64, String>>,
    /// Every function of the kernel, ascending (`kallsyms.tsv`), where there is no `callsites.tsv`.
    pub(crate) functions: Option<Vec<(u64, String)>>,
    /// Cache geometry and aliases (`slabgeom.txt`).
    pub(crate) geometry: Option<geometry::Table>,
    /// Physical memory of each NUMA node (`recording.json`, else `srat.txt`).
    pub(crate) ranges: Vec<ranges::Range>,
    /// `recording.json`.
    pub(crate) recording: recording::Recording,
    /// `formats.txt`, for a file that lost its own.
    pub(crate) formats: Option<Formats>,
    /// What the user should know.
    pub(crate) notes: Vec<String>,
}

impl Sidecar {
    /// Read what there is in `folder`.
    pub(crate) fn read(folder: &Path) -> Result<Self, Error> {
        let mut s = Self::default();
        if let Some((name, text)) = load(folder, "pids.tsv")? {
            s.tasks = Some(tasks::parse(&text, &name, &mut s.notes)?);
        }
        let side = load(folder, "side.tsv")?;
        if let Some((name, text)) = load(folder, "steady.txt")? {
            let rows = match &side {
                Some((name, text)) => stamps::rows(text, name)?,
                None => Vec::new(),
            };
            s.stamps = stamps::parse(&text, &name, &rows, &mut s.notes)?;
        }
        if let Some((name, text)) = load(folder, "callsites.tsv")? {
            s.sites = Some(sites::parse(&text, &name)?);
        } else if let Some((name, text)) = load(folder, "kallsyms.tsv")? {
            s.functions = Some(functions::parse(&text, &name)?);
        }
        if let Some((name, text)) = load(folder, "slabgeom.txt")? {
            s.geometry = Some(geometry::Table::parse(&text, &name)?);
        }
        if let Some((name, text)) = load(folder, "recording.json")? {
            s.recording = recording::Recording::parse(&text, &name)?;
        }
        s.ranges = s.recording.ranges()?;
        if let Some((name, text)) = load(folder, "srat.txt")?
            && s.ranges.is_empty()
        {
            s.ranges = ranges::parse(&text, &name)?;
        }
        if let Some((name, text)) = load(folder, "formats.txt")? {
            s.formats = Some(Formats::from_texts(&text, &name)?);
        }
        Ok(s)
    }
}

/// A sidecar's name and text, if it is there; what is not UTF-8 in it is replaced.
fn load(folder: &Path, name: &str) -> Result<Option<(String, String)>, Error> {
    let path = folder.join(name);
    match std::fs::read(&path) {
        Ok(b) => Ok(Some((path.display().to_string(), String::from_utf8_lossy(&b).into_owned()))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(path, e)),
    }
}

/// Undo `\\ooo`, in which the recorder writes control characters, and spaces where `space`; any other backslash is a
/// part of the name.
pub(crate) fn unescape(text: &str, space: bool) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, from) = rest.split_at(at);
        plain.push_str(before);
        let code = from.get(1..4).filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
        let code = code.and_then(|d| u8::from_str_radix(d, 8).ok());
        match code.filter(|c| c.is_ascii_control() || (space && *c == b' ')) {
            Some(c) => {
                plain.push(char::from(c));
                rest = from.get(4..).unwrap_or_default();
            }
            None => {
                plain.push('\\');
                rest = from.get(1..).unwrap_or_default();
            }
        }
    }
    plain + rest
}

/// `12.000000345`, with up to nine digits after the point, as ns.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || part.len() > 9 || !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let whole: u64 = whole.bytes().all(|b| b.is_ascii_digit()).then(|| whole.parse().ok())??;
    let mut ns = 0;
    for i in 0..9 {
        ns = ns * 10 + u64::from(part.as_bytes().get(i).map_or(0, |b| b - b'0'));
    }
    whole.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// Advice for a sidecar that cannot be understood.
pub(crate) const NOT_OURS: &str = "give the file of this recording, or take it away";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_recorder_escapes_is_unescaped() {
        assert_eq!(unescape(r"/a\040b\011c\x2dd\101\", true), "/a b\tc\\x2dd\\101\\");
        assert_eq!(unescape(r"/a\040b\177", false), "/a\\040b\u{7f}");
        assert_eq!(unescape(r"\+11\é\01", true), r"\+11\é\01");
    }

    #[test]
    fn seconds_are_exact_to_the_nanosecond() {
        assert_eq!(seconds("21.014364933"), Some(21_014_364_933));
        assert_eq!(
            (seconds("6.5"), seconds("7"), seconds("0.000001")),
            (Some(6_500_000_000), Some(7_000_000_000), Some(1000))
        );
        for bad in
            ["", ".5", "1.2.3", "-1", "+1", "1e9", "1.0000000001", "99999999999999999999", "18446744073.8"]
        {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}
