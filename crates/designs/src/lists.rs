//! What a design of list_lru and of shrinker state is: the one trait that a driver uses, and the values that pass
//! through it.
//!
//! Apart from [`Design`](crate::Design), which is about slabs: the two parts of a kernel changed in different releases,
//! and a driver may want one without the other. The order of calls is the kernel's:
//!
//! ```text
//! mkdir   add_group                     mount    add_shrinker, add_lru (dentries), add_lru (inodes)
//! open    prepare   the object is made; outside every lock, where failing is easy
//!         add       it becomes unused and goes on the list of its group and node
//! close   del       it is used again, or freed
//! rmdir   remove_group: its lists pass to its parent
//! umount  remove_lru twice, remove_shrinker
//! ```
//!
//! Sizes come twice and must not be mixed up. [`ListUsage::kernel`]: what the kernel would spend on exactly what was
//! built here: every allocation is counted with the size that the kernel's structure of that release has, rounded as
//! `kmalloc` rounds. [`ListUsage::here`]: the bytes that this process got from its allocator for the same structures.

use crate::kernel::generation::Lists;
use crate::kernel::shrinker::Shrinkers;
use crate::kernel::{Generation, Kmalloc};
use crate::list_lru::{self, Linux, Ours};
use crate::shrinker::Registry;
use crate::{GroupKey, Machine};

/// A list_lru, dense in the order of [`ListDesign::add_lru`]. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LruKey(pub u32);

/// A shrinker that knows groups, dense in the order of [`ListDesign::add_shrinker`]. Never reused (the id that the
/// kernel gives it is).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShrinkerKey(pub u32);

/// An item on a list. Reused after [`ListDesign::del`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemKey(pub u32);

/// Why a call failed. Nothing was changed by it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// No list_lru has this key, or it was removed.
    #[error("list_lru {} is not known: make it with add_lru first", .0.0)]
    UnknownLru(LruKey),
    /// No shrinker has this key, or it was removed.
    #[error("shrinker {} is not known: make it with add_shrinker first", .0.0)]
    UnknownShrinker(ShrinkerKey),
    /// The item is on no list.
    #[error("item {} is on no list", .0.0)]
    UnknownItem(ItemKey),
    /// The group has no list in this list_lru.
    #[error("list_lru {} has no list for this group: call prepare when its object is made", .0.0)]
    NotPrepared(LruKey),
    /// A list_lru goes only when its lists are empty.
    #[error("list_lru {} still has {items} items: delete them first", .lru.0)]
    LruInUse {
        /// As asked.
        lru: LruKey,
        /// Items on its lists.
        items: u64,
    },
    /// A shrinker goes only after the list_lrus that it serves.
    #[error("shrinker {} still serves {lrus} list_lrus: remove them first", .shrinker.0)]
    ShrinkerInUse {
        /// As asked.
        shrinker: ShrinkerKey,
        /// Those list_lrus.
        lrus: u32,
    },
    /// Keys, machine or memory, as with slabs.
    #[error(transparent)]
    Design(#[from] crate::Error),
}

/// What an allocation was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// List heads (`list_lru_one`), alone or one for each node together.
    Heads,
    /// What leads from a group to its heads: arrays of pointers, nodes of a tree, entries of a table.
    Index,
    /// A list_lru itself, with its lists for objects of nobody: `list_lru_node` of 64 bytes a node.
    Lru,
    /// What shrinkers keep for each group and node.
    Shrinker,
}

/// Bytes by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// [`What::Heads`].
    pub heads: u64,
    /// [`What::Index`].
    pub index: u64,
    /// [`What::Lru`].
    pub lrus: u64,
    /// [`What::Shrinker`].
    pub shrinkers: u64,
}

impl Parts {
    /// All that list_lru takes: heads, index, list_lrus.
    pub fn lists(&self) -> u64 {
        self.heads + self.index + self.lrus
    }

    /// Everything.
    pub fn total(&self) -> u64 {
        self.lists() + self.shrinkers
    }

    /// The part for `what`.
    pub fn part_mut(&mut self, what: What) -> &mut u64 {
        match what {
            What::Heads => &mut self.heads,
            What::Index => &mut self.index,
            What::Lru => &mut self.lrus,
            What::Shrinker => &mut self.shrinkers,
        }
    }
}

/// Sizes at one moment, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListUsage {
    /// As that kernel would spend for what was built. For tenalloc, which is no kernel, the same as `here`.
    pub kernel: Parts,
    /// As this process's allocator gave for it.
    pub here: Parts,
}

/// Allocations of one kind and size since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// What for.
    pub what: What,
    /// Bytes that the kernel would ask for.
    pub asked: u64,
    /// Bytes that `kmalloc` would take for it.
    pub taken: u64,
    /// How many were made.
    pub made: u64,
    /// How many of them are there now.
    pub live: u64,
}

/// A way to keep lists of unused objects for many groups, and what shrinkers must know of them.
///
/// `None` as a group is the root, or an object of nobody. A removed group stands for its nearest living ancestor.
pub trait ListDesign {
    /// As [`by_name`] was asked: `linux-5.9`, `+lazy` …
    fn name(&self) -> &'static str;

    /// One sentence on how it works.
    fn summary(&self) -> &'static str;

    /// Makes a group below `parent`, or below the root. Keys are dense, in call order.
    ///
    /// # Errors
    /// [`crate::Error::UnknownGroup`], [`crate::Error::RemovedGroup`] for such a parent; [`crate::Error::TooMany`] when
    /// the generation has no id left.
    fn add_group(&mut self, parent: Option<GroupKey>) -> Result<GroupKey, ListError>;

