//! A replay against the recording machine itself: how many slabs each cache grew by, there and here.
//!
//! Apart from [`run`](crate::run), which asks what designs would cost: here one design is held against the kernel that made
//! the recording, whose `/proc/slabinfo` lies beside it. The design is the one of that kernel's generation, and everything
//! that the kernel allocated is replayed, its own lists and shrinker state too.
//!
//! ```text
//! slab.before.txt ─ recording ── steady.txt ── … ─ slab.after.txt      slabs of each cache, by the kernel
//!        │              └ replay ─────┴────────────────┴───────────    slabs of each cache, by the design
//!        └ with `seeded`, a cache begins with as many slabs and live objects as the kernel says; which of a slab's places
//!          were free it does not say: they are spread evenly, at random
//! ```

mod recorded;
mod seed;
pub mod table;
#[cfg(test)]
mod tests;

pub use recorded::{Moment, Recorded};

use serde::Serialize;
use tenalloc_designs::{CacheKey, CacheSpec, Design, Geometry, GroupKey, Machine, Place};
use tenalloc_trace::Program;
use tenalloc_trace::program::{GroupId, OpKind};

/// Why a comparison could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing to compare with.
    #[error(
        "{0}: no slab.before.txt beside the recording, with the kernel's own slabs; `tenalloc record` keeps one"
    )]
    NoSlabinfo(String),
    /// A file that is there and cannot be used.
    #[error(transparent)]
    Trace(#[from] tenalloc_trace::Error),
    /// A file that cannot be read.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
    /// The design refused a step.
    #[error("step {step} of the trace: {source}")]
    Design {
        /// Index of the step.
        step: usize,
        /// Why.
        source: tenalloc_designs::Error,
    },
    /// The kernel's release is not known, so neither is its design.
    #[error("the recording does not tell the kernel's release, so that no design can be held against it")]
    NoKernel,
}

/// One cache at one moment, against the same cache before the recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Kernel's name.
    pub cache: String,
    /// Bytes of a slab.
    pub slab_bytes: u64,
    /// Slabs before the recording, by the kernel.
    pub before: u64,
    /// Free places in them, by the kernel, which does not count those of the CPUs' own slabs.
    pub free_before: u64,
    /// Slabs more (or fewer) since, by the kernel.
    pub kernel: i64,
    /// The same by the replay, from no slabs at all.
    pub replay: i64,
    /// The same by the replay that begins with the kernel's slabs and live objects.
    pub seeded: i64,
}

impl Row {
    /// How far a change is off, as a part of the kernel's; `None` when that is 0.
    pub fn off(&self, change: i64) -> Option<f64> {
        (self.kernel != 0).then(|| (change - self.kernel) as f64 / self.kernel.unsigned_abs() as f64)
    }
}

/// All caches at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Compared {
    /// The stamp's name; `after` for the end of the recording.
    pub label: String,
    /// Seconds since the first event.
    pub t: f64,
    /// Caches that both know, those that changed by most bytes first.
    pub rows: Vec<Row>,
}

/// A recording against its replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Fidelity {
    /// `tenalloc.fidelity`.
    pub schema: String,
    /// Raised when a field changes its meaning.
    pub version: u32,
    /// The recorded kernel.
    pub kernel: String,
    /// The design that was run.
    pub design: String,
    /// By moment.
    pub moments: Vec<Compared>,
}

/// Runs the recording through the design of its kernel, twice, and compares.
///
/// # Errors
/// See [`Error`].
pub fn compare(program: &Program, recorded: &Recorded, recorded_nodes: bool) -> Result<Fidelity, Error> {
    let kernel = program.kernel.clone().unwrap_or_default();
    let release = release(&kernel).ok_or(Error::NoKernel)?;
    let machine = Machine {
        cpus: program.cpus,
        nodes: program.nodes,
        cpu_node: program.cpu_node.clone(),
        page_size: program.page_size,
    };
    let start = || {
        tenalloc_designs::as_recorded(release, &machine).map_err(|source| Error::Design { step: 0, source })
    };
    let mut design = start()?;
    let name = design.name().to_owned();
    let empty = run(program, recorded, design.as_mut(), None, recorded_nodes)?;
    drop(design);
    let seeded = run(program, recorded, start()?.as_mut(), Some(&recorded.before), recorded_nodes)?;
    let mut moments = Vec::new();
    for (i, moment) in recorded.moments.iter().enumerate() {
        let mut rows: Vec<Row> = Vec::new();
        for (c, cache) in program.caches.iter().enumerate() {
            let Some(now) = recorded::of(cache, &moment.caches) else { continue };
            let before = recorded::of(cache, &recorded.before);
            let slabs = before.map_or(0, |b| b.slabs);
            let change = |run: &[Vec<u64>]| {
                let at = |moment: usize| run.get(moment).and_then(|m| m.get(c)).copied().unwrap_or(0) as i64;
                at(i + 1) - at(0)
            };
            rows.push(Row {
                cache: cache.name.clone(),
                slab_bytes: u64::from(now.pages_per_slab) * u64::from(program.page_size),
                before: slabs,
                free_before: before.map_or(0, |b| b.objects.saturating_sub(b.active_objects)),
                kernel: now.slabs as i64 - slabs as i64,
                replay: change(&empty),
                seeded: change(&seeded),
            });
        }
        rows.sort_by_key(|r| std::cmp::Reverse(r.kernel.unsigned_abs() * r.slab_bytes));
        moments.push(Compared { label: moment.label.clone(), t: moment.time as f64 / 1e9, rows });
    }
    let schema = "tenalloc.fidelity".into();
    Ok(Fidelity { schema, version: 1, kernel, design: name, moments })
}

