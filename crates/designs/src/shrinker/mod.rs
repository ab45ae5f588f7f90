//! What Linux keeps for each group, node and shrinker, so that reclaim visits only shrinkers with something to give.
//!
//! ```text
//!   group ─ node 0 ─ Form ── a bit for each shrinker's id: "has items of this group on this node"
//!           node 1 ─ Form    and since 5.13 a number each: what was asked of it and not yet done
//! ```
//! Three forms, one file each: `bitmap` (4.19), `flat` (5.13), `units` (6.7). All hold a place for every id there is,
//! in every group, on every node, whether or not the group ever touches that mount. This file has what they share: ids,
//! and that a new highest id grows every group's state. The root has none here, as until 5.12; it would be one group
//! more.

mod bitmap;
mod flat;
mod units;

use crate::kernel::shrinker::{Shrinkers, UNIT};
use crate::list_lru::ledger::Ledger;
use crate::lists::{ListError, ShrinkerKey};
use crate::{Error, GroupKey};
use bitmap::Bitmap;
use flat::Flat;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::Units;

/// The state of one group on one node.
trait Form: Sized {
    /// Room for `ids` ids.
    fn new(ids: usize, ledger: &mut Ledger) -> Self;

    /// Room for more.
    fn expand(&mut self, ids: usize, ledger: &mut Ledger);

    /// The group goes.
    fn free(self, ledger: &mut Ledger);

    /// `set_shrinker_bit()`.
    fn set(&mut self, id: usize);

    /// Whether the bit is set.
    #[cfg(test)]
    fn is_set(&self, id: usize) -> bool;

    /// Work that was asked of a shrinker and not done. Nothing before 5.13.
    fn deferred(&mut self, id: usize) -> Option<&mut i64>;

    /// Bytes allocated by this process, beside the value itself.
    fn here(&self) -> u64;
}

/// Shrinkers and what every group keeps of them.
pub(crate) struct Registry {
    table: Box<dyn Table>,
    ids: Vec<Option<Shrinker>>, // by key; none: removed
    free: BinaryHeap<Reverse<u32>>,
    next: u32, // ids from here on were never taken
}

struct Shrinker {
    id: u32,
    lrus: u32,
}

impl Registry {
    /// None, on a machine of `nodes` nodes.
    pub(crate) fn new(form: Option<Shrinkers>, nodes: u8) -> Self {
        let table: Box<dyn Table> = match form {
            None => Box::new(()),
            Some(Shrinkers::Bitmap) => Box::new(Forms::<Bitmap>::new(nodes)),
            Some(Shrinkers::Flat) => Box::new(Forms::<Flat>::new(nodes)),
            Some(Shrinkers::Units) => Box::new(Forms::<Units>::new(nodes)),
        };
        Self { table, ids: Vec::new(), free: BinaryHeap::new(), next: 0 }
    }

    /// Registers one, with the lowest free id: `idr_alloc()`.
    pub(crate) fn add(&mut self, ledger: &mut Ledger) -> Result<ShrinkerKey, Error> {
        let key = ShrinkerKey(u32::try_from(self.ids.len()).map_err(|_| Error::TooMany("shrinkers"))?);
        let id = self.free.pop().map_or(self.next, |Reverse(id)| id);
        if id == self.next {
            self.next += 1;
            self.table.expand(self.next as usize, ledger);
        }
        self.ids.push(Some(Shrinker { id, lrus: 0 }));
        Ok(key)
    }

    /// Unregisters one. Its bits and numbers stay as they are, and everybody's room for its id.
    pub(crate) fn remove(&mut self, key: ShrinkerKey) -> Result<(), ListError> {
        let slot = self.ids.get_mut(key.0 as usize).ok_or(ListError::UnknownShrinker(key))?;
        match slot {
            None => Err(ListError::UnknownShrinker(key)),
            Some(Shrinker { lrus, .. }) if *lrus > 0 => {
                Err(ListError::ShrinkerInUse { shrinker: key, lrus: *lrus })
            }
            Some(Shrinker { id, .. }) => {
                self.free.push(Reverse(*id));
                *slot = None;
                Ok(())
            }
        }
    }

    /// A list_lru more that it serves.
    pub(crate) fn serve(&mut self, key: ShrinkerKey) -> Result<(), ListError> {
        let shrinker = self.ids.get_mut(key.0 as usize).and_then(Option::as_mut);
        shrinker.ok_or(ListError::UnknownShrinker(key))?.lrus += 1;
        Ok(())
    }

    /// One less.
    pub(crate) fn release(&mut self, key: ShrinkerKey) {
        if let Some(Some(shrinker)) = self.ids.get_mut(key.0 as usize) {
            shrinker.lrus -= 1;
        }
    }

    /// State for the next group: keys are dense.
    pub(crate) fn add_group(&mut self, group: GroupKey, ledger: &mut Ledger) {
        self.table.add_group(group, ledger);
    }

    /// A group goes; work deferred for it passes to its parent.
    pub(crate) fn remove_group(&mut self, group: GroupKey, parent: Option<GroupKey>, ledger: &mut Ledger) {
        self.table.remove_group(group, parent, ledger);
    }

    /// The list of a living group has its first item.
    pub(crate) fn set_bit(&mut self, group: GroupKey, node: u8, key: ShrinkerKey) {
        if let Some(Some(shrinker)) = self.ids.get(key.0 as usize) {
            self.table.set(group, node, shrinker.id as usize);
        }
    }

    /// Bytes allocated by this process for the state of all groups.
    pub(crate) fn here(&self) -> u64 {
        self.table.here()
    }
}

