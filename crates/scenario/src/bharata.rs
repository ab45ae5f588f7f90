//! Bharata B Rao's experiment (5 April 2021): 10,000 containers with 7 mounts each on 2 nodes, and the kmalloc-32 objects
//! before, during and after, without and with lists made on first use.
//!
//! Containers are started one by one (a group, its mounts, an object on each list and node), then their groups are
//! removed, then their mounts. Heads are counted after each stage under four designs, at the largest number of
//! containers that fits the memory; beside it stands the closed form, for that number and for 10,000.

use crate::memory::{self, PROCESS, largest, size};
use crate::table::{Chart, Column, Origin, Table, thousands};
use crate::{Error, Outcome, While};
use Origin::{Computed, Measured, Published};
use std::time::Instant;
use tenalloc_designs::kernel::generation::Lists;
use tenalloc_designs::kernel::list_lru::{Population, eager};
use tenalloc_designs::kernel::{Kmalloc, ids};
use tenalloc_designs::lists::{ItemKey, ListDesign, ListError, Mount};
use tenalloc_designs::{GroupKey, Machine};

const GIB: f64 = 1073741824.0;
/// Objects of 32 bytes in a slab of kmalloc-32 on that machine: a page of 64 KiB.
const IN_A_SLAB: f64 = 2048.0;

/// The situation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Containers, 1 to 65,534: a group each.
    pub containers: u32,
    /// Mounts of each, at least 1.
    pub mounts: u32,
    /// NUMA nodes, 1 to 64.
    pub nodes: u8,
    /// Bytes that may be taken; `None`: what is free, at most 16 GiB.
    pub memory: Option<u64>,
}

impl Default for Params {
    fn default() -> Self {
        Self { containers: 10_000, mounts: 7, nodes: 2, memory: None }
    }
}

/// Objects of kmalloc-32 as published: before, during, after.
const WITHOUT: [f64; 3] = [178_176.0, 3_442_409_472.0, 388_933_632.0];
const WITH: [f64; 3] = [190_464.0, 468_992.0, 468_992.0];

/// Name, list_lru (`None`: tenalloc's).
const DESIGNS: [(&str, Option<Lists>); 4] = [
    ("without: 5.9, in advance", Some(Lists::Eager)),
    ("with: +lazy, on first use", Some(Lists::Lazy)),
    ("6.13: lock in each list", Some(Lists::Locked)),
    ("tenalloc", None),
];

/// The situation at the scale that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    params: Params,
    memory: u64,
    containers: u32, // built
}

impl Plan {
    /// Finds how much of it fits.
    ///
    /// # Errors
    /// [`Error::Refused`]: parameters that cannot be, or memory for not even one container.
    pub fn new(params: Params) -> Result<Self, Error> {
        if !(1..=65_534).contains(&params.containers)
            || !(1..=10_000).contains(&params.mounts)
            || !(1..=64).contains(&params.nodes)
        {
            let text = "1 to 65,534 containers, 1 to 10,000 mounts each and 1 to 64 nodes are possible";
            return Err(Error::Refused(text.into()));
        }
        let memory = memory::allowed(params.memory)?;
        let need = |containers| Self::need(&params, containers);
        let containers = largest(params.containers, memory, need).ok_or_else(|| {
            Error::Refused(format!(
                "a single container of {} mounts needs {}, and {} may be taken: give more with --memory, \
                 or fewer mounts",
                params.mounts,
                size(need(1)),
                size(memory)
            ))
        })?;
        Ok(Self { params, memory, containers })
    }

    /// The most bytes that it takes here.
    fn need(params: &Params, containers: u32) -> u64 {
        let nodes = u64::from(params.nodes);
        let ids = ids::array_length(containers.into());
        let lrus = 2 * u64::from(params.mounts) * u64::from(containers);
        let eager = nodes * (ids * 32 + 64) + 64 * nodes;
        // Tree nodes, heads, and on each node an item with its object.
        let lazy = 8 * ids + 3 * 576 + 512 + 80 * nodes;
        let lists = lrus * (eager.max(lazy) + 192 * nodes);
        // 5 % for what the allocator and tables of chunks add, and for gaps that arrays leave when they grow.
        PROCESS + lists + lists / 20 + u64::from(containers) * 512
    }

    /// What is built less than asked for, and why. `None`: all of it.
    pub fn notice(&self) -> Option<String> {
        (self.containers < self.params.containers).then(|| {
            format!(
                "{} may be taken, so {} of {} containers are built (all need {})",
                size(self.memory),
                thousands(self.containers.into()),
                thousands(self.params.containers.into()),
                size(Self::need(&self.params, self.params.containers))
            )
        })
    }

    fn as_published(&self) -> bool {
        (self.params.containers, self.params.mounts, self.params.nodes) == (10_000, 7, 2)
    }

