//! One design over one program, step by step.

use super::error::Error;
use super::model::{Live, Model, State};
use super::sample::{Sampler, usage};
use super::verify::{Marks, Wrong, sums};
use super::{compared, snapshot};
use crate::report::{Checks, Design as Found, Sample};
use std::collections::HashMap;
use tenalloc_designs::{CacheKey, CacheSpec, Design, Geometry, GroupKey, Place};
use tenalloc_trace::Program;
use tenalloc_trace::program::{Group, GroupId, Op, OpKind};

/// How to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Compare everything with the plain model after every so many steps, mark every object and look at the mark
    /// when it is freed. Sums are compared at the end in any case.
    pub check_every: Option<u64>,
    /// Ask for each object on the node where the recording had it, whether or not its caller asked for one: an
    /// experiment, see docs/traces.md.
    pub recorded_nodes: bool,
}

/// Steps between two calls of the progress function.
const TELL: usize = 1 << 16;

/// Longest name that a group of the engine may have, bytes.
const LONGEST_NAME: usize = 255;

/// The exact charge of each group that a stamp compares, for each stamp of the program.
pub(super) type Charges = Vec<Vec<u64>>;

pub(super) fn drive(
    program: &Program,
    design: &mut dyn Design,
    settings: &Settings,
    tell: &mut dyn FnMut(u64),
) -> Result<(Found, Charges), Error> {
    let mut run = Run::new(program, design, settings)?;
    let mut at_peak = None;
    for (step, op) in program.ops.iter().enumerate() {
        if step % TELL == 0 {
            tell(step as u64);
        }
        run.sampler.until(op.time, run.model.live_bytes, run.design);
        run.step(step, op)?;
        if step == program.peak_op {
            at_peak = Some(run.snapshot(op.time));
        }
        if settings.check_every.is_some_and(|n| (step as u64 + 1).is_multiple_of(n.max(1))) {
            run.check(step)?;
        }
    }
    let end = program.ops.len();
    run.check(end)?;
    if let Some(Err(wrong)) = run.marks.as_ref().map(Marks::look) {
        return Err(run.differs(end, wrong));
    }
    tell(end as u64);
    // A program without an allocation has no peak: the end is as good a moment.
    let mut found = match at_peak {
        Some(found) => found,
        None => run.snapshot(program.length_ns),
    };
    let live = run.model.live_bytes;
    found.at_end = Sample { t: program.length_ns as f64 / 1e9, usage: usage(run.design, live) };
    let sampled = run.sampler.finish(live, run.design);
    found.series = sampled.series;
    found.max_slab = sampled.max_slab;
    found.average = sampled.average;
    found.average_utilisation = sampled.average_utilisation;
    found.name = run.design.name().into();
    found.summary = run.design.summary().into();
    found.groups_created = run.created;
    found.groups_removed = run.removed;
    found.orphans = run.design.orphans();
    found.ops = end as u64;
    found.checks = run.checks;
    Ok((found, run.charges))
}

struct Run<'a> {
    program: &'a Program,
    design: &'a mut dyn Design,
    model: Model<'a>,
    sampler: Sampler,
    /// Group → the design's key; `None`: not charged, or not made yet.
    keys: Vec<Option<GroupKey>>,
    /// Path → the living group.
    paths: HashMap<&'a str, GroupId>,
    charges: Charges,
    /// Slots with objects of the recorded kernel's own lists, which are not replayed.
    own: Vec<bool>,
    recorded_nodes: bool,
    /// With checks only.
    marks: Option<Marks>,
    created: u64,
    removed: u64,
    checks: Checks,
}

