//! Where the fields of a PERF_RECORD_SAMPLE lie, worked out once per event attribute.
//!
//! `linux-perf-event-reader` has a full parser, but it makes 18 options of each sample, reads the READ field of
//! grouped and single counters the wrong way round, and multiplies a callchain's length unchecked. Only five fields are
//! needed here; with the usual options they lie at fixed places.

use super::bytes;
use linux_perf_data::linux_perf_event_reader::SampleFormat;

/// Places in a sample's body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Of the event id, where there is one.
    pub(crate) id: Option<usize>,
    tid: usize,
    time: usize,
    cpu: Option<usize>,
    /// End of the fields of fixed size.
    fixed: usize,
    /// The attribute's `read_format`, where samples have the READ field.
    read: Option<u64>,
    callchain: bool,
}

/// The needed parts of a sample.
pub(crate) struct Sample<'a> {
    pub(crate) tid: i32,
    pub(crate) time: u64,
    pub(crate) cpu: u32,
    /// The tracepoint's own record.
    pub(crate) raw: &'a [u8],
}

impl Places {
    /// `None` when samples of this event lack the task, the time or the tracepoint's record.
    ///
    /// `read_format` comes apart from the crate's attribute, whose type drops PERF_FORMAT_LOST (6.0).
    pub(crate) fn new(f: SampleFormat, read_format: u64) -> Option<Self> {
        let mut at = 0;
        let mut next = |bit: SampleFormat| {
            f.contains(bit).then(|| {
                at += 8;
                at - 8
            })
        };
        let identifier = next(SampleFormat::IDENTIFIER);
        next(SampleFormat::IP);
        let tid = next(SampleFormat::TID);
        let time = next(SampleFormat::TIME);
        next(SampleFormat::ADDR);
        let id = next(SampleFormat::ID);
        next(SampleFormat::STREAM_ID);
        let cpu = next(SampleFormat::CPU);
        next(SampleFormat::PERIOD);
        if !f.contains(SampleFormat::RAW) {
            return None;
        }
        Some(Self {
            id: identifier.or(id),
            tid: tid?,
            time: time?,
            cpu,
            fixed: at,
            read: f.contains(SampleFormat::READ).then_some(read_format),
            callchain: f.contains(SampleFormat::CALLCHAIN),
        })
    }

    /// Take a body apart. `None`: it ends too early.
    #[inline]
    pub(crate) fn split<'a>(&self, body: &'a [u8]) -> Option<Sample<'a>> {
        let mut at = self.fixed;
        if let Some(format) = self.read {
            at = skip_read(body, at, format)?;
        }
        if self.callchain {
            let frames = usize::try_from(bytes::u64(body, at)?).ok()?;
            at = frames.checked_add(1)?.checked_mul(8)?.checked_add(at)?;
        }
        let len = bytes::u32(body, at)? as usize;
        Some(Sample {
            tid: bytes::u32(body, self.tid + 4)? as i32,
            time: bytes::u64(body, self.time)?,
            cpu: match self.cpu {
                Some(at) => bytes::u32(body, at)?,
                None => 0,
            },
            raw: body.get(at + 4..)?.get(..len)?,
        })
    }
}

/// The end of a READ field: `{nr, [enabled], [running], {value, [id], [lost]}[nr]}` for a group,
/// `{value, [enabled], [running], [id], [lost]}` for one counter.
fn skip_read(body: &[u8], at: usize, bits: u64) -> Option<usize> {
    let has = |bit: u64| usize::from(bits & bit != 0);
    let times = has(1) + has(2);
    let each = has(4) + has(16);
    let words = if bits & 8 != 0 {
        let nr = usize::try_from(bytes::u64(body, at)?).ok()?;
        nr.checked_mul(1 + each)?.checked_add(1 + times)?
    } else {
        1 + times + each
    };
    words.checked_mul(8)?.checked_add(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(w: &[u64]) -> Vec<u8> {
        w.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    #[test]
    fn fields_of_changing_size_are_skipped() {
        // IDENTIFIER, TID, TIME, CPU, READ (single, with enabled and running), CALLCHAIN of two, RAW of 4 bytes.
        let mut body = words(&[77, 5 << 32 | 4, 1000, 3, 9, 9, 9, 2, 1, 1]);
        body.extend([4, 0, 0, 0, 1, 2, 3, 4]);
        let places = Places {
            id: Some(0),
            tid: 8,
            time: 16,
            cpu: Some(24),
            fixed: 32,
            read: Some(3),
            callchain: true,
        };
        let s = places.split(&body).unwrap();
        assert_eq!((s.tid, s.time, s.cpu, s.raw), (5, 1000, 3, &[1u8, 2, 3, 4][..]));
        for n in 0..body.len() {
            assert!(places.split(&body[..n]).is_none());
        }
    }

    #[test]
    fn a_lying_callchain_or_group_is_no_overflow() {
        let body = words(&[u64::MAX, u64::MAX, u64::MAX]);
        let places =
            Places { id: None, tid: 0, time: 0, cpu: None, fixed: 0, read: Some(8), callchain: true };
        assert!(places.split(&body).is_none());
        assert!(Places { read: None, ..places }.split(&body).is_none());
    }
}
