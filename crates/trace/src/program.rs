//! What a design runs: every object of a trace with its cache, owner and node, in time order.
//!
//! A `Program` is made once and read by every design. An object is named by a dense *slot* that is reused
//! after its free, so a design finds its object by an index and nobody hashes a pointer twice.

/// Index into [`Program::groups`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub u32);

impl GroupId {
    /// The root cgroup `/`. The kernel charges nothing to it.
    pub const ROOT: Self = Self(0);
    /// Accounted objects of tasks whose cgroup the recording does not tell. Never guessed.
    pub const UNKNOWN: Self = Self(1);
    /// Allocated in a soft or hard interrupt: the kernel charges nobody.
    pub const INTERRUPT: Self = Self(2);
    /// Allocated by a task after its own exit event: the kernel charges nobody.
    pub const EXITED: Self = Self(3);
    /// The first group that stands for a real cgroup other than the root.
    pub const FIRST: Self = Self(4);
    /// Not accounted: the object never had an owner.
    pub const NOBODY: Self = Self(u32::MAX);
}

/// Index into [`Program::caches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheId(pub u16);

/// A slab cache of the recorded kernel; caches that the kernel merged are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The most used name of the cache, say `dentry` or `kmalloc-cg-64`. `?0xADDR/SIZE` where the recording
    /// tells neither name nor alias.
    pub name: String,
    /// The other names seen for it, sorted.
    pub aliases: Vec<String>,
    /// Bytes from one object to the next (`bytes_alloc` of the events).
    pub slot_size: u32,
    /// How the kernel cut its slabs, where the recording tells.
    pub geometry: Option<Geometry>,
}

/// A kernel cache's slabs, from `/sys/kernel/slab`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes that the cache's users see of an object.
    pub object_size: u32,
    /// Pages in a slab = 2^order.
    pub order: u8,
    /// Objects in a slab.
    pub objects: u32,
}

/// A cgroup, or one of the rows for what is not known ([`GroupId::UNKNOWN`] and its neighbours).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Path from the root, or the name of the row in brackets.
    pub path: String,
    /// `None` for the root and for the rows in brackets.
    pub parent: Option<GroupId>,
    /// Whether the kernel charges this group's objects. False for `/`, interrupts and exited tasks.
    pub charged: bool,
    /// When it was made, ns since [`Program::start_ns`]; `None`: before the recording.
    pub created: Option<u64>,
    /// When it was removed, ns since [`Program::start_ns`]; `None`: it outlived the recording.
    pub removed: Option<u64>,
}

/// What an [`Op`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OpKind {
    /// `slot` becomes a live object of `cache`, owned by `group`, on `node`.
    Alloc,
    /// The object in `slot` is freed.
    Free,
    /// As `Free`, but the recording had no event for it: its address was handed out again.
    HiddenFree,
    /// `group` is made. Groups made before the recording have their `Create` first, at time 0, parents first.
    Create,
    /// `group` is removed; its objects live on.
    Remove,
    /// A file system was mounted by a task of `group`; `slot` counts the mounts.
    Mount,
    /// A file system was unmounted.
    Unmount,
    /// The kernel made a superblock, number `slot`, for a task of `group`; with it two list_lrus (dentries, inodes) and
    /// a shrinker. Seen where call sites have names.
    Super,
    /// Superblock `slot` is no more.
    SuperGone,
    /// The kernel made `group`'s part of some list_lru; which one, it does not tell. From 5.18 on, when lists came to
    /// be made on first use. `slot` is 0 for the group of the task that used the list, 1 for the group above it, whose
    /// part is made along, and so on.
    ListUse,
    /// The kernel's own counters were read here: index `slot` into [`Program::stamps`].
    Stamp,
}

/// One step of a [`Program`]: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// ns since [`Program::start_ns`].
    pub time: u64,
    /// The object, mount or stamp.
    pub slot: u32,
    /// The owner for `Alloc` ([`GroupId::NOBODY`]: not accounted), the group for `Create`, `Remove`, `Mount`.
    pub group: GroupId,
    /// For `Alloc` only.
    pub cache: CacheId,
    /// CPU that did it.
    pub cpu: u16,
    /// NUMA node of the object's memory, for `Alloc` only.
    pub node: u8,
    /// NUMA node that was asked for, for `Alloc` only; [`Op::ANY_NODE`] for most.
    pub asked: u8,
    /// For `Alloc`: the object is the recorded kernel's own state of list_lrus and shrinkers, which each design makes
    /// in its own way.
    pub own: bool,
    /// What is done.
    pub kind: OpKind,
}

