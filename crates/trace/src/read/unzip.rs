//! Compressed records: one zstd stream over all COMPRESSED records of a file, in which records straddle the borders.
//!
//! `linux-perf-data` has the same, but does not give it away. Here no more than one buffer is held, however much a
//! stream swells.

use super::bytes;
use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// Room for what one step gives and for one record (at most 64 KiB) that the step before left incomplete.
const ROOM: usize = 1 << 20;

/// Takes a record's type and body.
type Take<'a, E> = dyn FnMut(u32, &[u8]) -> Result<(), E> + 'a;

/// The state of the stream.
#[derive(Default)]
pub(crate) struct Unzip {
    stream: Option<DCtx<'static>>,
    buf: Vec<u8>,
    filled: usize,
}

/// Why it cannot go on.
pub(crate) enum Fault<E> {
    /// The stream is damaged.
    Damaged(String),
    /// The one who takes the records stopped.
    Stopped(E),
}

impl Unzip {
    /// Bytes of an incomplete record.
    pub(crate) fn rest(&self) -> usize {
        self.filled
    }

    /// Unpack `data` and give each record's type and body to `take`.
    pub(crate) fn feed<E>(&mut self, data: &[u8], take: &mut Take<'_, E>) -> Result<(), Fault<E>> {
        if self.buf.is_empty() {
            self.buf.resize(ROOM, 0);
        }
        let stream = match &mut self.stream {
            Some(s) => s,
            none => {
                none.insert(DCtx::try_create().ok_or_else(|| Fault::Damaged("no memory for zstd".into()))?)
            }
        };
        let mut input = InBuffer::around(data);
        loop {
            let room = self.buf.get_mut(self.filled..).unwrap_or_default();
            let (space, before) = (room.len(), input.pos());
            let mut out = OutBuffer::around(room);
            stream.decompress_stream(&mut out, &mut input).map_err(|code| {
                Fault::Damaged(format!("compressed data is damaged ({})", zstd_safe::get_error_name(code)))
            })?;
            let got = out.pos();
            self.filled += got;
            let done = records(self.buf.get(..self.filled).unwrap_or_default(), take)?;
            self.buf.copy_within(done..self.filled, 0);
            self.filled -= done;
            let stuck = got == 0 && input.pos() == before;
            if (got < space && input.pos() == data.len()) || stuck {
                return Ok(());
            }
        }
    }
}

/// Hand over the complete records of `buf`; gives the bytes they took.
fn records<E>(buf: &[u8], take: &mut Take<'_, E>) -> Result<usize, Fault<E>> {
    let mut at = 0;
    while let (Some(kind), Some(size)) = (bytes::u32(buf, at), bytes::u16(buf, at + 6)) {
        if size < 8 {
            return Err(Fault::Damaged(format!("an unpacked record claims to have {size} bytes")));
        }
        let Some(body) = buf.get(at + 8..at + usize::from(size)) else { break };
        take(kind, body).map_err(Fault::Stopped)?;
        at += usize::from(size);
    }
    Ok(at)
}
