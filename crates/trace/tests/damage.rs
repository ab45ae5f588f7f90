//! Damaged recordings: cut anywhere, bytes flipped anywhere, sizes that lie. Never a panic, never memory without bound,
//! always a program with a note or an error that tells where.
//!
//! The file is the head of the small trace: its first records, with all that lies behind them.

mod common;

use std::path::Path;
use std::sync::OnceLock;
use tenalloc_trace::fuzzing::perf_bytes;
use tenalloc_trace::{Error, Options, Program};

fn whole() -> &'static [u8] {
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    WHOLE.get_or_init(|| std::fs::read(common::small().join("perf.data")).unwrap())
}

/// About 100 kB, of which 70 kB are compressed records.
fn little() -> &'static [u8] {
    static LITTLE: OnceLock<Vec<u8>> = OnceLock::new();
    LITTLE.get_or_init(|| common::shrink(whole(), 160_000))
}

fn samples(p: &Program) -> u64 {
    p.counts.samples.iter().map(|s| s.1).sum()
}

/// What came out must be usable or be told.
fn sane(result: &Result<Program, Error>, case: &str) {
    match result {
        Ok(p) => {
            common::run(p);
            assert_eq!(
                p.truncated.is_some(),
                p.notes.iter().any(|n| n.text.contains("byte ")),
                "{case}: {:?}",
                p.notes
            );
        }
        Err(e) => {
            let text = e.to_string();
            assert!(text.contains("; ") && text.starts_with("bytes, byte "), "{case}: {text}");
            assert_eq!(e.exit_code(), 2);
        }
    }
}

/// SplitMix64: the same places in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n as u64) as usize
    }
}

#[test]
fn the_little_file_can_be_read() {
    let p = perf_bytes(little(), None).unwrap();
    // The last record may straddle the place where the stream was cut.
    assert!(samples(&p) > 2_000, "{} samples", samples(&p));
    common::run(&p);
}

#[test]
fn cut_anywhere_without_its_formats_is_an_error_that_tells_where() {
    let mut random = Random(1);
    let data_end = little().len() - 34_000;
    for i in 0..150 {
        let n = if i < 120 { i } else { random.below(data_end) };
        let result = perf_bytes(&little()[..n], None);
        sane(&result, &format!("cut at {n}"));
        assert!(result.unwrap_err().offset().unwrap() <= n as u64);
    }
}

#[test]
fn cut_anywhere_with_formats_gives_what_was_readable() {
    let folder = tempfile::tempdir().unwrap();
    let donor = Options { formats: Some(common::small().join("perf.data")), ..Options::default() };
    let file = folder.path().join("perf.data");
    let all = samples(&perf_bytes(little(), None).unwrap());
    let (mut last, mut whole) = (0, 0);
    for n in (10_000..little().len()).step_by(1_777) {
        std::fs::write(&file, &little()[..n]).unwrap();
        match tenalloc_trace::open(&file, &donor, &mut |_| {}) {
            Ok(p) => {
                common::run(&p);
                assert!(p.truncated.is_some_and(|t| t <= n as u64), "cut at {n}: {:?}", p.truncated);
                assert!(p.notes.iter().any(|note| note.text.contains("byte ")));
                assert!(samples(&p) >= last && samples(&p) <= all);
                last = samples(&p);
                whole += u64::from(last == all);
            }
            Err(e) => assert!(last == 0 && e.to_string().contains("byte "), "cut at {n}: {e}"),
        }
    }
    assert!(whole > 3, "cuts behind the records lose none");
}

#[test]
fn a_recorder_that_was_killed() {
    let mut bytes = little().to_vec();
    bytes.truncate(bytes.len() - 34_000);
    bytes[48..56].fill(0);
    let text = perf_bytes(&bytes, None).unwrap_err().to_string();
    assert!(text.contains("TRACING_DATA") && text.contains("copy the file again"), "{text}");
    let formats = formats_text();
    let p = perf_bytes(&bytes, Some(&formats)).unwrap();
    assert!(p.truncated.is_some() && samples(&p) > 1_000);
}

