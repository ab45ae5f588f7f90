//! A program through one design after another, measured on the way.
//!
//! ```text
//!   Program ─► drive ─► Design        every alloc and free, for real
//!                │ ├─► model          who owns how much, by plain addition
//!                │ ├─► verify         is that what the design says, too?
//!                │ ├─► sample         sizes over time, averages
//!                │ └─► snapshot       caches, groups, sharing at the peak of live bytes
//!      └───► lists ─► ListDesign      superblocks, groups, first uses: a run of its own
//!                └─► truth at each stamp, sums at the end ─► Report
//! ```
//!
//! The peak is the moment at which most bytes were live: a property of the trace, so that all designs are looked
//! at in the same moment.

mod drive;
mod error;
mod lists;
mod model;
mod sample;
mod snapshot;
#[cfg(test)]
mod tests;
mod verify;

pub use drive::Settings;
pub use error::Error;

use crate::report::{self, Report, Truth, TruthRow};
use std::collections::HashMap;
use std::time::Instant;
use tenalloc_designs::{Machine, by_name, slabs_of};
use tenalloc_trace::Program;
use tenalloc_trace::program::Stamp;

/// Names of all designs, oldest first.
pub const DESIGNS: &[&str] = &tenalloc_designs::NAMES;

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The design that runs.
    pub design: &'a str,
    /// Steps done and steps there are, all designs together.
    pub done: u64,
    /// See `done`.
    pub total: u64,
}

