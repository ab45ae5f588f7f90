//! Muchun Song's experiment (list_lru series v6, 28 February 2022): 10,000 groups, 10,000 mounts, 2 nodes, and the memory
//! of the machine after each step of the series: 24,464 → 21,957 → 6,895 → 4,367 MB.
//!
//! Here each step's list_lru is built for all groups and mounts, one after another, and measured; beside it stand the
//! closed form and what was published. What was published is `free` of a whole machine, so only its differences can be
//! compared; the shrinker state, which no step changed, is built by itself.

use crate::memory::{self, PROCESS, largest, size};
use crate::table::{Chart, Column, Origin, Table, thousands};
use crate::{Error, Outcome, While};
use Origin::{Computed, Measured, Published};
use std::time::Instant;
use tenalloc_designs::kernel::generation::Lists;
use tenalloc_designs::kernel::list_lru::Population;
use tenalloc_designs::kernel::shrinker::{Shrinkers, UNIT_BYTES, units};
use tenalloc_designs::kernel::{Kmalloc, ids, xarray};
use tenalloc_designs::lists::{ListDesign, ListError, Mount, compose};
use tenalloc_designs::{GroupKey, Machine};

const MIB: f64 = 1048576.0;
/// The first id of a group that is not the root's.
const FIRST_ID: u32 = 2;

/// The situation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Groups, 1 to 65,534.
    pub groups: u32,
    /// Mounts, at least 1.
    pub mounts: u32,
    /// NUMA nodes, 1 to 64.
    pub nodes: u8,
    /// Groups that have an object on each mount's lists. 0 as published: the mounts were made and not used.
    pub users: u32,
    /// Bytes that may be taken; `None`: what is free, at most 16 GiB.
    pub memory: Option<u64>,
}

impl Default for Params {
    fn default() -> Self {
        Self { groups: 10_000, mounts: 10_000, nodes: 2, users: 0, memory: None }
    }
}

/// What is built one after another: name, list_lru (`None`: tenalloc's), MB published.
const STEPS: [(&str, Option<Lists>, Option<f64>); 6] = [
    ("without the series", Some(Lists::Eager), Some(24_464.0)),
    ("patch 1: transposed", Some(Lists::Transposed), Some(21_957.0)),
    ("patch 10: on first use", Some(Lists::Lazy), Some(6_895.0)),
    ("patch 12: sparse index", Some(Lists::Sparse), Some(4_367.0)),
    ("6.13: lock in each list", Some(Lists::Locked), None),
    ("tenalloc", None, None),
];

/// The situation at the scale that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    params: Params,
    memory: u64,
    mounts: u32, // built
    groups: u32, // for which shrinker state is built
}

impl Plan {
    /// Finds how much of it fits.
    ///
    /// # Errors
    /// [`Error::Refused`]: parameters that cannot be, or memory for not even one mount.
    pub fn new(params: Params) -> Result<Self, Error> {
        let Params { groups, nodes, users, .. } = params;
        if users > groups {
            let text = format!("--users {users}: there are only {groups} groups; give less");
            return Err(Error::Refused(text));
        }
        if !(1..=65_534).contains(&groups) || params.mounts == 0 || !(1..=64).contains(&nodes) {
            return Err(Error::Refused("1 to 65,534 groups, 1 mount and 1 to 64 nodes are possible".into()));
        }
        let memory = memory::allowed(params.memory)?;
        let need = |mounts| Self::need(&params, mounts);
        let state = |groups| Self::need_of_state(&params, groups);
        let refuse = || {
            Error::Refused(format!(
                "{groups} groups on {nodes} nodes need {} for a single mount, and {} may be taken: give more with \
                 --memory, or fewer groups or nodes",
                size(need(1).max(state(1))),
                size(memory)
            ))
        };
        let mounts = largest(params.mounts, memory, need).ok_or_else(refuse)?;
        let groups = largest(groups, memory, state).ok_or_else(refuse)?;
        Ok(Self { params, memory, mounts, groups })
    }

