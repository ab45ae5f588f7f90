//! The head of a `perf.data`: its header, event attributes and feature sections.
//!
//! ```text
//!   "PERFILE2"  header size  attr size  {offset, size} of attrs, data, event types   feature bits[4]
//!   attrs: perf_event_attr and {offset, size} of its ids, each
//!   data:  records                                               <- walked by `perf`
//!   one {offset, size} per feature bit, lowest first, then the feature sections
//! ```
//!
//! `linux-perf-data` has a reader for this, and its types are used here, but not the reader: it allocates whatever
//! size a header claims, divides by an attribute size of 0, and gives up on a file that was cut short, whose feature
//! sections (they come last) are gone. Here every size is held against the file's length before it is believed.

use super::bytes::{self, Cursor};
use super::format::Formats;
use super::sample::Places;
use crate::error::Error;
use byteorder::LittleEndian;
use linux_perf_data::Feature;
use linux_perf_data::linux_perf_event_reader::{PerfEventAttr, PerfEventType};
use std::io::{Read, Seek, SeekFrom};

/// A section that is read whole may not be larger: TRACING_DATA of every tracepoint of a kernel has 4 MB.
const LARGEST_SECTION: u64 = 64 << 20;
/// Bytes of the header that are known.
const HEADER: usize = 104;

/// One recorded event.
#[derive(Debug)]
pub(crate) struct Attribute {
    /// The tracepoint's id, where it is one.
    pub(crate) tracepoint: Option<u64>,
    /// Ids under which its samples come, one per CPU.
    pub(crate) ids: Vec<u64>,
    /// Where the fields of its samples lie; `None`: they lack what we need.
    pub(crate) places: Option<Places>,
}

impl Attribute {
    /// From a `perf_event_attr`; gives the bytes it took, too.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let (attr, size) = PerfEventAttr::parse::<_, LittleEndian>(bytes).ok()?;
        let tracepoint = match attr.type_ {
            PerfEventType::Tracepoint(id) => Some(id),
            _ => None,
        };
        let places = Places::new(attr.sample_format, bytes::u64(bytes, 32)?);
        Some((Self { tracepoint, ids: Vec::new(), places }, usize::try_from(size).ok()?))
    }
}

/// What the head told.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// Recorded to a pipe: attributes and formats come as records.
    pub(crate) pipe: bool,
    /// First byte of the records.
    pub(crate) data: u64,
    /// Bytes of records.
    pub(crate) data_len: u64,
    /// The recorded events.
    pub(crate) attributes: Vec<Attribute>,
    /// The tracepoint formats; empty where they are lost.
    pub(crate) formats: Option<Formats>,
    /// Facts of the machine.
    pub(crate) machine: Machine,
    /// Length of the file, where it ends before its header says so.
    pub(crate) truncated: Option<u64>,
}

/// The feature sections that matter here.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    release: Option<String>,
    arch: Option<String>,
    /// 0: not told.
    pub(crate) cpus: u16,
    /// Empty: not told.
    pub(crate) cpu_node: Vec<u8>,
}

impl Machine {
    /// Take one feature section in; what cannot be read is left out.
    pub(crate) fn feature(&mut self, feature: Feature, data: &[u8]) {
        let mut c = Cursor::new(data);
        match feature {
            Feature::OSRELEASE => self.release = text(&mut c),
            Feature::ARCH => self.arch = text(&mut c),
            Feature::NRCPUS => self.cpus = bytes::u32(data, 0).map_or(0, |n| n.min(0x8000) as u16),
            Feature::NUMA_TOPOLOGY => self.cpu_node = numa(&mut c).unwrap_or_default(),
            _ => {}
        }
    }

    /// `Linux 6.12.111 x86_64`.
    pub(crate) fn kernel(&self) -> Option<String> {
        let release = self.release.as_deref()?;
        Some(format!("Linux {release} {}", self.arch.as_deref().unwrap_or("")).trim_end().to_owned())
    }
}

