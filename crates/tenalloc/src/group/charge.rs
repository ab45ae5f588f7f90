//! Charging: stock, tree, and the way back.
//!
//! Everything here runs with the lock of one CPU's area held; see [`super`] for why that keeps owners and nodes
//! in place. Only a charge that meets a limit lets go of it, to collect what other CPUs hold in advance.

use super::knobs::{self, Event};
use super::stock::{BATCH, Slot, TABLE};
use super::tree::{Node, Path};
use super::{Group, throttle};
use crate::controller::{Controller, Inner, Locked};
use crate::error::{CHILDREN, Child, Error, Limit, Result};
use crate::page::PAGE;
use crate::reclaim::Verdict;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::*;

/// Times that a charge makes room and tries again before it gives up. Others may take what it made (Linux:
/// MAX_RECLAIM_RETRIES).
const RETRIES: u32 = 16;

impl Inner {
    /// Charges `bytes` to the group that `owner` speaks for now and to all its ancestors. Returns that owner's
    /// id, for the object's entry, and the CPU's area, still locked.
    ///
    /// A group removed since the caller looked is no error: the bytes land in its nearest living ancestor.
    #[inline]
    pub(crate) fn charge(&self, owner: u32, bytes: u64) -> Result<(Locked<'_>, u32)> {
        self.charge_on(self.lock_cpu(), owner, bytes)
    }