    /// Removes a group without living children: what is on its lists goes to its parent's, in Linux before what is there
    /// (as the oldest), with ours after it.
    ///
    /// # Errors
    /// [`crate::Error::UnknownGroup`], [`crate::Error::RemovedGroup`], [`crate::Error::GroupHasChildren`].
    fn remove_group(&mut self, group: GroupKey) -> Result<(), ListError>;

    /// Registers a shrinker that knows groups: one a mount.
    ///
    /// # Errors
    /// No memory.
    fn add_shrinker(&mut self) -> Result<ShrinkerKey, ListError>;

    /// Unregisters one.
    ///
    /// # Errors
    /// [`ListError::UnknownShrinker`], [`ListError::ShrinkerInUse`].
    fn remove_shrinker(&mut self, shrinker: ShrinkerKey) -> Result<(), ListError>;

    /// Makes a list_lru that `shrinker` serves: two a mount, dentries and inodes.
    ///
    /// # Errors
    /// [`ListError::UnknownShrinker`], or no memory.
    fn add_lru(&mut self, shrinker: ShrinkerKey) -> Result<LruKey, ListError>;

    /// Removes one whose lists are empty.
    ///
    /// # Errors
    /// [`ListError::UnknownLru`], [`ListError::LruInUse`].
    fn remove_lru(&mut self, lru: LruKey) -> Result<(), ListError>;

    /// An object of `group` is being made that may go on a list of `lru`: whatever the design needs for that is there
    /// afterwards, so that [`add`](Self::add) allocates nothing. Cheap when called again.
    ///
    /// # Errors
    /// [`ListError::UnknownLru`], [`crate::Error::UnknownGroup`], or no memory.
    fn prepare(&mut self, lru: LruKey, group: Option<GroupKey>) -> Result<(), ListError>;

    /// Puts an object of `group`, whose memory is of `node`, at the end of its list.
    ///
    /// # Errors
    /// [`ListError::UnknownLru`], [`crate::Error::UnknownGroup`], [`crate::Error::UnknownNode`];
    /// [`ListError::NotPrepared`] (where Linux followed a null pointer; ours puts it on the root's list instead).
    fn add(&mut self, lru: LruKey, group: Option<GroupKey>, node: u8) -> Result<ItemKey, ListError>;

    /// Takes an item off, wherever removals of groups have moved it meanwhile.
    ///
    /// # Errors
    /// [`ListError::UnknownItem`].
    fn del(&mut self, item: ItemKey) -> Result<(), ListError>;

    /// Items on the list of `group` itself on `node`. 0 for what is unknown or removed.
    fn count(&self, lru: LruKey, group: Option<GroupKey>, node: u8) -> u64;

    /// Shows the items of that list, oldest first.
    fn walk(&self, lru: LruKey, group: Option<GroupKey>, node: u8, show: &mut dyn FnMut(ItemKey));

    /// List heads that there are now, used or not; without those of the root.
    fn heads(&self) -> u64;

    /// All sizes. Cheap enough for some hundred samples a run.
    fn usage(&self) -> ListUsage;

    /// All allocations ever, by kind and size: how many heads of 32 bytes, how many arrays of 128 KiB. Empty for
    /// tenalloc, which has no sizes of a kernel.
    fn made(&self) -> Vec<Made>;
}

/// What `alloc_super()` makes of all this for one mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Serves both lists.
    pub shrinker: ShrinkerKey,
    /// Unused dentries.
    pub dentries: LruKey,
    /// Unused inodes.
    pub inodes: LruKey,
}

impl Mount {
    /// Mounts a file system.
    ///
    /// # Errors
    /// Those of the calls it makes.
    pub fn new(design: &mut dyn ListDesign) -> Result<Self, ListError> {
        let shrinker = design.add_shrinker()?;
        Ok(Self { shrinker, dentries: design.add_lru(shrinker)?, inodes: design.add_lru(shrinker)? })
    }

    /// Unmounts it.
    ///
    /// # Errors
    /// [`ListError::LruInUse`] while items are on its lists.
    pub fn remove(self, design: &mut dyn ListDesign) -> Result<(), ListError> {
        design.remove_lru(self.dentries)?;
        design.remove_lru(self.inodes)?;
        design.remove_shrinker(self.shrinker)
    }
}

/// The list_lru and shrinker state of the design called `name`: one of [`Generation::ALL`], or `tenalloc`. `None`: no such
/// name.
///
/// # Errors
/// The machine cannot be run on, or the engine has no memory.
pub fn by_name(name: &str, machine: &Machine) -> Option<Result<Box<dyn ListDesign>, ListError>> {
    if name == "tenalloc" {
        return Some(Ours::new(machine).map(|ours| Box::new(ours) as Box<dyn ListDesign>));
    }
    let Generation { name, lists, shrinkers, .. } = Generation::by_name(name)?;
    Some(compose(name, *lists, Some(*shrinkers), machine))
}

/// Any generation of list_lru with any of shrinker state, whether or not a release had them together; `None`: without
/// shrinker state, to see list_lru alone.
///
/// # Errors
/// The machine cannot be run on.
pub fn compose(
    name: &'static str,
    lists: Lists,
    shrinkers: Option<Shrinkers>,
    machine: &Machine,
) -> Result<Box<dyn ListDesign>, ListError> {
    machine.check()?;
    let kmalloc = Kmalloc::with_pages(machine.page_size.into()).unwrap_or(Kmalloc::X86);
    let generation = list_lru::generation(lists, machine.nodes);
    let registry = Registry::new(shrinkers, machine.nodes);
    Ok(Box::new(Linux::new(name, generation, registry, machine.nodes, kmalloc)))
}