    /// Heads of `containers` containers when all lists are made in advance: mounts × 2 × nodes × C(containers).
    fn in_advance(&self, containers: u32) -> f64 {
        let lists =
            f64::from(containers) * f64::from(self.params.mounts) * 2.0 * f64::from(self.params.nodes);
        lists * ids::array_length(containers.into()) as f64
    }

    /// Heads when only lists are made that an object was allocated for: mounts × 2 × nodes.
    fn on_first_use(&self, containers: u32) -> f64 {
        f64::from(containers) * f64::from(self.params.mounts) * 2.0 * f64::from(self.params.nodes)
    }

    /// Builds and measures it all.
    ///
    /// # Errors
    /// No memory.
    pub fn run(&self) -> Result<Outcome, Error> {
        let Params { containers, mounts, nodes, .. } = self.params;
        let mut outcome = Outcome::new(
            "bharata",
            format!(
                "{} containers, {mounts} mounts of 2 list_lrus each, {nodes} nodes",
                thousands(containers.into())
            ),
        );
        outcome.tables.push(self.counts());
        outcome.tables.push(self.bytes());
        let mut lives = Vec::new();
        for (name, lists) in DESIGNS {
            lives.push(self.life(name, lists)?);
        }
        outcome.tables.push(self.built(&lives));
        outcome.tables.push(self.cost(&lives));
        outcome.charts.push(self.chart(&lives));
        outcome.figures.extend(memory::figure(self.memory));
        outcome.notes = self.notes();
        Ok(outcome)
    }

    /// Starts all containers under one design and stops them again.
    fn life(&self, name: &'static str, lists: Option<Lists>) -> Result<Life, Error> {
        let machine = Machine { cpus: 1, nodes: self.params.nodes, cpu_node: vec![0], page_size: 65536 };
        let clock = Instant::now();
        let mut design = crate::list_design(name, lists, &machine)?;
        let (mounts, items) = self.start(&mut *design).during("starting containers")?;
        let usage = design.usage();
        let mut life = Life {
            during: design.heads(),
            kernel: usage.kernel.total(),
            here: usage.here.total(),
            ..Life::default()
        };
        for group in 0..self.containers {
            design.remove_group(GroupKey(group)).during("removing groups")?;
        }
        life.removed = design.heads();
        for item in items {
            design.del(item).during("dropping unused objects")?;
        }
        for mount in mounts {
            mount.remove(&mut *design).during("unmounting")?;
        }
        life.after = design.heads();
        life.seconds = clock.elapsed().as_secs_f64();
        Ok(life)
    }

    fn start(&self, design: &mut dyn ListDesign) -> Result<(Vec<Mount>, Vec<ItemKey>), ListError> {
        let (mut mounts, mut items) = (Vec::new(), Vec::new());
        for _ in 0..self.containers {
            let group = design.add_group(None)?;
            for _ in 0..self.params.mounts {
                let mount = Mount::new(design)?;
                for lru in [mount.dentries, mount.inodes] {
                    design.prepare(lru, Some(group))?;
                    for node in 0..self.params.nodes {
                        items.push(design.add(lru, Some(group), node)?);
                    }
                }
                mounts.push(mount);
            }
        }
        Ok((mounts, items))
    }

    /// Heads by formula beside the published objects.
    fn counts(&self) -> Table {
        let all = self.params.containers;
        let mut table = Table::new(
            format!("list heads of {} containers; published: objects of kmalloc-32", thousands(all.into())),
            vec![
                Column::new("formula", "", Computed),
                Column::new("published", "", Published),
                Column::new("formula / published", "%", Computed),
            ],
        );
        let lives = [
            ("without", WITHOUT, self.in_advance(all), self.in_advance(all)),
            ("with", WITH, self.on_first_use(all), 0.0),
        ];
        for (name, [before, during, after], heads, removed) in lives {
            for (stage, formula, published) in [
                ("before", None, Some(before)),
                ("during, more than before", Some(heads), Some(during - before)),
                ("groups removed, still mounted", Some(removed), None),
                ("after, more than before", Some(0.0), Some(after - before)),
            ] {
                let published = published.filter(|_| self.as_published());
                let ratio = formula.zip(published).map(|(f, p)| 100.0 * f / p);
                table.row(format!("{name}: {stage}"), vec![formula, published, ratio]);
            }
        }
        table
    }

    /// What the heads and their arrays take by formula, beside the published slab.
    fn bytes(&self) -> Table {
        let all = u64::from(self.params.containers);
        let kmalloc = Kmalloc::with_pages(65536).unwrap_or(Kmalloc::X86);
        let at = Population {
            nodes: self.params.nodes.into(),
            ids: ids::array_length(all),
            ..Population::default()
        };
        let list = eager(at, kmalloc);
        let gib = |bytes: u64| bytes as f64 * 2.0 * all as f64 * f64::from(self.params.mounts) / GIB;
        let mut table = Table::new(
            format!("memory of {} containers, all lists in advance", thousands(all)),
            vec![Column::new("formula", "GiB", Computed), Column::new("published", "GiB", Published)],
        );
        let published = |value| Some(value).filter(|_| self.as_published());
        table.row("heads: kmalloc-32", vec![Some(gib(list.heads)), published(102.0)]);
        table.row("arrays of pointers to them", vec![Some(gib(list.arrays)), None]);
        table.row("all slab, more than before", vec![Some(gib(list.total())), published(149.0 - 1.5)]);
        table
    }

