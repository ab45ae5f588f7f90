//! A cache: objects of one kind; what is fixed of it, and its sheaves. Its slabs are in `partial`.

mod partial;

pub(super) use self::partial::Chain;
use self::partial::Node;
use super::config::{CacheConfig, CacheStat, NodePolicy};
use super::debug::Layout;
use super::geometry::{Geometry, MIN_SLOT};
use super::ready;
use super::sheaf::Sheaf;
use crate::controller::Inner;
use crate::error::{Error, Result};
use crate::page::{PAGE, chunk::Life};
use crate::reclaim::Migrate;
use crate::sync::{Lock, Rank};
use core::cell::UnsafeCell;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::*};

/// Longest name of a cache, bytes.
pub(crate) const NAME_MAX: usize = 47;

/// The cache itself.
pub(crate) struct Record {
    name: [u8; NAME_MAX],
    name_len: u8,
    pub(crate) slot: u32,
    /// From the start of a slot to its object: a red zone.
    pub(crate) left: u32,
    usable: u32,
    link: u32,
    debug: bool,
    /// Slabs have their owner vectors from the first object on.
    pub(crate) strict: bool,
    /// Its objects may go short ways: of the caller's node, with nothing to be checked but addresses.
    pub(crate) plain: bool,
    /// Under which id its objects are made ready, without the node. See `ready`.
    pub(crate) ready: u32,
    /// ceil(2^44 / slot): division by multiplication, exact for offsets below 2^20.
    reciprocal: u64,
    /// ceil(2^64 / slot), for [`place_of`](Self::place_of).
    inverse: u64,
    pub(crate) charge: u64,
    pub(crate) objects: u16,
    pages: u16,
    sheaf: u16,
    /// See `partial::inverse`.
    objects_inverse: u64,
    policy: NodePolicy,
    turn: AtomicU8,
    pub(super) destroyed: AtomicBool,
    /// Moves objects; such a cache has owner vectors from the start, which tell what is live.
    migrate: Option<&'static dyn Migrate>,
    /// Its objects can be reclaimed: some were allocated for lists.
    listed: AtomicBool,
    pub(super) holders: AtomicU32,
    nodes: NonNull<Lock<Node>>,
    /// One a CPU, guarded by the lock of the CPU's area; made on first use.
    sheaves: NonNull<UnsafeCell<Option<Sheaf>>>,
    /// Places found overwritten.
    pub(crate) corrupted: AtomicU64,
    /// Where it stands in the list of caches, newest first; set by the list.
    pub(crate) number: u64,
    /// Links of the list of caches, guarded by its lock.
    pub(crate) next: UnsafeCell<*mut Record>,
    pub(crate) prev: UnsafeCell<*mut Record>,
}

// SAFETY: what is not atomic or fixed is guarded by the locks named at the fields.
unsafe impl Sync for Record {}

