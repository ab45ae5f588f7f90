//! What can go wrong, each with the facts that a user needs to mend it.

use core::fmt;

/// The result of every fallible call.
pub type Result<T> = core::result::Result<T, Error>;

/// A call that failed. Nothing of it remains: no byte charged, no object taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A charge would pass the `max` of a group on the way to the root.
    Limit(Limit),
    /// The system (or the simulated source) gave no memory.
    NoMemory {
        /// Bytes asked of the page source.
        bytes: usize,
    },
    /// The group or an ancestor is frozen: it may not grow.
    Frozen,
    /// The group was removed; its handle can no longer allocate or create.
    GroupRemoved,
    /// The group still has children; remove them first.
    GroupBusy {
        /// How many.
        children: u32,
    },
    /// The root cannot be removed.
    Root,
    /// A sibling of that name exists.
    Exists,
    /// No such group.
    NotFound,
    /// A group's or cache's name is empty, too long (255 bytes; caches 47), or holds `/` or NUL.
    BadName,
    /// Size 0, or beyond what the address space can hold.
    BadSize {
        /// As given.
        size: usize,
    },
    /// Not a power of two, or beyond what the call supports.
    BadAlign {
        /// As given.
        align: usize,
    },
    /// No such node in this topology.
    BadNode {
        /// As given.
        node: usize,
    },
    /// A fixed table is full.
    Full {
        /// Which: `groups`, `owners`, `caches`, `name`.
        table: &'static str,
    },
    /// The address does not belong to this controller.
    Foreign {
        /// As given.
        address: usize,
    },
    /// The address lies in one of our slabs, but is not the start of an object.
    Interior {
        /// As given.
        address: usize,
    },
    /// The object is not live: freed twice, or never handed out.
    DoubleFree {
        /// As given.
        address: usize,
    },
    /// Somebody wrote beyond the object, into a red zone. The object was freed all the same, and the zone mended.
    Overwritten {
        /// The object.
        address: usize,
        /// The first byte that was written over.
        at: usize,
    },
    /// The object belongs to another cache than the one it was given back to.
    WrongCache {
        /// As given.
        address: usize,
    },
    /// It would have to wait for a lock or for memory, and must not.
    Busy,
    /// The cache was destroyed; its handles can no longer allocate.
    CacheDestroyed,
    /// The cache still has live objects.
    CacheBusy {
        /// How many.
        objects: u64,
    },
    /// The cache serves a size class of `malloc`: it stays as long as the controller.
    SizeClass,
}

/// Bytes of a path, and children, that an error carries: with these an `Error` stays below the 128 bytes from which on
/// it would be a burden for every function that returns one.
const PATH: usize = 39;
pub(crate) const CHILDREN: usize = 2;
const _: () = assert!(size_of::<Error>() < 128);

/// Which limit stopped a charge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    path: [u8; PATH],
    len: u8,
    children: [Child; CHILDREN],
    /// The group's `max`, bytes.
    pub max: u64,
    /// The group's `current` at that moment, bytes.
    pub current: u64,
    /// Bytes that were asked for.
    pub wanted: u64,
}

impl Limit {
    pub(crate) fn new(
        path: &dyn fmt::Display,
        max: u64,
        current: u64,
        wanted: u64,
        children: [Child; CHILDREN],
    ) -> Self {
        struct Tail<'a>(&'a mut [u8; PATH], usize);
        impl fmt::Write for Tail<'_> {
            fn write_str(&mut self, s: &str) -> fmt::Result {
                for &b in s.as_bytes() {
                    if self.1 == self.0.len() {
                        self.0.copy_within(1.., 0); // the end of a path tells more than its start
                        self.1 -= 1;
                    }
                    self.0[self.1] = b;
                    self.1 += 1;
                }
                Ok(())
            }
        }
        let mut buf = [0; PATH];
        let mut tail = Tail(&mut buf, 0);
        let _ = fmt::Write::write_fmt(&mut tail, format_args!("{path}"));
        let len = tail.1 as u8;
        Self { path: buf, len, children, max, current, wanted }
    }

    /// Path of the group whose limit was hit; the last 39 bytes of a longer one.
    pub fn path(&self) -> &str {
        let bytes = &self.path[..self.len as usize];
        let start =
            (0..bytes.len()).find(|&i| core::str::from_utf8(&bytes[i..]).is_ok()).unwrap_or(bytes.len());
        core::str::from_utf8(&bytes[start..]).unwrap_or("")
    }

    /// The group's children that hold most, at most two: name (its first 15 bytes) and `current`.
    pub fn children(&self) -> impl Iterator<Item = (&str, u64)> {
        self.children.iter().filter(|c| c.current > 0).map(|c| (c.name(), c.current))
    }
}

/// A child of the group whose limit was hit.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Child {
    name: [u8; 15],
    len: u8,
    pub(crate) current: u64,
}

impl Child {
    pub(crate) fn new(name: &str, current: u64) -> Self {
        let mut child = Self { current, ..Self::default() };
        let end =
            (0..=name.len().min(child.name.len())).rev().find(|i| name.is_char_boundary(*i)).unwrap_or(0);
        child.name[..end].copy_from_slice(&name.as_bytes()[..end]);
        child.len = end as u8;
        child
    }

    fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..self.len.into()]).unwrap_or("")
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max, current, wanted, .. } = self;
        write!(f, "group {}: {wanted} bytes more would pass max {max} (current {current})", self.path())?;
        for (i, (name, bytes)) in self.children().enumerate() {
            write!(f, "{} {name} {bytes}", if i == 0 { "; largest children:" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(l) => l.fmt(f),
            Self::NoMemory { bytes } => write!(f, "the page source gave no {bytes} bytes"),
            Self::Frozen => f.write_str("the group or an ancestor is frozen: it may not grow"),
            Self::GroupRemoved => {
                f.write_str("the group was removed: its handle can no longer allocate or create")
            }
            Self::GroupBusy { children } => write!(f, "the group has {children} children: remove them first"),
            Self::Root => f.write_str("the root group cannot be removed"),
            Self::Exists => f.write_str("a group of that name exists there"),
            Self::NotFound => f.write_str("no such group"),
            Self::BadName => f.write_str(
                "a name is 1 to 255 bytes (of a cache: 47) without '/' and NUL, and not '.' or '..'",
            ),
            Self::BadSize { size } => write!(f, "size {size} is not supported"),
            Self::BadAlign { align } => {
                write!(f, "alignment {align} is not supported: a power of two is needed")
            }
            Self::BadNode { node } => write!(f, "there is no node {node}"),
            Self::Full { table } => write!(f, "no room for more {table}"),
            Self::Foreign { address } => write!(f, "{address:#x} was not allocated here"),
            Self::Interior { address } => write!(f, "{address:#x} is not the start of an object"),
            Self::DoubleFree { address } => write!(f, "{address:#x} is not live: freed twice?"),
            Self::Overwritten { address, at } => {
                write!(f, "{address:#x} was freed, but somebody had written beyond it, at {at:#x}")
            }
            Self::WrongCache { address } => write!(f, "{address:#x} belongs to another cache"),
            Self::Busy => f.write_str("nothing was at hand without waiting"),
            Self::CacheDestroyed => f.write_str("the cache was destroyed"),
            Self::CacheBusy { objects } => write!(f, "the cache has {objects} live objects"),
            Self::SizeClass => {
                f.write_str("the cache serves a size class: it stays as long as the controller")
            }
        }
    }
}

impl core::error::Error for Error {}
