//! The plan for people and programs: [`table`], [`json`], [`csv`], a page ([`html`]); and the published check.

pub mod check;
pub mod csv;
pub mod html;
pub mod table;

use std::io::{self, Write};

use crate::Plan;

/// Writes the plan as indented JSON.
///
/// # Errors
/// Those of `out`.
pub fn json(plan: &Plan, mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, plan)?;
    out.write_all(b"\n")
}

/// A byte figure in a table: `–` for none.
fn size(bytes: Option<u64>) -> String {
    match bytes {
        None => "–".into(),
        Some(0) => "0".into(),
        Some(bytes) => tenalloc_replay::report::units::bytes(bytes),
    }
}

/// Text without what a terminal would obey.
fn printable(text: &str) -> String {
    let obeyed = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if obeyed(c) { '\u{fffd}' } else { c }).collect()
}
