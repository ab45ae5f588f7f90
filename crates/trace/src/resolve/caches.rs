//! Which cache an object came from. Up to 6.17 `kmem_cache_alloc` does not tell: the free of the same pointer does
//! (6.1 and later), else what most objects of the same call site, size and accounting turned out to be.
//!
//! A cache is the name it was merged into, or its own, and its slot size. Its geometry is believed only where the
//! slot size agrees with the events.

use crate::program::{Cache, CacheId};
use crate::read::event::{Alloc, GFP_DMA, GFP_RECLAIMABLE, Name, Names};
use crate::sidecar::geometry::Table;
use hashbrown::HashMap;

/// kmallocs above this are pages, not slab (rule 1).
pub(crate) const LARGEST_KMALLOC: u32 = 8192;

/// Objects that must have come from the same cache: call site, size, accounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin(u32);

/// Too many caches for a slab trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooMany;

struct Made {
    identity: Option<String>,
    slot_size: u32,
    /// Objects by the name they were known under.
    labels: Vec<(String, u64)>,
}

/// All caches of a trace.
#[derive(Default)]
pub(crate) struct Caches {
    geometry: Option<Table>,
    made: Vec<Made>,
    by_identity: HashMap<(String, u32), CacheId>,
    /// Cache and place of the label of a name with a size.
    by_name: HashMap<(Name, u32), (CacheId, usize)>,
    by_kmalloc: HashMap<(Class, u32), (CacheId, usize)>,
    origins: HashMap<(u64, u32, bool), Origin>,
    /// What the objects of an origin turned out to be.
    votes: Vec<(Source, Vec<(CacheId, u64)>)>,
    notes: Vec<String>,
}

#[derive(Clone, Copy)]
struct Source {
    site: u64,
    size: u32,
    settled: Option<CacheId>,
}

/// The kinds of kmalloc cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Class {
    Normal,
    Accounted,
    Reclaimable,
    Dma,
}

impl Caches {
    pub(crate) fn new(geometry: Option<Table>) -> Self {
        Self { geometry, ..Self::default() }
    }

    /// The cache of a kmalloc: rule 1.
    #[inline]
    pub(crate) fn kmalloc(&mut self, a: &Alloc) -> Result<CacheId, TooMany> {
        let class = class(a);
        let (cache, label) = match self.by_kmalloc.get(&(class, a.size)) {
            Some(&known) => known,
            None => {
                let name = self.kmalloc_name(class, a.size);
                let identity = self.kmalloc_identity(&name);
                let known = self.labelled(identity, name, a.size)?;
                self.by_kmalloc.insert((class, a.size), known);
                known
            }
        };
        self.count(cache, label);
        Ok(cache)
    }

    /// The cache of this name.
    #[inline]
    pub(crate) fn named(&mut self, name: Name, size: u32, names: &Names) -> Result<CacheId, TooMany> {
        let (cache, label) = match self.by_name.get(&(name, size)) {
            Some(&known) => known,
            None => {
                let text = names.text(name).into_owned();
                let identity = match &self.geometry {
                    Some(g) => g.identity(&text).to_owned(),
                    None => text.clone(),
                };
                let known = self.labelled(identity, text, size)?;
                self.by_name.insert((name, size), known);
                known
            }
        };
        self.count(cache, label);
        Ok(cache)
    }

    /// Where an object without a name came from.
    #[inline]
    pub(crate) fn origin(&mut self, a: &Alloc) -> Origin {
        let next = Origin(self.votes.len() as u32);
        let votes = &mut self.votes;
        *self.origins.entry((a.site, a.size, a.accounted)).or_insert_with(|| {
            votes.push((Source { site: a.site, size: a.size, settled: None }, Vec::new()));
            next
        })
    }

    /// An object of this origin was freed into `cache`.
    #[inline]
    pub(crate) fn vote(&mut self, origin: Origin, cache: CacheId) {
        if let Some((_, votes)) = self.votes.get_mut(origin.0 as usize) {
            match votes.iter_mut().find(|v| v.0 == cache) {
                Some(v) => v.1 += 1,
                None => votes.push((cache, 1)),
            }
        }
    }

    /// The cache of an object that nobody named: the majority of its origin, else the only cache with its slot
    /// size, else one of its own, called by its call site.
    pub(crate) fn settle(&mut self, origin: Origin) -> Result<CacheId, TooMany> {
        let Some((source, votes)) = self.votes.get(origin.0 as usize) else { return Err(TooMany) };
        let source = *source;
        let cache = match source.settled {
            Some(c) => c,
            None => match votes.iter().max_by_key(|v| (v.1, std::cmp::Reverse(v.0))) {
                Some(v) => v.0,
                None => self.unnamed(source)?,
            },
        };
        if let Some(v) = self.votes.get_mut(origin.0 as usize) {
            v.0.settled = Some(cache);
        }
        Ok(cache)
    }

