//! Where the machine's files are read: one prefix before `/proc` and `/sys`, and limits on what is read.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// A file is read so far and no further.
const MOST_BYTES: u64 = 64 << 20;

/// The folder in which `/proc` and `/sys` are found.
pub(super) struct Root(PathBuf);

impl Root {
    pub(super) fn at(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Where the machine's absolute `path` is.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// The text of a file; bytes that are not UTF-8 become U+FFFD. A device or a pipe is not read.
    pub(super) fn text(&self, path: &str) -> io::Result<String> {
        let place = self.path(path);
        if !fs::metadata(&place)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
        }
        let mut bytes = Vec::new();
        File::open(place)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Names in a folder; none when it cannot be read.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Where a link leads, as it is written.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        fs::read_link(self.path(path)).ok().map(|to| to.to_string_lossy().into_owned())
    }
}

/// Why a file could not be read, in the words of a sentence.
pub(super) fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it is not there".into(),
        io::ErrorKind::PermissionDenied => "no permission: run as root".into(),
        _ => error.to_string(),
    }
}

/// The number after `key` in lines of `key number` or `Key: number kB`.
pub(super) fn number(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()?.trim_end_matches(':') == key).then(|| words.next()?.parse().ok())?
    })
}