    /// The most bytes that a step takes here.
    fn need(params: &Params, mounts: u32) -> u64 {
        let nodes = u64::from(params.nodes);
        let ids = ids::array_length(params.groups.into());
        let users = u64::from(params.users.clamp(1, params.groups));
        // A head and a pointer each; 3 % for what the allocator and tables of chunks add.
        let eager = (nodes * (ids * 32 + 64)) + 64 * nodes;
        // A node a level, heads, an item with its object, for each user.
        let used = users * (3 * 576 + 32 * nodes + 128) + 512 + 80 * nodes;
        let lists = 2 * u64::from(mounts) * (eager.max(8 * ids + used) + users * 64);
        PROCESS + lists + lists / 32 + u64::from(params.groups) * 512
    }

    /// The same for the shrinker state of so many groups.
    fn need_of_state(params: &Params, groups: u32) -> u64 {
        let each = units(params.mounts.into()) * (UNIT_BYTES + 32) + 128;
        PROCESS + u64::from(groups) * u64::from(params.nodes) * each + u64::from(params.mounts) * 16
    }

    /// What is built less than asked for, and why. `None`: all of it.
    pub fn notice(&self) -> Option<String> {
        let all = self.params;
        let mut parts = Vec::new();
        if self.mounts < all.mounts {
            let whole = size(Self::need(&all, all.mounts));
            let (built, mounts) = (thousands(self.mounts.into()), thousands(all.mounts.into()));
            parts.push(format!("lists of {built} of {mounts} mounts are built (all need {whole})"));
        }
        if self.groups < all.groups {
            let whole = size(Self::need_of_state(&all, all.groups));
            let (built, groups) = (thousands(self.groups.into()), thousands(all.groups.into()));
            parts.push(format!("shrinker state of {built} of {groups} groups is built (all need {whole})"));
        }
        let what = parts.join(", and ");
        (!what.is_empty()).then(|| {
            format!("{} may be taken, so {what}; every mount and group costs the same", size(self.memory))
        })
    }

    /// Whether this is the experiment as published.
    fn as_published(&self) -> bool {
        let Params { groups, mounts, nodes, users, .. } = self.params;
        (groups, mounts, nodes, users) == (10_000, 10_000, 2, 0)
    }

    fn machine(&self) -> Machine {
        Machine { cpus: 1, nodes: self.params.nodes, cpu_node: vec![0], page_size: 4096 }
    }

    /// Builds and measures it all.
    ///
    /// # Errors
    /// No memory.
    pub fn run(&self) -> Result<Outcome, Error> {
        let Params { groups, mounts, nodes, users, .. } = self.params;
        let mut outcome = Outcome::new(
            "muchun",
            format!(
                "{} groups, {} mounts of 2 list_lrus, {nodes} nodes; {}",
                thousands(groups.into()),
                thousands(mounts.into()),
                match users {
                    0 => "nobody uses the mounts".to_owned(),
                    1 => "each mount used by one group".to_owned(),
                    users => format!("each mount used by {} groups", thousands(users.into())),
                }
            ),
        );
        let steps = self.steps(&STEPS)?;
        outcome.tables.push(self.built_table("after each step", &STEPS, &steps));
        outcome.tables.push(self.saved_table(&steps));
        outcome.charts.push(self.chart(&steps));
        if users == 0 {
            // What is built for nobody is only half of the truth: where each mount has one user, as in containers.
            let used = Self { params: Params { users: 1, ..self.params }, ..*self };
            let rest = &STEPS[3..];
            let steps = used.steps(rest)?;
            outcome.tables.push(used.built_table("one group using each", rest, &steps));
        }
        outcome.tables.push(self.state_table()?);
        outcome.figures.extend(memory::figure(self.memory));
        outcome.notes = self.notes(steps.last());
        Ok(outcome)
    }