impl Record {
    pub(crate) fn create(inner: &Inner, c: &CacheConfig<'_>) -> Result<NonNull<Self>> {
        if c.name.is_empty() || c.name.len() > NAME_MAX || c.name.contains(['/', '\0']) {
            return Err(Error::BadName);
        }
        if c.size == 0 || c.size > 65_536 {
            return Err(Error::BadSize { size: c.size });
        }
        if !c.align.is_power_of_two() || c.align > PAGE {
            return Err(Error::BadAlign { align: c.align });
        }
        let nodes = usize::from(inner.topology.nodes());
        let cpus = usize::from(inner.topology.cpus());
        if let NodePolicy::Prefer(node) | NodePolicy::Bind(node) = c.policy {
            inner.check_node(node)?;
        }
        let align = c.align.max(8);
        let debug = c.debug.unwrap_or(inner.config.debug);
        let layout = if debug {
            Layout::guarded(c.size, align)
        } else {
            Layout::plain(c.size.max(MIN_SLOT).next_multiple_of(align))
        };
        let slot = layout.slot;
        let geometry = c.geometry.map_or(Ok(Geometry::choose(slot)), |g| g.checked(slot))?;
        let sheaf = c.sheaf.unwrap_or((PAGE / slot).min(64) as u16);
        let meta = &inner.meta;
        let sizes = [
            size_of::<Self>(),
            nodes * size_of::<Lock<Node>>(),
            cpus * size_of::<UnsafeCell<Option<Sheaf>>>(),
        ];
        let blocks = sizes.map(|n| meta.alloc(n));
        let [Some(record), Some(node_array), Some(sheaves)] = blocks else {
            for (block, bytes) in blocks.into_iter().zip(sizes) {
                // SAFETY: allocated just above, used by nobody.
                block.inspect(|b| unsafe { meta.free(*b, bytes) });
            }
            return Err(Error::NoMemory { bytes: sizes.iter().sum() });
        };
        let record = record.cast::<Self>();
        let node_array = node_array.cast::<Lock<Node>>();
        let mut name = [0; NAME_MAX];
        name[..c.name.len()].copy_from_slice(c.name.as_bytes());
        // SAFETY: three fresh blocks of the right sizes; zeroed sheaf pointers are `None`.
        unsafe {
            for i in 0..nodes {
                node_array.add(i).write(Lock::new(Rank::Partial, Node::new()));
            }
            record.write(Self {
                name,
                name_len: c.name.len() as u8,
                slot: slot as u32,
                left: layout.left as u32,
                usable: layout.usable as u32,
                link: layout.link as u32,
                debug,
                plain: !debug && c.policy == NodePolicy::Local,
                ready: ready::NONE,
                strict: inner.config.hardened || c.migrate.is_some() || debug,
                reciprocal: (1u64 << 44).div_ceil(slot as u64),
                inverse: u64::MAX / slot as u64 + 1,
                charge: slot as u64 + u64::from(c.owner_bytes),
                objects: geometry.objects,
                pages: geometry.pages,
                sheaf,
                objects_inverse: partial::inverse(geometry.objects),
                policy: c.policy,
                turn: AtomicU8::new(0),
                destroyed: AtomicBool::new(false),
                migrate: c.migrate,
                listed: AtomicBool::new(false),
                holders: AtomicU32::new(1),
                nodes: node_array,
                sheaves: sheaves.cast(),
                corrupted: AtomicU64::new(0),
                number: 0,
                next: UnsafeCell::new(null_mut()),
                prev: UnsafeCell::new(null_mut()),
            });
        }
        Ok(record)
    }

    /// # Safety
    /// The cache has no slabs and no sheaves, and nobody uses the record again.
    pub(super) unsafe fn destroy(this: NonNull<Self>, inner: &Inner) {
        // SAFETY: the caller's promise; the sizes are those of `create`.
        unsafe {
            let (nodes, sheaves) = (this.as_ref().nodes, this.as_ref().sheaves);
            let meta = &inner.meta;
            meta.free(nodes.cast(), usize::from(inner.topology.nodes()) * size_of::<Lock<Node>>());
            meta.free(
                sheaves.cast(),
                usize::from(inner.topology.cpus()) * size_of::<UnsafeCell<Option<Sheaf>>>(),
            );
            meta.free(this.cast(), size_of::<Self>());
        }
    }

    /// Gives it its number, once; see the field.
    pub(crate) fn set_number(&mut self, number: u64) {
        self.number = number;
        // Behind the last object is no room for another, where one would seem to begin.
        let full = self.slab_bytes() < (u64::from(self.objects) + 1) * u64::from(self.slot);
        if self.plain && !self.strict && self.sheaf > 0 && full {
            self.ready = ready::id(number);
        }
    }

