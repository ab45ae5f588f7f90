//! One line on standard error, of one write.

use crate::report::standard_error;
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
    // SAFETY: the buffer is ours; that nobody reads it is no mistake.
    unsafe {
        let errno = *libc::__errno_location();
        if libc::write(2, buffer.as_ptr().cast(), len + 1) < 0 {
            libc::write(standard_error(), buffer.as_ptr().cast(), len + 1);
        }
        *libc::__errno_location() = errno;
    }
}
