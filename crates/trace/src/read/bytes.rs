//! Little-endian numbers at a place in a byte slice, or nothing where the slice ends: no reader here indexes
//! into bytes that came from a file.

/// The `N` bytes at `at`.
pub(crate) fn array<const N: usize>(b: &[u8], at: usize) -> Option<[u8; N]> {
    b.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(crate) fn u16(b: &[u8], at: usize) -> Option<u16> {
    array(b, at).map(u16::from_le_bytes)
}

pub(crate) fn u32(b: &[u8], at: usize) -> Option<u32> {
    array(b, at).map(u32::from_le_bytes)
}

pub(crate) fn u64(b: &[u8], at: usize) -> Option<u64> {
    array(b, at).map(u64::from_le_bytes)
}

/// The bytes before the first NUL.
pub(crate) fn until_nul(b: &[u8]) -> &[u8] {
    b.split(|&c| c == 0).next().unwrap_or(b)
}

/// A slice that is read from its start on; every step may find its end.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(n)?;
        let s = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(s)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        u32(self.take(4)?, 0)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        u64(self.take(8)?, 0)
    }

    /// Text up to a NUL, which is skipped.
    pub(crate) fn c_string(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let n = rest.iter().position(|&c| c == 0)?;
        self.at += n + 1;
        rest.get(..n)
    }

    /// A block after its length (u64).
    pub(crate) fn block64(&mut self) -> Option<&'a [u8]> {
        let n = self.u64()?;
        self.take(usize::try_from(n).ok()?)
    }

    /// A block after its length (u32).
    pub(crate) fn block32(&mut self) -> Option<&'a [u8]> {
        let n = self.u32()?;
        self.take(n as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_past_the_end() {
        let b = [1, 0, 0, 0, b'a', 0, 9];
        assert_eq!((u32(&b, 0), u32(&b, 4), u64(&b, usize::MAX)), (Some(1), None, None));
        let mut c = Cursor::new(&b);
        assert_eq!((c.u32(), c.c_string(), c.at()), (Some(1), Some(&b"a"[..]), 6));
        assert_eq!((c.c_string(), c.u64(), c.u8(), c.u8()), (None, None, Some(9), None));
        assert_eq!(Cursor::new(&[255; 9]).block64(), None);
    }
}
