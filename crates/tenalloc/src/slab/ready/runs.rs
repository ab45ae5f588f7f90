//! How objects become ready and go back to their slabs: several together, for a lock taken once.
//!
//! A run for a stack lies in one slab where it can, that of the run before first (`cache::partial`): a group that goes leaves
//! whole slabs then, and what is used one after the other lies side by side. What a stack lets go is in no sheaf after that,
//! where it would wait, mixed with others', for whoever comes next.

use super::{AT_A_TIME, IN_PASSING, REFILL, key, owner_of, set_of};
use crate::controller::{Inner, Locked};
use crate::slab::cache::Record;
use core::ptr::{NonNull, null_mut};

impl Inner {
    /// An object for `owner`, who has an empty stack, and some more for next time. `None`: he has none, or there is something in
    /// the way that the long way sees to.
    pub(in crate::slab) fn alloc_run(
        &self,
        cpu: &mut Locked<'_>,
        record: &Record,
        owner: u32,
    ) -> Option<NonNull<u8>> {
        if !self.makes_ready(cpu, record, owner) || record.is_destroyed() {
            return None;
        }
        let key = key(owner, record.ready);
        cpu.shelf().find(set_of(key), key)?;
        self.look_round(cpu, key);
        let mut stack = cpu.shelf().find(set_of(key), key)?;
        let room = (stack.limit() - stack.len()) as usize;
        let note = &mut stack.note;
        if note.refused > 0 {
            note.refused -= 1;
            note.wanted = note.wanted.saturating_add(1);
        }
        let want = 1 + room.min(note.refill.into());
        note.refill = (2 * note.refill + 1).min(REFILL);
        if !self.charge_ahead(cpu, owner, want as u64 * record.charge) {
            return None;
        }
        let mut run = [null_mut(); 1 + REFILL as usize];
        let mut places = run.iter_mut();
        let got = record.take_out(self, cpu.node(), owner, want, |object| {
            places.next().into_iter().for_each(|place| *place = object);
        });
        let run = &mut run[..got];
        // In the order of their addresses, if they came in that or the reverse: the last is popped first.
        if run.first() < run.last() {
            run.reverse();
        }
        let owned = run.iter().take_while(|object| self.own(record, **object, owner)).count();
        let (run, rest) = run.split_at(owned);
        if !rest.is_empty() {
            record.put_all_back(self, cpu.node(), false, rest.iter().copied());
        }
        if want > owned {
            self.uncharge(cpu, owner, (want - owned) as u64 * record.charge);
        }
        let (last, run) = run.split_last()?;
        let stack = cpu.shelf().find(set_of(key), key);
        let pushed =
            stack.map_or(0, |mut stack| run.iter().take_while(|object| stack.push(**object)).count());
        debug_assert_eq!(pushed, run.len(), "there was room");
        NonNull::new(*last)
    }

    /// Writes the owner of an object that is out. False: no memory for that.
    fn own(&self, record: &Record, object: *mut u8, owner: u32) -> bool {
        // SAFETY: the object is out, so its slab is in place; `owners` is made for sharing.
        let slab = unsafe { self.chunks.run_of(object as usize).as_ref() };
        let index = record.index_of(object as usize - slab.base() as usize);
        slab.owners.set(index, owner, record.strict, &self.vectors(slab))
    }

    /// Puts the lower half of a full stack away: one that overflows will do so again, and not at each push then. What was
    /// pushed last is still in the processor's caches.
    pub(super) fn let_go(&self, cpu: &mut Locked<'_>, record: &Record, key: u64) {
        let Some(mut stack) = cpu.shelf().find(set_of(key), key) else { return };
        let mut left = stack.len().div_ceil(2) as usize;
        stack.note.refused = stack.note.refused.saturating_add(left.min(u8::MAX.into()) as u8);
        self.uncharge(cpu, owner_of(key), left as u64 * record.charge);
        let mut lowest = [null_mut(); AT_A_TIME];
        while left > 0 {
            let some = &mut lowest[..left.min(AT_A_TIME)];
            if !cpu.shelf().find(set_of(key), key).is_some_and(|mut stack| stack.take_lowest(some)) {
                break;
            }
            record.put_all_back(self, cpu.node(), true, some.iter().copied());
            left -= some.len();
        }
    }

    /// Puts some objects of the CPU's loose stacks away.
    pub(in crate::slab) fn put_away_loose(&self, cpu: &mut Locked<'_>) {
        let mut left = IN_PASSING;
        while left > 0 {
            let first = cpu.shelf().loose.iter().next().map(|stack| stack.of);
            let Some(of) = first else { break };
            // A few at a time: threads may have stacks of 16 KiB.
            let mut found = [null_mut(); AT_A_TIME];
            let mut number = 0;
            let each = |_, object| {
                found[number] = object;
                number += 1;
            };
            cpu.shelf().pick_up(AT_A_TIME, &self.meta, |what| core::ptr::eq(what, of), each);
            // SAFETY: a cache takes its objects off all shelves before it goes, and this CPU's area is held.
            let record = unsafe { &*of.cast::<Record>() };
            // A shelf has stacks of its own node alone.
            record.put_all_back(self, cpu.node(), true, found[..number].iter().copied());
            left -= AT_A_TIME;
        }
    }
}