    /// As [`charge`](Self::charge), for who has the area already.
    #[inline]
    pub(crate) fn charge_on<'a>(
        &'a self,
        mut cpu: Locked<'a>,
        owner: u32,
        bytes: u64,
    ) -> Result<(Locked<'a>, u32)> {
        let id = self.owners.resolve(owner);
        if cpu.stock.take(id, bytes) {
            return Ok((cpu, id));
        }
        self.charge_tree(cpu, owner, bytes)
    }

    #[cold]
    fn charge_tree<'a>(&'a self, mut cpu: Locked<'a>, owner: u32, bytes: u64) -> Result<(Locked<'a>, u32)> {
        let mut tries = 0;
        loop {
            let id = self.owners.resolve(owner);
            if cpu.stock.take(id, bytes) {
                return Ok((cpu, id));
            }
            let record = self.owners.get(id);
            if !record.enter(cpu.cpu()) {
                continue;
            }
            // SAFETY: the node of an owner that this CPU entered is in place while its lock is held.
            let node = unsafe { &*record.node.load(Acquire) };
            // Whole pages and some more at first; only what is needed where that does not fit.
            let batch = self.batch(&cpu, bytes);
            let got = self.charge_up(node, batch).map(|()| batch);
            let got = got.or_else(|_| self.charge_up(node, bytes).map(|()| bytes));
            match got {
                Ok(mut got) => {
                    if got > bytes && over_high(node).is_some() {
                        // What is charged in advance slows nobody down.
                        self.uncharge_up(node, got - bytes);
                        got = bytes;
                    }
                    cpu.returned = true; // a batch that was refused, or a slot that made way
                    record.charged.fetch_add(got, Relaxed);
                    if got > bytes {
                        self.keep(&mut cpu, id, got - bytes);
                    }
                    if let Some(over) = over_high(node) {
                        self.tree.hold(over);
                        cpu.over_high = Some((NonNull::from(over), got));
                    }
                    return Ok((cpu, id));
                }
                Err(Refused::Frozen) => {
                    drop(cpu);
                    self.settle();
                    return Err(Error::Frozen);
                }
                Err(Refused::Max { at, current, max }) => {
                    self.tree.hold(at);
                    let group = Group::from_held(&Controller::of(self), NonNull::from(at));
                    drop(cpu);
                    self.settle();
                    if !self.make_room(&group, bytes, tries) {
                        let children = largest(&group);
                        return Err(Error::Limit(Limit::new(&Path(at), max, current, bytes, children)));
                    }
                    tries += 1;
                    cpu = self.lock_cpu();
                }
            }
        }
    }

    /// Makes room below the `max` of `group`: first what CPUs hold in advance, then what shrinkers give, then what
    /// the out-of-memory policy does. False: give up.
    fn make_room(&self, group: &Group, bytes: u64, tries: u32) -> bool {
        if tries == 0 {
            self.drain_within(group.node());
            return true;
        }
        if tries == 1 {
            knobs::count(group.node(), Event::Max);
        }
        if tries > RETRIES || self.reclaimers.inside() {
            return false;
        }
        let got = self.reclaim(group, bytes.max(BATCH));
        let helped = got.bytes > 0 || got.freed > 0 || {
            knobs::count(group.node(), Event::Oom);
            self.config.oom.is_some_and(|policy| policy.out_of_memory(group, bytes) == Verdict::Retry)
        };
        self.drain_within(group.node());
        helped
    }

    /// After a charge above `high`: reclaims, and if that does not help and it may, waits in proportion to the overage.
    /// What is not worth a wait is left to the background, if somebody is there.
    #[cold]
    pub(crate) fn throttle(&self, (group, charged): (Group, u64), sleep: bool) {
        if self.reclaimers.inside() {
            return;
        }
        let high = group.high();
        // Not what CPUs hold in advance.
        self.drain_within(group.node());
        if group.current() <= high {
            return;
        }
        knobs::count(group.node(), Event::High);
        let delay = || throttle::delay(group.current(), high, charged);
        if self.tell_reclaimers(group.node()) && delay().is_zero() {
            return;
        }
        self.reclaim(&group, group.current().saturating_sub(high));
        self.drain_within(group.node());
        if sleep && self.config.sleep {
            throttle::sleep(delay());
        }
    }

    /// Charges `bytes` to the group of `owner` whatever its limits are.
    pub(crate) fn charge_forced(&self, owner: u32, bytes: u64) {
        let cpu = self.lock_cpu();
        let id = self.owners.enter(owner, cpu.cpu());
        let record = self.owners.get(id);
        // SAFETY: as in `charge_tree`.
        let mut at = Some(unsafe { &*record.node.load(Acquire) });
        while let Some(node) = at {
            node.counter.force(bytes);
            at = node.parent();
        }
        record.charged.fetch_add(bytes, Relaxed);
        self.forced_bytes.fetch_add(bytes, Relaxed);
        if id != owner {
            self.owners.hand_back(owner, id, bytes);
        }
        drop(cpu);
    }

    /// Charges `node` and its ancestors, or nobody.
    fn charge_up<'a>(&self, node: &'a Node, bytes: u64) -> core::result::Result<(), Refused<'a>> {
        let mut at = Some(node);
        while let Some(n) = at {
            let refused = if n.frozen.load(Relaxed) {
                Some(Refused::Frozen)
            } else {
                n.counter.try_charge(bytes).err().map(|(current, max)| Refused::Max { at: n, current, max })
            };
            if let Some(refused) = refused {
                let mut undo = Some(node);
                while let Some(u) = undo.filter(|u| !core::ptr::eq(*u, n)) {
                    u.counter.uncharge(bytes);
                    undo = u.parent();
                }
                self.look_below(node);
                return Err(refused);
            }
            at = n.parent();
        }
        Ok(())
    }

    fn uncharge_up(&self, node: &Node, bytes: u64) {
        let mut at = Some(node);
        while let Some(n) = at {
            n.counter.uncharge(bytes);
            at = n.parent();
        }
        self.look_below(node);
    }

    /// What to take from the tree for a charge of `bytes`.
    fn batch(&self, cpu: &Locked<'_>, bytes: u64) -> u64 {
        let more = cpu.stock.batch();
        match bytes.checked_next_multiple_of(PAGE as u64) {
            Some(pages) if !self.config.exact_charges => pages + if bytes < more { more } else { 0 },
            _ => bytes,
        }
    }

    /// Charges `bytes` ahead to `owner`, who is current, if that needs nobody's help and leaves its groups below `high`.
    pub(crate) fn charge_ahead(&self, cpu: &mut Locked<'_>, owner: u32, bytes: u64) -> bool {
        if cpu.stock.take(owner, bytes) {
            return true;
        }
        let record = self.owners.get(owner);
        if !record.enter(cpu.cpu()) {
            return false;
        }
        // SAFETY: as in `charge_tree`.
        let node = unsafe { &*record.node.load(Acquire) };
        let batch = self.batch(cpu, bytes);
        if self.charge_up(node, batch).is_err() {
            return false;
        }
        if over_high(node).is_some() {
            self.uncharge_up(node, batch);
            return false;
        }
        cpu.returned = true;
        record.charged.fetch_add(batch, Relaxed);
        self.keep(cpu, owner, batch - bytes);
        true
    }

    /// Gives back what was charged to `owner` for an object, to the group that it speaks for now.
    #[inline]
    pub(crate) fn uncharge(&self, cpu: &mut Locked<'_>, owner: u32, bytes: u64) {
        let mut id = owner;
        while !self.owners.get(id).enter(cpu.cpu()) {
            id = self.owners.hand_over(id, bytes);
        }
        self.keep(cpu, id, bytes);
    }

    /// Puts bytes that are charged to `owner`, which this CPU entered, into the CPU's stock.
    fn keep(&self, cpu: &mut Locked<'_>, owner: u32, bytes: u64) {
        if self.config.exact_charges || cpu.waited && self.passes_stock(cpu, owner) {
            cpu.returned = true;
            return self.return_to_tree(owner, bytes);
        }
        let (evicted, excess) = cpu.stock.give(owner, bytes);
        if let Some(Slot { owner, bytes }) = evicted {
            cpu.returned = true;
            self.return_to_tree(owner, bytes.into());
        }
        if excess > 0 {
            cpu.returned = true;
            self.return_to_tree(owner, excess);
        }
        if cpu.stock.is_crowded() {
            self.grow_stock(cpu);
        }
    }

    /// Gives a crowded stock its table; without memory for it, it stays as it is.
    #[cold]
    fn grow_stock(&self, cpu: &mut Locked<'_>) {
        if let Some(table) = self.meta.alloc(TABLE) {
            cpu.stock.grow(table, |slot| self.return_to_tree(slot.owner, slot.bytes.into()));
            cpu.returned = true;
        }
    }

    /// Whether bytes of `owner` are not kept in stocks, because somebody waits for its group or an ancestor to fall.
    #[cold]
    fn passes_stock(&self, cpu: &mut Locked<'_>, owner: u32) -> bool {
        if self.signals.waiters.load(SeqCst) == 0 {
            cpu.waited = false; // who comes next says so again, under this lock
            return false;
        }
        // SAFETY: as in `return_to_tree`.
        self.is_waited_for(unsafe { &*self.owners.get(owner).node.load(Acquire) })
    }

    /// Takes `bytes` that were charged through `owner` out of the tree.
    #[cold]
    pub(crate) fn return_to_tree(&self, owner: u32, bytes: u64) {
        self.return_to_tree_inline(owner, bytes);
    }

    /// The same for who goes on with other code then: not in a function of its own.
    #[inline(always)]
    pub(super) fn return_to_tree_inline(&self, owner: u32, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let record = self.owners.get(owner);
        // SAFETY: the node of an owner that a CPU entered is in place while the lock of that CPU is held: removal visits
        // it before the node can go. Only CPUs that entered an owner keep something of it.
        let node = unsafe { &*record.node.load(Acquire) };
        self.uncharge_up(node, bytes);
        record.charged.fetch_sub(bytes, Release);
    }
}

/// Why a charge was refused.
enum Refused<'a> {
    Max { at: &'a Node, current: u64, max: u64 },
    Frozen,
}

/// The first group from `node` upwards that is above its `high`.
pub(crate) fn over_high(node: &Node) -> Option<&Node> {
    let mut at = Some(node);
    while let Some(n) = at {
        if n.knobs().is_some_and(|k| n.counter.current() > k.high.load(Relaxed)) {
            return Some(n);
        }
        at = n.parent();
    }
    None
}

/// The children of a group that hold most, for an error message.
fn largest(group: &Group) -> [Child; CHILDREN] {
    let mut top = [Child::default(); CHILDREN];
    for child in group.children() {
        let current = child.current();
        if let Some(at) = top.iter().position(|c| c.current < current) {
            top[at..].rotate_right(1);
            top[at] = Child::new(child.name(), current);
        }
    }
    top
}
