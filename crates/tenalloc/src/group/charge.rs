//! Charging: stock, tree, and the way back.
//!
//! Everything here runs with the lock of one CPU's area held; see [`super`] for why that keeps owners and nodes
//! in place. Only a charge that meets a limit lets go of it, to collect what other CPUs hold in advance.

use super::stock::{BATCH, Slot};
use super::tree::{Node, Path};
use crate::controller::{Inner, Locked};
use crate::error::{Error, Limit, Result};
use crate::page::PAGE;
use core::sync::atomic::Ordering::*;

/// Times that a charge collects the stocks of all CPUs before it gives up. Others may take what it collected.
const RETRIES: u32 = 3;

impl Inner {
    /// Charges `bytes` to the group that `owner` speaks for now and to all its ancestors. Returns that owner's
    /// id, for the object's entry, and the CPU's area, still locked.
    ///
    /// A group removed since the caller looked is no error: the bytes land in its nearest living ancestor.
    #[inline]
    pub(crate) fn charge(&self, owner: u32, bytes: u64) -> Result<(Locked<'_>, u32)> {
        let mut cpu = self.lock_cpu();
        let id = self.owners.resolve(owner);
        if cpu.stock.take(id, bytes) {
            return Ok((cpu, id));
        }
        self.charge_tree(cpu, owner, bytes)
    }

    #[cold]
    fn charge_tree<'a>(&'a self, mut cpu: Locked<'a>, owner: u32, bytes: u64) -> Result<(Locked<'a>, u32)> {
        for attempt in 0.. {
            let id = self.owners.resolve(owner);
            if cpu.stock.take(id, bytes) {
                return Ok((cpu, id));
            }
            let record = self.owners.get(id);
            // SAFETY: a current owner's node is in place while the CPU's lock is held.
            let node = unsafe { &*record.node.load(Acquire) };
            // Whole pages and some more at first; only what is needed where that does not fit.
            let batch = self.batch(bytes);
            let got = charge_up(node, batch).map(|()| batch);
            let got = got.or_else(|_| charge_up(node, bytes).map(|()| bytes));
            match got {
                Ok(got) => {
                    record.charged.fetch_add(got, Relaxed);
                    if got > bytes {
                        self.keep(&mut cpu, id, got - bytes);
                    }
                    return Ok((cpu, id));
                }
                Err((at, current, max)) if attempt == RETRIES => {
                    return Err(Error::Limit(Limit::new(&Path(at), max, current, bytes)));
                }
                Err(_) => {
                    drop(cpu);
                    self.drain_all();
                    cpu = self.lock_cpu();
                }
            }
        }
        unreachable!("the last attempt returns")
    }

    /// What to take from the tree for a charge of `bytes`.
    fn batch(&self, bytes: u64) -> u64 {
        match bytes.checked_next_multiple_of(PAGE as u64) {
            Some(pages) if !self.config.exact_charges => pages + if bytes < BATCH { BATCH } else { 0 },
            _ => bytes,
        }
    }

    /// Gives back what was charged to `owner` for an object, to the group that it speaks for now.
    #[inline]
    pub(crate) fn uncharge(&self, cpu: &mut Locked<'_>, owner: u32, bytes: u64) {
        let record = self.owners.get(owner);
        let id = if record.is_forwarded() { self.owners.hand_over(owner, bytes) } else { owner };
        self.keep(cpu, id, bytes);
    }

    /// Puts bytes that are charged to `owner` into the CPU's stock.
    fn keep(&self, cpu: &mut Locked<'_>, owner: u32, bytes: u64) {
        if self.config.exact_charges {
            return self.return_to_tree(owner, bytes);
        }
        let (evicted, excess) = cpu.stock.give(owner, bytes);
        if let Some(Slot { owner, bytes }) = evicted {
            self.return_to_tree(owner, bytes.into());
        }
        if excess > 0 {
            self.return_to_tree(owner, excess);
        }
    }

    /// Takes `bytes` that were charged through `owner` out of the tree.
    fn return_to_tree(&self, owner: u32, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let record = self.owners.get(owner);
        // SAFETY: the node of an owner with a slot in a stock, or a current one, is in place while the CPU's
        // lock is held: removal drains the slots before the node can go.
        let node = unsafe { &*record.node.load(Acquire) };
        uncharge_up(node, bytes);
        record.charged.fetch_sub(bytes, Release);
    }

    /// Takes `owner`, just forwarded, out of every CPU's stock.
    pub(crate) fn drain_owner(&self, owner: u32) {
        for cpu in 0..self.topology.cpus() {
            let mut area = self.lock_area(cpu);
            while let Some(slot) = area.stock.drain(|o| o == owner) {
                self.return_to_tree(slot.owner, slot.bytes.into());
            }
        }
    }

    /// Empties every CPU's stock into the tree, one CPU at a time.
    pub(crate) fn drain_all(&self) {
        for cpu in 0..self.topology.cpus() {
            let mut area = self.lock_area(cpu);
            while let Some(slot) = area.stock.drain(|_| true) {
                self.return_to_tree(slot.owner, slot.bytes.into());
            }
        }
    }

    /// Bytes charged to `node` and below without what stocks hold in advance: all CPUs' locks are held together
    /// for the reading, each of which is free unless its CPU is in the middle of an operation.
    pub(crate) fn exact(&self, node: &Node) -> u64 {
        self.with_all_cpus(|areas| {
            let mut ahead = 0;
            for slot in areas.flat_map(|area| area.stock.slots()) {
                // SAFETY: as in `return_to_tree`; every CPU's lock is held.
                let owner = unsafe { &*self.owners.get(slot.owner).node.load(Acquire) };
                if owner.is_within(node) {
                    ahead += u64::from(slot.bytes);
                }
            }
            node.counter.current() - ahead
        })
    }
}

/// Charges `node` and its ancestors, or nobody; then returns the one that refused, its `current` and its `max`.
fn charge_up(node: &Node, bytes: u64) -> core::result::Result<(), (&Node, u64, u64)> {
    let mut at = Some(node);
    while let Some(n) = at {
        if let Err((current, max)) = n.counter.try_charge(bytes) {
            let mut undo = node;
            while !core::ptr::eq(undo, n) {
                undo.counter.uncharge(bytes);
                undo = undo.parent().expect("the one that refused is an ancestor");
            }
            return Err((n, current, max));
        }
        at = n.parent();
    }
    Ok(())
}

fn uncharge_up(node: &Node, bytes: u64) {
    let mut at = Some(node);
    while let Some(n) = at {
        n.counter.uncharge(bytes);
        at = n.parent();
    }
}
