//! `tenalloc`: the core crate as it is, driven like the others.
//!
//! Slabs are shared by all groups; a slab of one owner has no owner vector, one of several has 4 bytes an object. What
//! is charged for an object is Linux's slot + 8 bytes, so that every design can be held against the kernel's counters.

use core::ptr::NonNull;

use tenalloc::{Cache, CacheConfig, Config, Controller, Group, PAGE, Topology};

use crate::{CacheKey, CacheSpec, CacheUsage, Design, Error, GroupKey, Machine, Place, Usage};

/// What Linux charges for an object's owner, bytes.
const OWNER_POINTER: u32 = 8;

/// The design.
pub struct Tenalloc {
    ctl: Controller,
    caches: Vec<Cache>,
    groups: Vec<Member>,
    pages_per_page: u32, // pages of tenalloc in one of the machine's
    cpu_node: &'static [u8],
    cpus: u16,
    nodes: u8,
}

struct Member {
    parent: Option<GroupKey>,
    alive: Option<Group>,
}

impl Tenalloc {
    /// A machine without caches and groups.
    ///
    /// # Errors
    /// [`Error::Machine`]; or there is no memory.
    pub fn new(machine: &Machine) -> Result<Self, Error> {
        machine.check()?;
        // Some bytes a run: a topology is looked at by every allocation and freed by nobody.
        let cpu_node = machine.cpu_node[..machine.cpus.into()].to_vec().leak();
        let config =
            Config::new().hardened(false).topology(Topology::simulated_with(machine.nodes, cpu_node));
        Ok(Self {
            ctl: Controller::new(config)?,
            caches: Vec::new(),
            groups: Vec::new(),
            pages_per_page: machine.page_size / PAGE as u32,
            cpu_node,
            cpus: machine.cpus,
            nodes: machine.nodes,
        })
    }

    /// The group itself if it lives, else its nearest living ancestor; `None`: the root.
    #[inline]
    fn living(&self, key: GroupKey) -> Result<Option<&Group>, Error> {
        let mut at = key;
        loop {
            let member = self.groups.get(at.0 as usize).ok_or(Error::UnknownGroup(at))?;
            match (&member.alive, member.parent) {
                (Some(group), _) => return Ok(Some(group)),
                (None, Some(parent)) => at = parent,
                (None, None) => return Ok(None),
            }
        }
    }

    fn alive(&self, key: GroupKey) -> Option<&Group> {
        self.groups.get(key.0 as usize)?.alive.as_ref()
    }
}