    /// Caches made so far.
    pub(crate) fn len(&self) -> usize {
        self.made.len()
    }

    /// All caches, and notes on geometry that did not fit.
    pub(crate) fn finish(mut self) -> (Vec<Cache>, Vec<String>) {
        let mut caches = Vec::with_capacity(self.made.len());
        for made in std::mem::take(&mut self.made) {
            let geometry = match (&made.identity, &self.geometry) {
                (Some(identity), Some(table)) => {
                    self_geometry(identity, made.slot_size, table, &mut self.notes)
                }
                _ => None,
            };
            let mut labels = made.labels;
            labels.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
            let mut labels = labels.into_iter().map(|l| l.0);
            let name = labels.next().unwrap_or_default();
            let mut aliases: Vec<String> = labels.collect();
            if let (Some(identity), Some(table)) = (&made.identity, &self.geometry) {
                aliases.extend(table.aliases(identity).iter().filter(|a| **a != name).cloned());
            }
            aliases.sort();
            aliases.dedup();
            caches.push(Cache { name, aliases, slot_size: made.slot_size, geometry });
        }
        (caches, self.notes)
    }

    fn kmalloc_name(&self, class: Class, size: u32) -> String {
        match class {
            Class::Normal => format!("kmalloc-{size}"),
            Class::Reclaimable => format!("kmalloc-rcl-{size}"),
            Class::Dma => format!("dma-kmalloc-{size}"),
            // Before 5.14 there were no caches of their own for accounted kmallocs: the geometry tells.
            Class::Accounted => match &self.geometry {
                Some(g)
                    if g.cut(g.identity(&short(&format!("kmalloc-{size}")))).is_some()
                        && g.cut(g.identity(&short(&format!("kmalloc-cg-{size}")))).is_none() =>
                {
                    format!("kmalloc-{size}")
                }
                _ => format!("kmalloc-cg-{size}"),
            },
        }
    }

    fn kmalloc_identity(&self, name: &str) -> String {
        let name = short(name);
        match &self.geometry {
            Some(g) => g.identity(&name).to_owned(),
            None => name,
        }
    }

    fn unnamed(&mut self, source: Source) -> Result<CacheId, TooMany> {
        if let Some(only) = self.geometry.as_ref().and_then(|g| g.only_with(source.size)) {
            let only = only.to_owned();
            return self.labelled(only.clone(), only, source.size).map(|c| c.0);
        }
        let label = format!("?{:#x}/{}", source.site, source.size);
        self.labelled(label.clone(), label, source.size).map(|c| c.0)
    }

    fn labelled(&mut self, identity: String, label: String, slot: u32) -> Result<(CacheId, usize), TooMany> {
        let next = CacheId(u16::try_from(self.made.len()).map_err(|_| TooMany)?);
        let made = &mut self.made;
        let cache = *self.by_identity.entry((identity.clone(), slot)).or_insert_with(|| {
            made.push(Made { identity: Some(identity), slot_size: slot, labels: Vec::new() });
            next
        });
        let labels = &mut self.made.get_mut(usize::from(cache.0)).ok_or(TooMany)?.labels;
        let place = labels.iter().position(|l| l.0 == label).unwrap_or_else(|| {
            labels.push((label, 0));
            labels.len() - 1
        });
        Ok((cache, place))
    }

    #[inline]
    fn count(&mut self, cache: CacheId, label: usize) {
        if let Some(l) = self.made.get_mut(usize::from(cache.0)).and_then(|m| m.labels.get_mut(label)) {
            l.1 += 1;
        }
    }
}

fn class(a: &Alloc) -> Class {
    if a.gfp & GFP_DMA != 0 {
        Class::Dma
    } else if a.gfp & GFP_RECLAIMABLE != 0 {
        Class::Reclaimable
    } else if a.accounted {
        Class::Accounted
    } else {
        Class::Normal
    }
}

/// The kernel's own spelling: `kmalloc-cg-1024` is `kmalloc-cg-1k`.
fn short(name: &str) -> String {
    match name.rsplit_once('-').and_then(|(front, n)| Some((front, n.parse::<u32>().ok()?))) {
        Some((front, n)) if n >= 1024 && n % 1024 == 0 => format!("{front}-{}k", n / 1024),
        _ => name.to_owned(),
    }
}

fn self_geometry(
    identity: &str,
    slot_size: u32,
    table: &Table,
    notes: &mut Vec<String>,
) -> Option<crate::program::Geometry> {
    let cut = table.cut(identity)?;
    if cut.slot_size != slot_size {
        notes.push(format!(
            "{}, line {}: {identity} has slots of {} bytes there, of {slot_size} in the events: its geometry is not used",
            table.file, cut.line, cut.slot_size
        ));
        return None;
    }
    Some(cut.geometry)
}
