//! `steady.txt`: the kernel's own counters of each cgroup at moments of the recording, and `side.tsv`, which tells the
//! times of some.
//!
//! A line `/path 4096 kernel 0 … slab 170568` is a cgroup (older files write `/sys/fs/cgroup/path`). In files of the
//! newer layout a line `# LABEL 21.014364933 …` names everything above it; in the older, the time is the row
//! `steady` of side.tsv. A space in a path is `\040`. The cgroups of a v1 hierarchy have no `slab`, so that its stamps
//! have a time and no rows.

use super::{NOT_OURS, seconds, tasks::short, unescape};
use crate::error::Error;

/// The counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawStamp {
    pub(crate) label: String,
    /// Clock of the recording, ns.
    pub(crate) time: u64,
    /// cgroup path and `memory.stat` `slab`, bytes.
    pub(crate) slab: Vec<(String, u64)>,
}

/// Time and name of each row of side.tsv.
pub(crate) fn rows(text: &str, file: &str) -> Result<Vec<(u64, String)>, Error> {
    let mut rows = Vec::new();
    for (line, n) in text.lines().zip(1..) {
        let mut columns = line.split('\t');
        let time = columns.next().unwrap_or("");
        if line.is_empty() || time == "ts_mono" {
            continue;
        }
        let time = seconds(time).ok_or_else(|| {
            Error::line(file, n, format!("`{}` is no time in seconds", short(time)), NOT_OURS)
        })?;
        rows.push((time, columns.next().unwrap_or("").to_owned()));
    }
    Ok(rows)
}

/// All stamps, by time.
pub(crate) fn parse(
    text: &str,
    file: &str,
    rows: &[(u64, String)],
    notes: &mut Vec<String>,
) -> Result<Vec<RawStamp>, Error> {
    let (mut stamps, mut now) = (Vec::new(), RawStamp::default());
    // cgroups of this stamp without slab bytes; stamps that have only such.
    let (mut without, mut bare) = (0, 0);
    for (line, n) in text.lines().zip(1..) {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        if first == "#" {
            // `# name <active_objs> …` is a heading of slabinfo.
            let Some(label) = words.next() else { continue };
            let Some(time) = words.next().filter(|w| !w.starts_with('<')) else { continue };
            now.time = seconds(time).ok_or_else(|| {
                Error::line(file, n, format!("`{}` is no time in seconds", short(time)), NOT_OURS)
            })?;
            now.label = label.to_owned();
            bare += usize::from(without > 0 && now.slab.is_empty());
            without = 0;
            stamps.push(std::mem::take(&mut now));
        } else if first.starts_with('/') {
            let Some(value) = words.skip_while(|w| *w != "slab").nth(1) else {
                without += 1;
                continue;
            };
            let value = value.parse().map_err(|_| {
                Error::line(file, n, format!("`{}` is no number of bytes", short(value)), NOT_OURS)
            })?;
            let path = first.strip_prefix("/sys/fs/cgroup").unwrap_or(first);
            now.slab.push((unescape(if path.is_empty() { "/" } else { path }, true), value));
        }
    }
    if !now.slab.is_empty() {
        match rows.iter().rfind(|r| r.1 == "steady") {
            Some((time, label)) => stamps.push(RawStamp { label: label.clone(), time: *time, ..now }),
            None => notes.push(format!(
                "{file}: {} cgroups at the end have no time, neither here nor in side.tsv: not compared",
                now.slab.len()
            )),
        }
    }
    if bare > 0 {
        notes.push(format!(
            "{file}: the cgroups of {bare} stamps have no slab bytes (those of a v1 hierarchy never do): nothing to \
             compare the charges with"
        ));
    }
    stamps.sort_by_key(|s| s.time);
    Ok(stamps)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLABINFO: &str = "## /proc/slabinfo\n# name            <active_objs> <num_objs>\ndentry 1 2\n";

    #[test]
    fn stamps_named_in_the_file() {
        let text = format!(
            "/g/a 99 kernel 7 slab_reclaimable 1 slab 5\n{SLABINFO}# one 2.5 memcgs_read 2.6 end 3\n/g/b 1 slab 8\n# two 3.0\n"
        );
        let s = parse(&text, "s", &[], &mut Vec::new()).unwrap();
        assert_eq!(s.len(), 2);
        assert_eq!(
            (s[0].label.as_str(), s[0].time, &s[0].slab[..]),
            ("one", 2_500_000_000, &[("/g/a".to_owned(), 5)][..])
        );
        assert_eq!(s[1].slab, [("/g/b".to_owned(), 8)]);
    }

    #[test]
    fn the_older_layout_takes_its_time_from_side_tsv() {
        let text =
            format!("MemTotal: 1 kB\n{SLABINFO}/sys/fs/cgroup/g/c1 5 slab 77\n/sys/fs/cgroup/g/cpu.stat\n");
        let side = rows("ts_mono\top\ttid\n1.0\tmount\t4\n9.25\tsteady\t0\n9.5\tsteady_end\t0\n", "side.tsv")
            .unwrap();
        let s = parse(&text, "s", &side, &mut Vec::new()).unwrap();
        assert_eq!(
            s,
            [RawStamp { label: "steady".into(), time: 9_250_000_000, slab: vec![("/g/c1".into(), 77)] }]
        );
        let mut notes = Vec::new();
        assert!(parse(&text, "s", &[], &mut notes).unwrap().is_empty() && notes.len() == 1);
    }

    #[test]
    fn cgroups_of_v1_make_a_stamp_without_rows_and_a_note() {
        let text = format!(
            "/ 8192 kmem 4096 cache 1\n/g\\040a 5 kmem 1\n{SLABINFO}# before 2.5 memcgs_read 2.6 end 3\n\
             /g\\040a 5 slab 7\n/cpu.stat\n# stamp1 4\n"
        );
        let mut notes = Vec::new();
        let s = parse(&text, "s", &[], &mut notes).unwrap();
        assert_eq!((s[0].label.as_str(), s[0].slab.len(), s[1].label.as_str()), ("before", 0, "stamp1"));
        assert_eq!(s[1].slab, [("/g a".to_owned(), 7)]);
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("of 1 stamps") && notes[0].contains("v1"), "{}", notes[0]);
    }

    #[test]
    fn what_cannot_be_a_number_is_told_with_its_line() {
        let e = parse("/a 1 slab x\n", "steady.txt", &[], &mut Vec::new()).unwrap_err().to_string();
        assert!(e.starts_with("steady.txt, line 1"), "{e}");
        assert!(parse("# label soon\n", "s", &[], &mut Vec::new()).is_err());
        assert!(rows("x\ty\n", "side.tsv").is_err());
    }
}
