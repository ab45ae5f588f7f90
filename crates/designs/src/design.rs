//! What a design is: the one trait that a replay drives, and the values that pass through it.
//!
//! A design answers the same calls whatever its generation: make a cache, make a group, allocate for a group on a CPU
//! and a node, free. What it may choose is where the objects lie and who pays for the pages. It is apart from the
//! designs themselves so that a driver (`tenalloc-replay`) needs to know nothing else.

use core::ptr::NonNull;

use crate::Error;

/// A group, dense in the order of [`Design::add_group`]. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey(pub u32);

/// A cache, dense in the order of [`Design::add_cache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey(pub u16);

/// How the recorded kernel cut the slabs of a cache, from `/sys/kernel/slab`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes that the user of an object may write.
    pub object_size: u32,
    /// A slab is `1 << order` pages.
    pub order: u8,
    /// Objects in a slab.
    pub objects: u32,
}

/// A cache to be made.
#[derive(Clone, Copy, Debug)]
pub struct CacheSpec<'a> {
    /// The kernel's name, `dentry`.
    pub name: &'a str,
    /// Bytes from one object to the next.
    pub slot_size: u32,
    /// Without it the design computes it as the kernel's `calculate_order()` does.
    pub geometry: Option<Geometry>,
}

/// The recorded machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// CPUs, numbered from 0.
    pub cpus: u16,
    /// NUMA nodes, numbered from 0.
    pub nodes: u8,
    /// `cpu_node[cpu]` = the node of that CPU; as long as there are CPUs.
    pub cpu_node: Vec<u8>,
    /// Bytes.
    pub page_size: u32,
}

impl Machine {
    /// Checks that a design can run on it.
    ///
    /// # Errors
    /// [`Error::Machine`] says what is wrong.
    pub fn check(&self) -> Result<(), Error> {
        let cpu_node = self.cpu_node.get(..usize::from(self.cpus));
        let wrong = match cpu_node {
            _ if self.cpus == 0 || self.nodes == 0 => "no CPU, or no node".to_owned(),
            None => format!("{} CPUs, but the node of {} only is known", self.cpus, self.cpu_node.len()),
            Some(of) if of.iter().any(|&node| node >= self.nodes) => {
                format!("a CPU of a node beyond the {} there are", self.nodes)
            }
            _ if !self.page_size.is_power_of_two() || !(4096..=65536).contains(&self.page_size) => {
                format!("pages of {} bytes: 4,096 to 65,536 is possible, a power of two", self.page_size)
            }
            _ => return Ok(()),
        };
        Err(Error::Machine(wrong))
    }
}

/// Who asks, and where the object may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The CPU that allocates.
    pub cpu: u16,
    /// The node that the object's memory must come from; `None`: any, as nearly all of the kernel's callers say.
    pub node: Option<u8>,
}

/// Sizes at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Live objects: Σ slot size.
    pub live: u64,
    /// Pages held by slabs, without the places that owner vectors take there.
    pub slab: u64,
    /// Owner vectors that take places in slabs, or pages, of their own.
    pub owners: u64,
    /// All other bookkeeping. For a historic design: what the kernel's structures would take, by formula.
    pub metadata: u64,
    /// Free objects held near CPUs (part of `slab`).
    pub cached: u64,
}

/// One cache at one moment, over all groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUsage {
    /// Live objects.
    pub objects: u64,
    /// Slabs, empty ones too.
    pub slabs: u64,
    /// Bytes of those slabs, without the places that owner vectors take there.
    pub slab_bytes: u64,
}

/// A way to keep the objects of many groups in slabs.
pub trait Design {
    /// `linux-5.8`, `tenalloc` …
    fn name(&self) -> &'static str;

    /// One sentence on how it works.
    fn summary(&self) -> &'static str;

    /// Makes a cache. Keys are dense, in call order.
    ///
    /// # Errors
    /// [`Error::Geometry`] when the objects cannot be cut from such a slab.
    fn add_cache(&mut self, spec: &CacheSpec<'_>) -> Result<CacheKey, Error>;

    /// Makes a group below `parent`, or below the root. Keys are dense, in call order. No two living groups below one
    /// parent have the same name, as with `mkdir`.
    ///
    /// # Errors
    /// [`Error::UnknownGroup`], [`Error::RemovedGroup`] for such a parent; [`Error::Engine`] for such a name.
    fn add_group(&mut self, parent: Option<GroupKey>, name: &str) -> Result<GroupKey, Error>;

    /// Removes a group without live children. Its objects live on, charged to its parent.
    ///
    /// # Errors
    /// [`Error::UnknownGroup`], [`Error::RemovedGroup`], [`Error::GroupHasChildren`].
    fn remove_group(&mut self, group: GroupKey) -> Result<(), Error>;

    /// Allocates one object for `group`; `None`: unaccounted. A removed group stands for its nearest living ancestor.
    ///
    /// # Errors
    /// [`Error::UnknownCache`], [`Error::UnknownGroup`], [`Error::UnknownCpu`], [`Error::UnknownNode`], or no memory.
    fn alloc(&mut self, place: Place, cache: CacheKey, group: Option<GroupKey>)
    -> Result<NonNull<u8>, Error>;

    /// Frees one object on `cpu`.
    ///
    /// # Safety
    /// `object` came from [`alloc`](Design::alloc) of this design, was not freed since, and nobody uses it any more.
    ///
    /// # Errors
    /// [`Error::ForeignPointer`], [`Error::DoubleFree`] where that is seen, [`Error::UnknownCpu`]: nothing was freed.
    unsafe fn free(&mut self, cpu: u16, object: NonNull<u8>) -> Result<(), Error>;

    /// Bytes of all slabs as in [`Usage::slab`]. O(1): asked after every step.
    fn slab_bytes(&self) -> u64;

    /// All sizes. Cheap enough for some hundred samples a run.
    fn usage(&mut self) -> Usage;

    /// Exact bytes by object that the group and its descendants are charged: Σ (slot size + 8), what `memory.stat` calls
    /// `slab` since Linux 5.9. 0 for a removed or unknown group.
    fn charge(&mut self, group: GroupKey) -> u64;

    /// Bytes of pages charged to the group and its descendants under this design. 0 for a removed or unknown group.
    fn pages(&mut self, group: GroupKey) -> u64;

    /// One entry a cache, in the order of their keys.
    fn caches(&mut self) -> Vec<CacheUsage>;

    /// Where the slab of a live object begins: the same for all objects that share it.
    fn slab_of(&self, object: NonNull<u8>) -> Option<usize>;

    /// What removed groups still hold through live objects: caches (5.8) or handles (since 5.9).
    fn orphans(&mut self) -> u64;
}
