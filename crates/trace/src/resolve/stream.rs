//! Takes one event after the other and writes the steps of the program.

use super::caches::{Caches, LARGEST_KMALLOC, Origin, TooMany};
use super::groups::Groups;
use super::lists::{Listed, Lists};
use super::moved::{self, Moved};
use super::nodes::Nodes;
use super::objects::{Object, Objects, Step};
use super::sites::{Role, Sites};
use super::tasks::Tasks;
use crate::error::Error;
use crate::program::{CacheId, Counts, GroupId, Op, OpKind};
use crate::read::Sink;
use crate::read::event::{Alloc, Event, Kind, Name, Names};
use crate::sidecar::Sidecar;
use crate::sidecar::stamps::RawStamp;
use hashbrown::HashMap;

/// A slab has at most 2^10 pages of 64 KiB.
const LARGEST_OBJECT: u32 = 64 << 20;

/// What is known so far.
pub(crate) struct Resolver {
    pub(super) caches: Caches,
    pub(super) groups: Groups,
    pub(super) tasks: Tasks,
    pub(super) nodes: Nodes,
    pub(super) objects: Objects,
    pub(super) counts: Counts,
    pub(super) ops: Vec<Op>,
    pub(super) peak_op: usize,
    /// Objects gone without a name: their op and origin.
    pub(super) unnamed: Vec<(u32, Origin)>,
    /// Steps taken back: unmounts that failed.
    pub(super) cancelled: Vec<u32>,
    pub(super) stamps: Vec<RawStamp>,
    pub(super) next_stamp: usize,
    pub(super) samples: Vec<u64>,
    pub(super) times: Option<(u64, u64)>,
    pub(super) unknown_owner: u64,
    pub(super) outside_nodes: u64,
    pub(super) bad_paths: u64,
    pub(super) odd_sizes: u64,
    pub(super) replaced_groups: u64,
    pub(super) ours: u64,
    pub(super) other_hierarchy: u64,
    pub(super) highest_cpu: u16,
    pub(super) too_many: bool,
    pub(super) charged: Vec<bool>,
    pub(super) hierarchy: i32,
    pub(super) sites: Sites,
    pub(super) lists: Lists,
    /// While it is not known where the tasks that moved at the start were before.
    pub(super) moved: Option<Moved>,
    /// Until then pids.tsv was being made, clock of the recording.
    pub(super) reading_ends: Option<u64>,
    /// Objects of a group in the making, by the task that makes it.
    pub(super) making: HashMap<i32, Vec<u32>>,
    pub(super) mounting: HashMap<i32, u64>,
    pub(super) unmounting: HashMap<i32, u32>,
    pub(super) mounts: u32,
    pub(super) unmounts: u32,
}

impl Sink for Resolver {
    #[inline]
    fn event(&mut self, e: &Event, names: &Names) {
        if let Some(moved) = &mut self.moved {
            if moved.holds(e, names, self.hierarchy) {
                return;
            }
            self.release(names);
        }
        self.take(e, names);
    }

    fn symbol(&mut self, site: u64, symbol: &str) {
        self.sites.add(site, symbol);
    }

    fn end(&mut self, names: &Names) {
        self.release(names);
    }
}

impl Resolver {
    /// Begin with what the sidecars tell.
    pub(crate) fn new(side: &mut Sidecar) -> Result<Self, Error> {
        let mut r = Self {
            caches: Caches::new(side.geometry.take()),
            groups: Groups::default(),
            tasks: Tasks::default(),
            nodes: Nodes::new(side.recording.direct_map_base()?, std::mem::take(&mut side.ranges)),
            objects: Objects::default(),
            counts: Counts::default(),
            ops: Vec::new(),
            peak_op: 0,
            unnamed: Vec::new(),
            cancelled: Vec::new(),
            stamps: std::mem::take(&mut side.stamps),
            next_stamp: 0,
            samples: Vec::new(),
            times: None,
            unknown_owner: 0,
            outside_nodes: 0,
            bad_paths: 0,
            odd_sizes: 0,
            replaced_groups: 0,
            ours: 0,
            other_hierarchy: 0,
            highest_cpu: 0,
            too_many: false,
            charged: Vec::new(),
            hierarchy: side.recording.memory_hierarchy.unwrap_or(0),
            sites: Sites::default(),
            lists: Lists::default(),
            moved: Moved::new(side),
            reading_ends: moved::reading_ends(side),
            making: HashMap::new(),
            mounting: HashMap::new(),
            unmounting: HashMap::new(),
            mounts: 0,
            unmounts: 0,
        };
        match (&side.sites, &side.functions) {
            (Some(sites), _) => sites.iter().for_each(|(address, symbol)| r.sites.add(*address, symbol)),
            (None, Some(functions)) => r.sites.add_functions(functions),
            (None, None) => {}
        }
        for (tid, path) in side.tasks.iter().flatten() {
            match r.groups.named(path, 0) {
                Some(group) => r.tasks.put(*tid, group),
                None => r.bad_paths += 1,
            }
        }
        if r.nodes.known() {
            r.counts.by_node = vec![0; usize::from(r.nodes.count())];
        }
        Ok(r)
    }

