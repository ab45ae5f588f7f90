//! What outlives a group: the handle by which its objects know it, for memory that comes from elsewhere too.

use super::Group;
use crate::controller::Controller;
use crate::error::Result;
use core::fmt;

/// What an object knows of its group (Linux: `obj_cgroup`): it follows the group's removal to the parent.
///
/// With it, memory that does not come from here can be charged too.
pub struct Owner {
    ctl: Controller,
    id: u32,
}

impl Owner {
    /// Charges `bytes` to the group that this owner speaks for now.
    ///
    /// # Errors
    /// [`Error::Limit`](crate::Error::Limit); nothing is charged then.
    pub fn try_charge(&self, bytes: u64) -> Result<()> {
        let inner = self.ctl.inner();
        let (cpu, id) = inner.charge(self.id, bytes)?;
        if id != self.id {
            // Forwarded: the group that pays is another, but the bytes stay this handle's to give back.
            inner.owners.hand_back(self.id, id, bytes);
        }
        inner.see_to(cpu, true);
        Ok(())
    }

    /// Charges `bytes` past all limits, for what must not fail. Counted in [`Stat`](crate::Stat); to be given back by
    /// [`uncharge`](Self::uncharge).
    pub fn charge_forced(&self, bytes: u64) {
        self.ctl.inner().charge_forced(self.id, bytes);
    }

    /// Gives back bytes that [`try_charge`](Self::try_charge) charged, through this handle or a clone of it.
    /// Never more than that: it would take away from what others charged.
    pub fn uncharge(&self, bytes: u64) {
        let inner = self.ctl.inner();
        let mut cpu = inner.lock_cpu();
        inner.uncharge(&mut cpu, self.id, bytes);
        inner.see_to(cpu, true);
    }

    /// The group that this owner speaks for now.
    pub fn group(&self) -> Group {
        self.ctl.group_of(self.id)
    }

    pub(crate) fn from_held(ctl: &Controller, id: u32) -> Self {
        Self { ctl: ctl.clone(), id }
    }
}

impl Clone for Owner {
    fn clone(&self) -> Self {
        self.ctl.inner().owners.hold(self.id);
        Self::from_held(&self.ctl, self.id)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.ctl.inner().owners.release(self.id);
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({})", self.group().path())
    }
}
