//! Roman Gushchin's claim for the slab controller of Linux 5.9 (27 January 2020): with a set of caches for each group, 45 to
//! 65 % of slab is in use; with shared slabs there is 35 to 45 % less slab. Bharata B Rao measured sysbench and a kernel
//! compilation with the same patches (30 January 2020).
//!
//! Here recorded allocations are run through both, `linux-5.8` and `linux-5.9`. Apart from the other scenarios, which make
//! up what groups do, this one has it from recordings; apart from `tenalloc replay`, which asks what a machine takes, it
//! runs the accounted objects alone, because a group pays for nothing else.

use crate::table::{Chart, Column, Origin, Table};
use crate::{Error, Outcome};
use Origin::{Measured, Published};
use std::collections::HashMap;
use std::path::PathBuf;
use tenalloc_designs::{CacheKey, CacheSpec, Design, Geometry, GroupKey, Machine, Place, by_name};
use tenalloc_trace::Program;
use tenalloc_trace::program::{GroupId, Op, OpKind};

/// Moments of a run over which its sizes are averaged.
const SAMPLES: u64 = 400;
/// Bytes of a page on the POWER8 machine of Rao.
const LARGE_PAGE: u32 = 65_536;

/// Rao's runs: what was run, what was read, bytes before and after.
const RAO: [(&str, f64, f64); 11] = [
    ("sysbench, kmem of the group, 1", 15_859_712.0, 4_456_448.0),
    ("sysbench, kmem of the group, 2", 16_187_392.0, 4_653_056.0),
    ("sysbench, all slab, 1", 814_336.0 * 1024.0, 607_296.0 * 1024.0),
    ("sysbench, all slab, 2", 789_888.0 * 1024.0, 559_744.0 * 1024.0),
    ("compilation, kmem of the group, 1", 338_493_440.0, 231_931_904.0),
    ("compilation, kmem of the group, 2", 341_835_776.0, 236_453_888.0),
    ("compilation, kmem of the group, 3", 340_525_056.0, 233_570_304.0),
    ("compilation, all slab, 1", 1_139_072.0 * 1024.0, 785_408.0 * 1024.0),
    ("compilation, all slab, 2", 1_074_304.0 * 1024.0, 761_280.0 * 1024.0),
    ("compilation, all slab, 3", 1_244_288.0 * 1024.0, 739_712.0 * 1024.0),
    ("after boot, all slab", 821_888.0 * 1024.0, 583_424.0 * 1024.0),
];

/// Which allocations are run, and on which pages.
#[derive(Clone, Copy)]
struct Stream {
    name: &'static str,
    all: bool,
    large_pages: bool,
}

const ACCOUNTED: Stream = Stream { name: "accounted", all: false, large_pages: false };
const ALL: Stream = Stream { name: "accounted and not", all: true, large_pages: false };
const LARGE: Stream = Stream { name: "accounted, pages of 64 KiB", all: false, large_pages: true };

impl Stream {
    fn has(self, program: &Program, op: &Op) -> bool {
        !op.own && (self.all || charged(program, op.group))
    }
}

fn charged(program: &Program, group: GroupId) -> bool {
    program.groups.get(group.0 as usize).is_some_and(|g| g.charged)
}

