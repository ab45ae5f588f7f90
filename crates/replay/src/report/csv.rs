//! The report as one CSV file in long form: one figure a line, so that a data frame pivots it as needed.
//!
//! Columns: `section,design,name,key,t,metric,unit,value`. `docs/report.md` lists the sections.

use std::io::{self, Write};

use super::{Design, Report, Sample, Usage};

/// Columns, in order.
pub const HEADER: [&str; 8] = ["section", "design", "name", "key", "t", "metric", "unit", "value"];

/// Where a figure belongs: all columns but the last three.
#[derive(Clone, Copy, Default)]
struct Place<'a> {
    section: &'a str,
    design: &'a str,
    name: &'a str,
    key: &'a str,
    t: Option<f64>,
}

struct Out<W: Write>(csv::Writer<W>);

impl<W: Write> Out<W> {
    fn put(&mut self, at: Place<'_>, metric: &str, unit: &str, value: &str) -> io::Result<()> {
        let t = at.t.map_or(String::new(), |t| t.to_string());
        self.0
            .write_record([at.section, at.design, at.name, at.key, &t, metric, unit, value])
            .map_err(io_error)
    }

    /// Whole numbers of one unit.
    fn all(&mut self, at: Place<'_>, unit: &str, values: &[(&str, u64)]) -> io::Result<()> {
        values.iter().try_for_each(|(metric, value)| self.put(at, metric, unit, &value.to_string()))
    }

    fn usage(&mut self, at: Place<'_>, usage: &Usage) -> io::Result<()> {
        let Usage { live, slab, owners, metadata, cached, lists, shrinkers } = *usage;
        let sizes = [
            ("live", live),
            ("slab", slab),
            ("owners", owners),
            ("metadata", metadata),
            ("cached", cached),
            ("lists", lists),
            ("shrinkers", shrinkers),
        ];
        self.all(at, "bytes", &sizes)
    }

    fn sample(&mut self, at: Place<'_>, sample: &Sample) -> io::Result<()> {
        self.usage(Place { t: Some(sample.t), ..at }, &sample.usage)
    }
}

/// Writes every figure of `report`.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, out: impl Write) -> io::Result<()> {
    let mut out = Out(csv::Writer::from_writer(out));
    out.0.write_record(HEADER).map_err(io_error)?;
    trace(report, &mut out)?;
    for design in &report.designs {
        totals(design, &mut out)?;
        lists(design, &mut out)?;
        sharing(design, &mut out)?;
    }
    truth(report, &mut out)?;
    for (i, note) in report.notes.iter().enumerate() {
        let name = i.to_string();
        out.put(Place { section: "note", name: &name, ..Place::default() }, "note", "text", note)?;
    }
    out.0.flush()
}

/// What the writer below said, as it said it.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

fn trace<W: Write>(report: &Report, out: &mut Out<W>) -> io::Result<()> {
    let at = Place { section: "trace", ..Place::default() };
    let trace = &report.trace;
    out.put(at, "schema", "text", &report.schema)?;
    out.put(at, "version", "count", &report.version.to_string())?;
    out.put(at, "tenalloc", "text", &report.tenalloc)?;
    out.put(at, "path", "text", &trace.path)?;
    if let Some(kernel) = &trace.kernel {
        out.put(at, "kernel", "text", kernel)?;
    }
    out.put(at, "seconds", "s", &trace.seconds.to_string())?;
    let counts = [
        ("cpus", u64::from(trace.cpus)),
        ("nodes", u64::from(trace.nodes)),
        ("events", trace.events),
        ("allocations", trace.allocations),
        ("accounted", trace.accounted),
        ("matched_frees", trace.matched_frees),
        ("unseen_frees", trace.unseen_frees),
        ("hidden_frees", trace.hidden_frees),
        ("lost", trace.lost),
        ("live_at_end", trace.live_at_end),
        ("groups", trace.groups),
        ("own", trace.own),
        ("supers", trace.supers),
    ];
    out.all(at, "count", &counts)?;
    out.all(at, "bytes", &[("peak_live_bytes", trace.peak_live_bytes)])?;
    out.all(at, "ns", &[("read_ns", trace.read_ns)])?;
    trace
        .samples
        .iter()
        .try_for_each(|(event, n)| out.all(Place { name: event, ..at }, "count", &[("samples", *n)]))
}

