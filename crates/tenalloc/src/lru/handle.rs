//! What users hold of a list_lru, and the walk over one list.

use super::index::Record;
use super::list::{List, LruItem};
use super::lists::Lists;
use crate::controller::{Controller, Inner, Locked};
use crate::error::{Error, Result};
use crate::group::{Group, owner};
use crate::reclaim::Shrinker;
use crate::slab::Slab;
use crate::sync::Guard;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::*;

/// What to do with an object that a walk shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LruStatus {
    /// Take it off the list; `dispose` gets it once the list is unlocked.
    Removed,
    /// As `Removed`, and the walk unlocks, disposes, and begins again at the front.
    RemovedRetry,
    /// Move it to the end of the list.
    Rotate,
    /// Leave it where it is.
    Skip,
    /// Unlock and begin again at the front.
    Retry,
    /// End the walk here.
    Stop,
}

/// What a walk did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Isolated {
    /// Objects taken off.
    pub removed: u64,
    /// Objects shown.
    pub shown: u64,
}

/// A family of LRU lists of one kind of object: one for each group and node that uses it, oldest objects first.
///
/// A handle: cheap to clone, usable from any thread. When the last one is dropped the lists go; no object may be on
/// one then.
pub struct ListLru {
    pub(crate) ctl: Controller,
    record: NonNull<Record>,
}

// SAFETY: a record may be used from any thread.
unsafe impl Send for ListLru {}
// SAFETY: as above.
unsafe impl Sync for ListLru {}

impl ListLru {
    /// A family of lists of objects whose [`LruItem`] lies `offset` bytes from their start. Costs nothing per group.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; [`Error::BadAlign`] if `offset` is not a multiple of 8.
    pub fn new(ctl: &Controller, offset: usize) -> Result<Self> {
        if !offset.is_multiple_of(align_of::<LruItem>()) {
            return Err(Error::BadAlign { align: offset });
        }
        Ok(Self { ctl: ctl.clone(), record: Record::create(ctl.inner(), offset)? })
    }

    /// Binds the shrinker that gives objects of this family back. Registering costs nothing per group.
    pub fn set_shrinker(&self, shrinker: &'static dyn Shrinker) {
        *self.record().shrinker.lock() = Some(shrinker);
    }

