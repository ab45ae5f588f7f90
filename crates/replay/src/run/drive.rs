//! One design over one program, step by step.

use super::error::Error;
use super::model::{Live, Model};
use super::sample::{Sampler, usage};
use super::{is_compared, snapshot};
use crate::report::{Checks, Design as Found, Sample};
use std::collections::{BTreeMap, HashMap};
use tenalloc_designs::{CacheKey, CacheSpec, Design, Geometry, GroupKey, Place};
use tenalloc_trace::Program;
use tenalloc_trace::program::{GroupId, Op, OpKind};

/// How to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Compare everything with the plain model after every so many steps, mark every object and look at the mark
    /// when it is freed. Sums are compared at the end in any case.
    pub check_every: Option<u64>,
}

/// Steps between two calls of the progress function.
const TELL: usize = 1 << 16;

/// The exact charge of each group of each stamp, in the order of the stamps that are compared.
type Charges = Vec<Vec<u64>>;

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
    run.check(program.ops.len())?;
    tell(program.ops.len() as u64);
    // A program without an allocation has no peak: the end is as good a moment.
    let mut found = match at_peak {
        Some(found) => found,
        None => run.snapshot(program.length_ns),
    };
    let live = run.model.live_bytes;
    let end = Sample { t: program.length_ns as f64 / 1e9, usage: usage(run.design, live) };
    let (series, average, average_utilisation, max_slab) = run.sampler.finish(live, run.design);
    found.name = run.design.name().into();
    found.summary = run.design.summary().into();
    found.series = series;
    found.at_end = end;
    found.max_slab = max_slab;
    found.average = average;
    found.average_utilisation = average_utilisation;
    found.groups_created = run.created;
    found.groups_removed = run.removed;
    found.orphans = run.design.orphans();
    found.ops = program.ops.len() as u64;
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
    /// With checks: where each live object lies.
    places: Option<BTreeMap<usize, usize>>,
    created: u64,
    removed: u64,
    checks: Checks,
}

impl<'a> Run<'a> {
    fn new(program: &'a Program, design: &'a mut dyn Design, settings: &Settings) -> Result<Self, Error> {
        let mut run = Self {
            program,
            model: Model::new(program),
            sampler: Sampler::new(program.length_ns),
            keys: vec![None; program.groups.len()],
            paths: HashMap::new(),
            charges: Vec::new(),
            places: settings.check_every.map(|_| BTreeMap::new()),
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
            let key = run.design.add_group(None, "(unknown)");
            run.keys[unknown] = Some(key.map_err(|e| run.refused(0, "group (unknown)".into(), e))?);
        }
        Ok(run)
    }

    fn refused(&self, step: usize, what: String, source: tenalloc_designs::Error) -> Error {
        Error::Design { design: self.design.name().into(), step, what, source }
    }

    #[inline]
    fn step(&mut self, step: usize, op: &Op) -> Result<(), Error> {
        match op.kind {
            OpKind::Alloc => self.alloc(step, op),
            OpKind::Free | OpKind::HiddenFree => self.free(step, op),
            OpKind::Create => self.create(step, op),
            OpKind::Remove => self.remove(step, op),
            OpKind::Stamp => {
                self.stamp(op);
                Ok(())
            }
            // Mounts register lists; no design here has lists yet.
            OpKind::Mount | OpKind::Unmount => Ok(()),
        }
    }

    fn alloc(&mut self, step: usize, op: &Op) -> Result<(), Error> {
        let group = self.keys.get(op.group.0 as usize).copied().flatten();
        let place = Place { cpu: op.cpu, node: op.node };
        let object = match self.design.alloc(place, CacheKey(op.cache.0), group) {
            Ok(object) => object,
            Err(e) => return Err(self.refused(step, format!("an object of cache {}", op.cache.0), e)),
        };
        if !self.model.alloc(op.slot, Live { object, group: op.group, cache: op.cache }) {
            return Err(Error::Program { step, what: "an allocation into a slot that is taken" });
        }
        self.sampler.grown(self.design.slab_bytes());
        if self.places.is_some() {
            self.mark(step, op, object.as_ptr())?;
        }
        Ok(())
    }

