//! Text in a buffer of the caller's: what does not fit is left out.

use core::fmt;

pub(crate) struct Text<'a> {
    to: &'a mut [u8],
    len: usize,
}

impl<'a> Text<'a> {
    pub(crate) fn new(to: &'a mut [u8]) -> Self {
        Self { to, len: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.to[..self.len]
    }

    pub(crate) fn into_bytes(self) -> &'a [u8] {
        &self.to[..self.len]
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let n = bytes.len().min(self.to.len() - self.len);
        self.to[self.len..self.len + n].copy_from_slice(&bytes[..n]);
        self.len += n;
    }

    /// The text as such; empty where a character was cut.
    pub(crate) fn as_str(&self) -> &str {
        core::str::from_utf8(self.bytes()).unwrap_or_default()
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.push(s.as_bytes());
        Ok(())
    }
}

/// Prints bytes that are mostly ASCII; others, and control characters, as `?`.
pub(crate) struct Plain<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |b: &u8| if (0x20..0x7f).contains(b) { char::from(*b) } else { '?' };
        self.0.iter().map(plain).try_for_each(|c| fmt::Write::write_char(f, c))
    }
}

/// Prints text for between the quotes of JSON.
pub(crate) struct Json<'a>(pub(crate) &'a str);

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c < ' ' => write!(f, "\\u{:04x}", c as u32)?,
                c => fmt::Write::write_char(f, c)?,
            }
        }
        Ok(())
    }
}

/// All of a file of the system that fits into `to`.
pub(crate) fn read<'a>(path: &core::ffi::CStr, to: &'a mut [u8]) -> &'a [u8] {
    // SAFETY: the path ends with a NUL, the buffer is ours, the descriptor is closed again.
    let n = unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return &[];
        }
        let n = libc::read(fd, to.as_mut_ptr().cast(), to.len());
        libc::close(fd);
        n.max(0) as usize
    };
    &to[..n]
}