/// Runs each recording through both designs.
///
/// # Errors
/// [`Error::Refused`] for a recording that cannot be read, [`Error::Design`] when a design refuses a step.
pub fn run(traces: &[PathBuf]) -> Result<Outcome, Error> {
    let mut outcome = Outcome::new(
        "roman",
        "the same accounted allocations with a set of caches for each group (Linux 5.8) and with shared slabs (5.9)"
            .into(),
    );
    let both =
        |name, unit| [format!("5.8 {name}"), format!("5.9 {name}")].map(|n| Column::new(n, unit, Measured));
    let [used58, used59] = both("peak", "%");
    let [mean58, mean59] = both("average", "%");
    let mut used = Table::new("part of the slab pages in live objects", vec![used58, mean58, used59, mean59]);
    let [slab58, slab59] = both("slab", "B");
    let mut slab = Table::new(
        "slab pages when most objects live, and what 5.9 saves of them",
        vec![
            Column::new("live", "B", Measured),
            slab58,
            slab59,
            Column::new("saved", "%", Measured),
            Column::new("on average", "%", Measured),
        ],
    );
    let mut who = Table::new(
        "who has the accounted objects when most of them live",
        vec![
            Column::new("groups", "", Measured),
            Column::new("largest", "%", Measured),
            Column::new("caches in use", "", Measured),
            Column::new("× groups", "", Measured),
            Column::new("live in each", "B", Measured),
            Column::new("5.8 slab of each", "B", Measured),
        ],
    );
    let mut chart = Chart::new("slab that 5.9 saves, on average over a recording", "%");
    for path in traces {
        let name =
            path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into());
        let program = open(path)?;
        let owners = Owners::at_peak(&program);
        if owners.groups == 0 {
            let text = format!("{}: nothing in it is charged to a group; {MORE}", path.display());
            return Err(Error::Refused(text));
        }
        for stream in [ACCOUNTED, LARGE, ALL] {
            let old = drive(&program, "linux-5.8", stream)?;
            let new = drive(&program, "linux-5.9", stream)?;
            let first = stream.name == ACCOUNTED.name;
            let title = if first { name.clone() } else { format!("  {}", stream.name) };
            let [a, b] = [&old, &new].map(|ran| (ran.peak, ran.average));
            if first {
                let pairs = owners.pairs as f64;
                let (groups, caches) = (owners.groups as f64, owners.caches as f64);
                let values = [groups, owners.largest, caches, pairs, a.0.live / pairs, a.0.slab / pairs];
                who.row(&title, values.map(Some).into());
            }
            let saved = |old: Size, new: Size| percent(old.slab - new.slab, old.slab);
            used.row(&title, [a.0, a.1, b.0, b.1].map(|s| Some(percent(s.live, s.slab))).into());
            slab.row(
                &title,
                vec![
                    Some(a.0.live),
                    Some(a.0.slab),
                    Some(b.0.slab),
                    Some(saved(a.0, b.0)),
                    Some(saved(a.1, b.1)),
                ],
            );
            chart.bar(title, saved(a.1, b.1), Measured);
        }
        outcome.notes.extend(program.truncated.map(|at| format!("{name} breaks off at byte {at}.")));
    }
    chart.bar("Gushchin, production: least", 35.0, Published);
    chart.bar("  most", 45.0, Published);
    chart.bar("Rao, sysbench, its group", 72.0, Published);
    chart.bar("Rao, compilation, its group", 31.0, Published);
    outcome.tables = vec![used, slab, who, rao()];
    outcome.charts.push(chart);
    outcome.linux = vec![
        "Gushchin, production machines: 45 to 65 % in use on most with caches for each group, 85 % at best;"
            .into(),
        "  above 90 % without accounting; 35 to 45 % less slab with shared slabs".into(),
    ];
    outcome.notes.extend(NOTES.map(str::to_owned));
    outcome.notes.push(format!("averages are over {SAMPLES} moments. {MORE}"));
    Ok(outcome)
}

const MORE: &str = "Other recordings: `tenalloc record` makes them, their folders are given to this command.";