    /// With checks: the object lies apart from all others; it gets its slot's number written into it.
    fn mark(&mut self, step: usize, op: &Op, object: *mut u8) -> Result<(), Error> {
        let size = self.model.slot_size(op.cache).unwrap_or(0) as usize;
        let (start, end) = (object as usize, object as usize + size);
        let places = self.places.get_or_insert_default();
        let before = places.range(..end).next_back().filter(|(at, len)| **at + **len > start);
        if let Some((&at, _)) = before {
            let what = format!("the object of slot {}, at an address that a live one covers,", op.slot);
            return Err(self.differs(step, what, start as u64, at as u64));
        }
        places.insert(start, size);
        if size >= 8 {
            // SAFETY: a live object of at least 8 bytes that nobody else knows of.
            unsafe { object.cast::<u64>().write_unaligned(u64::from(op.slot)) };
        }
        Ok(())
    }

    fn free(&mut self, step: usize, op: &Op) -> Result<(), Error> {
        let Some(live) = self.model.free(op.slot) else {
            return Err(Error::Program { step, what: "a free of an empty slot" });
        };
        if let Some(places) = &mut self.places {
            let size = places.remove(&(live.object.as_ptr() as usize)).unwrap_or(0);
            // SAFETY: live until the call below, written by `mark`.
            let mark = if size >= 8 {
                unsafe { live.object.cast::<u64>().read_unaligned() }
            } else {
                op.slot.into()
            };
            if mark != u64::from(op.slot) {
                return Err(self.differs(step, "the contents of an object".into(), mark, op.slot.into()));
            }
        }
        // SAFETY: the object came from `alloc`, and the model has just let go of it.
        unsafe { self.design.free(op.cpu, live.object) }.map_err(|e| self.refused(step, "a free".into(), e))
    }

    fn create(&mut self, step: usize, op: &Op) -> Result<(), Error> {
        let index = op.group.0 as usize;
        let Some(group) = self.program.groups.get(index) else {
            return Err(Error::Program { step, what: "an unknown group" });
        };
        self.model.create(op.group);
        self.paths.insert(&group.path, op.group);
        if group.charged {
            let parent = group.parent.and_then(|p| self.keys.get(p.0 as usize).copied().flatten());
            let name = group.path.rsplit('/').next().unwrap_or(&group.path);
            let key = self.design.add_group(parent, name);
            self.keys[index] = Some(key.map_err(|e| self.refused(step, format!("group {}", group.path), e))?);
            self.created += 1;
        }
        Ok(())
    }

    fn remove(&mut self, step: usize, op: &Op) -> Result<(), Error> {
        let group = self.program.groups.get(op.group.0 as usize);
        let group = group.ok_or(Error::Program { step, what: "an unknown group" })?;
        self.model.remove(op.group);
        self.paths.remove(group.path.as_str());
        if let Some(key) = self.keys[op.group.0 as usize] {
            let gone = self.design.remove_group(key);
            gone.map_err(|e| self.refused(step, format!("removal of group {}", group.path), e))?;
            self.removed += 1;
        }
        Ok(())
    }

    fn stamp(&mut self, op: &Op) {
        let stamp = self.program.stamps.get(op.slot as usize).filter(|s| is_compared(s));
        if let Some(stamp) = stamp {
            let charge = |(path, _): &(String, u64)| {
                let key = self.paths.get(path.as_str()).and_then(|g| self.keys[g.0 as usize]);
                key.map_or(0, |key| self.design.charge(key))
            };
            self.charges.push(stamp.slab.iter().map(charge).collect());
        }
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

    fn differs(&self, step: usize, what: String, found: u64, expected: u64) -> Error {
        Error::Check { design: self.design.name().into(), step, what, found, expected }
    }

    /// Every group's exact charge = Σ over its live objects; every cache's objects are those of the trace.
    fn check(&mut self, step: usize) -> Result<(), Error> {
        let charges = self.model.charges();
        let mut groups = 0;
        for (i, key) in self.keys.iter().enumerate() {
            let (Some(key), true) = (key, self.model.get(GroupId(i as u32)).alive) else { continue };
            let found = self.design.charge(*key);
            if found != charges[i] {
                let what = format!("the charge of group {}", self.program.groups[i].path);
                return Err(self.differs(step, what, found, charges[i]));
            }
            groups += 1;
        }
        for ((usage, expected), cache) in
            self.design.caches().iter().zip(self.model.cache_objects()).zip(&self.program.caches)
        {
            if usage.objects != *expected {
                let what = format!("the number of objects of cache {}", cache.name);
                return Err(self.differs(step, what, usage.objects, *expected));
            }
        }
        self.checks.groups = groups;
        self.checks.model += 1;
        Ok(())
    }
}
