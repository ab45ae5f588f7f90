//! A program, step by step.

use tenalloc_trace::Program;
use tenalloc_trace::program::{Cache, CacheId, Group, GroupId, Op, OpKind, Stamp};

pub(in crate::run) const ROOT: GroupId = GroupId::ROOT;
pub(in crate::run) const NOBODY: GroupId = GroupId::NOBODY;
pub(in crate::run) const UNKNOWN: GroupId = GroupId::UNKNOWN;
pub(in crate::run) const INTERRUPT: GroupId = GroupId::INTERRUPT;

/// Two CPUs and two nodes; time stands still until it is set.
#[derive(Clone)]
pub(in crate::run) struct Build {
    program: Program,
    time: u64,
    cpu: u16,
    node: u8,
    live: u64,
    peak: u64,
    held: Vec<u64>,
}

impl Build {
    pub(in crate::run) fn new(slot_sizes: &[u32]) -> Self {
        let row = |path: &str, charged| Group {
            path: path.into(),
            parent: None,
            charged,
            created: None,
            removed: None,
        };
        let cache = |(i, slot_size): (usize, &u32)| Cache {
            name: format!("cache-{i}"),
            aliases: Vec::new(),
            slot_size: *slot_size,
            geometry: None,
        };
        let program = Program {
            page_size: 4096,
            cpus: 2,
            nodes: 2,
            cpu_node: vec![0, 1],
            caches: slot_sizes.iter().enumerate().map(cache).collect(),
            groups: vec![
                row("/", false),
                row("(unknown)", true),
                row("(interrupt)", false),
                row("(exited)", false),
            ],
            ..Program::default()
        };
        Self { program, time: 0, cpu: 0, node: 0, live: 0, peak: 0, held: Vec::new() }
    }

    /// A group, not made yet.
    pub(in crate::run) fn group(&mut self, parent: GroupId, path: &str) -> GroupId {
        let id = GroupId(self.program.groups.len() as u32);
        let parent = Some(parent);
        let group = Group { path: path.into(), parent, charged: true, created: None, removed: None };
        self.program.groups.push(group);
        id
    }

    /// A group, made now.
    pub(in crate::run) fn made(&mut self, parent: GroupId, path: &str) -> GroupId {
        let id = self.group(parent, path);
        self.step(OpKind::Create, 0, id, 0);
        id
    }

    pub(in crate::run) fn at(&mut self, time: u64) -> &mut Self {
        self.time = time;
        self
    }

    pub(in crate::run) fn on(&mut self, cpu: u16, node: u8) -> &mut Self {
        (self.cpu, self.node) = (cpu, node);
        self
    }

    /// A group that stood before the recording.
    pub(in crate::run) fn older(&mut self, parent: GroupId, path: &str) -> GroupId {
        let id = self.made(parent, path);
        self.program.groups[id.0 as usize].created = None;
        id
    }

    pub(in crate::run) fn step(&mut self, kind: OpKind, slot: u32, group: GroupId, cache: u16) -> &mut Self {
        if let (OpKind::Create, Some(made)) = (kind, self.program.groups.get_mut(group.0 as usize)) {
            made.created = Some(self.time);
        }
        let cache = CacheId(cache);
        self.program.ops.push(Op {
            time: self.time,
            slot,
            group,
            cache,
            cpu: self.cpu,
            node: self.node,
            asked: self.node,
            own: false,
            kind,
        });
        self
    }

    pub(in crate::run) fn alloc(&mut self, slot: u32, cache: u16, group: GroupId) -> &mut Self {
        let size = u64::from(self.program.caches[usize::from(cache)].slot_size);
        self.held.resize(self.held.len().max(slot as usize + 1), 0);
        self.held[slot as usize] = size;
        self.live += size;
        if self.live > self.peak {
            (self.peak, self.program.peak_op) = (self.live, self.program.ops.len());
        }
        self.step(OpKind::Alloc, slot, group, cache)
    }

    pub(in crate::run) fn free(&mut self, slot: u32) -> &mut Self {
        self.live -= std::mem::take(&mut self.held[slot as usize]);
        self.step(OpKind::Free, slot, NOBODY, 0)
    }

    pub(in crate::run) fn remove(&mut self, group: GroupId) -> &mut Self {
        self.step(OpKind::Remove, 0, group, 0)
    }

    /// The kernel's counters are read now.
    pub(in crate::run) fn stamp(&mut self, label: &str, slab: &[(&str, u64)]) -> &mut Self {
        let slab = slab.iter().map(|(path, bytes)| ((*path).to_owned(), *bytes)).collect();
        let slot = self.program.stamps.len() as u32;
        self.program.stamps.push(Stamp { label: label.into(), time: self.time, slab });
        self.step(OpKind::Stamp, slot, NOBODY, 0)
    }

    /// The program, with a length.
    pub(in crate::run) fn end(&mut self, length_ns: u64) -> Program {
        let slots = self.held.len() as u32;
        Program { length_ns, slots, ..self.program.clone() }
    }
}