/// What a reader must know to hold the measured beside the published.
const NOTES: [&str; 5] = [
    "slab of 5.9 has its owner vectors in it. Nothing is tuned to the published figures.",
    "what is saved follows from groups × caches in use: under 5.8 each pair has slabs of its own, on each CPU that it was \
     used on, partly empty. Small containers have less in each than a slab holds, and 5.9 saves more than published; one \
     large group fills its slabs, and there is next to nobody to share with. Production presumably lies between.",
    "caches, their slabs and who accounts what are those of the recorded kernel (since 5.14 accounted kmalloc has caches \
     of its own); what it made for its own lists and shrinkers is left out.",
    "a recording begins with empty slabs and is minutes long. Machines that run for days have slabs that removed groups \
     keep, and pages half empty from what came before.",
    "Rao's machine has 10 POWER8 cores, and pages of 64 KiB: the rows of that size are the same recording cut so, \
     with the recorded CPUs. His kmem has stacks and page tables of the group in it, and his slab what the machine had \
     before; neither is in a recording.",
];

fn rao() -> Table {
    let column = |name, unit| Column::new(name, unit, Published);
    let mut table = Table::new(
        "Bharata B Rao, 5.5-rc7 without and with the patches, peaks",
        vec![column("without", "B"), column("with", "B"), column("saved", "%")],
    );
    for (name, old, new) in RAO {
        table.row(name, vec![Some(old), Some(new), Some(percent(old - new, old))]);
    }
    table
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole * 100.0 } else { 0.0 }
}

fn open(path: &std::path::Path) -> Result<Program, Error> {
    tenalloc_trace::open(path, &tenalloc_trace::Options::default(), &mut |_| {})
        .map_err(|e| Error::Refused(format!("{e}. {MORE}")))
}

/// The step after which most bytes of the stream are live.
fn peak(program: &Program, stream: Stream) -> usize {
    let mut sizes = vec![0u32; program.slots as usize];
    let (mut live, mut most, mut at) = (0u64, 0, program.ops.len());
    for (step, op) in program.ops.iter().enumerate() {
        let Some(size) = sizes.get_mut(op.slot as usize) else { continue };
        match op.kind {
            OpKind::Alloc if stream.has(program, op) => {
                *size = program.caches.get(usize::from(op.cache.0)).map_or(0, |c| c.slot_size);
                live += u64::from(*size);
                if live > most {
                    (most, at) = (live, step);
                }
            }
            OpKind::Free | OpKind::HiddenFree => live -= u64::from(std::mem::take(size)),
            _ => {}
        }
    }
    at
}

/// Whose accounted objects are live at their peak.
struct Owners {
    groups: u64,
    /// % of the bytes that the group with most of them has.
    largest: f64,
    caches: u64,
    /// Pairs of a group and a cache that it has objects of.
    pairs: u64,
}

impl Owners {
    fn at_peak(program: &Program) -> Self {
        let mut live: Vec<Option<&Op>> = vec![None; program.slots as usize];
        for op in program.ops.iter().take(peak(program, ACCOUNTED).saturating_add(1)) {
            let Some(slot) = live.get_mut(op.slot as usize) else { continue };
            match op.kind {
                OpKind::Alloc => *slot = Some(op).filter(|op| ACCOUNTED.has(program, op)),
                OpKind::Free | OpKind::HiddenFree => *slot = None,
                _ => {}
            }
        }
        let (mut groups, mut caches, mut pairs) = (HashMap::new(), HashMap::new(), HashMap::new());
        for op in live.into_iter().flatten() {
            let size = program.caches.get(usize::from(op.cache.0)).map_or(0, |c| u64::from(c.slot_size));
            *groups.entry(op.group).or_insert(0) += size;
            caches.insert(op.cache, ());
            pairs.insert((op.group, op.cache), ());
        }
        let most: u64 = groups.values().copied().max().unwrap_or(0);
        let largest = percent(most as f64, groups.values().sum::<u64>() as f64);
        let count = |n: usize| n as u64;
        Self { groups: count(groups.len()), largest, caches: count(caches.len()), pairs: count(pairs.len()) }
    }
}

/// Bytes.
#[derive(Clone, Copy, Default)]
struct Size {
    live: f64,
    slab: f64,
}

impl Size {
    /// Live objects and all slab pages, owner vectors in them.
    fn of(design: &mut dyn Design) -> Self {
        let usage = design.usage();
        Self { live: usage.live as f64, slab: (usage.slab + usage.owners) as f64 }
    }
}

