//! How ready objects, and what they are charged, come back: to who needs the charge, to a cache that goes, from a group that
//! goes. And what there is of them, for who counts.

use super::room::loosen;
use super::{bytes_of, id, key, owner_of};
use crate::controller::{Area, Inner, Locked};
use crate::group::owner::Used;
use crate::group::tree::Node;
use crate::percpu::{All, Seen};
use crate::slab::cache::Record;
use core::sync::atomic::Ordering::*;

impl Inner {
    /// Uncharges every stack for whose owner `wanted` holds, and leaves it loose; `back` is told whom to return what.
    pub(crate) fn uncharge_ready(
        &self,
        all: &mut All<'_, Area>,
        wanted: impl Fn(u32) -> bool,
        mut back: impl FnMut(u32, u64),
    ) {
        self.uncharge_stacks(all, |stack| wanted(owner_of(stack.key())), &mut back);
    }

    fn uncharge_stacks(
        &self,
        all: &mut All<'_, Area>,
        wanted: impl Fn(Seen) -> bool,
        back: &mut impl FnMut(u32, u64),
    ) {
        for (.., shelf) in all.rows() {
            loop {
                let next = shelf.iter().find(|stack| wanted(*stack)).map(|stack| stack.key());
                let Some(key) = next else { break };
                if let Some(bytes) = loosen(shelf, key) {
                    back(owner_of(key), bytes);
                }
            }
        }
        for node in 0..self.topology.nodes() {
            let mut out = self.depots.take(node, &wanted);
            let Some((.., shelf)) = all.rows().find(|row| row.1 == node) else {
                debug_assert!(out.is_empty(), "a depot is filled by CPUs of its node");
                continue;
            };
            while let Some(bundle) = out.take(|_| true) {
                back(owner_of(bundle.seen().key()), bytes_of(bundle.seen()));
                shelf.loose.push(bundle);
            }
        }
    }

    /// Bytes charged ahead for ready objects of groups in `node` and below.
    pub(crate) fn ready_bytes(&self, all: &All<'_, Area>, node: &Node) -> u64 {
        let mut bytes = 0;
        let mut add = |stack: Seen| {
            // SAFETY: the node of an owner with a stack is in place while an area is held.
            let of = unsafe { &*self.owners.get(owner_of(stack.key())).node.load(Acquire) };
            if of.is_within(node) {
                bytes += bytes_of(stack);
            }
        };
        all.shelves().for_each(|shelf| shelf.iter().for_each(&mut add));
        self.depots.look(add);
        bytes
    }

    /// Objects of `record` that are ready, or were.
    pub(in crate::slab) fn ready_objects(&self, all: &All<'_, Area>, record: &Record) -> u64 {
        let mut objects = 0;
        let mut add = |stack: Seen| {
            if is_of(stack, record) {
                objects += u64::from(stack.len());
            }
        };
        for shelf in all.shelves() {
            shelf.iter().for_each(&mut add);
            shelf.loose.iter().for_each(&mut add);
        }
        self.depots.look(add);
        objects
    }

    /// Takes all objects of `record` that are ready, or were; `back` is told whom to return what, `each` has them with
    /// their node.
    pub(in crate::slab) fn take_ready(
        &self,
        all: &mut All<'_, Area>,
        record: &Record,
        mut back: impl FnMut(u32, u64),
        mut each: impl FnMut(u8, *mut u8),
    ) {
        self.uncharge_stacks(all, |stack| is_of(stack, record), &mut back);
        let of = core::ptr::from_ref(record).cast::<()>();
        for (_, node, _, shelf) in all.rows() {
            shelf.pick_up(
                usize::MAX,
                &self.meta,
                |what| core::ptr::eq(what, of),
                |_, object| {
                    self.disown(record, object);
                    each(node, object);
                },
            );
        }
    }

    /// An object that was ready is nobody's again.
    pub(in crate::slab) fn disown(&self, record: &Record, object: *mut u8) {
        // SAFETY: ready objects are out of their slabs, which are in place.
        let slab = unsafe { self.chunks.run_of(object as usize).as_ref() };
        slab.owners.clear(record.index_of(object as usize - slab.base() as usize));
    }

    /// As [`uncharge_ready`](Self::uncharge_ready) for one owner, who was `used`, and of whom no other CPU has anything: no
    /// stack on its shelf, and none that it left at a depot, since stacks go to that of their own node. What to return.
    #[inline(always)]
    pub(crate) fn uncharge_ready_here(&self, cpu: &mut Locked<'_>, owner: u32, used: &Used) -> u64 {
        if used.may_be_many() {
            return self.uncharge_all_ready_here(cpu, owner);
        }
        let (mut bytes, node) = (0, cpu.node());
        used.each_cache(|number| {
            let key = key(owner, id(number));
            bytes += loosen(cpu.shelf(), key).unwrap_or(0);
            while let Some(bundle) = self.depots.withdraw_any(node, key) {
                bytes += bytes_of(bundle.seen());
                cpu.shelf().loose.push(bundle);
            }
        });
        bytes
    }

    /// The same, where it takes less to look at all that is ready.
    #[cold]
    fn uncharge_all_ready_here(&self, cpu: &mut Locked<'_>, owner: u32) -> u64 {
        let mut bytes = 0;
        loop {
            let next = cpu.shelf().iter().map(|stack| stack.key()).find(|key| owner_of(*key) == owner);
            let Some(key) = next else { break };
            bytes += loosen(cpu.shelf(), key).unwrap_or(0);
        }
        let mut left = self.depots.take(cpu.node(), |stack| owner_of(stack.key()) == owner);
        while let Some(bundle) = left.take(|_| true) {
            bytes += bytes_of(bundle.seen());
            cpu.shelf().loose.push(bundle);
        }
        bytes
    }
}

fn is_of(stack: Seen, record: &Record) -> bool {
    core::ptr::eq(stack.of, core::ptr::from_ref(record).cast())
}