fn text(c: &mut Cursor<'_>) -> Option<String> {
    Some(String::from_utf8_lossy(bytes::until_nul(c.block32()?)).into_owned())
}

/// `u32 nodes, {u32 node, u64 total, u64 free, text of CPUs as 0-3,8}[nodes]`.
fn numa(c: &mut Cursor<'_>) -> Option<Vec<u8>> {
    let mut of = Vec::new();
    for _ in 0..c.u32()? {
        let node = u8::try_from(c.u32()?).ok()?;
        c.take(16)?;
        for range in text(c)?.split(',').filter(|r| !r.is_empty()) {
            let (a, b) = range.split_once('-').unwrap_or((range, range));
            let (a, b) = (a.trim().parse::<usize>().ok()?, b.trim().parse::<usize>().ok()?);
            if b >= 0x8000 {
                return None;
            }
            if of.len() <= b {
                of.resize(b + 1, 0);
            }
            of.get_mut(a..=b)?.fill(node);
        }
    }
    Some(of)
}

impl Head {
    /// Read the head of `file`, which has `len` bytes.
    pub(crate) fn read<R: Read + Seek>(mut input: R, len: u64, file: &str) -> Result<Self, Error> {
        let mut header = [0; HEADER];
        let have = len.min(HEADER as u64) as usize;
        let part = header.get_mut(..have).unwrap_or_default();
        input.read_exact(part).map_err(|e| Error::io(file, e))?;
        check_magic(&header, have, file)?;
        let size = bytes::u64(&header, 8).unwrap_or(0);
        if size == 16 && have >= 16 {
            return Ok(Self { pipe: true, data: 16, data_len: len - 16, ..Self::default() });
        }
        if have < HEADER {
            let what = format!("the file ends inside its header of {HEADER} bytes");
            return Err(Error::at(file, len, what, COPY_AGAIN));
        }
        if size < HEADER as u64 {
            let what = format!("the header claims a size of {size} bytes, not {HEADER}");
            return Err(Error::at(file, 8, what, COPY_AGAIN));
        }
        let at = |i: usize| bytes::u64(&header, i).unwrap_or(0);
        let mut head = Self { data: at(40), data_len: at(48), ..Self::default() };
        head.read_attributes(&mut input, len, file, at(16), (at(24), at(32)))?;

        // A recorder that was killed never wrote the size of the data, nor anything behind it.
        if head.data_len == 0 && head.data < len {
            head.data_len = len - head.data;
            head.truncated = Some(len);
            return Ok(head);
        }
        match head.data.checked_add(head.data_len) {
            Some(end) if end <= len => {
                let bits = [at(72), at(80), at(88), at(96)];
                head.read_features(&mut input, len, file, end, bits)?;
            }
            _ if head.data <= len => {
                head.data_len = len - head.data;
                head.truncated = Some(len);
            }
            _ => {
                let what = format!("the file ends before its records, which begin at byte {}", head.data);
                return Err(Error::at(file, len, what, COPY_AGAIN));
            }
        }
        Ok(head)
    }

