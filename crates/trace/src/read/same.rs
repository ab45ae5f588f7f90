//! Our walk over the records and the iterator of `linux-perf-data` see the same samples, to the last byte, and put them
//! in the same order of time.

use super::event::{Event, Names};
use super::head::Head;
use super::{Sink, perf};
use linux_perf_data::linux_perf_event_reader::EventRecord;
use linux_perf_data::{PerfFileReader, PerfFileRecord};
use std::io::Cursor;
use std::path::Path;

/// Time, CPU, task, number of the event, the tracepoint's record.
pub(crate) type Seen = (u64, u32, i32, usize, Vec<u8>);

/// Keeps what identifies an event, in the order in which events come out.
#[derive(Default)]
struct Keep(Vec<(u64, i32, u16, u16)>);

impl Sink for Keep {
    fn event(&mut self, e: &Event, _: &Names) {
        self.0.push((e.time, e.tid, e.cpu, e.sample));
    }
    fn symbol(&mut self, _: u64, _: &str) {}
    fn end(&mut self, _: &Names) {}
}

/// Samples in the order of the crate, with names of the events.
fn theirs(bytes: &[u8]) -> (Vec<Seen>, Vec<String>) {
    let PerfFileReader { mut perf_file, mut record_iter } =
        PerfFileReader::parse_file(Cursor::new(bytes)).unwrap();
    let name = |a: &linux_perf_data::AttributeDescription| a.name().unwrap().to_owned();
    let names = perf_file.event_attributes().iter().map(name).collect();
    let mut samples = Vec::new();
    while let Some(record) = record_iter.next_record(&mut perf_file).unwrap() {
        if let PerfFileRecord::EventRecord { attr_index, record } = record
            && let EventRecord::Sample(s) = record.parse().unwrap()
        {
            let raw = s.raw.unwrap().as_slice().into_owned();
            samples.push((s.timestamp.unwrap(), s.cpu.unwrap(), s.tid.unwrap(), attr_index, raw));
        }
    }
    (samples, names)
}

#[test]
fn every_sample_is_that_of_the_crate() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/small/perf.data");
    let bytes = std::fs::read(path).unwrap();
    let (mut theirs, names) = theirs(&bytes);

    let mut input = Cursor::new(&bytes[..]);
    let head = Head::read(&mut input, bytes.len() as u64, "small").unwrap();
    input.set_position(head.data);
    let mut keep = Keep::default();
    let mut read = perf::read(input, head, None, "small", &mut keep, &mut |_| {}).unwrap();

    // Theirs has perf's own `dummy` at the end, too, which has no samples.
    assert_eq!(read.events, names[..13]);
    assert_eq!((theirs.len(), read.seen.len()), (529_874, 529_874));
    // The order of time is the same; samples of one moment have no order.
    assert!(keep.0.iter().map(|e| e.0).eq(theirs.iter().map(|s| s.0)));
    let mut kept = std::mem::take(&mut keep.0);
    let mut identified: Vec<_> = theirs.iter().map(|s| (s.0, s.2, s.1 as u16, s.3 as u16)).collect();
    kept.sort_unstable();
    identified.sort_unstable();
    assert!(kept == identified);
    theirs.sort_unstable();
    read.seen.sort_unstable();
    if let Some(i) = (0..theirs.len()).find(|&i| theirs[i] != read.seen[i]) {
        panic!("sample {i}: {:?}, not {:?}", read.seen[i], theirs[i]);
    }
}
