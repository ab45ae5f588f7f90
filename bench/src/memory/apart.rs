//! What comes back when everything that can be reclaimed is: objects that are on lists and objects that last, of one controller.
//!
//! Half of the bytes are of caches whose objects are on lists (sizes of a dentry and an inode), half of caches whose objects last
//! until the program frees them. Each lives for a random time: all are allocated and freed at random while there come to be enough
//! of them, and then as many again twice over. *In turns*: meanwhile those on lists grow to three quarters of all bytes and are cut to
//! one, four times, as caches are that fill what memory there is. Then all lists are emptied, and free memory is given back.
//! *With movable ones*: a third each, and of those with `migrate` a random three of four are freed in the end too, so that `trim`
//! has something to move. *Lasting alone*: what those that last need without the others.
//!
//! Chunks are what the system could back by huge pages: those that go come back whole, those that stay with holes in them
//! would have to be split for the holes.

use super::Failure;
use super::tenants::{percent, room};
use crate::machine::resident;
use crate::speed::Random;
use serde_json::{Value, json};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};
use tenalloc::{
    Cache, CacheConfig, Config, Controller, Group, ListLru, LruItem, LruStatus, Migrate, Scanned, Shrinker,
};

const MIB: usize = 1 << 20;
const CHUNK: usize = 2 * MIB;

/// What becomes of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lasts,
    Listed,
    Moves,
}

/// Sizes of the caches of each fate, bytes.
const SIZES: [(Fate, &[usize]); 3] =
    [(Fate::Lasts, &[64, 256, 696, 1024]), (Fate::Listed, &[192, 608]), (Fate::Moves, &[128, 512])];

/// A case: its name, MiB of all objects, parts of them of each fate, and whether they grow in turns.
struct Case {
    name: &'static str,
    mib: usize,
    parts: [usize; 3],
    turns: bool,
}

const fn case(name: &'static str, mib: usize, parts: [usize; 3], turns: bool) -> Case {
    Case { name, mib, parts, turns }
}

const CASES: [Case; 6] = [
    case("64 MiB", 64, [1, 1, 0], false),
    case("64 MiB, in turns", 64, [1, 1, 0], true),
    case("96 MiB, with movable ones, in turns", 96, [1, 1, 1], true),
    case("for comparison: 32 MiB, lasting alone", 32, [1, 0, 0], false),
    case("8 MiB, in turns", 8, [1, 1, 0], true),
    case("1 MiB, in turns", 1, [1, 1, 0], true),
];

pub(super) fn cases() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

/// An object begins with its place here, and those on lists have their item behind it.
const ITEM: usize = 8;

#[derive(Clone, Copy)]
struct Object {
    at: NonNull<u8>,
    size: usize,
}

// SAFETY: the objects are this module's, which uses them under the lock.
unsafe impl Send for Object {}

/// All that can be moved: `migrate` and the load, one after the other.
struct Movable(Mutex<Vec<Object>>);

static MOVABLE: Movable = Movable(Mutex::new(Vec::new()));

impl Migrate for Movable {
    unsafe fn migrate(&self, from: NonNull<u8>, to: NonNull<u8>) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: readable, says the caller; `to` is as large.
        let place = unsafe { from.cast::<usize>().read() };
        let Some(object) = all.get_mut(place).filter(|object| object.at == from) else { return false };
        // SAFETY: as above.
        unsafe { to.copy_from_nonoverlapping(from, object.size) };
        object.at = to;
        true
    }
}

/// Frees all that a list has.
struct All;

impl Shrinker for All {
    fn scan(&self, lru: &ListLru, group: &Group, node: u8, number: u64) -> Scanned {
        let mut budget = number;
        let free = |object| {
            // SAFETY: off its list, and used by nobody.
            unsafe { group.controller().free(object) }.expect("a live object");
        };
        let done = lru.walk(group, node, &mut budget, |_| LruStatus::Removed, free);
        Scanned { looked_at: done.shown, freed: done.removed, ..Scanned::default() }
    }
}

struct World {
    ctl: Controller,
    group: Group,
    lru: ListLru,
    caches: Vec<(Fate, usize, Cache)>,
    objects: [Vec<Object>; 3],
    bytes: [usize; 3],
    random: Random,
}

impl World {
    fn new(objects: [Vec<Object>; 3]) -> Result<Self, Failure> {
        let ctl = Controller::new(Config::new())?;
        let mut caches = Vec::new();
        for (fate, sizes) in SIZES {
            for &size in sizes {
                let name = format!("object-{size}");
                let config = CacheConfig::new(&name, size);
                let config = if fate == Fate::Moves { config.migrate(&MOVABLE) } else { config };
                caches.push((fate, size, ctl.cache(&config)?));
            }
        }
        let lru = ListLru::new(&ctl, ITEM)?;
        lru.set_shrinker(&All);
        let group = ctl.root().create("all")?;
        Ok(Self { ctl, group, lru, caches, objects, bytes: [0; 3], random: Random(7) })
    }

    fn make(&mut self, fate: usize) -> Result<(), Failure> {
        let sizes = SIZES[fate].1;
        let size = sizes[self.random.below(sizes.len())];
        let (kind, _, cache) = self.caches.iter().find(|c| c.1 == size).ok_or("a cache a size")?;
        let at = match kind {
            Fate::Listed => cache.alloc_lru(&self.group, &self.lru)?,
            _ => cache.alloc(&self.group)?,
        };
        // SAFETY: ours, and so large; the item lies where the lists have theirs.
        unsafe {
            at.write_bytes(1, size);
            at.cast::<usize>().write(self.objects[fate].len());
            if *kind == Fate::Listed {
                at.add(ITEM).cast::<LruItem>().write(LruItem::new());
                self.lru.add(at);
            }
        }
        self.objects[fate].push(Object { at, size });
        self.bytes[fate] += size;
        Ok(())
    }

