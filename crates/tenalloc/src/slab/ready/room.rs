//! How much is kept ready, and for whom: when a stack grows, when it is left at the node's depot or had from there, and which
//! one goes.

use super::{
    ALWAYS_ON_SHELF, FIRST, IDLE, LARGEST, LARGEST_BYTES, LEAD_OF_FULL, NONE, ON_SHELF, OVER, SHARE,
    WORTH_IT, bytes_of, charge_of, depot, key, owner_of, set_of,
};
use crate::controller::{Inner, Locked};
use crate::group::charge::over_high;
use crate::group::tree::Node;
use crate::percpu::{Bundle, Shelf, rounded};
use crate::slab::cache::Record;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::*;

impl Inner {
    /// Has the full stack of `key` hold more, or puts an empty one in its place. False: that is not worth it, or not allowed.
    pub(super) fn make_more_room(&self, cpu: &mut Locked<'_>, record: &Record, key: u64) -> bool {
        let node = cpu.node();
        let Some(mut stack) = cpu.shelf().find(set_of(key), key) else { return false };
        if stack.note.wanted > 0 {
            stack.note.wanted -= 1;
        } else if !self.depots.was_missed(node, key) {
            return false;
        }
        self.may_keep(key) && (self.grow(cpu, record, key) || self.exchange_full(cpu, record, key))
    }

    /// Whether more may be kept ready for the owner of `key`, who is current: none of his groups is frozen or above its
    /// `high`, where what is free has to go back.
    pub(super) fn may_keep(&self, key: u64) -> bool {
        // SAFETY: the CPU entered the owner, whose node is in place while its lock is held.
        let node = unsafe { &*self.owners.get(owner_of(key)).node.load(Acquire) };
        let frozen = core::iter::successors(Some(node), |node| node.parent()).any(Node::is_frozen);
        !frozen && over_high(node).is_none()
    }

    /// Has a full stack hold more. False: it may not.
    fn grow(&self, cpu: &mut Locked<'_>, record: &Record, key: u64) -> bool {
        let set = set_of(key);
        let Some(was) = cpu.shelf().find(set, key).map(|stack| stack.limit()) else { return false };
        let limit = rounded(was * 2);
        let more = u64::from(limit - was) * record.charge;
        let may = limit <= largest(record)
            && (self.may_hold(cpu, more)
                || cpu.shelf().vote(set, key) >= LEAD_OF_FULL && self.put_others_out(cpu, key, more));
        let grown = may && cpu.shelf().resize(set, key, limit, &self.meta);
        if grown {
            cpu.shelf().bytes += more;
        }
        grown
    }

    /// Leaves a full stack at the depot for an empty one.
    fn exchange_full(&self, cpu: &mut Locked<'_>, record: &Record, key: u64) -> bool {
        let (set, node) = (set_of(key), cpu.node());
        let Some((limit, of)) = cpu.shelf().find(set, key).map(|stack| (stack.limit(), stack.of)) else {
            return false;
        };
        let most = self.share(depot::ALWAYS, depot::MOST, self.topology.nodes().into());
        // Others are not put out for a few objects.
        if limit < WORTH_IT && !self.depots.have_room(node, u64::from(limit) * record.charge, most) {
            return false;
        }
        let Some(empty) = Bundle::create(limit, of, key, &self.meta) else { return false };
        let Some(full) = cpu.shelf().replace(set, key, empty) else { return false };
        let mut out = self.depots.deposit(node, full.leave(cpu.cpu()), most);
        while let Some(old) = out.take(|_| true) {
            let (owner, bytes) = (owner_of(old.seen().key()), bytes_of(old.seen()));
            cpu.shelf().loose.push(old);
            self.uncharge(cpu, owner, bytes);
        }
        true
    }

    /// An object for `owner` out of a stack that the depot had, and that is on this CPU's shelf now.
    pub(in crate::slab) fn alloc_from_depot(
        &self,
        cpu: &mut Locked<'_>,
        record: &Record,
        owner: u32,
    ) -> Option<NonNull<u8>> {
        if record.ready == NONE {
            return None;
        }
        let key = key(owner, record.ready);
        let set = set_of(key);
        let (len, limit) = cpu.shelf().find(set, key).map(|stack| (stack.len(), stack.limit()))?;
        if len == 0 {
            let full = self.depots.withdraw(cpu.node(), cpu.cpu(), key, || {
                // What it holds then counts here: as much as a stack may, at worst.
                let more = u64::from(largest(record).saturating_sub(limit)) * record.charge;
                self.may_hold(cpu, more)
            })?;
            let shelf = cpu.shelf();
            if let Some(mut stack) = shelf.find(set, key) {
                stack.note.wanted = stack.note.wanted.saturating_add(1);
            }
            shelf.bytes += u64::from(full.stack().limit()) * record.charge;
            shelf.bytes -= u64::from(limit) * record.charge;
            shelf.replace(set, key, full)?.free(&self.meta);
        }
        cpu.shelf().find(set, key)?.pop()
    }