    /// The next event, in its turn.
    #[inline]
    pub(super) fn take(&mut self, e: &Event, names: &Names) {
        match self.samples.get_mut(usize::from(e.sample)) {
            Some(n) => *n += 1,
            None => {
                self.samples.resize(usize::from(e.sample) + 1, 0);
                self.samples[usize::from(e.sample)] = 1;
            }
        }
        let (first, last) = self.times.get_or_insert((e.time, e.time));
        if e.time < *last {
            self.counts.out_of_order += 1;
            *first = (*first).min(e.time);
        }
        *last = (*last).max(e.time);
        let time = e.time.saturating_sub(*first);
        self.highest_cpu = self.highest_cpu.max(e.cpu);
        while self.stamps.get(self.next_stamp).is_some_and(|s| e.time > s.time) {
            self.stamp();
        }
        match e.kind {
            Kind::Alloc(a) if a.ptr != 0 => {
                if self.alloc(e, time, &a, names).is_err() {
                    self.too_many = true;
                }
            }
            Kind::Free { ptr, name } if ptr != 0 => {
                if self.free(e, time, ptr, name, names).is_err() {
                    self.too_many = true;
                }
            }
            Kind::Alloc(_) | Kind::Free { .. } | Kind::Other => {}
            Kind::Fork { parent, child } => self.tasks.fork(parent, child),
            Kind::Exit => self.tasks.exit(e.tid),
            _ => self.rare(e, time, names),
        }
    }

    /// The kernel's counters were read before the next event.
    pub(super) fn stamp(&mut self) {
        let start = self.times.map_or(0, |t| t.0);
        let at = self.stamps.get(self.next_stamp).map_or(0, |s| s.time.saturating_sub(start));
        self.push(at, self.next_stamp as u32, GroupId::NOBODY, 0, OpKind::Stamp);
        self.next_stamp += 1;
    }

