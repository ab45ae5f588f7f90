//! The report as JSON, written and read back. The format is the serde form of [`Report`], nothing else.

use std::io::{self, Read, Write};

use super::{Report, SCHEMA, VERSION};

/// Why a report could not be read back.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No JSON, or not the fields of a report; tells line and column.
    #[error("not a report: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON of something else.
    #[error(
        "`schema` is {0:?}, not {SCHEMA:?}: this file was not written by `tenalloc replay --format json`"
    )]
    Schema(String),
    /// Of a version whose fields may mean something else.
    #[error("report version {0}, but this tenalloc reads version {VERSION}: replay the trace again")]
    Version(u32),
}

/// Writes `report` as indented JSON with a newline at its end. Fields come in the order of declaration.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, report)?;
    out.write_all(b"\n")
}

/// Reads what [`write()`] wrote. Fields that are not known (of a later tenalloc) are passed over.
///
/// # Errors
/// [`ReadError`].
pub fn read(input: impl Read) -> Result<Report, ReadError> {
    let report: Report = serde_json::from_reader(io::BufReader::new(input))?;
    if report.schema != SCHEMA {
        return Err(ReadError::Schema(report.schema));
    }
    if report.version != VERSION {
        return Err(ReadError::Version(report.version));
    }
    Ok(report)
}
