//! Why a trace cannot be used: what, where, and what to do about it.

use std::fmt;
use std::path::PathBuf;

/// A recording or one of its sidecars that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system would not let us read.
    #[error("cannot read {}: {source}{}", path.display(), remedy(source))]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The bytes are not what they should be.
    #[error("{file}, {place}: {what}; {help}")]
    Input {
        /// Name of the input.
        file: String,
        /// Where in it.
        place: Place,
        /// What is wrong there.
        what: String,
        /// What to do.
        help: String,
    },
}

/// A place in an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Bytes from the start.
    Offset(u64),
    /// Line, from 1.
    Line(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(o) => write!(f, "byte {o}"),
            Self::Line(l) => write!(f, "line {l}"),
        }
    }
}

/// What to do about a refusal of the system, where that can be told.
fn remedy(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "; a recording belongs to who made it: use sudo, or chown -R it"
        }
        _ => "",
    }
}

impl Error {
    /// Every error here is bad input or bad usage: 2.
    pub fn exit_code(&self) -> u8 {
        2
    }

    /// Byte offset of the fault, where the input is binary.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::Input { place: Place::Offset(o), .. } => Some(*o),
            _ => None,
        }
    }

    pub(crate) fn at(file: &str, offset: u64, what: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Input { file: file.into(), place: Place::Offset(offset), what: what.into(), help: help.into() }
    }

    pub(crate) fn line(file: &str, line: u64, what: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Input { file: file.into(), place: Place::Line(line), what: what.into(), help: help.into() }
    }

    pub(crate) fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_tells_what_to_do() {
        let error = |kind: std::io::ErrorKind| Error::io("x", kind.into()).to_string();
        assert!(error(std::io::ErrorKind::PermissionDenied).contains("; a recording belongs"));
        assert!(error(std::io::ErrorKind::NotFound).starts_with("cannot read x: "));
        assert!(!error(std::io::ErrorKind::NotFound).contains("sudo"));
    }
}
