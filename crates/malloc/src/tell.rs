//! One line on standard error, of one write.

use crate::stderr;
use crate::text::Text;
use core::fmt::{Arguments, Write};

/// Writes `tenalloc: ` and the message. `errno` stays as it is.
#[cold]
pub(crate) fn line(message: Arguments<'_>) {
    let mut buffer = [0; 512];
    let mut text = Text::new(&mut buffer[..511]);
    let _ = text.write_str("tenalloc: ");
    let _ = text.write_fmt(message);
    let len = text.bytes().len();
    buffer[len] = b'\n';
    stderr::say(&buffer[..=len]);
}
