//! A design to be understood at a glance: objects of one cache lie one behind the other in pages of 4,096 bytes that
//! never go back, whoever they belong to. It keeps a diary, and lies when told to.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use tenalloc_designs::{CacheKey, CacheSpec, CacheUsage, Design, Error, GroupKey, Place, Usage};

/// What is said or done wrongly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Lie {
    #[default]
    None,
    /// One byte more than is charged.
    Charge,
    /// Every object is the first one.
    Twice,
    /// Each allocation spoils the first bytes of the one before.
    First,
    /// Each allocation spoils the last bytes of the one before.
    Last,
    /// One object more in each cache.
    Count,
    /// A cache less.
    Caches,
    /// One live byte more.
    Live,
    /// A page more in the usage than in `slab_bytes`.
    Usage,
    /// A page more in each cache.
    Slab,
    /// Refuses the third allocation.
    Full,
}

const PAGE: u64 = 4096;

#[derive(Default)]
pub(super) struct Fake {
    pub(super) lie: Lie,
    pub(super) diary: Vec<String>,
    /// Slot size and places taken in its last page.
    caches: Vec<(u32, u64)>,
    /// A page and its cache.
    pages: Vec<(Box<[u64; 512]>, u16)>,
    groups: Vec<(Option<GroupKey>, bool)>,
    /// Address → cache, group.
    live: BTreeMap<usize, (u16, Option<GroupKey>)>,
    allocs: u64,
    before: Option<(NonNull<u8>, usize)>,
}

impl Fake {
    pub(super) fn lying(lie: Lie) -> Self {
        Self { lie, ..Self::default() }
    }

    fn lies(&self, lie: Lie) -> u64 {
        u64::from(self.lie == lie)
    }

    fn is_below(&self, group: GroupKey, top: GroupKey) -> bool {
        let mut at = Some(group);
        while let Some(key) = at {
            if key == top {
                return true;
            }
            at = self.groups[key.0 as usize].0;
        }
        false
    }

    fn size(&self, cache: u16) -> u64 {
        self.caches[usize::from(cache)].0.into()
    }
}

impl Design for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn summary(&self) -> &'static str {
        "One page after the other."
    }

    fn add_cache(&mut self, spec: &CacheSpec<'_>) -> Result<CacheKey, Error> {
        self.diary.push(format!("cache {} {}", spec.name, spec.slot_size));
        self.caches.push((spec.slot_size, u64::MAX));
        Ok(CacheKey(self.caches.len() as u16 - 1))
    }

    fn add_group(&mut self, parent: Option<GroupKey>, name: &str) -> Result<GroupKey, Error> {
        self.diary.push(format!("group {name} in {:?}", parent.map(|p| p.0)));
        self.groups.push((parent, true));
        Ok(GroupKey(self.groups.len() as u32 - 1))
    }

    fn remove_group(&mut self, group: GroupKey) -> Result<(), Error> {
        self.diary.push(format!("remove {}", group.0));
        if self.groups.iter().any(|(parent, alive)| *alive && *parent == Some(group)) {
            return Err(Error::GroupHasChildren(group));
        }
        self.groups[group.0 as usize].1 = false;
        Ok(())
    }

    fn alloc(
        &mut self,
        place: Place,
        cache: CacheKey,
        group: Option<GroupKey>,
    ) -> Result<NonNull<u8>, Error> {
        self.allocs += 1;
        if self.lie == Lie::Full && self.allocs == 3 {
            return Err(Error::TooMany("objects"));
        }
        self.diary.push(format!(
            "alloc {} for {:?} on {}.{}",
            cache.0,
            group.map(|g| g.0),
            place.cpu,
            place.node.unwrap_or(255)
        ));
        let Some((size, used)) = self.caches.get_mut(usize::from(cache.0)) else {
            return Err(Error::UnknownCache(cache));
        };
        let size = u64::from(*size);
        if used.saturating_add(1).saturating_mul(size) > PAGE {
            *used = 0;
            self.pages.push((Box::new([0; 512]), cache.0));
        }
        let at = (*used * size) as usize;
        *used += 1;
        let page = self.pages.iter_mut().rfind(|p| p.1 == cache.0).map(|p| p.0.as_mut_ptr());
        let page = page.and_then(NonNull::new).ok_or(Error::TooMany("pages"))?.cast::<u8>();
        // SAFETY: the page has room for the object at this offset.
        let object = unsafe { page.add(at) };
        if let Some((before, size)) = self.before.filter(|_| matches!(self.lie, Lie::First | Lie::Last)) {
            let at = if self.lie == Lie::First { 0 } else { size - 1 };
            // SAFETY: within the object handed out before; pages never go.
            unsafe { before.add(at).write(0xFF ^ before.add(at).read()) };
        }
        self.before = Some((object, size as usize));
        self.live.insert(object.as_ptr() as usize, (cache.0, group));
        let first = self.live.first_key_value().and_then(|(at, _)| NonNull::new(*at as *mut u8));
        Ok(first.filter(|_| self.lie == Lie::Twice).unwrap_or(object))
    }

    unsafe fn free(&mut self, cpu: u16, object: NonNull<u8>) -> Result<(), Error> {
        self.diary.push(format!("free on {cpu}"));
        let address = object.as_ptr() as usize;
        self.live.remove(&address).map(|_| ()).ok_or(Error::ForeignPointer(address))
    }

    fn slab_bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }

    fn usage(&mut self) -> Usage {
        Usage {
            live: self.live.values().map(|o| self.size(o.0)).sum::<u64>() + self.lies(Lie::Live),
            slab: self.slab_bytes() + PAGE * self.lies(Lie::Usage),
            owners: 3,
            metadata: self.groups.len() as u64 * 10,
            cached: 7,
        }
    }

    fn charge(&mut self, group: GroupKey) -> u64 {
        if !self.groups[group.0 as usize].1 {
            return 0;
        }
        let mine = self.live.values().filter(|(_, owner)| owner.is_some_and(|o| self.is_below(o, group)));
        mine.map(|(cache, _)| self.size(*cache) + 8).sum::<u64>() + self.lies(Lie::Charge)
    }

    fn pages(&mut self, group: GroupKey) -> u64 {
        self.charge(group).next_multiple_of(PAGE)
    }

    fn caches(&mut self) -> Vec<CacheUsage> {
        let usage = |cache: u16| {
            let slabs = self.pages.iter().filter(|p| p.1 == cache).count() as u64;
            CacheUsage {
                objects: self.live.values().filter(|o| o.0 == cache).count() as u64 + self.lies(Lie::Count),
                slabs,
                slab_bytes: (slabs + self.lies(Lie::Slab)) * PAGE,
            }
        };
        (0..self.caches.len() as u16 - self.lies(Lie::Caches) as u16).map(usage).collect()
    }

    fn slab_of(&self, object: NonNull<u8>) -> Option<usize> {
        let address = object.as_ptr() as usize;
        let holds = |page: &&(Box<[u64; 512]>, u16)| {
            let start = page.0.as_ptr() as usize;
            (start..start + PAGE as usize).contains(&address)
        };
        self.pages.iter().find(holds).map(|page| page.0.as_ptr() as usize)
    }

    fn orphans(&mut self) -> u64 {
        self.groups.iter().filter(|g| !g.1).count() as u64
    }
}
