//! The tables of groups: what each is charged under each design, and against the kernel's own figure.

use serde::Serialize;

use super::super::units::{bytes, count, seconds};
use super::super::{Report, compare, truth};
use super::{HUES, printable, share};

/// Groups and differing rows beyond these are only in the embedded data.
const MOST: usize = 1000;

#[derive(Serialize)]
pub(super) struct Table {
    rows: Vec<Row>,
    /// Groups that the table leaves out.
    more: usize,
}

#[derive(Serialize)]
struct Row {
    path: String,
    removed: bool,
    objects: String,
    used: String,
    by: Vec<Charge>,
}

/// What a design charges a group.
#[derive(Serialize)]
struct Charge {
    hue: usize,
    charged: String,
    exact: String,
    /// Pages charged / bytes used, `×1.8`.
    times: String,
}

/// One comparison with the kernel.
#[derive(Serialize)]
pub(super) struct Stamp {
    label: String,
    when: String,
    equal: String,
    groups: String,
    /// Not among them: those older than the recording.
    older: u64,
    percent: String,
    all: bool,
    sentence: String,
    rows: Vec<Difference>,
    /// Every design has the same figures: one column says it.
    agree: bool,
    more: usize,
}

#[derive(Serialize)]
struct Difference {
    path: String,
    kernel: String,
    designs: Vec<String>,
}

pub(super) fn table(report: &Report) -> Table {
    let rows = compare::groups(report);
    let more = rows.len().saturating_sub(MOST);
    let row = |row: &compare::Row<'_, super::super::Group>| {
        let any = row.any()?;
        let by = row.by.iter().enumerate().map(|(i, group)| Charge {
            hue: i % HUES,
            charged: group.map_or("–".into(), |g| bytes(g.charged)),
            exact: group.map_or(String::new(), |g| format!("{} bytes", count(g.charged))),
            times: match group {
                Some(g) if g.used > 0 => format!("×{:.2}", g.charged as f64 / g.used as f64),
                _ => String::new(),
            },
        });
        Some(Row {
            path: printable(&any.path),
            removed: any.removed,
            objects: count(any.objects),
            used: bytes(any.used),
            by: by.collect(),
        })
    };
    Table { rows: rows.iter().filter_map(row).take(MOST).collect(), more }
}

pub(super) fn stamps(report: &Report) -> Vec<Stamp> {
    let stamp = |t: &super::super::Truth| {
        let differing = t.rows.iter().filter(|r| r.differs());
        let agree = differing.clone().all(|r| r.designs.windows(2).all(|w| w.first() == w.last()));
        let shown = if agree { 1 } else { usize::MAX };
        let row = |r: &super::super::TruthRow| Difference {
            path: printable(&r.path),
            kernel: count(r.kernel),
            designs: r.designs.iter().take(shown).map(|d| count(*d)).collect(),
        };
        Stamp {
            label: printable(&t.label),
            when: seconds(t.t),
            equal: count(t.equal),
            groups: count(t.groups),
            older: t.older,
            percent: super::place(share(t.equal, t.groups)),
            agree,
            all: t.equal == t.groups && t.groups > 0,
            sentence: printable(&truth::sentence(t)),
            more: differing.clone().count().saturating_sub(MOST),
            rows: differing.take(MOST).map(row).collect(),
        }
    };
    report.truth.iter().map(stamp).collect()
}