/// The format texts of the small trace, as they stand in its TRACING_DATA section.
fn formats_text() -> String {
    let text = String::from_utf8_lossy(whole());
    let starts = text.match_indices("name: ").map(|m| m.0);
    let starts = starts.filter(|&i| text[i..].lines().nth(1).is_some_and(|l| l.starts_with("ID: ")));
    let texts: Vec<&str> = starts.map(|i| text[i..].split("print fmt").next().unwrap()).collect();
    assert_eq!(texts.len(), 13);
    texts.concat()
}

#[test]
fn flipped_bytes_anywhere() {
    let mut random = Random(2);
    let (mut good, mut bad) = (0, 0);
    for case in 0..400 {
        let mut bytes = little().to_vec();
        // Half of the cases hit the head and the sections behind the records, where sizes and formats are.
        let spots: [(usize, usize); 3] = [(0, 4_600), (bytes.len() - 34_000, 34_000), (0, bytes.len())];
        let (start, len) = spots[random.below(3)];
        for _ in 0..=random.below(4) {
            let at = start + random.below(len);
            bytes[at] = [0, 0xff, bytes[at] ^ 1 << random.below(8), random.below(256) as u8][random.below(4)];
        }
        let result = perf_bytes(&bytes, None);
        sane(&result, &format!("case {case}"));
        match result {
            Ok(_) => good += 1,
            Err(_) => bad += 1,
        }
    }
    assert!(good > 20 && bad > 20, "{good} good, {bad} bad");
}

/// In a process of its own: what other tests use at the same time, as many as there are CPUs, is not counted.
#[test]
fn lying_sizes_take_no_memory() {
    const ALONE: &str = "TENALLOC_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let done = alone.args(["--exact", "lying_sizes_take_no_memory"]).env(ALONE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&done.stdout);
        return assert!(done.status.success() && text.contains("1 passed"), "{text}");
    }
    // Each u64 of the header and of the feature table claims all there can be.
    let table = {
        let b = little();
        let at = |i: usize| u64::from_le_bytes(b[i..i + 8].try_into().unwrap()) as usize;
        at(40) + at(48)
    };
    for at in (8..104).step_by(8).chain((table..table + 23 * 16).step_by(8)) {
        for value in [u64::MAX, u64::MAX / 2, 1 << 40, 0] {
            let mut bytes = little().to_vec();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            sane(&perf_bytes(&bytes, None), &format!("{value:#x} at {at}"));
        }
    }
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
        let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(kilobytes < 400_000, "{kilobytes} kB were in use");
    }
}

#[test]
fn what_is_no_recording() {
    for (bytes, told) in [
        (&b""[..], "empty"),
        (b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0", "no perf.data"),
        (b"2ELIFREP\0\0\0\0\0\0\0\x68", "big-endian"),
        (b"PERFFILE", "2010"),
        (b"PERFILE2", "inside its header"),
    ] {
        let text = perf_bytes(bytes, None).unwrap_err().to_string();
        assert!(text.contains(told), "{text}");
    }
    let text = tenalloc_trace::open(Path::new("/nowhere"), &Options::default(), &mut |_| {})
        .unwrap_err()
        .to_string();
    assert!(text.starts_with("cannot read /nowhere"), "{text}");
}

#[test]
fn a_sidecar_of_another_machine_is_told_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("perf.data"), little()).unwrap();
    for (name, text, told) in [
        ("pids.tsv", "1\t1\t/\tinit\nPID TTY TIME\n", "pids.tsv, line 2"),
        ("slabgeom.txt", "C dentry 192 192 0\n", "slabgeom.txt, line 1"),
        ("srat.txt", "ACPI: SRAT: Node 0 PXM 0 [mem none]\n", "srat.txt, line 1"),
        ("steady.txt", "/g/a 1 slab much\n", "steady.txt, line 1"),
        ("callsites.tsv", "call_site_hex\n\nx\ty\n", "callsites.tsv, line 3"),
        ("recording.json", "{\n\"cpus\": \"two\"}", "recording.json, line 2"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let result = tenalloc_trace::open(folder.path(), &Options::default(), &mut |_| {});
        let text = result.unwrap_err().to_string();
        assert!(text.contains(told), "{text}");
        std::fs::remove_file(path).unwrap();
    }
    assert!(tenalloc_trace::open(folder.path(), &Options::default(), &mut |_| {}).is_ok());
}
