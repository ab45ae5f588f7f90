//! Objects that can be reclaimed lie in chunks apart: those chunks come back when the objects do, and lasting objects stay
//! where they are. It is a wish: with no memory to spare nothing fails because of it, and nodes go and come as ever.

mod common;
use common::{free, lean};
use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::time::Duration;
use tenalloc::page::Simulated;
use tenalloc::{
    Cache, CacheConfig, Controller, Error, Geometry, Group, ListLru, LruStatus, Migrate, Range, Scanned,
    Shrinker,
};

const CHUNK: usize = 2 << 20;
/// Bytes of an object here; a slab has 16, and fills its page.
const SIZE: usize = 256;

/// Frees all that a list has.
struct All;

impl Shrinker for All {
    fn scan(&self, lru: &ListLru, group: &Group, node: u8, number: u64) -> Scanned {
        let mut budget = number;
        let ctl = group.controller();
        let done = lru.walk(group, node, &mut budget, |_| LruStatus::Removed, |o| free(ctl, o));
        Scanned { looked_at: done.shown, freed: done.removed, ..Scanned::default() }
    }
}

/// Moves nothing, but could.
struct Stays;

impl Migrate for Stays {
    unsafe fn migrate(&self, _: NonNull<u8>, _: NonNull<u8>) -> bool {
        false
    }
}

struct World {
    source: &'static Simulated,
    ctl: Controller,
    group: Group,
    lru: ListLru,
    /// On lists, lasting, movable.
    caches: [Cache; 3],
}

impl World {
    fn new(nodes: u8) -> Self {
        let (source, ctl) = lean(nodes, nodes.into());
        let config = |name| {
            let geometry = Geometry { pages: 1, objects: 16 };
            CacheConfig::new(name, SIZE).geometry(geometry).sheaf(0)
        };
        let configs = [config("listed"), config("lasting"), config("movable").migrate(&Stays)];
        let caches = configs.map(|config| ctl.cache(&config).unwrap());
        let lru = ListLru::new(&ctl, 0).unwrap();
        lru.set_shrinker(&All);
        let group = ctl.root().create("g").unwrap();
        Self { source, ctl, group, lru, caches }
    }

    /// An object that is on a list.
    fn list(&self) -> Result<NonNull<u8>, Error> {
        let object = self.caches[0].alloc_lru(&self.group, &self.lru)?;
        // SAFETY: live, with an item in front.
        assert!(unsafe { self.lru.add(object) });
        Ok(object)
    }

    fn keep(&self, cache: usize) -> Result<NonNull<u8>, Error> {
        let object = self.caches[cache].alloc(&self.group)?;
        // SAFETY: live, and so large.
        unsafe { object.write_bytes(7, SIZE) };
        Ok(object)
    }

    fn reclaim(&self) {
        // More than there is.
        self.group.reclaim(u64::MAX).unwrap_err();
        self.ctl.trim();
    }

    /// As many of each in turns as fill so many chunks together; without headers, so some more. (Listed, others.)
    fn fill(&self, chunks: usize, other: usize) -> [Vec<NonNull<u8>>; 2] {
        let pairs = (0..chunks * CHUNK / SIZE / 2).map(|_| (self.list().unwrap(), self.keep(other).unwrap()));
        let (listed, others) = pairs.unzip();
        [listed, others]
    }
}

/// The chunks of these objects. (They are not huge: an object's address is behind its chunk's header.)
fn chunks(objects: &[NonNull<u8>]) -> BTreeSet<usize> {
    objects.iter().map(|object| object.as_ptr() as usize & !(CHUNK - 1)).collect()
}

fn is_whole(object: NonNull<u8>) -> bool {
    // SAFETY: live objects of so many bytes.
    (0..SIZE).all(|i| unsafe { object.add(i).read() } == 7)
}

#[test]
fn chunks_of_what_is_reclaimed_come_back() {
    for other in [1, 2] {
        let w = World::new(1);
        let [listed, others] = w.fill(8, other);
        // A chunk holds a little less than 2 MiB of slabs: four of each do not quite suffice.
        let [of_listed, of_others] = [&listed, &others].map(|objects| chunks(objects));
        assert_eq!(of_listed.intersection(&of_others).count(), 1, "the first has some of all");
        assert_eq!(w.ctl.stat().mapped_bytes as usize, (of_listed.len() + of_others.len() - 1) * CHUNK);
        w.reclaim();
        assert_eq!(w.ctl.stat().mapped_bytes as usize, of_others.len() * CHUNK);
        assert!(others.iter().all(|o| is_whole(*o)));
        others.into_iter().for_each(|o| free(&w.ctl, o));
        w.ctl.trim();
        assert_eq!((w.ctl.stat().mapped_bytes, w.group.exact()), (0, 0));
    }
}