impl Op {
    /// [`Op::asked`] of an allocation that takes memory of any node.
    pub const ANY_NODE: u8 = u8::MAX;
}

/// The kernel's own figures at one moment of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Its name in the sidecar, say `steady`.
    pub label: String,
    /// ns since [`Program::start_ns`].
    pub time: u64,
    /// cgroup path and its `memory.stat` `slab` in bytes.
    pub slab: Vec<(String, u64)>,
}

/// What was counted while reading, under the names that the traces' README uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Samples by event name (`kmem:kmalloc`), in the order of the file.
    pub samples: Vec<(String, u64)>,
    /// Allocation events with a pointer.
    pub allocations: u64,
    /// Of these, accounted. 5.10 tells it only of objects allocated with `__GFP_ACCOUNT`; a note says so.
    pub accounted: u64,
    /// Accounted and charged to a cgroup other than the root.
    pub charged: u64,
    /// kmallocs above 8,192 bytes: pages, not slab; left out of the program.
    pub large: u64,
    /// Owner vectors that the recorded kernel made for itself (rule 7): left out of the program, since each
    /// design has its own.
    pub owner_vectors: u64,
    /// Allocations that asked for a node.
    pub explicit_node: u64,
    /// Objects of the kernel's own list_lru and shrinker state ([`Op::own`]).
    pub own: u64,
    /// Superblocks made ([`OpKind::Super`]).
    pub supers: u64,
    /// Parts of list_lrus made for groups ([`OpKind::ListUse`]).
    pub list_uses: u64,
    /// List heads made one by one, for every list_lru, node and group at once, as kernels up to 5.17 do.
    pub list_heads: u64,
    /// Arrays of such heads, made with their list_lru, and made anew for one more group than the old had room for.
    pub list_arrays: (u64, u64),
    /// list_lrus older than the recording; told only by a kernel up to 5.17 whose arrays grew.
    pub older_lists: Option<u64>,
    /// Allocations in a soft or hard interrupt.
    pub interrupt: u64,
    /// Frees of an object seen allocated.
    pub matched_frees: u64,
    /// Frees of a pointer never seen allocated.
    pub unseen_frees: u64,
    /// Allocations of a pointer that was still live: its free had no event.
    pub hidden_frees: u64,
    /// Objects live after the last event.
    pub live_at_end: u64,
    /// Largest sum of live bytes (slots).
    pub peak_live_bytes: u64,
    /// Largest sum of live bytes of accounted objects.
    pub peak_accounted_bytes: u64,
    /// Live bytes after the last event.
    pub end_live_bytes: u64,
    /// Live accounted bytes after the last event.
    pub end_accounted_bytes: u64,
    /// cgroups charged at least once.
    pub groups_charged: u64,
    /// Events that perf says it lost.
    pub lost: u64,
    /// Samples that came out of time order even after merging.
    pub out_of_order: u64,
    /// Allocations by the node of the pointer.
    pub by_node: Vec<u64>,
}

/// Something the reader of a report should know, told once: what is missing or odd, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// One sentence or two.
    pub text: String,
}

/// A trace ready to run.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// `uname` text of the recorded kernel, where known.
    pub kernel: Option<String>,
    /// Bytes of a page on the recorded machine.
    pub page_size: u32,
    /// CPUs and NUMA nodes of the recorded machine (at least 1 each).
    pub cpus: u16,
    /// NUMA nodes of the recorded machine.
    pub nodes: u8,
    /// The node of each CPU, by index.
    pub cpu_node: Vec<u8>,
    /// Clock of the recording at its first event, ns.
    pub start_ns: u64,
    /// Length, ns.
    pub length_ns: u64,
    /// Every cache.
    pub caches: Vec<Cache>,
    /// Every group; the first four are the fixed rows of [`GroupId`].
    pub groups: Vec<Group>,
    /// Every step, in time order.
    pub ops: Vec<Op>,
    /// Slots in use at most: a table of this length holds every object.
    pub slots: u32,
    /// Index into `ops` of the allocation at which most bytes were live. The same for every design.
    pub peak_op: usize,
    /// The kernel's truth.
    pub stamps: Vec<Stamp>,
    /// What was counted.
    pub counts: Counts,
    /// Byte offset at which the file broke off or could not be read on; what came before is here.
    pub truncated: Option<u64>,
    /// What the user should know.
    pub notes: Vec<Note>,
}