impl<'a> Run<'a> {
    fn new(program: &'a Program, design: &'a mut dyn Design, settings: &Settings) -> Result<Self, Error> {
        let orderly = |(i, group): (usize, &Group)| group.parent.is_none_or(|p| (p.0 as usize) < i);
        if !program.groups.iter().enumerate().all(orderly) {
            return Err(Error::Program { step: 0, what: "a group stands before its parent" });
        }
        let mut run = Self {
            program,
            model: Model::new(program),
            sampler: Sampler::new(program.length_ns),
            keys: vec![None; program.groups.len()],
            paths: HashMap::new(),
            charges: vec![Vec::new(); program.stamps.len()],
            own: vec![false; program.slots as usize],
            recorded_nodes: settings.recorded_nodes,
            marks: settings.check_every.map(|_| Marks::default()),
            created: 0,
            removed: 0,
            checks: Checks::default(),
            design,
        };
        for cache in &program.caches {
            let geometry = cache.geometry.map(|g| Geometry {
                object_size: g.object_size,
                order: g.order,
                objects: g.objects,
            });
            let spec = CacheSpec { name: &cache.name, slot_size: cache.slot_size, geometry };
            run.design.add_cache(&spec).map_err(|e| run.refused(0, format!("cache {}", cache.name), e))?;
        }
        // Objects of tasks that the recording does not tell have a group of their own: they are charged to somebody.
        let unknown = GroupId::UNKNOWN.0 as usize;
        if program.groups.get(unknown).is_some_and(|g| g.charged) {
            let key = run.design.add_group(None, UNKNOWN);
            run.keys[unknown] = Some(key.map_err(|e| run.refused(0, format!("group {UNKNOWN}"), e))?);
        }
        Ok(run)
    }

    fn refused(&self, step: usize, what: String, source: tenalloc_designs::Error) -> Error {
        Error::Design { design: self.design.name().into(), step, what, source }
    }

    fn differs(&self, step: usize, wrong: Wrong) -> Error {
        let Wrong { what, found, expected } = wrong;
        Error::Check { design: self.design.name().into(), step, what, found, expected }
    }

    #[inline]
    fn step(&mut self, step: usize, op: &Op) -> Result<(), Error> {
        match op.kind {
            OpKind::Alloc if op.own => match self.own.get_mut(op.slot as usize) {
                Some(own) => {
                    *own = true;
                    Ok(())
                }
                None => Err(Error::Program { step, what: "an allocation into an unknown slot" }),
            },
            OpKind::Alloc => self.alloc(step, op),
            OpKind::Free | OpKind::HiddenFree if self.own.get(op.slot as usize) == Some(&true) => {
                self.own[op.slot as usize] = false;
                Ok(())
            }
            OpKind::Free | OpKind::HiddenFree => self.free(step, op),
            OpKind::Create => self.create(step, op.group),
            OpKind::Remove => self.remove(step, op.group),
            OpKind::Stamp => self.stamp(step, op),
            // Lists have a run of their own.
            OpKind::Mount | OpKind::Unmount | OpKind::Super | OpKind::SuperGone | OpKind::ListUse => Ok(()),
        }
    }

    fn alloc(&mut self, step: usize, op: &Op) -> Result<(), Error> {
        let group = match self.model.state(op.group) {
            Some(State::Alive) => op.group,
            // Its owner has passed to the nearest group above that lives.
            Some(State::Removed) => self.model.living(op.group).unwrap_or(GroupId::ROOT),
            None if op.group == GroupId::NOBODY => op.group,
            _ => return Err(Error::Program { step, what: "an object of a group that was not made" }),
        };
        let key = self.keys.get(group.0 as usize).copied().flatten();
        let node = if self.recorded_nodes { op.node } else { op.asked };
        // Hardly anybody asks for a node; and one that the machine does not have cannot be had.
        let place = Place { cpu: op.cpu, node: Some(node).filter(|node| *node < self.program.nodes) };
        let object = match self.design.alloc(place, CacheKey(op.cache.0), key) {
            Ok(object) => object,
            Err(e) => return Err(self.refused(step, self.object(op), e)),
        };
        if !self.model.alloc(op.slot, Live { object, group, cache: op.cache }) {
            return Err(Error::Program { step, what: "an allocation into a slot that is taken or unknown" });
        }
        self.sampler.grown(self.design.slab_bytes());
        if let Some(marks) = &mut self.marks {
            let cache = self.program.caches.get(usize::from(op.cache.0));
            let slot_size = cache.map_or(0, |c| c.slot_size);
            let usable = cache.and_then(|c| c.geometry).map_or(slot_size, |g| g.object_size);
            marks.put(object, slot_size, usable).map_err(|wrong| self.differs(step, wrong))?;
        }
        Ok(())
    }

    fn object(&self, op: &Op) -> String {
        let cache = self.program.caches.get(usize::from(op.cache.0));
        cache.map_or("an object of an unknown cache".into(), |c| format!("an object of cache {}", c.name))
    }