/// A small program has one chunk, as it had before.
#[test]
fn a_few_objects_share_a_chunk() {
    let w = World::new(1);
    let objects = [w.list().unwrap(), w.keep(1).unwrap(), w.keep(2).unwrap()];
    assert_eq!((chunks(&objects).len(), w.ctl.stat().mapped_bytes as usize), (1, CHUNK));
    w.reclaim();
    objects[1..].iter().for_each(|o| free(&w.ctl, *o));
}

#[test]
fn with_no_memory_to_spare_either_takes_what_there_is() {
    let w = World::new(1);
    let [listed, mut others] = w.fill(6, 1);
    w.source.set_limit(w.source.total());
    // Free pages are now in chunks of lasting objects, but not one chunk.
    let before = w.ctl.stat().mapped_bytes;
    others.drain(..others.len() / 2).for_each(|o| free(&w.ctl, o));
    let freed = before as usize / SIZE - listed.len() - others.len();
    let mut more = 0;
    let error = loop {
        match w.list() {
            Ok(_) => more += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::NoMemory { .. }), "{error}");
    // All but the headers, and vectors for which there is no room.
    assert!(more * SIZE > freed * SIZE / 10 * 9, "{more} of {freed}");
    assert_eq!(w.ctl.stat().mapped_bytes, before);
    // And the other way round.
    w.reclaim();
    w.source.set_limit(w.source.total());
    let room = w.ctl.stat().mapped_bytes as usize / SIZE - others.len();
    let had = others.len();
    while let Ok(object) = w.keep(1) {
        others.push(object);
    }
    assert!(others.len() - had > room / 10 * 9, "{} of {room}", others.len() - had);
    assert!(others.iter().all(|o| is_whole(*o)));
    others.into_iter().for_each(|o| free(&w.ctl, o));
    w.ctl.trim();
    assert_eq!((w.ctl.stat().mapped_bytes, w.group.exact()), (0, 0));
}

#[test]
fn nodes_and_chunks_go_and_come() {
    let w = World::new(2);
    w.ctl.set_cpu(1);
    let [listed, others] = w.fill(4, 1);
    let mapped = w.source.mapped(1);
    // A chunk of the listed ones goes whatever else there is, and takes nothing with it.
    let apart = *chunks(&listed).difference(&chunks(&others)).next().unwrap();
    let given = w.ctl.offline(Range::Chunk(apart + CHUNK / 2), Duration::from_secs(60), &mut |_| ());
    assert_eq!(given, Ok(CHUNK));
    assert_eq!(w.source.mapped(1), mapped - CHUNK as u64);
    // The node does not while lasting ones are there, and has all of its chunks again then.
    let mut pins = BTreeSet::new();
    let refused = w.ctl.offline(Range::Node(1), Duration::ZERO, &mut |pin| {
        pins.extend(pin.cache.map(|cache| cache.name().to_owned()));
    });
    assert!(refused.is_err());
    assert_eq!(pins, BTreeSet::from(["lasting".to_owned()]));
    assert_eq!(w.lru.count(&w.group, 1), 0, "it was asked to");
    w.ctl.online_node(1);
    let (_, two) = (w.list().unwrap(), w.keep(1).unwrap());
    assert_eq!(w.lru.count(&w.group, 1), 1, "it is in use again");
    assert!(others.iter().all(|o| is_whole(*o)));
    others.into_iter().chain([two]).for_each(|o| free(&w.ctl, o));
    assert!(w.ctl.offline(Range::Node(1), Duration::from_secs(60), &mut |_| ()).is_ok());
    // Elsewhere there is room for both; and here again, when it is back.
    let elsewhere = [w.list().unwrap(), w.keep(1).unwrap()];
    assert_eq!(w.lru.count(&w.group, 0), 1);
    w.ctl.online_node(1);
    free(&w.ctl, elsewhere[1]);
    let [_, others] = w.fill(4, 1);
    assert!(w.lru.count(&w.group, 1) > 0);
    w.reclaim();
    others.into_iter().for_each(|o| free(&w.ctl, o));
    w.ctl.trim();
    assert_eq!((w.ctl.stat().mapped_bytes, w.group.exact()), (0, 0));
}
