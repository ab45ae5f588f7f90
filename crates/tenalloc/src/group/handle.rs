//! What users hold of a group: [`Group`], and [`Owner`], which outlives it.

mod owner;

pub use self::owner::Owner;
use super::knobs::{self, Event, Events};
use super::tree::{Node, Path};
use super::{peak, wait};
use crate::controller::Controller;
use crate::error::{Error, Result};
use crate::reclaim::Reclaimed;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::*;
use core::time::Duration;

/// A memory group: a node of the tree, with cgroup v2's counters in bytes.
///
/// A handle: cheap to clone, usable from any thread. Dropping it leaves the group in place;
/// [`remove`](Self::remove) takes the group away while its objects live on.
pub struct Group {
    ctl: Controller,
    node: NonNull<Node>,
    /// The node's owner, kept by it: no other group gets the id while a handle is there.
    owner: u32,
}

// SAFETY: a node may be used from any thread.
unsafe impl Send for Group {}
// SAFETY: as above.
unsafe impl Sync for Group {}

impl Group {
    /// Wraps a node that is held for the new handle.
    pub(crate) fn from_held(ctl: &Controller, node: NonNull<Node>) -> Self {
        // SAFETY: the node is held.
        Self { ctl: ctl.clone(), node, owner: unsafe { node.as_ref() }.owner }
    }

    pub(crate) fn node(&self) -> &Node {
        // SAFETY: the handle holds the node.
        unsafe { self.node.as_ref() }
    }

    /// The owner's id, for a charge through this handle by `ctl`.
    #[inline]
    pub(crate) fn owner_id(&self, ctl: &Controller) -> Result<u32> {
        if self.node().is_removed() {
            return Err(Error::GroupRemoved);
        }
        // A group of another controller is no group of this one.
        if self.ctl.is(ctl) { Ok(self.owner) } else { Err(Error::NotFound) }
    }

    /// The owner's id, to look for ready objects of `ctl`: nothing is ready for a group that was removed, nor under 0,
    /// which is the id here of a group of another controller.
    #[inline(always)]
    pub(crate) fn ready_owner(&self, ctl: &Controller) -> u32 {
        if self.ctl.is(ctl) { self.owner } else { 0 }
    }

    /// Levels that there may be below the root.
    pub const MAX_DEPTH: usize = super::tree::MAX_DEPTH;

    /// Makes a child. Costs a few hundred ns and less than 200 bytes, whatever else exists.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::Exists`], [`Error::GroupRemoved`], [`Error::Full`] also for a group more than
    /// [`MAX_DEPTH`](Self::MAX_DEPTH) levels below the root, [`Error::NoMemory`].
    pub fn create(&self, name: &str) -> Result<Group> {
        let inner = self.ctl.inner();
        Ok(Self::from_held(&self.ctl, inner.tree.create(inner, Some(self.node()), name)?))
    }

