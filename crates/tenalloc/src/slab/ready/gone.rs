//! Ready objects of a group that goes, where it was used on one CPU alone: the others go on meanwhile.

use super::{charge_of, loosen, owner_of};
use crate::controller::{Inner, Locked};

impl Inner {
    /// As [`uncharge_ready`](Self::uncharge_ready) for one owner, of which no other CPU has anything: no stack on its shelf,
    /// and none that it left at a depot, since stacks go to that of their own node.
    pub(crate) fn uncharge_ready_here(
        &self,
        cpu: &mut Locked<'_>,
        owner: u32,
        mut back: impl FnMut(u32, u64),
    ) {
        loop {
            let next = cpu.shelf().iter().map(|(key, _)| key).find(|key| owner_of(*key) == owner);
            let Some(key) = next else { break };
            if let Some(bytes) = loosen(cpu.shelf(), key) {
                back(owner, bytes);
            }
        }
        let mut left = self.depots.take(cpu.node(), |stack| owner_of(stack.key()) == owner);
        while let Some(bundle) = left.take(|_| true) {
            back(owner, u64::from(bundle.stack().len()) * charge_of(bundle.stack()));
            cpu.shelf().loose.push(bundle);
        }
    }
}
