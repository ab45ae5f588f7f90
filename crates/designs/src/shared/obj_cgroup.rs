//! `obj_cgroup`: the handle between an object and its group, and the bytes that a group is charged through it.
//!
//! Since 5.9 an object is charged, not its slab: size + 8 bytes. Pages are charged in advance and the rest of them kept
//! in a *stock* near the CPU, one group at a time:
//! ```text
//! charge 200 B   stock of this CPU is this handle's and has 200 B?  take them
//!                else charge a page to the group; 3,896 B go into the stock, whose old rest stays with its handle
//! ```
//! When a group goes, its handle is pointed at the parent: no object is touched. Follows Linux 5.9 `mm/memcontrol.c`:
//! `obj_cgroup_charge()`, `refill_obj_stock()`, `drain_obj_stock()`, `memcg_reparent_objcgs()`, `obj_cgroup_release()`.
//! Not modelled: the stock of 32 pages a CPU below it, which only batches the page counters.

use crate::engine::Owner;
use crate::{Error, GroupKey};

/// What Linux charges beyond an object's slot: the pointer to its owner.
pub(crate) const OWNER_POINTER: u64 = 8;

/// A handle, dense: the number of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(pub(crate) u32);

/// All handles.
pub(crate) struct Handles {
    page: u64,
    table: Vec<ObjCgroup>,
    stocks: Vec<Stock>, // [cpu]
    orphans: u64,
}

/// `struct obj_cgroup`.
struct ObjCgroup {
    owner: Owner,        // `memcg`: the engine points it at the parent when the group goes
    rest: u64,           // `nr_charged_bytes`: charged, neither in use nor in a stock
    objects: u64,        // live ones
    bytes: u64,          // Σ (slot + 8) over them
    stocked: bool,       // a stock holds it
    removed: bool,       // its group was removed
    passed: Vec<Handle>, // `objcg_list` of a living group: handles of removed groups below it
}

/// `struct obj_stock`.
#[derive(Clone, Copy, Default)]
struct Stock {
    handle: Option<Handle>,
    bytes: u64,
}

impl Handles {
    /// None yet, on a machine with such pages.
    pub(crate) fn new(page: u32, cpus: u16) -> Self {
        let stocks = vec![Stock::default(); cpus.into()];
        Self { page: page.into(), table: Vec::new(), stocks, orphans: 0 }
    }

    /// The handle of the next group.
    pub(crate) fn add(&mut self, owner: Owner) {
        let (rest, objects, bytes) = (0, 0, 0);
        let passed = Vec::new();
        self.table.push(ObjCgroup { owner, rest, objects, bytes, stocked: false, removed: false, passed });
    }

    /// `obj_cgroup_charge()` for an object of `size` bytes; nothing is charged when it fails.
    pub(crate) fn charge(&mut self, cpu: u16, handle: Handle, size: u32) -> Result<(), Error> {
        let cost = u64::from(size) + OWNER_POINTER;
        let stock = &mut self.stocks[usize::from(cpu)];
        if stock.handle == Some(handle) && stock.bytes >= cost {
            stock.bytes -= cost;
        } else {
            let pages = cost.next_multiple_of(self.page);
            self.table[handle.0 as usize].owner.try_charge(pages)?;
            self.refill(cpu, handle, pages - cost);
        }
        let entry = &mut self.table[handle.0 as usize];
        entry.objects += 1;
        entry.bytes += cost;
        self.orphans += u64::from(entry.removed && entry.objects == 1);
        Ok(())
    }

    /// `obj_cgroup_uncharge()`.
    pub(crate) fn uncharge(&mut self, cpu: u16, handle: Handle, size: u32) {
        let cost = u64::from(size) + OWNER_POINTER;
        let entry = &mut self.table[handle.0 as usize];
        entry.objects -= 1;
        entry.bytes -= cost;
        self.orphans -= u64::from(entry.removed && entry.objects == 0);
        self.refill(cpu, handle, cost);
    }

    /// `refill_obj_stock()`.
    fn refill(&mut self, cpu: u16, handle: Handle, bytes: u64) {
        let at = usize::from(cpu);
        if self.stocks[at].handle != Some(handle) {
            self.drain(at);
            // A handle is in several stocks only when several CPUs work for it: each has its own bytes.
            let entry = &mut self.table[handle.0 as usize];
            entry.stocked = true;
            self.stocks[at] = Stock { handle: Some(handle), bytes: core::mem::take(&mut entry.rest) };
        }
        self.stocks[at].bytes += bytes;
        if self.stocks[at].bytes > self.page {
            self.drain(at);
        }
    }

    /// `drain_obj_stock()`: whole pages are uncharged, the rest stays with the handle.
    fn drain(&mut self, at: usize) {
        let Stock { handle: Some(handle), bytes } = core::mem::take(&mut self.stocks[at]) else { return };
        let stocked = self.stocks.iter().any(|stock| stock.handle == Some(handle));
        let entry = &mut self.table[handle.0 as usize];
        let pages = bytes - bytes % self.page;
        if pages > 0 {
            entry.owner.uncharge(pages);
        }
        entry.rest += bytes - pages;
        entry.stocked = stocked;
        self.release(handle);
    }

    /// `obj_cgroup_release()`: with the last object of a removed group goes what its handle still held.
    fn release(&mut self, handle: Handle) {
        let entry = &mut self.table[handle.0 as usize];
        if entry.removed && entry.objects == 0 && !entry.stocked {
            // Pages were charged and objects and stocks are gone: the rest is whole pages.
            let rest = core::mem::take(&mut entry.rest);
            if rest > 0 {
                entry.owner.uncharge(rest);
            }
        }
    }

    /// `memcg_reparent_objcgs()`: the group of `handle` goes, `heir` is the living group above it.
    pub(crate) fn pass(&mut self, handle: Handle, heir: Option<GroupKey>) {
        let entry = &mut self.table[handle.0 as usize];
        entry.removed = true;
        self.orphans += u64::from(entry.objects > 0);
        let passed = core::mem::take(&mut entry.passed);
        self.release(handle);
        if let Some(heir) = heir {
            let mut all: Vec<Handle> = passed.into_iter().chain([handle]).collect();
            all.retain(|handle| self.table[handle.0 as usize].objects > 0);
            self.table[heir.0 as usize].passed.append(&mut all);
        }
    }

    /// Bytes by object of a living group: its own, and those of removed groups below it.
    pub(crate) fn bytes(&self, group: GroupKey) -> u64 {
        let entry = &self.table[group.0 as usize];
        entry.bytes + entry.passed.iter().map(|h| self.table[h.0 as usize].bytes).sum::<u64>()
    }

    /// Handles of removed groups with live objects.
    pub(crate) fn orphans(&self) -> u64 {
        self.orphans
    }

    /// Handles that the kernel would have: of living groups, and those orphans.
    pub(crate) fn count(&self) -> u64 {
        self.table.iter().filter(|entry| !entry.removed).count() as u64 + self.orphans
    }
}