    pub(crate) fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..self.name_len.into()]).unwrap_or("?")
    }

    /// Whether its handles can no longer allocate.
    pub(crate) fn is_destroyed(&self) -> bool {
        self.destroyed.load(Acquire)
    }

    pub(crate) fn migrate(&self) -> Option<&'static dyn Migrate> {
        self.migrate
    }

    /// Its objects are allocated for lists: slabs made from now on lie with others that can be reclaimed.
    #[inline]
    pub(super) fn list(&self) {
        if !self.listed.load(Relaxed) {
            self.listed.store(true, Relaxed);
        }
    }

    /// With which slabs of other caches its own lie together. That its objects can be moved makes no difference: `compact`
    /// empties the sparsest slabs, wherever they lie, and no chunk.
    fn life(&self) -> Life {
        if self.listed.load(Relaxed) { Life::Reclaimable } else { Life::Lasting }
    }

    /// Whether its objects have red zones and are poisoned.
    #[inline]
    pub(crate) fn is_debug(&self) -> bool {
        self.debug
    }

    pub(super) fn layout(&self) -> Layout {
        let [slot, left, usable, link] = [self.slot, self.left, self.usable, self.link].map(|n| n as usize);
        Layout { slot, left, usable, link }
    }

    /// Bytes that the user of an object may use.
    pub(crate) fn usable(&self) -> usize {
        self.usable as usize
    }

    /// Where the link of a free object lies.
    pub(crate) fn link(&self, object: *mut u8) -> *mut u8 {
        object.wrapping_add(self.link as usize)
    }

    pub(crate) fn slab_bytes(&self) -> u64 {
        u64::from(self.pages) * PAGE as u64
    }

    #[inline]
    pub(crate) fn index_of(&self, offset: usize) -> usize {
        ((offset as u64 * self.reciprocal) >> 44) as usize
    }

    /// The object at `offset` of a slab, and whether it begins there, for a cache without red zones: the quotient is the
    /// upper half of one product, and the rest is 0 where the lower half is less than the factor (D. Lemire, O. Kaser, N.
    /// Kurz 2019; exact below 2^32).
    #[inline(always)]
    pub(crate) fn place_of(&self, offset: usize) -> (usize, bool) {
        let product = u128::from(offset as u64) * u128::from(self.inverse);
        ((product >> 64) as usize, (product as u64) < self.inverse)
    }

    /// Where objects for a caller on `here` come from, and whether another node will do.
    #[inline]
    pub(crate) fn wanted_node(&self, here: u8, nodes: u8) -> (u8, bool) {
        match self.policy {
            NodePolicy::Local => (here, true),
            NodePolicy::Prefer(node) => (node, true),
            NodePolicy::Bind(node) => (node, false),
            NodePolicy::Interleave => (self.turn.fetch_add(1, Relaxed) % nodes, true),
        }
    }

    /// This CPU's sheaf.
    ///
    /// # Safety
    /// The lock of the CPU's area is held, and `cpu` is one of the topology's.
    #[inline]
    pub(crate) unsafe fn sheaf(&self, cpu: u16) -> Option<Sheaf> {
        // SAFETY: there is one cell a CPU, and the caller holds its lock.
        unsafe { *self.sheaves.add(cpu.into()).as_ref().get() }
    }

    /// Makes this CPU's sheaf, or takes it away.
    ///
    /// # Safety
    /// As for [`sheaf`](Self::sheaf).
    pub(crate) unsafe fn set_sheaf(&self, cpu: u16, sheaf: Option<Sheaf>) {
        // SAFETY: the caller's promise.
        unsafe { *self.sheaves.add(cpu.into()).as_ref().get() = sheaf };
    }

    pub(crate) fn sheaf_capacity(&self) -> u16 {
        self.sheaf
    }

    pub(crate) fn stat(&self, inner: &Inner) -> CacheStat {
        let mut cached = 0;
        // Together: between two readings objects would move from one to the other.
        let all = inner.areas.lock_all();
        for (cpu, _) in all.cpus() {
            // SAFETY: the area is locked.
            cached += unsafe { self.sheaf(cpu) }.map_or(0, |s| s.len() as u64);
        }
        cached += inner.ready_objects(&all, self);
        cached += self.in_barns(inner);
        let (slabs, out) = self.sums(inner);
        CacheStat {
            objects: out.saturating_sub(cached),
            cached,
            slabs,
            slot_size: self.slot,
            slab_bytes: slabs * self.slab_bytes(),
        }
    }
}