    fn read_attributes<R: Read + Seek>(
        &mut self,
        input: &mut R,
        len: u64,
        file: &str,
        each: u64,
        attrs: (u64, u64),
    ) -> Result<(), Error> {
        if !(80..=4096).contains(&each) || attrs.1 / each > 4096 {
            let what = format!("the header tells {} bytes of event attributes of {each} bytes each", attrs.1);
            return Err(Error::at(file, 16, what, COPY_AGAIN));
        }
        let table = section(input, len, file, attrs)?.ok_or_else(|| {
            let what = format!("the file ends before its event attributes, {} bytes at {}", attrs.1, attrs.0);
            Error::at(file, len, what, COPY_AGAIN)
        })?;
        // The last 16 bytes tell where the ids lie.
        let split = each as usize - 16;
        for (i, entry) in table.chunks_exact(each as usize).enumerate() {
            let (attr, ids) = entry.split_at(split);
            let at = attrs.0 + i as u64 * each;
            let (mut attribute, _) = Attribute::parse(attr).ok_or_else(|| {
                Error::at(file, at, format!("event attribute {i} cannot be understood"), COPY_AGAIN)
            })?;
            let ids = (bytes::u64(ids, 0).unwrap_or(0), bytes::u64(ids, 8).unwrap_or(0));
            let ids = section(input, len, file, ids)?.ok_or_else(|| {
                let what =
                    format!("the ids of event {i}, {} bytes at {}, lie outside the file", ids.1, ids.0);
                Error::at(file, at, what, COPY_AGAIN)
            })?;
            attribute.ids = ids.chunks_exact(8).filter_map(|b| bytes::u64(b, 0)).collect();
            self.attributes.push(attribute);
        }
        if self.attributes.is_empty() {
            return Err(Error::at(file, attrs.0, "the file has no events", "record anew"));
        }
        Ok(())
    }

    fn read_features<R: Read + Seek>(
        &mut self,
        input: &mut R,
        len: u64,
        file: &str,
        table: u64,
        bits: [u64; 4],
    ) -> Result<(), Error> {
        let set = (0..256u32).filter(|&i| bits.get(i as usize / 64).is_some_and(|w| w >> (i % 64) & 1 == 1));
        for (place, feature) in set.map(Feature).enumerate() {
            let Some(entry) = section(input, len, file, (table + place as u64 * 16, 16))? else {
                self.truncated = Some(len);
                break;
            };
            let at = (bytes::u64(&entry, 0).unwrap_or(0), bytes::u64(&entry, 8).unwrap_or(0));
            let wanted = [
                Feature::TRACING_DATA,
                Feature::OSRELEASE,
                Feature::ARCH,
                Feature::NRCPUS,
                Feature::NUMA_TOPOLOGY,
            ];
            if at.0.checked_add(at.1).is_none_or(|end| end > len) {
                self.truncated = Some(len);
            } else if wanted.contains(&feature)
                && let Some(data) = section(input, len, file, at)?
            {
                if feature == Feature::TRACING_DATA {
                    self.formats = Some(Formats::parse(&data, file, at.0)?);
                } else {
                    self.machine.feature(feature, &data);
                }
            }
        }
        Ok(())
    }
}

pub(crate) const COPY_AGAIN: &str = "copy the file again, or record anew";

fn check_magic(header: &[u8], have: usize, file: &str) -> Result<(), Error> {
    let advice = "give a perf.data file, a folder that has one, or the text of `perf script`";
    let magic = header.get(..8.min(have)).unwrap_or_default();
    match magic {
        b"PERFILE2" => Ok(()),
        b"2ELIFREP" => {
            let what = "this was recorded on a big-endian machine, which is not supported";
            Err(Error::at(file, 0, what, "give the text of `perf script`, made on that machine"))
        }
        b"PERFFILE" => Err(Error::at(file, 0, "this is perf's format of before 2010", advice)),
        [] => Err(Error::at(file, 0, "the file is empty", advice)),
        _ => Err(Error::at(file, 0, "this is no perf.data file", advice)),
    }
}

/// The bytes of a section; `None` when it does not lie in the file whole, or is larger than any real one.
fn section<R: Read + Seek>(
    input: &mut R,
    len: u64,
    file: &str,
    (offset, size): (u64, u64),
) -> Result<Option<Vec<u8>>, Error> {
    if size > LARGEST_SECTION || offset.checked_add(size).is_none_or(|end| end > len) {
        return Ok(None);
    }
    let mut data = vec![0; size as usize];
    let read = input.seek(SeekFrom::Start(offset)).and_then(|_| input.read_exact(&mut data));
    read.map_err(|e| Error::io(file, e))?;
    Ok(Some(data))
}