    /// The group at `path` below this one: names separated by `/`; empty names are passed over, so `""` and
    /// `"/"` are this group.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn lookup(&self, path: &str) -> Result<Group> {
        path.split('/').filter(|name| !name.is_empty()).try_fold(self.clone(), |at, name| {
            let node = at.ctl.inner().tree.child(at.node(), name).ok_or(Error::NotFound)?;
            Ok(Self::from_held(&self.ctl, node))
        })
    }

    /// Removes the group. Its live objects stay, and are its parent's from now on; no object is visited, so the
    /// cost does not depend on their number. Handles to it can only be read and dropped afterwards; a charge
    /// that was under way lands in the parent.
    ///
    /// # Errors
    /// [`Error::GroupBusy`] while it has children, [`Error::Root`], [`Error::GroupRemoved`].
    pub fn remove(&self) -> Result<()> {
        let inner = self.ctl.inner();
        inner.tree.remove(inner, self.node())?;
        wait::wake_removed(inner, self.node());
        inner.settle();
        Ok(())
    }

    /// Whether it was removed.
    pub fn is_removed(&self) -> bool {
        self.node().is_removed()
    }

    /// Its name; empty for the root.
    pub fn name(&self) -> &str {
        self.node().name()
    }

    /// Its path from the root, to print: `/`, `/a/b`.
    pub fn path(&self) -> impl fmt::Display + '_ {
        Path(self.node())
    }

    /// Its parent; `None` for the root.
    pub fn parent(&self) -> Option<Group> {
        let parent = self.node().parent()?;
        self.ctl.inner().tree.hold(parent);
        Some(Self::from_held(&self.ctl, NonNull::from(parent)))
    }

    /// Its children, newest first. Those made meanwhile may be missed; removals do not disturb it.
    pub fn children(&self) -> impl Iterator<Item = Group> + '_ {
        let mut last: Option<Group> = None;
        core::iter::from_fn(move || {
            let tree = &self.ctl.inner().tree;
            let next = tree.next_child(self.node(), last.as_ref().map(|g| g.node()))?;
            last = Some(Self::from_held(&self.ctl, next));
            last.clone()
        })
    }

    /// Bytes charged to it and its descendants, with what CPUs hold in advance: at most
    /// [`Controller::SLACK_PER_CPU`] bytes a CPU more than [`exact`](Self::exact). One load.
    pub fn current(&self) -> u64 {
        self.node().counter.current()
    }

    /// Bytes of the live objects of it and its descendants, slot and owner entry each, and what was charged
    /// without an object. Visits every CPU's area, waits for none that is idle.
    pub fn exact(&self) -> u64 {
        self.ctl.inner().free_deferred();
        self.ctl.inner().exact(self.node())
    }

    /// The largest `current` since it was made or [`reset_peak`](Self::reset_peak) was called, bytes. For more than
    /// one reader with resets of their own see [`peak_reader`](Self::peak_reader).
    pub fn peak(&self) -> u64 {
        peak::own(self.node())
    }

    /// Begins a new peak at `current`.
    pub fn reset_peak(&self) {
        peak::reset_own(self.node());
    }

    /// Bytes that `current` may reach; [`u64::MAX`] without a limit.
    pub fn max(&self) -> u64 {
        self.node().counter.max()
    }

    /// Sets `max`. A `max` below `current` stops new charges; what is live stays. Bytes that CPUs hold in
    /// advance are collected if that helps. Returns `current`.
    pub fn set_max(&self, bytes: u64) -> u64 {
        // Without memory for them the events are not counted; the limit holds all the same.
        let _ = self.ctl.inner().make_knobs(self.node());
        if self.node().counter.set_max(bytes) > bytes {
            self.ctl.inner().drain_within(self.node());
        }
        self.current()
    }

    /// Bytes above which charges are slowed down; [`u64::MAX`] without.
    pub fn high(&self) -> u64 {
        self.node().knobs().map_or(u64::MAX, |k| k.high.load(Relaxed))
    }

    /// Sets `high`: a charge above it reclaims and, if that does not help, makes its caller wait, the longer the more
    /// it is above: the square of the overage, 10 ms to 2 s. The charge itself succeeds.
    ///
    /// What the group has above it already is reclaimed now, in this thread, as far as it can be.
    ///
    /// # Errors
    /// [`Error::NoMemory`] for the group's knobs; nothing is changed then.
    pub fn set_high(&self, bytes: u64) -> Result<()> {
        let inner = self.ctl.inner();
        inner.make_knobs(self.node())?.high.store(bytes, SeqCst);
        if self.current() > bytes {
            // Bytes near CPUs would let charges pass unseen.
            inner.drain_within(self.node());
            inner.reclaim(self, self.current().saturating_sub(bytes));
            inner.drain_within(self.node());
        }
        inner.look_below(self.node());
        inner.settle();
        Ok(())
    }

    /// Bytes that reclaim leaves to it while anything else can be had.
    pub fn low(&self) -> u64 {
        self.node().knobs().map_or(0, |k| k.low.load(Relaxed))
    }

    /// Sets `low`. A group's `low` counts as far as its ancestors' cover it.
    ///
    /// # Errors
    /// As [`set_high`](Self::set_high).
    pub fn set_low(&self, bytes: u64) -> Result<()> {
        self.ctl.inner().make_knobs(self.node())?.low.store(bytes, Relaxed);
        Ok(())
    }

    /// Bytes that reclaim leaves to it whatever happens.
    pub fn min(&self) -> u64 {
        self.node().knobs().map_or(0, |k| k.min.load(Relaxed))
    }

    /// Sets `min`. A group's `min` counts as far as its ancestors' cover it.
    ///
    /// # Errors
    /// As [`set_high`](Self::set_high).
    pub fn set_min(&self, bytes: u64) -> Result<()> {
        self.ctl.inner().make_knobs(self.node())?.min.store(bytes, Relaxed);
        Ok(())
    }

    /// Events of it and its descendants. Zeros until it or a descendant has a knob set.
    pub fn events(&self) -> Events {
        self.node().knobs().map_or(Events::default(), |k| k.events(false))
    }

    /// Events of its own.
    pub fn events_local(&self) -> Events {
        self.node().knobs().map_or(Events::default(), |k| k.events(true))
    }

    /// Counts it as the victim of an out-of-memory policy.
    pub fn count_oom_victim(&self) {
        knobs::count(self.node(), Event::OomVictim);
    }

    /// Stops the growth of it and its descendants, or allows it again: charges fail with [`Error::Frozen`], except
    /// those that bytes kept near a CPU still cover; what is free there is collected first.
    pub fn freeze(&self, on: bool) {
        self.node().frozen.store(on, SeqCst);
        if on {
            self.ctl.inner().drain_within(self.node());
        }
    }

    /// Reclaims from it and its descendants until their exact charge fell by `bytes`. Its own `min` and `low` do not
    /// protect it from this; its descendants' protect them. Runs shrinkers in this thread.
    ///
    /// `Ok` only if that much was freed; `Err` has what was.
    ///
    /// # Errors
    /// [`Reclaimed`]: less was freed.
    pub fn reclaim(&self, bytes: u64) -> core::result::Result<Reclaimed, Reclaimed> {
        let got = self.ctl.inner().reclaim(self, bytes);
        if got.bytes >= bytes { Ok(got) } else { Err(got) }
    }

    /// As [`reclaim`](Self::reclaim), for at most about `time`: the clock is looked at before each call of a shrinker,
    /// so it can take longer by one call. [`Reclaimed::out_of_time`] tells whether the time ran out. What was begun is
    /// continued by the next call: the lists take turns in being first.
    ///
    /// # Errors
    /// [`Reclaimed`]: less was freed.
    pub fn reclaim_within(&self, bytes: u64, time: Duration) -> core::result::Result<Reclaimed, Reclaimed> {
        let got = self.ctl.inner().reclaim_within(self, bytes, Some(time));
        if got.bytes >= bytes { Ok(got) } else { Err(got) }
    }

    /// The handle that objects know it by.
    pub fn owner(&self) -> Owner {
        self.ctl.inner().owners.hold(self.owner);
        Owner::from_held(&self.ctl, self.owner)
    }

    /// The controller that it belongs to.
    pub fn controller(&self) -> &Controller {
        &self.ctl
    }
}

impl Clone for Group {
    fn clone(&self) -> Self {
        self.ctl.inner().tree.hold(self.node());
        Self { ctl: self.ctl.clone(), node: self.node, owner: self.owner }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let inner = self.ctl.inner();
        // SAFETY: this handle holds the node until `release` lets go; it is not used after.
        inner.tree.release(inner, unsafe { self.node.as_ref() });
    }
}

impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
    }
}

impl Eq for Group {}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (current, peak, max) = (self.current(), self.peak(), self.max());
        write!(f, "Group({} current {current} peak {peak} max {max})", self.path())
    }
}
