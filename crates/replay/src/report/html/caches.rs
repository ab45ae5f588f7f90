//! Utilisation by cache: one bar a design, the caches that waste most first.

use serde::Serialize;

use super::super::units::{bytes, count, counted, percent};
use super::super::{Report, compare};
use super::{HUES, place, printable};

/// Caches beyond these are only in the embedded data.
const MOST: usize = 300;

/// One cache.
#[derive(Serialize)]
pub(super) struct Row {
    name: String,
    slot: String,
    objects: String,
    by: Vec<Bar>,
}

/// The cache under one design.
#[derive(Serialize)]
struct Bar {
    hue: usize,
    design: String,
    /// Percent; nothing where the design lacks the cache.
    width: Option<String>,
    used: String,
    wasted: String,
    title: String,
}

pub(super) fn rows(report: &Report) -> Vec<Row> {
    let row = |row: compare::Row<'_, super::super::Cache>| {
        let any = row.any()?;
        let by = report.designs.iter().zip(&row.by).enumerate().map(|(i, (design, cache))| {
            let title = cache.map_or("no such cache".into(), |c| {
                format!(
                    "{} of {} bytes live in {}",
                    count(c.live),
                    count(c.slab),
                    counted(c.slabs, "slab", "slabs")
                )
            });
            Bar {
                hue: i % HUES,
                design: printable(&design.name),
                width: cache.map(|c| place((c.utilisation() * 100.0).clamp(0.0, 100.0))),
                used: cache.map_or("–".into(), |c| percent(c.utilisation())),
                wasted: cache.map_or("–".into(), |c| bytes(c.wasted())),
                title: format!("{}: {title}", printable(&design.name)),
            }
        });
        Some(Row {
            name: printable(&any.name),
            slot: bytes(any.slot_size.into()),
            objects: counted(any.objects, "object", "objects"),
            by: by.collect(),
        })
    };
    compare::caches(report).into_iter().filter_map(row).take(MOST).collect()
}