/// [`Forms`] of any form; `()`: none.
trait Table {
    fn add_group(&mut self, _: GroupKey, _: &mut Ledger) {}
    fn remove_group(&mut self, _: GroupKey, _: Option<GroupKey>, _: &mut Ledger) {}
    fn expand(&mut self, _ids: usize, _: &mut Ledger) {}
    fn set(&mut self, _: GroupKey, _node: u8, _id: usize) {}
    fn here(&self) -> u64 {
        0
    }
}

impl Table for () {}

/// Room grows by so many ids at once: `BITS_PER_LONG`, `SHRINKER_UNIT_BITS`. The first are there from boot on.
const STEP: usize = UNIT as usize;

/// The state of all groups.
struct Forms<F> {
    nodes: usize,
    groups: Vec<Option<Box<[F]>>>, // one a node; none: removed
    ids: usize,                    // room of each
}

impl<F> Forms<F> {
    fn new(nodes: u8) -> Self {
        Self { nodes: nodes.into(), groups: Vec::new(), ids: STEP }
    }

    fn of(&mut self, group: GroupKey) -> Option<&mut [F]> {
        self.groups.get_mut(group.0 as usize)?.as_deref_mut()
    }
}

impl<F: Form> Table for Forms<F> {
    fn add_group(&mut self, _: GroupKey, ledger: &mut Ledger) {
        let forms = (0..self.nodes).map(|_| F::new(self.ids, ledger)).collect();
        self.groups.push(Some(forms));
    }

    fn remove_group(&mut self, group: GroupKey, parent: Option<GroupKey>, ledger: &mut Ledger) {
        let ids = self.ids;
        let Some(forms) = self.groups.get_mut(group.0 as usize).and_then(Option::take) else { return };
        for (node, mut form) in forms.into_iter().enumerate() {
            if let Some(above) = parent.and_then(|p| self.of(p)).and_then(|forms| forms.get_mut(node)) {
                for id in 0..ids {
                    if let (Some(from), Some(to)) = (form.deferred(id), above.deferred(id)) {
                        *to += *from;
                    }
                }
            }
            form.free(ledger);
        }
    }

    /// `expand_shrinker_info()`: every group on every node, under one lock in the kernel.
    fn expand(&mut self, ids: usize, ledger: &mut Ledger) {
        let ids = ids.next_multiple_of(STEP);
        if ids > self.ids {
            self.ids = ids;
            self.groups.iter_mut().flatten().flatten().for_each(|form| form.expand(ids, ledger));
        }
    }

    fn set(&mut self, group: GroupKey, node: u8, id: usize) {
        if let Some(form) = self.of(group).and_then(|forms| forms.get_mut(usize::from(node))) {
            form.set(id);
        }
    }

    fn here(&self) -> u64 {
        let one = |form: &F| size_of::<F>() as u64 + form.here();
        self.groups.iter().flatten().flatten().map(one).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kmalloc;

    fn life<F: Form>(deferred: bool) {
        let mut ledger = Ledger::new(Kmalloc::X86);
        let mut forms = Forms::<F>::new(2);
        let (parent, child) = (GroupKey(0), GroupKey(1));
        forms.add_group(parent, &mut ledger);
        forms.add_group(child, &mut ledger);
        forms.set(child, 1, 63);
        let is_set = |forms: &mut Forms<F>, group, node: usize, id| forms.of(group).unwrap()[node].is_set(id);
        assert!(is_set(&mut forms, child, 1, 63) && !is_set(&mut forms, child, 0, 63));
        forms.expand(65, &mut ledger);
        assert_eq!(forms.ids, 128);
        forms.set(child, 1, 127);
        assert!(is_set(&mut forms, child, 1, 63), "a bit survives growth");
        assert!(is_set(&mut forms, child, 1, 127) && !is_set(&mut forms, child, 1, 126));
        for (group, id, work) in [(parent, 3, 5), (child, 3, 7), (child, 100, 9)] {
            if let Some(number) = forms.of(group).unwrap()[1].deferred(id) {
                *number = work;
            }
        }
        forms.remove_group(child, Some(parent), &mut ledger);
        let mut left = |id| forms.of(parent).unwrap()[1].deferred(id).copied();
        assert_eq!([left(3), left(100)], if deferred { [Some(12), Some(9)] } else { [None; 2] });
        forms.remove_group(parent, None, &mut ledger);
        assert_eq!((forms.here(), ledger.bytes().total()), (0, 0));
    }

    #[test]
    fn bits_survive_growth_and_deferred_work_its_group() {
        life::<Bitmap>(false);
        life::<Flat>(true);
        life::<Units>(true);
    }

    #[test]
    fn ids_are_used_again_and_keys_are_not() {
        let mut ledger = Ledger::new(Kmalloc::X86);
        let mut registry = Registry::new(Some(Shrinkers::Units), 1);
        registry.add_group(GroupKey(0), &mut ledger);
        let keys: Vec<ShrinkerKey> = (0..64).map(|_| registry.add(&mut ledger).unwrap()).collect();
        let full = ledger.bytes();
        registry.remove(keys[9]).unwrap();
        assert_eq!(registry.remove(keys[9]), Err(ListError::UnknownShrinker(keys[9])));
        assert_eq!(registry.add(&mut ledger).unwrap(), ShrinkerKey(64));
        assert_eq!(ledger.bytes(), full, "the 64 ids there were are enough");
        registry.add(&mut ledger).unwrap();
        assert_eq!(ledger.bytes().total(), full.total() + 1024 + 32, "then a unit, and a pointer more");
    }
}
