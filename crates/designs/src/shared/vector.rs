//! Owner vectors: for each slab with an accounted object, one word an object that names its owner.
//!
//! ```text
//! slab    [ obj 0 | obj 1 | obj 2 | … | slack ]
//! vector  [ own 0 | own 1 | own 2 | … ]              kmalloc(8 × objects), made with the slab's first accounted object
//!                                                    or, where 7.0 found room: in the slack, or behind each object
//! ```
//! The memory is real and so are the words. Vectors from `kmalloc` lie in the very kmalloc caches that the trace's own
//! objects lie in, as in the kernel, where it has them. Follows Linux 5.9 `mm/slab.h` `memcg_alloc_page_obj_cgroups()`;
//! for the slack, 7.0 `mm/slub.c` `alloc_slab_obj_exts_early()`.

use core::ptr::NonNull;

use super::Front;
use super::obj_cgroup::Handle;
use crate::geometry::Cut;
use crate::slub::{CacheId, SlabEvents, Slub, Spot};
use crate::{CacheSpec, Error, Geometry, Machine, Place};

/// Bytes of a word.
const WORD: u32 = 8;
/// The largest `kmalloc` from a cache; above, it takes pages.
const LARGEST_KMALLOC: u32 = 8192;

/// Where the words of a cache's slabs lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// In a kmalloc of its own.
    Kmalloc,
    /// In the slab, from `first` on, `stride` bytes apart.
    Slab { first: u32, stride: u32 },
}

impl Room {
    /// Where there is room in such a slab: behind the last object, else in the padding behind each.
    pub(crate) fn in_slab(cut: &Cut, object_size: Option<u32>) -> Self {
        let end = (cut.size * cut.objects).next_multiple_of(WORD);
        if end.saturating_add(WORD * cut.objects) <= cut.slab_bytes {
            return Self::Slab { first: end, stride: WORD };
        }
        match object_size.map(|bytes| bytes.next_multiple_of(WORD)) {
            // The link between free objects takes the first word of an object.
            Some(first) if first >= WORD && first + WORD <= cut.size && cut.size.is_multiple_of(WORD) => {
                Self::Slab { first, stride: cut.size }
            }
            _ => Self::Kmalloc,
        }
    }
}

/// The vector of one slab.
#[derive(Clone, Copy)]
struct Vector {
    first: NonNull<u8>,
    stride: u32,
    own: bool, // from kmalloc
}

/// A kmalloc cache that vectors come from.
#[derive(Clone, Copy)]
struct Class {
    cache: CacheId,
    slot: u32,
    vectors: u64,
}

/// All vectors.
pub(crate) struct Vectors {
    machine: Machine,
    by_slab: Vec<Option<Vector>>,
    classes: Vec<Class>,
    hidden: Vec<CacheId>, // kmalloc caches of vectors alone: the trace has none of this size
    doomed: Vec<NonNull<u8>>,
    bytes: u64,  // of the places they take
    beside: u64, // slab bytes of hidden caches, and of places in others
}

impl SlabEvents for Vectors {
    fn slab_wanted(&mut self, cache: CacheId, bytes: u64) -> Result<(), Error> {
        self.beside += if self.hidden.contains(&cache) { bytes } else { 0 };
        Ok(())
    }
    fn slab_gone(&mut self, cache: CacheId, bytes: u64) {
        self.beside -= if self.hidden.contains(&cache) { bytes } else { 0 };
    }
    fn slab_dies(&mut self, slab: u32) {
        let vector = self.by_slab.get_mut(slab as usize).and_then(Option::take);
        self.doomed.extend(vector.filter(|vector| vector.own).map(|vector| vector.first));
    }
}

impl Vectors {
    /// None yet.
    pub(crate) fn new(machine: &Machine) -> Self {
        Self {
            machine: machine.clone(),
            by_slab: Vec::new(),
            classes: Vec::new(),
            hidden: Vec::new(),
            doomed: Vec::new(),
            bytes: 0,
            beside: 0,
        }
    }

    /// A cache of the trace was made: vectors of its size come from it, if it is an ordinary kmalloc cache.
    pub(crate) fn cache_made(&mut self, spec: &CacheSpec<'_>, cache: CacheId) {
        let slot = spec.slot_size;
        let known = self.classes.iter().any(|class| class.slot == slot);
        if !known && spec.name.strip_prefix("kmalloc-").is_some_and(|n| n.parse() == Ok(slot)) {
            self.classes.push(Class { cache, slot, vectors: 0 });
        }
    }

    /// The owner of an object.
    #[inline]
    pub(crate) fn owner(&self, slab: u32, place: u32) -> Option<Handle> {
        let vector = self.by_slab.get(slab as usize)?.as_ref()?;
        // SAFETY: `set` wrote this word, or `make` cleared it; the vector lives as long as its slab.
        let word =
            unsafe { vector.first.add((vector.stride * place) as usize).cast::<u64>().read_unaligned() };
        u32::try_from(word.checked_sub(1)?).ok().map(Handle)
    }