/// Runs `program` through each of `designs` and reports. `path` is what the report calls the trace, `read_ns` what
/// reading it took.
///
/// # Errors
/// [`Error::UnknownDesign`] before anything runs; [`Error::Design`] when a design refuses a step; [`Error::Check`]
/// when sums do not hold, which is a fault of this program and never of the trace.
pub fn replay(
    program: &Program,
    designs: &[&str],
    settings: &Settings,
    (path, read_ns): (&str, u64),
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Report, Error> {
    let machine = Machine {
        cpus: program.cpus,
        nodes: program.nodes,
        cpu_node: program.cpu_node.clone(),
        page_size: program.page_size,
    };
    let mut report = Report {
        schema: report::SCHEMA.into(),
        version: report::VERSION,
        tenalloc: env!("CARGO_PKG_VERSION").into(),
        trace: trace(program, path, read_ns),
        designs: Vec::new(),
        truth: truth(program),
        notes: program.notes.iter().map(|n| n.text.clone()).collect(),
    };
    // Designs that differ in their lists alone have their slabs run once.
    let mut slabs: Vec<&str> = Vec::new();
    for name in designs {
        let of = slabs_of(name).ok_or_else(|| Error::UnknownDesign((*name).to_owned()))?;
        if !slabs.contains(&of) {
            slabs.push(of);
        }
    }
    let total = (program.ops.len() * slabs.len()) as u64;
    let mut runs = Vec::new();
    for (i, name) in slabs.iter().enumerate() {
        let before = (program.ops.len() * i) as u64;
        let mut tell = |done| progress(Progress { design: name, done: before + done, total });
        let start = Instant::now();
        let mut design =
            by_name(name, &machine).ok_or_else(|| Error::UnknownDesign((*name).to_owned()))?.map_err(
                |source| Error::Design { design: (*name).into(), step: 0, what: "start".into(), source },
            )?;
        let (mut found, charges) = drive::drive(program, design.as_mut(), settings, &mut tell)?;
        found.run_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        found.slabs_of = (*name).into();
        runs.push((found, charges));
    }
    let plan = lists::Plan::new(program);
    for name in designs {
        let of = slabs_of(name).and_then(|of| slabs.iter().position(|slabs| *slabs == of));
        let Some((found, charges)) = of.and_then(|at| runs.get(at)) else { continue };
        let mut found = found.clone();
        with_lists(&mut found, name, lists::drive(program, &plan, name, &machine)?);
        report.designs.push(found);
        let charges = program.stamps.iter().zip(charges).filter(|(stamp, _)| is_compared(stamp));
        for (truth, (_, charges)) in report.truth.iter_mut().zip(charges) {
            if truth.rows.len() != charges.len() {
                return Err(Error::Program { step: program.ops.len(), what: "a stamp has no step" });
            }
            truth.rows.iter_mut().zip(charges).for_each(|(row, charge)| row.designs.push(*charge));
        }
    }
    for truth in &mut report.truth {
        truth.equal = truth.rows.iter().filter(|row| !row.older && row.is_equal()).count() as u64;
    }
    Ok(report)
}

/// Adds the lists of a design to the run of its slabs.
fn with_lists(found: &mut report::Design, name: &str, lists: lists::Found) {
    let put = |usage: &mut report::Usage, at: &tenalloc_designs::lists::ListUsage| {
        (usage.lists, usage.shrinkers) = (at.kernel.lists(), at.kernel.shrinkers);
    };
    found.series.iter_mut().zip(&lists.series).for_each(|(sample, at)| put(&mut sample.usage, at));
    put(&mut found.at_peak.usage, &lists.at_peak);
    put(&mut found.at_end.usage, &lists.at_end);
    let n = lists.series.len().max(1) as u64;
    found.average.lists = lists.series.iter().map(|at| at.kernel.lists()).sum::<u64>() / n;
    found.average.shrinkers = lists.series.iter().map(|at| at.kernel.shrinkers).sum::<u64>() / n;
    let usage = |at: &tenalloc_designs::lists::ListUsage| report::ListUsage {
        kernel: lists::parts(&at.kernel),
        here: lists::parts(&at.here),
    };
    (found.lists_at_peak, found.lists_at_end) = (usage(&lists.at_peak), usage(&lists.at_end));
    (found.lists_made, found.lists_used) = (lists.made, lists.used);
    found.name = name.into();
    found.summary = format!("{} {}", found.summary, lists.summary);
}

fn trace(program: &Program, path: &str, read_ns: u64) -> report::Trace {
    let counts = &program.counts;
    report::Trace {
        path: path.into(),
        kernel: program.kernel.clone(),
        cpus: program.cpus,
        nodes: program.nodes,
        seconds: program.length_ns as f64 / 1e9,
        samples: counts.samples.clone(),
        events: counts.samples.iter().map(|(_, n)| n).sum(),
        allocations: counts.allocations,
        accounted: counts.accounted,
        matched_frees: counts.matched_frees,
        unseen_frees: counts.unseen_frees,
        hidden_frees: counts.hidden_frees,
        lost: counts.lost,
        live_at_end: counts.live_at_end,
        groups: counts.groups_charged,
        peak_live_bytes: counts.peak_live_bytes,
        read_ns,
        own: counts.own,
        supers: counts.supers,
    }
}

/// The stamps to compare at.
fn truth(program: &Program) -> Vec<Truth> {
    // Paths of groups made in the recording, and when first. A path that stood before and is made again was gone between.
    let mut made: HashMap<&str, u64> = HashMap::new();
    for group in &program.groups {
        if let Some(time) = group.created {
            let first = made.entry(&group.path).or_insert(time);
            *first = time.min(*first);
        }
    }
    let row = |stamp: &Stamp, (path, kernel): &(String, u64)| TruthRow {
        path: path.clone(),
        kernel: *kernel,
        designs: Vec::new(),
        older: made.get(path.as_str()).is_none_or(|time| *time > stamp.time),
    };
    let truth = |stamp: &Stamp| {
        let rows: Vec<TruthRow> = compared(stamp).map(|group| row(stamp, group)).collect();
        let older = rows.iter().filter(|row| row.older).count() as u64;
        let groups = rows.len() as u64 - older;
        Truth { label: stamp.label.clone(), t: stamp.time as f64 / 1e9, groups, equal: 0, rows, older }
    };
    program.stamps.iter().filter(|stamp| is_compared(stamp)).map(truth).collect()
}

/// What the kernel counted before the first event cannot be in the trace.
fn is_compared(stamp: &Stamp) -> bool {
    stamp.label != "before" && compared(stamp).next().is_some()
}

/// The groups that can be compared: to `/` the kernel charges nothing, what it tells of it is the whole machine.
fn compared(stamp: &Stamp) -> impl Iterator<Item = &(String, u64)> {
    stamp.slab.iter().filter(|(path, _)| path != "/")
}