/// `(6, 12)` of `Linux 6.12.111+deb12 x86_64`.
fn release(kernel: &str) -> Option<(u32, u32)> {
    let version = kernel.split_whitespace().find(|w| w.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// Slabs of each cache: at the start, then at each moment.
fn run(
    program: &Program,
    recorded: &Recorded,
    design: &mut dyn Design,
    seed: Option<&[tenalloc_trace::slabinfo::CacheUse]>,
    recorded_nodes: bool,
) -> Result<Vec<Vec<u64>>, Error> {
    let refused = |step| move |source| Error::Design { step, source };
    for cache in &program.caches {
        let geometry = cache.geometry.map(|g| Geometry {
            object_size: g.object_size,
            order: g.order,
            objects: g.objects,
        });
        let spec = CacheSpec { name: &cache.name, slot_size: cache.slot_size, geometry };
        design.add_cache(&spec).map_err(refused(0))?;
    }
    if let Some(seed) = seed {
        seed::seed(program, seed, design).map_err(refused(0))?;
    }
    let slabs = |design: &mut dyn Design| design.caches().iter().map(|c| c.slabs).collect::<Vec<u64>>();
    let mut found = vec![slabs(design)];
    let mut objects = vec![None; program.slots as usize];
    let mut keys: Vec<Option<GroupKey>> = vec![None; program.groups.len()];
    if program.groups.get(GroupId::UNKNOWN.0 as usize).is_some_and(|g| g.charged) {
        keys[GroupId::UNKNOWN.0 as usize] = Some(design.add_group(None, "unknown").map_err(refused(0))?);
    }
    let mut moments = recorded.moments.iter().peekable();
    for (step, op) in program.ops.iter().enumerate() {
        while moments.next_if(|moment| op.time > moment.time).is_some() {
            found.push(slabs(design));
        }
        match op.kind {
            OpKind::Alloc => {
                let node = if recorded_nodes { op.node } else { op.asked };
                let place = Place { cpu: op.cpu, node: Some(node).filter(|n| *n < program.nodes) };
                let group = keys.get(op.group.0 as usize).copied().flatten();
                let object = design.alloc(place, CacheKey(op.cache.0), group).map_err(refused(step))?;
                if let Some(slot) = objects.get_mut(op.slot as usize) {
                    *slot = Some(object);
                }
            }
            OpKind::Free | OpKind::HiddenFree => {
                if let Some(object) = objects.get_mut(op.slot as usize).and_then(Option::take) {
                    // SAFETY: from `alloc` above, and taken out of the table.
                    unsafe { design.free(op.cpu, object) }.map_err(refused(step))?;
                }
            }
            OpKind::Create => {
                let id = op.group.0 as usize;
                if program.groups.get(id).is_some_and(|g| g.charged) {
                    // Who pays decides no place here: all groups may lie below the root.
                    keys[id] = Some(design.add_group(None, &id.to_string()).map_err(refused(step))?);
                }
            }
            OpKind::Remove => {
                if let Some(key) = keys.get(op.group.0 as usize).copied().flatten() {
                    match design.remove_group(key) {
                        Ok(()) | Err(tenalloc_designs::Error::RemovedGroup(_)) => {}
                        Err(source) => return Err(Error::Design { step, source }),
                    }
                }
            }
            _ => {}
        }
    }
    found.extend(moments.map(|_| slabs(design)));
    Ok(found)
}