    fn alloc(&mut self, e: &Event, time: u64, a: &Alloc, names: &Names) -> Result<(), TooMany> {
        self.counts.allocations += 1;
        self.counts.interrupt += u64::from(e.interrupt);
        self.counts.explicit_node += u64::from(a.node >= 0);
        self.counts.accounted += u64::from(a.accounted);
        let large = a.kmalloc && a.size > LARGEST_KMALLOC;
        self.counts.large += u64::from(large);
        // Rule 7: our designs bring their own.
        let role = self.sites.role(a.site);
        let vector = role == Role::OwnerVector;
        self.counts.owner_vectors += u64::from(vector);
        let node = self.nodes.of(a.ptr);
        match node {
            Some(n) => {
                if let Some(c) = self.counts.by_node.get_mut(usize::from(n)) {
                    *c += 1;
                }
            }
            None => self.outside_nodes += u64::from(self.nodes.known()),
        }
        // Rule 5.
        if let Some(old) = self.objects.remove(a.ptr) {
            self.counts.hidden_frees += 1;
            self.gone(e, time, &old, OpKind::HiddenFree);
        }
        let listed = self.lists.alloc(role, e.tid, a.site);
        self.counts.list_heads += u64::from(role == Role::ListHead);
        self.counts.list_arrays.0 += u64::from(listed == Listed::Array);
        self.counts.list_arrays.1 += u64::from(role == Role::ListGrowth);
        let own = matches!(listed, Listed::Own | Listed::Array | Listed::Use(_));
        self.counts.own += u64::from(own);
        let in_making = a.accounted && role == Role::NewGroup;
        let group = match (a.accounted, in_making) {
            (false, _) => GroupId::NOBODY,
            (true, true) => GroupId::UNKNOWN,
            (true, false) => self.owner(e),
        };
        let mut object =
            Object { step: None, origin: None, size: a.size, accounted: a.accounted, own, superblock: None };
        let odd = !large && !(1..=LARGEST_OBJECT).contains(&a.size);
        self.odd_sizes += u64::from(odd);
        let kept = !large && !vector && !odd;
        if kept {
            let cache = match (a.kmalloc, a.name) {
                (true, _) => self.caches.kmalloc(a)?,
                (false, Some(name)) => self.caches.named(name, a.size, names)?,
                (false, None) => {
                    object.origin = Some(self.caches.origin(a));
                    CacheId(0)
                }
            };
            let step = Step { op: self.ops.len() as u32, slot: self.objects.slot() };
            object.step = Some(step);
            let node = node.unwrap_or(0);
            let asked = u8::try_from(a.node).unwrap_or(Op::ANY_NODE);
            let (slot, cpu, kind) = (step.slot, e.cpu, OpKind::Alloc);
            self.ops.push(Op { time, slot, group, cache, cpu, node, asked, own, kind });
            if in_making {
                self.making.entry(e.tid).or_default().push(step.op);
            }
        }
        if a.accounted && !in_making {
            self.charge(group);
        }
        if listed == Listed::Super {
            object.superblock = u32::try_from(self.counts.supers).ok();
        }
        self.objects.insert(a.ptr, object);
        self.objects.all.peaked();
        self.objects.accounted.peaked();
        if kept && self.objects.program.peaked() {
            self.peak_op = self.ops.len() - 1;
        }
        if role != Role::Other {
            self.list_step(e, time, listed);
        }
        Ok(())
    }

    fn free(
        &mut self,
        e: &Event,
        time: u64,
        ptr: u64,
        name: Option<Name>,
        names: &Names,
    ) -> Result<(), TooMany> {
        let Some(mut object) = self.objects.remove(ptr) else {
            // Rule 6: older than the recording.
            self.counts.unseen_frees += 1;
            return Ok(());
        };
        self.counts.matched_frees += 1;
        if let (Some(name), Some(origin), Some(step)) = (name, object.origin, object.step) {
            let cache = self.caches.named(name, object.size, names)?;
            self.caches.vote(origin, cache);
            if let Some(op) = self.ops.get_mut(step.op as usize) {
                op.cache = cache;
            }
            object.origin = None;
        }
        self.gone(e, time, &object, OpKind::Free);
        Ok(())
    }

    /// An object is no more.
    fn gone(&mut self, e: &Event, time: u64, object: &Object, kind: OpKind) {
        if let Some(step) = object.step {
            self.push(time, step.slot, GroupId::NOBODY, e.cpu, kind);
            if let Some(origin) = object.origin {
                self.unnamed.push((step.op, origin));
            }
        }
        if let Some(n) = object.superblock {
            self.lists.supers = self.lists.supers.saturating_sub(1);
            self.push(time, n, GroupId::NOBODY, e.cpu, OpKind::SuperGone);
        }
    }

    /// Rule 3, for all but a new group's own structures.
    pub(super) fn owner(&self, e: &Event) -> GroupId {
        if e.interrupt {
            return GroupId::INTERRUPT;
        }
        let group = self.tasks.owner(e.tid);
        if group < GroupId::FIRST { group } else { self.groups.living(group) }
    }

    /// Count an accounted allocation.
    pub(super) fn charge(&mut self, group: GroupId) {
        if group == GroupId::UNKNOWN {
            self.unknown_owner += 1;
        } else if group >= GroupId::FIRST {
            self.counts.charged += 1;
            let i = group.0 as usize;
            if self.charged.len() <= i {
                self.charged.resize(i + 1, false);
            }
            if let Some(c) = self.charged.get_mut(i).filter(|c| !**c) {
                *c = true;
                self.counts.groups_charged += 1;
            }
        }
    }

    #[inline]
    pub(super) fn push(&mut self, time: u64, slot: u32, group: GroupId, cpu: u16, kind: OpKind) {
        let (cache, asked) = (CacheId(0), Op::ANY_NODE);
        self.ops.push(Op { time, slot, group, cache, cpu, node: 0, asked, own: false, kind });
    }
}