    pub(crate) fn shrinker(&self) -> Option<&'static dyn Shrinker> {
        *self.record().shrinker.lock()
    }

    /// A handle to a family found in a chain, unless its last handle has just gone.
    pub(crate) fn revive(ctl: &Controller, record: NonNull<Record>) -> Option<Self> {
        // SAFETY: the caller holds the lock of the indexes, under which records go.
        let holders = &unsafe { record.as_ref() }.holders;
        holders.fetch_update(AcqRel, Relaxed, |n| (n > 0).then(|| n + 1)).ok()?;
        Some(Self { ctl: ctl.clone(), record })
    }

    pub(crate) fn record(&self) -> &Record {
        // SAFETY: the handle holds the record.
        unsafe { self.record.as_ref() }
    }

    /// Makes the lists of `group` and of its ancestors, where they are missing. To be called before an object of the
    /// group is handed out, with no lock of yours held; [`Cache::alloc_lru`](crate::Cache::alloc_lru) does so.
    ///
    /// # Errors
    /// [`Error::NoMemory`], [`Error::GroupRemoved`].
    pub fn prepare(&self, group: &Group) -> Result<()> {
        group.owner_id(&self.ctl)?;
        self.ctl.inner().prepare_lists(self.record(), group.node())
    }

    fn item(&self, object: NonNull<u8>) -> NonNull<LruItem> {
        // SAFETY: callers promise that the object holds an item there.
        unsafe { object.add(self.record().offset).cast() }
    }

    fn object(&self, item: NonNull<LruItem>) -> NonNull<u8> {
        // SAFETY: the reverse of `item`.
        unsafe { item.cast::<u8>().sub(self.record().offset) }
    }

    /// Puts a live object at the end of the list of its group and node, both found from its address. Never fails:
    /// an object of a group that was never [`prepare`](Self::prepare)d, or of nobody, goes to the root's list. False:
    /// it is on a list already.
    ///
    /// # Safety
    /// The object is live, of this controller, with an initialised [`LruItem`] at the offset; it is deleted before it
    /// is freed; nobody adds or deletes the same object at the same time.
    pub unsafe fn add(&self, object: NonNull<u8>) -> bool {
        let Some((slab, owner)) = find(self.ctl.inner(), object) else { return false };
        let item = self.item(object);
        let inner = self.ctl.inner();
        let cpu = inner.lock_cpu();
        let (mut list, home) = lock_list(inner, &cpu, self.record(), owner, slab.node);
        drop(cpu);
        // SAFETY: the caller's promise; the list is the object's own, or the root's.
        unsafe { item.as_ref().set_stray(home == Home::Stray) && list.push(item) }
    }

    /// Takes an object off its list. False: it is on none.
    ///
    /// # Safety
    /// As for [`add`](Self::add).
    pub unsafe fn del(&self, object: NonNull<u8>) -> bool {
        let Some((slab, owner)) = find(self.ctl.inner(), object) else { return false };
        let item = self.item(object);
        // SAFETY: the caller's promise.
        let state = unsafe { item.as_ref() };
        if !state.is_listed() {
            return false;
        }
        let inner = self.ctl.inner();
        let cpu = inner.lock_cpu();
        let owner = if state.is_stray() { owner::NOBODY } else { owner };
        let (mut list, _) = lock_list(inner, &cpu, self.record(), owner, slab.node);
        drop(cpu);
        // SAFETY: the caller's promise; a listed object is on this list.
        unsafe { list.remove(item) }
    }

    /// Objects on the list of `group` itself on `node`; 0 for a removed group.
    pub fn count(&self, group: &Group, node: u8) -> u64 {
        self.lock(group, node).map_or(0, |list| list.number.into())
    }

    /// Bytes of the family: itself, its index, and all lists.
    pub fn bytes(&self) -> u64 {
        self.record().bytes(self.ctl.inner()) as u64
    }

    /// Groups that have lists here, without the root.
    pub fn groups(&self) -> u64 {
        self.record().owners.load(Relaxed).into()
    }

    /// The list of a group itself, locked, if it has one.
    pub(crate) fn lock(&self, group: &Group, node: u8) -> Option<Guard<'_, List>> {
        let inner = self.ctl.inner();
        let owner = group.owner_id(&self.ctl).ok().filter(|_| node < inner.topology.nodes())?;
        let _cpu = inner.lock_cpu();
        let lists = self.record().find(inner, owner)?;
        // SAFETY: in place while the CPU's lock is held; once locked and not dead it stays while locked.
        let list = unsafe { Lists::list(lists, node) }.lock();
        (!list.dead).then_some(list)
    }

    /// Shows objects of `group` itself on `node` to `isolate`, oldest first, at most `*budget` of them; each one shown
    /// takes one off `*budget` first, so that the walk ends whatever `isolate` says. Then, with the list unlocked,
    /// `dispose` gets those that were removed.
    ///
    /// While memory is being taken out of use ([`Controller::offline`]), the shrinkers that it asks are shown only the
    /// objects that lie there; in [`Group::reclaim_sparse`] only those in slabs that are nearly empty.
    ///
    /// `isolate` runs with the list locked: it may look at the object and try a lock of its own, but must not call
    /// this library, except for [`Controller::fill_of`]. `dispose` may do anything; to free the object, say.
    pub fn walk(
        &self,
        group: &Group,
        node: u8,
        budget: &mut u64,
        mut isolate: impl FnMut(NonNull<u8>) -> LruStatus,
        mut dispose: impl FnMut(NonNull<u8>),
    ) -> Isolated {
        let mut done = Isolated::default();
        let in_focus = self.ctl.inner().reclaimers.focus(self.ctl.inner());
        let mut again = true;
        while again && *budget > 0 {
            again = false;
            // Looked up anew after every unlocking: the group may have gone meanwhile.
            let Some(mut list) = self.lock(group, node) else { break };
            let mut removed: *mut LruItem = null_mut();
            let mut at = list.first();
            while let Some(item) = at.filter(|_| *budget > 0) {
                // SAFETY: the item is on the list, and the list is locked.
                at = unsafe { list.next(item) };
                if !in_focus(item.as_ptr() as usize) {
                    continue;
                }
                *budget -= 1;
                done.shown += 1;
                // SAFETY: as above.
                unsafe {
                    match isolate(self.object(item)) {
                        status @ (LruStatus::Removed | LruStatus::RemovedRetry) => {
                            list.remove(item);
                            LruItem::stack(item, &mut removed);
                            again = status == LruStatus::RemovedRetry;
                        }
                        LruStatus::Rotate => list.rotate(item),
                        LruStatus::Skip => {}
                        LruStatus::Retry => again = true,
                        LruStatus::Stop => at = None,
                    }
                }
                if again {
                    break;
                }
            }
            drop(list);
            // SAFETY: the items were taken off by this walk and nobody else has them.
            while let Some(item) = unsafe { LruItem::unstack(&mut removed) } {
                done.removed += 1;
                dispose(self.object(item));
            }
        }
        done
    }
}

