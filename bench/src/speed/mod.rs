//! Nanoseconds for one allocation and one free.
//!
//! Within each round everybody takes a turn, so that a slow moment of the machine meets them all.

mod entries;
mod shapes;
mod table;
mod threads;

use crate::figure::Figure;
use crate::peers::Policy;
use crate::peers::library::Allocator;
use crate::plan::Plan;

use entries::{C_LIBRARY, CALLED, Entry, FLOOR, OURS, Stage};
use serde_json::{Value, json};
pub(crate) use shapes::Random;
use shapes::Shape;

/// Groups that exist; with several at random, at most this many.
const GROUPS: usize = 1024;
/// Live objects of the workload with random lifetimes.
const SLOTS: usize = 64 << 10;
/// Live objects where groups take turns at random: as in the figures that were published for the peers.
const TURNS: usize = 16 << 10;

/// One figure of one who took part.
pub(crate) struct Row {
    pub(crate) workload: String,
    pub(crate) bytes: usize,
    pub(crate) threads: usize,
    pub(crate) peer: &'static str,
    pub(crate) policy: Option<Policy>,
    /// CPU ns a step.
    pub(crate) ns: Figure,
    /// With threads: steps of all threads in a second of wall time, over those of one thread alone.
    pub(crate) scaling: Option<Figure>,
    /// The same by processor time: what it would be if both had a CPU to themselves.
    pub(crate) scaling_cpu: Option<Figure>,
}

impl Row {
    fn new(entry: &Entry, workload: &str, bytes: usize, threads: usize, ns: Vec<f64>) -> Self {
        let (peer, policy) = (entry.peer, entry.policy);
        Self {
            workload: workload.into(),
            bytes,
            threads,
            peer,
            policy,
            ns: Figure::of(ns),
            scaling: None,
            scaling_cpu: None,
        }
    }

    fn json(&self) -> Value {
        json!({
            "workload": self.workload, "bytes": self.bytes, "threads": self.threads, "peer": self.peer,
            "policy": self.policy.map_or(if self.peer == FLOOR { "1 level" } else { "3 levels" }, Policy::name), "levels": self.levels(), "unit": "ns, CPU time",
            "ns": self.ns.json(), "scaling_wall": self.scaling.map(|s| s.json()),
            "scaling_cpu": self.scaling_cpu.map(|s| s.json()),
        })
    }

    fn levels(&self) -> usize {
        match self.policy {
            None if self.peer == FLOOR => 1,
            None | Some(Policy::Header | Policy::Batch) => 3,
            Some(Policy::Counter) => 1,
            Some(Policy::Raw) => 0,
            Some(Policy::Heap) => {
                if self.peer == "talloc" {
                    3
                } else {
                    0
                }
            }
        }
    }
}

/// Rounds of all entries that `fit`, in turn.
fn rounds<T>(plan: &Plan, entries: &[Entry], mut one: impl FnMut(&Entry) -> T) -> Vec<Vec<T>> {
    let mut all: Vec<Vec<T>> = entries.iter().map(|_| Vec::new()).collect();
    for _ in 0..plan.rounds {
        for (values, entry) in all.iter_mut().zip(entries) {
            values.push(one(entry));
        }
    }
    all
}

fn alone(plan: &Plan, entries: &[Entry], shape: Shape, size: usize, rows: &mut Vec<Row>) {
    let name = shape.name();
    let all = rounds(plan, entries, |e| e.run.alone(shape, size, plan.steps));
    let first = rows.len();
    rows.extend(entries.iter().zip(all).map(|(e, ns)| Row::new(e, &name, size, 1, ns)));
    table::line(&rows[first..]);
}

fn two(plan: &Plan, entries: &[Entry], shape: Shape, size: usize, own: bool, rows: &mut Vec<Row>) {
    let name = format!("{}, {}", shape.name(), if own { "own groups" } else { "one group" });
    let all = rounds(plan, entries, |e| {
        let one = e.run.together(shape, size, 1, own, 2 * plan.steps);
        (one, e.run.together(shape, size, 2, own, 2 * plan.steps))
    });
    let first = rows.len();
    for (entry, times) in entries.iter().zip(all) {
        let mut row = Row::new(entry, &name, size, 2, times.iter().map(|t| t.1.cpu).collect());
        row.scaling = Some(Figure::of(times.iter().map(|(one, two)| 2.0 * one.wall / two.wall).collect()));
        row.scaling_cpu = Some(Figure::of(times.iter().map(|(one, two)| 2.0 * one.cpu / two.cpu).collect()));
        rows.push(row);
    }
    table::line(&rows[first..]);
}

fn relays(plan: &Plan, entries: &[Entry], size: usize, rows: &mut Vec<Row>) {
    let all = rounds(plan, entries, |e| e.run.relay(size, plan.steps));
    let first = rows.len();
    for (entry, times) in entries.iter().zip(all) {
        let sums = times.iter().map(|(take, give)| take + give).collect();
        rows.push(Row::new(entry, "producer → consumer", size, 2, sums));
    }
    table::line(&rows[first..]);
}

/// Everything about speed: a line a workload now, all figures returned.
pub(crate) fn run(plan: &Plan, peers: &[Allocator]) -> tenalloc::Result<Vec<Row>> {
    let stage = Stage::new(peers, GROUPS);
    let mut rows = Vec::new();
    table::head(plan);
    for &size in plan.sizes {
        let entries = stage.entries(size)?;
        for shape in [Shape::Pair, Shape::Lifo, Shape::Fifo, Shape::Random { slots: SLOTS, groups: 1 }] {
            alone(plan, &entries, shape, size, &mut rows);
        }
    }
    table::part("one thread, groups at random, 16 k slots");
    let mut entries = stage.entries(64)?;
    for groups in [1, 2, 16, 64, GROUPS] {
        alone(plan, &entries, Shape::Random { slots: TURNS, groups }, 64, &mut rows);
    }
    table::part("two threads; processor time of one step, and how much more two do than one in wall time");
    entries.retain(|e| e.threads);
    for own in [true, false] {
        for shape in [Shape::Pair, Shape::Lifo, Shape::Random { slots: TURNS, groups: 1 }] {
            two(plan, &entries, shape, 64, own, &mut rows);
        }
    }
    relays(plan, &entries, 64, &mut rows);
    println!();
    Ok(rows)
}

/// As JSON.
pub(crate) fn json(rows: &[Row]) -> Value {
    rows.iter().map(Row::json).collect()
}
