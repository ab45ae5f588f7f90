//! Caches: objects of one kind, their slabs on each node, and what a user sees of them.

use super::config::{CacheConfig, CacheStat, NodePolicy};
use super::geometry::{Geometry, MIN_SLOT};
use super::sheaf::Sheaf;
use super::slab::{Kind, Slab};
use crate::controller::Inner;
use crate::error::{Error, Result};
use crate::page::PAGE;
use crate::page::chunk::Held;
use crate::reclaim::Migrate;
use crate::sync::{Guard, Lock, Rank};
use core::cell::UnsafeCell;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering::*};

/// Longest name of a cache, bytes.
pub(crate) const NAME_MAX: usize = 47;

/// The cache itself.
pub(crate) struct Record {
    name: [u8; NAME_MAX],
    name_len: u8,
    pub(crate) slot: u32,
    /// ceil(2^44 / slot): division by multiplication, exact for offsets below 2^20.
    reciprocal: u64,
    pub(crate) charge: u64,
    pub(crate) objects: u16,
    pages: u16,
    sheaf: u16,
    policy: NodePolicy,
    turn: AtomicU8,
    pub(super) destroyed: AtomicBool,
    /// Moves objects; such a cache has owner vectors from the start, which tell what is live.
    migrate: Option<&'static dyn Migrate>,
    pub(super) holders: AtomicU32,
    nodes: NonNull<Lock<Node>>,
    /// One a CPU, guarded by the lock of the CPU's area; made on first use.
    sheaves: NonNull<UnsafeCell<Option<Sheaf>>>,
    /// Free lists found overwritten.
    pub(crate) corrupted: AtomicU64,
    /// Where it stands in the list of caches, newest first; set by the list.
    pub(crate) number: u64,
    /// Links of the list of caches, guarded by its lock.
    pub(crate) next: UnsafeCell<*mut Record>,
    pub(crate) prev: UnsafeCell<*mut Record>,
}

// SAFETY: what is not atomic or fixed is guarded by the locks named at the fields.
unsafe impl Sync for Record {}

/// Lists of slabs with free objects: 0 to 3 by how full they are, and the empty ones.
const FULLNESS: usize = 4;
const EMPTY: u8 = FULLNESS as u8;
/// A slab without free objects is in no list.
const NOWHERE: u8 = u8::MAX;
/// It was given back: its descriptor may still be found in a chunk that is held, but is nobody's slab.
const GONE: u8 = u8::MAX - 1;

/// A cache's slabs on one node.
pub(crate) struct Node {
    lists: [*mut Slab; FULLNESS + 1],
    slabs: u64,
    empty: u64,
    /// Objects out: with users and in sheaves.
    out: u64,
}