    fn built(&self, lives: &[Life]) -> Table {
        let mut table = Table::new(
            format!("list heads of {} containers, built", thousands(self.containers.into())),
            vec![
                Column::new("formula", "", Computed),
                Column::new("during", "", Measured),
                Column::new("groups removed", "", Measured),
                Column::new("unmounted", "", Measured),
            ],
        );
        for ((name, lists), life) in DESIGNS.iter().zip(lives) {
            let formula = match lists {
                Some(Lists::Eager) => self.in_advance(self.containers),
                _ => self.on_first_use(self.containers),
            };
            let mut values = vec![Some(formula)];
            values.extend([life.during, life.removed, life.after].map(|count| Some(count as f64)));
            table.row(*name, values);
        }
        table
    }

    fn cost(&self, lives: &[Life]) -> Table {
        let mut table = Table::new(
            format!(
                "what {} containers cost, during; time from the first start",
                thousands(self.containers.into())
            ),
            vec![
                Column::new("kernel", "B", Measured),
                Column::new("allocated", "B", Measured),
                Column::new("kernel, a container", "B", Measured),
                Column::new("time", "s", Measured),
            ],
        );
        for ((name, _), life) in DESIGNS.iter().zip(lives) {
            let each = life.kernel as f64 / f64::from(self.containers);
            let values = [life.kernel as f64, life.here as f64, each, life.seconds];
            table.row(*name, values.map(Some).to_vec());
        }
        table
    }

    fn chart(&self, lives: &[Life]) -> Chart {
        let mut chart =
            Chart::new(format!("list heads of {} containers, built", thousands(self.containers.into())), "");
        for ((name, _), life) in DESIGNS.iter().zip(lives) {
            chart.bar(*name, life.during as f64, Measured);
            chart.bar("  groups removed", life.removed as f64, Measured);
            chart.bar("  unmounted", life.after as f64, Measured);
        }
        chart
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.as_published() {
            let slabs = |objects: f64| thousands((objects / IN_A_SLAB) as u64);
            let growth = WITHOUT[1] - WITHOUT[0];
            let mount = self.in_advance(10_000) / 70_000.0;
            notes.push(format!(
                "the formula's inputs: 10,000 containers × 7 mounts × 2 list_lrus × 2 nodes × {} ids \
                 (memcg_nr_cache_ids at 10,000 groups); on first use 1 instead of the ids.",
                thousands(ids::array_length(10_000))
            ));
            notes.push(format!(
                "the published counts are whole slabs: each is a multiple of 2,048, the objects of a 64 \
                 KiB page ({}, {}, {}; {}, {}, {} slabs). They hold free objects too, so no formula can \
                 meet them to the unit.",
                slabs(WITHOUT[0]),
                slabs(WITHOUT[1]),
                slabs(WITHOUT[2]),
                slabs(WITH[0]),
                slabs(WITH[1]),
                slabs(WITH[2])
            ));
            notes.push(format!(
                "during, without: {} objects more than the formula, as many heads as {:.1} mounts more \
                 have. The host's own mounts get lists for all ids too, and would explain it; the post does \
                 not say how many there were.",
                thousands((growth - self.in_advance(10_000)) as u64),
                (growth - self.in_advance(10_000)) / mount
            ));
            notes.push(format!(
                "during, with: {} objects fewer than the formula, less than one slab: what places were free \
                 before would hold them, if there were so many.",
                thousands((self.on_first_use(10_000) - (WITH[1] - WITH[0])) as u64)
            ));
            notes.push(format!(
                "after, without: the formula knows of nothing that stays once all is unmounted. {:.1} % of \
                 the growth did stay: the heads of {} mounts that were not gone yet, or slabs kept by a \
                 few live objects each; the post does not tell. With the patch no slab went at all.",
                100.0 * (WITHOUT[2] - WITHOUT[0]) / growth,
                thousands(((WITHOUT[2] - WITHOUT[0]) / mount).round() as u64)
            ));
        }
        notes.push(
            "\"with\" is the list_lru of Song's series after patch 10, which has the idea of Rao's patch: \
             his made each head of 32 bytes when an item was added, the series makes those of all nodes \
             together when the object is allocated. Heads are counted, not allocations. Shrinker state is \
             not in these tables (but in tenalloc's bytes): see scenario muchun."
                .to_owned(),
        );
        notes.extend(self.notice());
        notes
    }
}

/// One design's run: heads after each stage, bytes during.
#[derive(Default)]
struct Life {
    during: u64,
    removed: u64,
    after: u64,
    kernel: u64,
    here: u64,
    seconds: f64,
}