    /// Writes the owner of an object into the vector of its slab, which was made.
    #[inline]
    pub(crate) fn set(&mut self, slab: u32, place: u32, owner: Option<Handle>) {
        let word = owner.map_or(0, |handle| u64::from(handle.0) + 1);
        if let Some(Some(vector)) = self.by_slab.get(slab as usize) {
            // SAFETY: a word of the vector, which has one for each object of its slab.
            unsafe { vector.first.add((vector.stride * place) as usize).cast::<u64>().write_unaligned(word) }
        }
    }

    /// Whether the slab has a vector.
    #[inline]
    pub(crate) fn has(&self, slab: u32) -> bool {
        self.by_slab.get(slab as usize).is_some_and(Option::is_some)
    }

    /// Makes the vector of an object's slab: on `cpu`, in memory of the slab's node.
    #[cold]
    pub(crate) fn make<F: Front>(
        &mut self,
        slub: &mut Slub,
        front: &mut F,
        cpu: u16,
        spot: &Spot,
        room: Room,
    ) -> Result<(), Error> {
        let objects = slub.cache(spot.cache).cut().objects;
        let vector = match room {
            Room::Slab { first, stride } => {
                // SAFETY: `Room::in_slab` found so many bytes of the slab in use by no object.
                let first = unsafe { slub.base_of(spot).add(first as usize) };
                Vector { first, stride, own: false }
            }
            Room::Kmalloc => {
                let class = self.class(slub, front, WORD * objects)?;
                let place = Place { cpu, node: Some(slub.node_of(spot)) };
                let first = front.take(slub, self.classes[class].cache, place, self)?;
                self.classes[class].vectors += 1;
                self.count(class, true);
                Vector { first, stride: WORD, own: true }
            }
        };
        for place in 0..objects {
            // SAFETY: as above; from kmalloc, a slot of at least so many words.
            unsafe { vector.first.add((vector.stride * place) as usize).cast::<u64>().write_unaligned(0) }
        }
        let at = spot.slab as usize;
        if self.by_slab.len() <= at {
            self.by_slab.resize(at + 1, None);
        }
        self.by_slab[at] = Some(vector);
        Ok(())
    }

    /// Frees the vectors of slabs that went meanwhile, which may make more slabs go.
    pub(crate) fn bury<F: Front>(&mut self, slub: &mut Slub, front: &mut F, cpu: u16) -> Result<(), Error> {
        while let Some(vector) = self.doomed.pop() {
            let spot = slub.find(vector)?;
            if let Some(class) = self.classes.iter().position(|class| class.cache == spot.cache) {
                self.classes[class].vectors -= 1;
                self.count(class, false);
            }
            // SAFETY: its slab is gone, nobody else knows it.
            unsafe { front.give(slub, cpu, spot, self)? }
        }
        Ok(())
    }

    fn count(&mut self, class: usize, made: bool) {
        let Class { cache, slot, .. } = self.classes[class];
        let slot = u64::from(slot);
        let beside = if self.hidden.contains(&cache) { 0 } else { slot };
        if made {
            (self.bytes, self.beside) = (self.bytes + slot, self.beside + beside);
        } else {
            (self.bytes, self.beside) = (self.bytes - slot, self.beside - beside);
        }
    }

    /// The class for so many bytes, made if the trace has no such cache.
    fn class<F: Front>(&mut self, slub: &mut Slub, front: &mut F, bytes: u32) -> Result<usize, Error> {
        let slot = u32::try_from(super::kmalloc(&self.machine).round(bytes.into()))
            .map_err(|_| Error::TooMany("objects"))?;
        if let Some(class) = self.classes.iter().position(|class| class.slot == slot) {
            return Ok(class);
        }
        // Above the largest cache, kmalloc takes whole pages.
        let page = self.machine.page_size;
        let order = slot.div_ceil(page).next_power_of_two().ilog2() as u8;
        let pages = Geometry { object_size: slot, order, objects: 1 };
        let geometry = (slot > LARGEST_KMALLOC).then_some(pages);
        let cut =
            front.cut(Cut::new(&CacheSpec { name: "kmalloc", slot_size: slot, geometry }, &self.machine)?);
        let cache = slub.create(cut)?;
        front.cache_made(cache, &cut);
        self.hidden.push(cache);
        self.classes.push(Class { cache, slot, vectors: 0 });
        Ok(self.classes.len() - 1)
    }

    /// Vectors in this cache, and their bytes.
    pub(crate) fn in_cache(&self, cache: CacheId) -> (u64, u64) {
        let class = self.classes.iter().find(|class| class.cache == cache);
        class.map_or((0, 0), |class| (class.vectors, class.vectors * u64::from(class.slot)))
    }

    /// Bytes of the places that vectors take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of slabs that hold vectors, as far as they do: places in caches of the trace, whole slabs of others.
    pub(crate) fn beside(&self) -> u64 {
        self.beside
    }

    /// Caches that hold vectors alone.
    pub(crate) fn hidden(&self) -> &[CacheId] {
        &self.hidden
    }
}