fn totals<W: Write>(design: &Design, out: &mut Out<W>) -> io::Result<()> {
    let at = |section| Place { section, design: &design.name, ..Place::default() };
    out.put(at("design"), "summary", "text", &design.summary)?;
    out.put(at("design"), "slabs_of", "text", &design.slabs_of)?;
    out.all(at("design"), "bytes", &[("max_slab", design.max_slab)])?;
    out.put(at("design"), "average_utilisation", "ratio", &design.average_utilisation.to_string())?;
    let counts = [
        ("groups_created", design.groups_created),
        ("groups_removed", design.groups_removed),
        ("orphans", design.orphans),
        ("lists_used", design.lists_used),
        ("ops", design.ops),
        ("checks_groups", design.checks.groups),
        ("checks_model", design.checks.model),
    ];
    out.all(at("design"), "count", &counts)?;
    out.all(at("design"), "ns", &[("run_ns", design.run_ns)])?;
    out.sample(at("peak"), &design.at_peak)?;
    out.sample(at("end"), &design.at_end)?;
    out.usage(at("average"), &design.average)?;
    design.series.iter().try_for_each(|sample| out.sample(at("series"), sample))?;
    for (key, usage) in [("peak", &design.lists_at_peak), ("end", &design.lists_at_end)] {
        for (name, l) in [("kernel", &usage.kernel), ("here", &usage.here)] {
            let at = Place { name, key, ..at("lists") };
            let sizes =
                [("heads", l.heads), ("index", l.index), ("lrus", l.lrus), ("shrinkers", l.shrinkers)];
            out.all(at, "bytes", &sizes)?;
        }
    }
    for made in &design.lists_made {
        let key = made.asked.to_string();
        let at = Place { name: &made.what, key: &key, ..at("made") };
        out.all(at, "bytes", &[("taken", made.taken)])?;
        out.all(at, "count", &[("made", made.made), ("live", made.live)])?;
    }
    Ok(())
}

fn lists<W: Write>(design: &Design, out: &mut Out<W>) -> io::Result<()> {
    for cache in &design.caches {
        let key = cache.slot_size.to_string();
        let at = Place { section: "cache", design: &design.name, name: &cache.name, key: &key, t: None };
        out.all(at, "count", &[("objects", cache.objects), ("slabs", cache.slabs)])?;
        out.all(at, "bytes", &[("live", cache.live), ("slab", cache.slab)])?;
    }
    for group in &design.groups {
        let key = if group.removed { "removed" } else { "" };
        let at = Place { section: "group", design: &design.name, name: &group.path, key, t: None };
        out.all(at, "count", &[("objects", group.objects)])?;
        out.all(at, "bytes", &[("used", group.used), ("charged", group.charged)])?;
    }
    Ok(())
}

fn sharing<W: Write>(design: &Design, out: &mut Out<W>) -> io::Result<()> {
    let sharing = &design.sharing;
    for (owners, slabs) in sharing.by_owners.iter().enumerate() {
        let name = owners.to_string();
        let at = Place { section: "owners", design: &design.name, name: &name, ..Place::default() };
        out.all(at, "count", &[("slabs", *slabs)])?;
    }
    for (name, row) in sharing.groups.iter().zip(&sharing.matrix) {
        for (key, slabs) in sharing.groups.iter().zip(row) {
            let at = Place { section: "sharing", design: &design.name, name, key, t: None };
            out.all(at, "count", &[("slabs", *slabs)])?;
        }
    }
    Ok(())
}

fn truth<W: Write>(report: &Report, out: &mut Out<W>) -> io::Result<()> {
    for stamp in &report.truth {
        let at = Place { section: "stamp", key: &stamp.label, t: Some(stamp.t), ..Place::default() };
        out.all(at, "count", &[("groups", stamp.groups), ("equal", stamp.equal), ("older", stamp.older)])?;
        for row in &stamp.rows {
            let at = Place { section: "truth", name: &row.path, ..at };
            out.all(Place { design: "kernel", ..at }, "bytes", &[("slab", row.kernel)])?;
            if row.older {
                out.all(Place { design: "kernel", ..at }, "count", &[("older", 1)])?;
            }
            for (design, bytes) in report.designs.iter().zip(&row.designs) {
                out.all(Place { design: &design.name, ..at }, "bytes", &[("slab", *bytes)])?;
            }
        }
    }
    Ok(())
}