    fn end(&mut self, fate: usize) -> Result<(), Failure> {
        let objects = &mut self.objects[fate];
        let place = self.random.below(objects.len());
        let Object { at, size } = objects.swap_remove(place);
        // SAFETY: live; given back once.
        unsafe {
            if SIZES[fate].0 == Fate::Listed {
                self.lru.del(at);
            }
            self.ctl.free(at)?;
            if let Some(moved) = objects.get(place) {
                moved.at.cast::<usize>().write(place);
            }
        }
        self.bytes[fate] -= size;
        Ok(())
    }

    /// Makes and frees at random until each fate has so many bytes.
    fn go_to(&mut self, goal: [usize; 3]) -> Result<(), Failure> {
        loop {
            let open: Vec<_> = (0..3).filter(|f| self.bytes[*f].abs_diff(goal[*f]) >= 1024).collect();
            if open.is_empty() {
                return Ok(());
            }
            let fate = open[self.random.below(open.len())];
            // Two steps of three lead there.
            let towards = self.random.below(3) > 0;
            let grows = (self.bytes[fate] < goal[fate]) == towards;
            if grows {
                self.make(fate)?;
            } else if !self.objects[fate].is_empty() {
                self.end(fate)?;
            }
        }
    }

    /// As many objects as there are go and come again, at random.
    fn turn_over(&mut self) -> Result<(), Failure> {
        for _ in 0..self.objects.iter().map(Vec::len).sum() {
            let here: Vec<_> = (0..3).filter(|f| !self.objects[*f].is_empty()).collect();
            let fate = here[self.random.below(here.len())];
            self.end(fate)?;
            self.make(fate)?;
        }
        Ok(())
    }

    /// What it holds, beside the resident bytes there were before it.
    fn look(&self, before: u64) -> Value {
        let stat = self.ctl.stat();
        json!({
            "live_bytes": self.bytes.iter().sum::<usize>(), "grown_bytes": resident().saturating_sub(before),
            "chunk_bytes": stat.mapped_bytes, "metadata_bytes": stat.metadata_bytes,
            "free_page_bytes": stat.free_page_bytes,
        })
    }

    /// Empties the lists, frees most of what can be moved, and gives back what is free.
    fn reclaim(&mut self) -> Result<(), Failure> {
        let listed = SIZES.iter().position(|s| s.0 == Fate::Listed).ok_or("a fate")?;
        let moves = SIZES.iter().position(|s| s.0 == Fate::Moves).ok_or("a fate")?;
        // More than there is: it ends when nothing is left.
        let _ = self.group.reclaim(u64::MAX);
        if self.lru.count(&self.group, 0) > 0 {
            return Err("something was left on a list".into());
        }
        self.objects[listed].clear();
        self.bytes[listed] = 0;
        for _ in 0..self.objects[moves].len() / 4 * 3 {
            self.end(moves)?;
        }
        let swap = |world: &mut Self| {
            let mut all = MOVABLE.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut *all, &mut world.objects[moves]);
        };
        swap(self);
        self.ctl.trim();
        swap(self);
        Ok(())
    }
}

/// One of [`cases`].
pub(super) fn measure(case: &str) -> Result<Value, Failure> {
    let case = CASES.iter().find(|c| c.name == case).ok_or("no such case")?;
    let all = case.mib * MIB;
    // The program's own memory, touched before.
    let objects = [(); 3].map(|()| room(all / 64));
    let before = resident();
    let mut world = World::new(objects)?;
    let sum: usize = case.parts.iter().sum();
    let goal = case.parts.map(|part| all * part / sum);
    world.go_to(goal)?;
    if case.turns {
        let listed = SIZES.iter().position(|s| s.0 == Fate::Listed).ok_or("a fate")?;
        for quarters in [3, 1, 3, 1, 3, 1, 3, 1] {
            let others = (4 - quarters) * all / 4 / (sum - 1);
            let mut turn = case.parts.map(|part| part * others);
            turn[listed] = quarters * all / 4;
            world.go_to(turn)?;
        }
        world.go_to(goal)?;
    }
    for _ in 0..2 {
        world.turn_over()?;
    }
    let full = world.look(before);
    world.reclaim()?;
    Ok(json!({ "case": case.name, "before": full, "after": world.look(before) }))
}

pub(super) fn head() {
    println!(
        "\n{:50}{:>9}{:>11}{:>10}{:>9}{:>11}{:>10}",
        "half reclaimable, half lasting; all lists emptied",
        "chunks:",
        "live /",
        "live /",
        "after:",
        "live /",
        "live /"
    );
    println!(
        "{:50}{:>9}{:>11}{:>10}{:>9}{:>11}{:>10}",
        "", "full", "chunks", "resident", "left", "chunks", "resident"
    );
}

pub(super) fn print(row: &Value) {
    print!("  {:48}", row["case"].as_str().unwrap_or("?"));
    for when in ["before", "after"] {
        let row = &row[when];
        let chunks = row["chunk_bytes"].as_f64().unwrap_or(f64::NAN) / CHUNK as f64;
        let [of_chunks, of_resident] =
            ["chunk_bytes", "grown_bytes"].map(|whole| percent(row, "live_bytes", whole));
        print!("{chunks:>9.0}{of_chunks:>10.1}%{of_resident:>9.1}%");
    }
    println!();
}