    fn steps(&self, which: &[(&'static str, Option<Lists>, Option<f64>)]) -> Result<Vec<Step>, Error> {
        which.iter().map(|(name, lists, _)| self.step(name, *lists)).collect()
    }

    /// Builds one step, measures it, and takes it down.
    fn step(&self, name: &'static str, lists: Option<Lists>) -> Result<Step, Error> {
        let machine = self.machine();
        let before = memory::resident();
        let clock = Instant::now();
        let mut design = crate::list_design(name, lists, &machine)?;
        self.build(&mut *design).during(name)?;
        let seconds = clock.elapsed().as_secs_f64();
        let resident = memory::resident().zip(before).map(|(now, before)| now.saturating_sub(before));
        let usage = design.usage();
        // What ours keeps for shrinkers lies in the lists; Linux's is built by itself below.
        let built = if lists.is_some() { usage.kernel.lists() } else { usage.kernel.total() };
        let here = if lists.is_some() { usage.here.lists() } else { usage.here.total() };
        let computed = lists.map(|lists| self.closed_form(lists));
        Ok(Step { built, here, computed, resident, seconds })
    }

    fn build(&self, design: &mut dyn ListDesign) -> Result<(), ListError> {
        for _ in 0..self.params.groups {
            design.add_group(None)?;
        }
        for at in 0..self.mounts {
            let mount = Mount::new(design)?;
            for group in self.users(at) {
                for lru in [mount.dentries, mount.inodes] {
                    design.prepare(lru, Some(GroupKey(group)))?;
                    design.add(lru, Some(GroupKey(group)), (at % u32::from(self.params.nodes)) as u8)?;
                }
            }
        }
        Ok(())
    }

    /// The groups that use a mount.
    fn users(&self, mount: u32) -> impl Iterator<Item = u32> + use<> {
        let groups = self.params.groups;
        (0..self.params.users).map(move |k| ((u64::from(mount) + u64::from(k)) % u64::from(groups)) as u32)
    }

    /// Bytes of what is built, by formula.
    fn closed_form(&self, lists: Lists) -> u64 {
        let one = |mount| {
            let mut users: Vec<u64> = self.users(mount).map(|g| u64::from(g + FIRST_ID)).collect();
            users.sort_unstable();
            let at = Population {
                nodes: self.params.nodes.into(),
                ids: ids::array_length(self.params.groups.into()),
                users: users.len() as u64,
                index_nodes: xarray::nodes(&users),
            };
            2 * lists.bytes(at, Kmalloc::X86).total()
        };
        (0..self.mounts).map(one).sum()
    }

    fn built_table(&self, when: &str, of: &[(&str, Option<Lists>, Option<f64>)], steps: &[Step]) -> Table {
        let title = format!("list_lru of {} mounts, {when}", thousands(self.mounts.into()));
        let mut table = Table::new(
            title,
            vec![
                Column::new("kernel", "B", Measured),
                Column::new("formula", "B", Computed),
                Column::new("allocated", "B", Measured),
                Column::new("resident", "B", Measured),
                Column::new("time", "s", Measured),
            ],
        );
        for ((name, ..), step) in of.iter().zip(steps) {
            let number = |bytes: u64| bytes as f64;
            table.row(
                *name,
                vec![
                    Some(number(step.built)),
                    step.computed.map(number),
                    Some(number(step.here)),
                    step.resident.map(number),
                    Some(step.seconds),
                ],
            );
        }
        table
    }

    /// From mounts that were built to all.
    fn factor(&self) -> f64 {
        f64::from(self.params.mounts) / f64::from(self.mounts)
    }

    fn saved_table(&self, steps: &[Step]) -> Table {
        let measured = match self.mounts == self.params.mounts {
            true => "built".to_owned(),
            false => format!("built × {:.3}", self.factor()),
        };
        let mut table = Table::new(
            "what each step of the series saves, all mounts",
            vec![
                Column::new(measured, "MiB", Measured),
                Column::new("formula", "MiB", Computed),
                Column::new("published", "MiB", Published),
            ],
        );
        for (at, pair) in STEPS.windows(2).enumerate().take(3) {
            let saved = |of: fn(&Step) -> Option<u64>| {
                let (before, after) = (of(&steps[at])?, of(&steps[at + 1])?);
                Some((before as f64 - after as f64) * self.factor() / MIB)
            };
            let published = pair[0].2.zip(pair[1].2).map(|(before, after)| before - after);
            table.row(
                pair[1].0,
                vec![
                    saved(|step| Some(step.built)),
                    saved(|step| step.computed),
                    published.filter(|_| self.as_published()),
                ],
            );
        }
        table
    }

    fn chart(&self, steps: &[Step]) -> Chart {
        let mut chart =
            Chart::new("list_lru as built, all mounts; published: all memory of the machine", "MiB");
        for ((name, _, published), step) in STEPS.iter().zip(steps) {
            chart.bar(*name, step.built as f64 * self.factor() / MIB, Measured);
            if let Some(published) = published.filter(|_| self.as_published()) {
                chart.bar("  published", published, Published);
            }
        }
        chart
    }

    /// Shrinker state of both forms that Linux has had since the series.
    fn state_table(&self) -> Result<Table, Error> {
        let mut table = Table::new(
            format!("what the series left: shrinker state of {} groups", thousands(self.groups.into())),
            vec![
                Column::new("kernel", "B", Measured),
                Column::new("formula", "B", Computed),
                Column::new("allocated", "B", Measured),
                Column::new("all groups", "MiB", Measured),
            ],
        );
        let factor = f64::from(self.params.groups) / f64::from(self.groups);
        let forms =
            [("5.13 to 6.6: flat arrays", Shrinkers::Flat), ("6.7 on: units of 64", Shrinkers::Units)];
        for (name, form) in forms {
            let mut design = compose(name, Lists::Sparse, Some(form), &self.machine()).during(name)?;
            // Mounts first: what is built is the same, and no array is made anew at every 64th mount.
            for _ in 0..self.params.mounts {
                design.add_shrinker().during(name)?;
            }
            for _ in 0..self.groups {
                design.add_group(None).during(name)?;
            }
            let usage = design.usage();
            let mounts = u64::from(self.params.mounts);
            let formula =
                form.total(self.groups.into(), self.params.nodes.into(), mounts, Kmalloc::X86) as f64;
            let built = usage.kernel.shrinkers as f64;
            let all = built * factor / MIB;
            table.row(name, vec![Some(built), Some(formula), Some(usage.here.shrinkers as f64), Some(all)]);
        }
        Ok(table)
    }

    fn notes(&self, ours: Option<&Step>) -> Vec<String> {
        let mut notes = vec![
            "kernel: every allocation that was made here, with the size of the kernel's structure of that release and \
             rounded as kmalloc rounds. allocated, resident: what this process took for the same, by its own count and \
             by the kernel's (less where the C library kept memory from the step before)."
                .to_owned(),
        ];
        if self.as_published() {
            notes.push(
                "published: `free` of a whole machine in MB of 1,048,576 bytes. What is neither list_lru nor shrinker \
                 state (groups, mounts, the system itself) is in it and is not built here, so differences are compared. \
                 Those published are 7, 64 and 28 MB larger; the post has nothing to tell other savings of a step from \
                 what differs between two boots."
                    .to_owned(),
            );
            notes.push(
                "of the 4,367 MB that the series left, 2,500 are shrinker state of 5.13 to 6.6, by the formula and as \
                 built; that is inferred, the post does not say."
                    .to_owned(),
            );
        }
        if let Some(ours) = ours.filter(|_| self.params.users == 0) {
            notes.push(format!(
                "tenalloc's row holds its shrinker state, 8 bytes in each list. A list_lru that nobody uses takes {} \
                 bytes of it and {} of Linux 5.18.",
                ours.built / (2 * u64::from(self.mounts)),
                self.closed_form(Lists::Sparse) / (2 * u64::from(self.mounts))
            ));
        }
        notes.extend(self.notice());
        notes
    }
}

/// One step as measured, bytes.
struct Step {
    built: u64,
    here: u64,
    computed: Option<u64>,
    resident: Option<u64>,
    seconds: f64,
}