    fn free(&mut self, step: usize, op: &Op) -> Result<(), Error> {
        let Some(live) = self.model.free(op.slot) else {
            return Err(Error::Program { step, what: "a free of an empty slot" });
        };
        if let Some(marks) = &mut self.marks {
            marks.take(live.object).map_err(|wrong| self.differs(step, wrong))?;
        }
        // SAFETY: the object came from `alloc`, and the model has just let go of it.
        unsafe { self.design.free(op.cpu, live.object) }.map_err(|e| self.refused(step, "a free".into(), e))
    }

    fn create(&mut self, step: usize, id: GroupId) -> Result<(), Error> {
        let group = self.program.groups.get(id.0 as usize);
        let Some((group, State::Never)) = group.zip(self.model.state(id)) else {
            return Err(Error::Program { step, what: "a group made twice, or one that is unknown" });
        };
        if group.parent.is_some_and(|p| self.model.state(p) == Some(State::Never)) {
            return Err(Error::Program { step, what: "a group whose parent was not made" });
        }
        self.model.create(id);
        self.paths.insert(&group.path, id);
        if group.charged {
            // A parent that was removed before its child was made: events were lost. Its own parent stands in.
            let parent = self.model.above(id).and_then(|p| self.keys[p.0 as usize]);
            let key = self.design.add_group(parent, &name(&group.path, id));
            self.keys[id.0 as usize] =
                Some(key.map_err(|e| self.refused(step, format!("group {}", group.path), e))?);
            self.created += 1;
        }
        Ok(())
    }

    fn remove(&mut self, step: usize, id: GroupId) -> Result<(), Error> {
        match self.model.state(id) {
            Some(State::Alive) if id >= GroupId::FIRST => {}
            // It went with its parent.
            Some(State::Removed) => return Ok(()),
            _ => return Err(Error::Program { step, what: "the removal of a group that was not made" }),
        }
        // The kernel removes no group that has living children: their own removals were lost, and they are gone.
        let mut doomed = vec![id];
        while let Some(&last) = doomed.last() {
            if let Some(child) = self.model.child(last) {
                doomed.push(child);
                continue;
            }
            doomed.pop();
            let path = self.program.groups[last.0 as usize].path.as_str();
            self.model.remove(last);
            if self.paths.get(path) == Some(&last) {
                self.paths.remove(path);
            }
            if let Some(key) = self.keys[last.0 as usize] {
                let gone = self.design.remove_group(key);
                gone.map_err(|e| self.refused(step, format!("removal of group {path}"), e))?;
                self.removed += 1;
            }
        }
        Ok(())
    }

    fn stamp(&mut self, step: usize, op: &Op) -> Result<(), Error> {
        let index = op.slot as usize;
        let (Some(stamp), Some(charges)) = (self.program.stamps.get(index), self.charges.get_mut(index))
        else {
            return Err(Error::Program { step, what: "an unknown stamp" });
        };
        let charge = |(path, _): &(String, u64)| {
            let key = self.paths.get(path.as_str()).and_then(|g| self.keys[g.0 as usize]);
            key.map_or(0, |key| self.design.charge(key))
        };
        *charges = compared(stamp).map(charge).collect();
        Ok(())
    }

    /// The peak: what only a closer look tells.
    fn snapshot(&mut self, time: u64) -> Found {
        Found {
            at_peak: Sample { t: time as f64 / 1e9, usage: usage(self.design, self.model.live_bytes) },
            caches: snapshot::caches(self.program, &self.model, self.design),
            groups: snapshot::groups(self.program, &self.model, &self.keys, self.design),
            sharing: snapshot::sharing(self.program, &self.model, self.design),
            ..Found::default()
        }
    }

    fn check(&mut self, step: usize) -> Result<(), Error> {
        let checked = sums(self.program, &self.model, &self.keys, self.design);
        self.checks.groups = checked.map_err(|wrong| self.differs(step, wrong))?;
        self.checks.model += 1;
        Ok(())
    }
}

/// The design's group of [`GroupId::UNKNOWN`].
const UNKNOWN: &str = "(unknown)";

/// What a design calls a group: the last part of its path. What the engine could not take, or mistake for another, is
/// called by its number: nobody sees the name.
fn name(path: &str, id: GroupId) -> String {
    let last = path.rsplit('/').next().unwrap_or(path);
    let odd = matches!(last, "" | "." | ".." | UNKNOWN) || last.len() > LONGEST_NAME || last.contains('\0');
    if odd { format!("#{}", id.0) } else { last.into() }
}