    /// Whether the stacks of a CPU may hold `more` bytes.
    pub(super) fn may_hold(&self, cpu: &mut Locked<'_>, more: u64) -> bool {
        let share = self.share(ALWAYS_ON_SHELF, ON_SHELF, self.topology.cpus().into());
        let shelf = cpu.shelf();
        shelf.held + more / 2 <= share && shelf.bytes + more <= (OVER * share).min(ON_SHELF)
    }

    /// As [`may_hold`](Self::may_hold), after others than that of `key` were given up, as their turn comes.
    pub(super) fn put_others_out(&self, cpu: &mut Locked<'_>, key: u64, more: u64) -> bool {
        cpu.shelf().end_vote(set_of(key));
        for _ in 0..4 {
            if self.may_hold(cpu, more) {
                return true;
            }
            match cpu.shelf().turn() {
                Some(old) if old != key => self.give_up(cpu, old),
                _ => {}
            }
        }
        false
    }

    /// What one of `of` may hold ready, bytes.
    fn share(&self, least: u64, most: u64, of: u64) -> u64 {
        ((least + self.root_node().counter.current() / SHARE) / of).min(most)
    }

    /// Takes a stack off the CPU's shelf; what was charged ahead for it goes into the CPU's stock.
    pub(super) fn give_up(&self, cpu: &mut Locked<'_>, key: u64) {
        if let Some(bytes) = loosen(cpu.shelf(), key) {
            self.uncharge(cpu, owner_of(key), bytes);
        }
    }

    /// Looks at the next stack on the CPU's shelf, but that of `mine`: one that was as long each of the last times was not used
    /// in between, most likely, and goes. So a group that fell idle keeps nothing for long where others are busy.
    pub(super) fn look_round(&self, cpu: &mut Locked<'_>, mine: u64) {
        count(cpu.shelf(), mine);
        if let Some(mut stack) = cpu.shelf().find(set_of(mine), mine) {
            // A miss is a use, although it finds the stack as it was.
            stack.note.idle = 0;
        }
        let Some(key) = cpu.shelf().turn().filter(|key| *key != mine) else { return };
        let differs = count(cpu.shelf(), key);
        let Some(mut stack) = cpu.shelf().find(set_of(key), key) else { return };
        if differs {
            stack.note.idle = 0;
        } else if stack.note.idle < IDLE {
            stack.note.idle += 1;
        } else {
            self.give_up(cpu, key);
        }
    }
}

/// Objects of `record` that a stack may hold.
fn largest(record: &Record) -> u32 {
    let mut limit = LARGEST;
    while limit > FIRST && u64::from(limit) * record.charge > LARGEST_BYTES {
        limit = rounded(limit / 4);
    }
    limit
}

/// Takes note of how long the stack of `key` is now. Whether that is another length than last time.
fn count(shelf: &mut Shelf, key: u64) -> bool {
    let Some(mut stack) = shelf.find(set_of(key), key) else { return false };
    let len = stack.len();
    let counted = u32::from(core::mem::replace(&mut stack.note.counted, len as u16));
    let topmost = stack.last().map_or(0, |object| (object.addr() / 8) as u16);
    let other = core::mem::replace(&mut stack.note.topmost, topmost) != topmost;
    let charge = charge_of(stack.of);
    shelf.held = shelf.held + u64::from(len) * charge - u64::from(counted) * charge;
    len != counted || other
}

/// Takes the stack of `key` off its place; what its objects are charged.
pub(super) fn loosen(shelf: &mut Shelf, key: u64) -> Option<u64> {
    let stack = shelf.loosen(set_of(key), key)?;
    let charge = charge_of(stack.of);
    let (len, limit) = (u64::from(stack.len()), u64::from(stack.limit()));
    let counted = u64::from(stack.note.counted);
    shelf.bytes -= limit * charge;
    shelf.held -= counted * charge;
    Some(len * charge)
}