/// A stream under one design.
struct Ran {
    peak: Size,
    average: Size,
}

fn drive(program: &Program, name: &'static str, stream: Stream) -> Result<Ran, Error> {
    let refused = |source| Error::Design { what: format!("{name}, {}", stream.name), source };
    let machine = Machine {
        cpus: program.cpus,
        nodes: program.nodes,
        cpu_node: program.cpu_node.clone(),
        page_size: if stream.large_pages { LARGE_PAGE } else { program.page_size },
    };
    let missing = || Err(tenalloc_designs::Error::Machine(format!("no design {name}")));
    let mut design = by_name(name, &machine).unwrap_or_else(missing).map_err(refused)?;
    for cache in &program.caches {
        let recorded = cache.geometry.filter(|_| !stream.large_pages);
        let geometry =
            recorded.map(|g| Geometry { object_size: g.object_size, order: g.order, objects: g.objects });
        let spec = CacheSpec { name: &cache.name, slot_size: cache.slot_size, geometry };
        design.add_cache(&spec).map_err(refused)?;
    }
    let mut keys: Vec<Option<GroupKey>> = vec![None; program.groups.len()];
    if charged(program, GroupId::UNKNOWN) {
        keys[GroupId::UNKNOWN.0 as usize] = Some(design.add_group(None, "unknown").map_err(refused)?);
    }
    let mut objects = vec![None; program.slots as usize];
    let (peak_step, mut peak) = (peak(program, stream), Size::default());
    let (mut sum, mut sampled) = (Size::default(), 0);
    let due = |n: u64| (u128::from(program.length_ns) * u128::from(n + 1) / u128::from(SAMPLES)) as u64;
    let mut sample = |design: &mut dyn Design, time: u64| {
        if sampled < SAMPLES && due(sampled) <= time {
            let now = Size::of(design);
            while sampled < SAMPLES && due(sampled) <= time {
                sum = Size { live: sum.live + now.live, slab: sum.slab + now.slab };
                sampled += 1;
            }
        }
    };
    for (step, op) in program.ops.iter().enumerate() {
        // What held until this step.
        sample(design.as_mut(), op.time.saturating_sub(1));
        let id = op.group.0 as usize;
        match op.kind {
            OpKind::Alloc if stream.has(program, op) => {
                let place = Place { cpu: op.cpu, node: Some(op.asked).filter(|n| *n < program.nodes) };
                let group = keys.get(id).copied().flatten();
                let object = design.alloc(place, CacheKey(op.cache.0), group).map_err(refused)?;
                if let Some(slot) = objects.get_mut(op.slot as usize) {
                    *slot = Some(object);
                }
            }
            OpKind::Free | OpKind::HiddenFree => {
                if let Some(object) = objects.get_mut(op.slot as usize).and_then(Option::take) {
                    // SAFETY: from `alloc` above, and taken out of the table.
                    unsafe { design.free(op.cpu, object) }.map_err(refused)?;
                }
            }
            OpKind::Create if charged(program, op.group) => {
                // Which group pays for another's remains decides no place: all may lie below the root.
                keys[id] = Some(design.add_group(None, &op.group.0.to_string()).map_err(refused)?);
            }
            OpKind::Remove => {
                if let Some(key) = keys.get(id).copied().flatten() {
                    match design.remove_group(key) {
                        Ok(()) | Err(tenalloc_designs::Error::RemovedGroup(_)) => {}
                        Err(source) => return Err(refused(source)),
                    }
                }
            }
            _ => {}
        }
        if step == peak_step {
            peak = Size::of(design.as_mut());
        }
    }
    sample(design.as_mut(), u64::MAX);
    let mean = |sum: f64| sum / SAMPLES as f64;
    Ok(Ran { peak, average: Size { live: mean(sum.live), slab: mean(sum.slab) } })
}