impl Design for Tenalloc {
    fn name(&self) -> &'static str {
        "tenalloc"
    }

    fn summary(&self) -> &'static str {
        "All groups share slabs; each object knows its owner, at no cost while a slab has only one."
    }

    fn add_cache(&mut self, spec: &CacheSpec<'_>) -> Result<CacheKey, Error> {
        let key = CacheKey(u16::try_from(self.caches.len()).map_err(|_| Error::TooMany("caches"))?);
        let objects = spec.geometry.map_or(0, |g| g.objects);
        let geometry_error = |slab_bytes| Error::Geometry {
            name: spec.name.to_owned(),
            slot_size: spec.slot_size,
            objects,
            slab_bytes,
        };
        // A name is for people here: what is too long or holds a slash is cut.
        let name: String = spec.name.chars().map(|c| if c == '/' { '|' } else { c }).take(40).collect();
        let name = if name.len() > 47 || name.is_empty() { "cache" } else { &name };
        let mut config = CacheConfig::new(name, spec.slot_size as usize).owner_bytes(OWNER_POINTER);
        if let Some(g) = spec.geometry {
            let pages = self.pages_per_page.checked_shl(g.order.into()).unwrap_or(u32::MAX);
            let (Ok(pages), Ok(objects)) = (u16::try_from(pages), u16::try_from(g.objects)) else {
                return Err(geometry_error(u64::from(pages) * PAGE as u64));
            };
            config = config.geometry(tenalloc::Geometry { pages, objects });
        }
        let cache = self.ctl.cache(&config).map_err(|e| match e {
            tenalloc::Error::BadSize { size } => geometry_error(size as u64),
            e => Error::Engine(e),
        })?;
        self.caches.push(cache);
        Ok(key)
    }

    fn add_group(&mut self, parent: Option<GroupKey>, name: &str) -> Result<GroupKey, Error> {
        let key = u32::try_from(self.groups.len()).map(GroupKey).map_err(|_| Error::TooMany("groups"))?;
        let group = match parent {
            None => self.ctl.root().create(name)?,
            Some(parent) => match self.groups.get(parent.0 as usize) {
                None => return Err(Error::UnknownGroup(parent)),
                Some(Member { alive: None, .. }) => return Err(Error::RemovedGroup(parent)),
                Some(Member { alive: Some(above), .. }) => above.create(name)?,
            },
        };
        self.groups.push(Member { parent, alive: Some(group) });
        Ok(key)
    }

    fn remove_group(&mut self, group: GroupKey) -> Result<(), Error> {
        let member = self.groups.get_mut(group.0 as usize).ok_or(Error::UnknownGroup(group))?;
        let alive = member.alive.as_ref().ok_or(Error::RemovedGroup(group))?;
        alive.remove().map_err(|e| match e {
            tenalloc::Error::GroupBusy { .. } => Error::GroupHasChildren(group),
            e => Error::Engine(e),
        })?;
        member.alive = None;
        Ok(())
    }

    #[inline]
    fn alloc(
        &mut self,
        place: Place,
        cache: CacheKey,
        group: Option<GroupKey>,
    ) -> Result<NonNull<u8>, Error> {
        if place.cpu >= self.cpus {
            return Err(Error::UnknownCpu { cpu: place.cpu, cpus: self.cpus });
        }
        let node = place.node.unwrap_or_else(|| self.cpu_node[usize::from(place.cpu)]);
        if node >= self.nodes {
            return Err(Error::UnknownNode { node, nodes: self.nodes });
        }
        self.ctl.set_cpu(place.cpu);
        let objects = self.caches.get(usize::from(cache.0)).ok_or(Error::UnknownCache(cache))?;
        Ok(match group.map(|key| self.living(key)).transpose()?.flatten() {
            Some(group) => objects.alloc_on(group, node)?,
            None => objects.alloc_unowned(Some(node))?,
        })
    }

    #[inline]
    unsafe fn free(&mut self, cpu: u16, object: NonNull<u8>) -> Result<(), Error> {
        if cpu >= self.cpus {
            return Err(Error::UnknownCpu { cpu, cpus: self.cpus });
        }
        self.ctl.set_cpu(cpu);
        // SAFETY: the caller's promise.
        unsafe { self.ctl.free(object) }.map_err(|e| match e {
            tenalloc::Error::Foreign { address } | tenalloc::Error::Interior { address } => {
                Error::ForeignPointer(address)
            }
            tenalloc::Error::DoubleFree { address } => Error::DoubleFree(address),
            e => Error::Engine(e),
        })
    }

    fn slab_bytes(&self) -> u64 {
        self.ctl.slab_bytes()
    }

    fn usage(&mut self) -> Usage {
        let stat = self.ctl.stat();
        Usage {
            live: stat.live_bytes,
            slab: stat.slab_bytes,
            owners: stat.owner_vector_bytes,
            // Free pages that are still resident are ours to answer for.
            metadata: stat.metadata_bytes + stat.free_page_bytes,
            cached: stat.cached_bytes,
        }
    }

    fn charge(&mut self, group: GroupKey) -> u64 {
        self.alive(group).map_or(0, Group::exact)
    }

    fn pages(&mut self, group: GroupKey) -> u64 {
        self.alive(group).map_or(0, Group::current)
    }

    fn caches(&mut self) -> Vec<CacheUsage> {
        let usage = |cache: &Cache| {
            let stat = cache.stat();
            CacheUsage { objects: stat.objects, slabs: stat.slabs, slab_bytes: stat.slab_bytes }
        };
        self.caches.iter().map(usage).collect()
    }

    fn slab_of(&self, object: NonNull<u8>) -> Option<usize> {
        self.ctl.slab_of(object).ok().map(|(address, _)| address)
    }

    fn orphans(&mut self) -> u64 {
        self.ctl.stat().orphans
    }
}