// SAFETY: the pointers lead to slabs of this cache and node alone; they are reached through the lock.
unsafe impl Send for Node {}

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
        let slot = c.size.max(MIN_SLOT).next_multiple_of(c.align.max(8));
        let geometry = c.geometry.map_or(Ok(Geometry::choose(slot)), |g| g.checked(slot))?;
        let sheaf = c.sheaf.unwrap_or((PAGE / slot).min(32) as u16);
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
                let node = Node { lists: [null_mut(); FULLNESS + 1], slabs: 0, empty: 0, out: 0 };
                node_array.add(i).write(Lock::new(Rank::Partial, node));
            }
            record.write(Self {
                name,
                name_len: c.name.len() as u8,
                slot: slot as u32,
                reciprocal: (1u64 << 44).div_ceil(slot as u64),
                charge: slot as u64 + u64::from(c.owner_bytes),
                objects: geometry.objects,
                pages: geometry.pages,
                sheaf,
                policy: c.policy,
                turn: AtomicU8::new(0),
                destroyed: AtomicBool::new(false),
                migrate: c.migrate,
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

    pub(crate) fn slab_bytes(&self) -> u64 {
        u64::from(self.pages) * PAGE as u64
    }

    #[inline]
    pub(crate) fn index_of(&self, offset: usize) -> usize {
        ((offset as u64 * self.reciprocal) >> 44) as usize
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

    fn node(&self, node: u8) -> &Lock<Node> {
        // SAFETY: there is one a node, and callers pass nodes of the topology.
        unsafe { self.nodes.add(node.into()).as_ref() }
    }

    /// Takes free objects of `node` out of its slabs, up to `want`, making a slab if none has any. Less than
    /// one: the page source gave nothing.
    pub(crate) fn take_out(
        &self,
        inner: &Inner,
        node: u8,
        want: usize,
        mut each: impl FnMut(*mut u8),
    ) -> usize {
        let mut n = self.node(node).lock();
        let mut got = 0;
        while got < want {
            // The fullest slabs first: what is nearly empty gets a chance to go.
            let list = (0..=FULLNESS)
                .rev()
                .map(|l| (l + FULLNESS) % (FULLNESS + 1))
                .find(|l| !n.lists[*l].is_null());
            let slab = match list {
                Some(list) => n.lists[list],
                // A new slab only for the first object: a refill does not grow the cache for its tail.
                None if got == 0 => match self.new_slab(inner, &mut n, node) {
                    Some(slab) => slab,
                    None => break,
                },
                None => break,
            };
            // SAFETY: slabs on our lists are ours; the lock is held.
            let s = unsafe { &mut *slab };
            let mut exhausted = false;
            while got < want && !exhausted {
                match s.pop(self) {
                    Ok(Some(object)) => {
                        n.out += 1;
                        got += 1;
                        each(object);
                    }
                    Ok(None) => exhausted = true,
                    Err(()) => {
                        self.corrupted.fetch_add(1, Relaxed);
                    }
                }
            }
            if exhausted && s.out < self.objects {
                unlist(&mut n, slab); // it lost objects to an overwritten list: none left that we know of
            } else {
                self.relist(&mut n, slab);
            }
        }
        got
    }

    fn new_slab(&self, inner: &Inner, n: &mut Guard<'_, Node>, node: u8) -> Option<*mut Slab> {
        let slab = inner.chunks.alloc(self.pages.into(), PAGE, node, Kind::Slab)?.as_ptr();
        // SAFETY: just made and ours; who walks over the chunk may be looking (`owns`).
        unsafe { cache_of(slab) }.store(core::ptr::from_ref(self).cast_mut(), Release);
        inner.slab_bytes.fetch_add(self.slab_bytes(), Relaxed);
        n.slabs += 1;
        self.relist(n, slab);
        Some(slab)
    }

    /// Puts an object back into its slab. An empty slab goes back to its chunk unless it is all that the node
    /// has free.
    pub(crate) fn put_back(&self, inner: &Inner, slab: NonNull<Slab>, object: *mut u8) {
        // SAFETY: the object is out, so its slab is in place; the lock is taken below, `node` is fixed.
        let node = unsafe { slab.as_ref().node };
        let mut n = self.node(node).lock();
        let slab = slab.as_ptr();
        // SAFETY: the lock is held.
        unsafe { (*slab).push(object, self) };
        n.out -= 1;
        self.relist(&mut n, slab);
        // SAFETY: the lock is held.
        if unsafe { (*slab).out } == 0 {
            // SAFETY: as above. Nobody has an object of the slab or is on his way to one.
            unsafe { (*slab).owners.reset(&inner.vectors(&*slab)) };
            // SAFETY: as above.
            let unwanted = unsafe { (*slab).offline.load(Acquire) };
            let others = n.empty > 1 || n.lists[..FULLNESS].iter().any(|l| !l.is_null());
            if others || unwanted {
                self.drop_slab(inner, &mut n, slab);
            }
        }
    }

    fn drop_slab(&self, inner: &Inner, n: &mut Guard<'_, Node>, slab: *mut Slab) {
        unlist(n, slab);
        // SAFETY: a slab of ours until the chunk has it; the lock is held.
        unsafe { (*slab).list = GONE };
        n.slabs -= 1;
        inner.slab_bytes.fetch_sub(self.slab_bytes(), Relaxed);
        // SAFETY: an empty slab, in no list, with no vector.
        unsafe { inner.chunks.free(NonNull::new_unchecked(slab)) };
    }

    /// Takes the slabs of chunks that are being emptied off the lists of `node`, or puts those back that no longer are.
    pub(crate) fn isolate(&self, inner: &Inner, chunk: Held, node: u8) {
        let mut page = 0;
        while let Some((slab, next)) = chunk.next_run(page) {
            page = next;
            let mut n = self.node(node).lock();
            if self.owns(slab) {
                let slab = slab.as_ptr();
                self.relist(&mut n, slab);
                // SAFETY: the lock is held.
                let (out, offline) = unsafe { ((*slab).out, (*slab).offline.load(Acquire)) };
                if out == 0 && offline {
                    self.drop_slab(inner, &mut n, slab);
                }
            }
        }
    }

    /// Whether a run of a chunk that is held is a slab of this cache. The lock of its node is held.
    fn owns(&self, slab: NonNull<Slab>) -> bool {
        // SAFETY: descriptors of such a chunk are not used again; while the lock is held a slab of
        // this cache stays one. It may have gone between the look at the chunk and the lock. One that is not of this
        // cache may be in the making: its kind is fixed by then, its cache is not.
        unsafe {
            (*slab.as_ptr()).kind == Kind::Slab
                && core::ptr::eq(cache_of(slab.as_ptr()).load(Acquire), self)
                && (*slab.as_ptr()).list != GONE
        }
    }

    /// Keeps a slab of this cache in a chunk that is held from going. False: it is none, or went.
    pub(crate) fn pin(&self, slab: NonNull<Slab>, node: u8) -> bool {
        let mut n = self.node(node).lock();
        // An empty slab may be on its way out, and one in the list of empty ones must not be counted as used.
        // SAFETY: as in `owns`.
        let owned = self.owns(slab) && unsafe { (*slab.as_ptr()).out } > 0;
        if owned {
            // SAFETY: the lock is held.
            unsafe { (*slab.as_ptr()).out += 1 };
            n.out += 1;
        }
        owned
    }

    /// Objects handed out of a pinned slab, without the pin.
    pub(crate) fn out(&self, slab: NonNull<Slab>, node: u8) -> u32 {
        let _n = self.node(node).lock();
        // SAFETY: pinned, so in place; the lock is held.
        u32::from(unsafe { (*slab.as_ptr()).out }) - 1
    }

    /// The reverse of [`pin`](Self::pin).
    pub(crate) fn unpin(&self, inner: &Inner, slab: NonNull<Slab>, node: u8) {
        let mut n = self.node(node).lock();
        let slab = slab.as_ptr();
        // SAFETY: pinned, so in place; the lock is held.
        unsafe { (*slab).out -= 1 };
        n.out -= 1;
        // SAFETY: as above.
        if unsafe { (*slab).out } == 0 {
            // SAFETY: as above; nobody has an object of the slab.
            unsafe { (*slab).owners.reset(&inner.vectors(&*slab)) };
            self.drop_slab(inner, &mut n, slab);
        } else {
            self.relist(&mut n, slab);
        }
    }

    /// Gives back every empty slab. Returns their bytes.
    pub(crate) fn shrink(&self, inner: &Inner) -> u64 {
        let mut bytes = 0;
        for node in 0..inner.topology.nodes() {
            let mut n = self.node(node).lock();
            while !n.lists[usize::from(EMPTY)].is_null() {
                let slab = n.lists[usize::from(EMPTY)];
                self.drop_slab(inner, &mut n, slab);
                bytes += self.slab_bytes();
            }
        }
        bytes
    }

    fn relist(&self, n: &mut Guard<'_, Node>, slab: *mut Slab) {
        // SAFETY: a slab of ours; the lock is held.
        let s = unsafe { &mut *slab };
        let list = match s.out {
            _ if s.offline.load(Acquire) => NOWHERE,
            0 => EMPTY,
            out if out >= self.objects => NOWHERE,
            out => (usize::from(out) * FULLNESS / usize::from(self.objects)) as u8,
        };
        if list == s.list {
            return;
        }
        unlist(n, slab);
        if list != NOWHERE {
            let head = &mut n.lists[usize::from(list)];
            s.prev = null_mut();
            s.next = *head;
            if !head.is_null() {
                // SAFETY: as above.
                unsafe { (**head).prev = slab };
            }
            *head = slab;
            n.empty += u64::from(list == EMPTY);
            s.list = list;
        }
    }

    /// Slabs and objects out, all nodes together.
    pub(super) fn sums(&self, inner: &Inner) -> (u64, u64) {
        (0..inner.topology.nodes()).fold((0, 0), |(slabs, out), node| {
            let n = self.node(node).lock();
            (slabs + n.slabs, out + n.out)
        })
    }

    pub(crate) fn stat(&self, inner: &Inner) -> CacheStat {
        let mut cached = 0;
        for cpu in 0..inner.topology.cpus() {
            let _area = inner.lock_area(cpu);
            // SAFETY: the area is locked.
            cached += unsafe { self.sheaf(cpu) }.map_or(0, |s| s.len() as u64);
        }
        let (slabs, out) = self.sums(inner);
        CacheStat {
            // Sheaves and slabs are read one after the other: in between objects may move to a sheaf.
            objects: out.saturating_sub(cached),
            cached,
            slabs,
            slot_size: self.slot,
            slab_bytes: slabs * self.slab_bytes(),
        }
    }
}

/// The cache of a slab, where it may be told just now.
///
/// # Safety
/// The descriptor is in place.
unsafe fn cache_of<'a>(slab: *mut Slab) -> &'a AtomicPtr<Record> {
    // SAFETY: a pointer in a descriptor in place; it is written here alone, and read otherwise by who has an object.
    unsafe { AtomicPtr::from_ptr((&raw mut (*slab).cache).cast()) }
}

fn unlist(n: &mut Guard<'_, Node>, slab: *mut Slab) {
    // SAFETY: a slab of this node; the lock is held.
    unsafe {
        let s = &mut *slab;
        if s.list == NOWHERE {
            return;
        }
        if s.prev.is_null() {
            n.lists[usize::from(s.list)] = s.next;
        } else {
            (*s.prev).next = s.next;
        }
        if !s.next.is_null() {
            (*s.next).prev = s.prev;
        }
        n.empty -= u64::from(s.list == EMPTY);
        s.list = NOWHERE;
    }
}