/// Where an item ends up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Home {
    /// The list of its owner's group, or of the ancestor that took over.
    Own,
    /// The root's list, for want of one of its own.
    Stray,
}

/// The slab of a live object, and its owner.
fn find(inner: &Inner, object: NonNull<u8>) -> Option<(&Slab, u32)> {
    let (slab, index) = inner.locate(object.as_ptr() as usize).ok()?;
    // SAFETY: `locate` found a run in use, which stays while the object is live.
    let slab = unsafe { slab.as_ref() };
    Some((slab, slab.owners.get(index)?))
}

/// The list for objects of `owner` on `node`, locked.
fn lock_list<'a>(
    inner: &'a Inner,
    cpu: &Locked<'_>,
    lru: &'a Record,
    owner: u32,
    node: u8,
) -> (Guard<'a, List>, Home) {
    let root = || {
        // SAFETY: the root's lists stay as long as the family, and never die.
        unsafe { Lists::list(lru.root, node) }.lock()
    };
    if owner == owner::NOBODY {
        return (root(), Home::Stray);
    }
    let mut owner = inner.owners.enter(owner, cpu.cpu());
    loop {
        if let Some(lists) = lru.find(inner, owner) {
            // SAFETY: in place while the CPU's lock is held; once locked and not dead it stays while locked.
            let list = unsafe { Lists::list(lists, node) }.lock();
            if !list.dead {
                return (list, Home::Own);
            }
        }
        // SAFETY: the node of an owner that this CPU entered, and so its ancestors', is in place while the CPU's lock is held.
        let group = unsafe { &*inner.owners.get(owner).node.load(Acquire) };
        match group.parent().filter(|_| group.is_removed()) {
            // Its lists were drained, or are being: the items are with the parent.
            Some(parent) => owner = parent.owner,
            None => return (root(), Home::Stray),
        }
    }
}

impl Clone for ListLru {
    fn clone(&self) -> Self {
        self.record().holders.fetch_add(1, Relaxed);
        Self { ctl: self.ctl.clone(), record: self.record }
    }
}

impl Drop for ListLru {
    fn drop(&mut self) {
        if self.record().holders.fetch_sub(1, AcqRel) == 1 {
            // SAFETY: this was the last handle; that no object is on a list is the users' part, and items that were
            // left are only never reached again.
            unsafe { Record::destroy(self.record, self.ctl.inner()) };
        }
    }
}

impl core::fmt::Debug for ListLru {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ListLru").field("groups", &self.groups()).field("bytes", &self.bytes()).finish()
    }
}
