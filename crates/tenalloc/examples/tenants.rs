//! A cache that many tenants share: each has a limit, and gives up its own oldest entries when it meets it.
//!
//! ```text
//! cargo run -p tenalloc --example tenants
//! ```
//!
//! Shows groups, a list_lru with its shrinker, a limit that reclaims instead of failing, a tenant that goes while its
//! entries live on, and who is left holding what.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, OnceLock};
use tenalloc::{
    Cache, CacheConfig, Config, Controller, Error, Group, ListLru, LruItem, LruStatus, Scanned, Shrinker,
};

/// An entry of the cache: what the library asks for is the item; the rest is the program's.
#[repr(C)]
struct Entry {
    lru: LruItem,
    key: u64,
    value: [u8; 168],
}

/// An entry's address. The entries are reached through the store's lock alone.
#[derive(Clone, Copy)]
struct Place(NonNull<Entry>);

// SAFETY: see `Place`.
unsafe impl Send for Place {}

struct Store {
    entries: Cache,
    lru: ListLru,
    by_key: Mutex<HashMap<u64, Place>>,
}

static STORE: OnceLock<Store> = OnceLock::new();

impl Store {
    fn index(&self) -> MutexGuard<'_, HashMap<u64, Place>> {
        self.by_key.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn insert(&self, tenant: &Group, key: u64) -> Result<(), Error> {
        // May run the shrinker below, for this tenant's own entries: the index is not locked here.
        let object = self.entries.alloc_lru(tenant, &self.lru)?;
        let entry = object.cast::<Entry>();
        // SAFETY: a new object, large enough; the item in it was initialised by `alloc_lru`.
        unsafe {
            (&raw mut (*entry.as_ptr()).key).write(key);
            (&raw mut (*entry.as_ptr()).value).write([key as u8; 168]);
        }
        let mut index = self.index();
        index.insert(key, Place(entry));
        // SAFETY: live, with an item at offset 0; deleted before it is freed; nobody else has it.
        unsafe { self.lru.add(object) };
        Ok(())
    }

    fn get(&self, key: u64) -> Option<u8> {
        let index = self.index();
        let Place(entry) = *index.get(&key)?;
        // SAFETY: in the index, so live; whoever frees it takes it out of the index first. A hit is one bit.
        unsafe {
            entry.as_ref().lru.reference();
            Some(entry.as_ref().value[0])
        }
    }
}

/// Gives back the oldest entries that were not hit since they were last looked at.
struct Oldest;

impl Shrinker for Oldest {
    fn scan(&self, lru: &ListLru, group: &Group, node: u8, number: u64) -> Scanned {
        let Some(store) = STORE.get() else { return Scanned::default() };
        let mut index = store.index();
        let mut budget = number;
        let done = lru.walk(
            group,
            node,
            &mut budget,
            |object| {
                // SAFETY: on the list, so live; the index is locked, so nobody frees it.
                let entry = unsafe { object.cast::<Entry>().as_ref() };
                if entry.lru.take_reference() {
                    return LruStatus::Rotate; // it was hit: once more around
                }
                index.remove(&entry.key);
                LruStatus::Removed
            },
            |object| {
                // SAFETY: off the list and out of the index: nobody has it.
                unsafe { store.entries.free(object) }.expect("it came from this cache");
            },
        );
        Scanned { looked_at: done.shown, freed: done.removed, ..Scanned::default() }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ctl = Controller::new(Config::new())?;
    let entries = ctl.cache(&CacheConfig::new("entry", size_of::<Entry>()))?;
    let lru = ListLru::new(&ctl, std::mem::offset_of!(Entry, lru))?;
    lru.set_shrinker(&Oldest);
    let store = STORE.get_or_init(|| Store { entries, lru, by_key: Mutex::default() });

    let (small, large) = (ctl.root().create("small")?, ctl.root().create("large")?);
    small.set_max(64 << 10);
    for key in 0..10_000 {
        store.insert(&small, key)?;
        store.get(0); // stays: it is hit again and again
    }
    for key in 10_000..12_000 {
        store.insert(&large, key)?;
    }
    println!("small holds {} of 10,000 entries in {} bytes", small.stat().listed, small.current());
    println!("its events:\n{}", small.events());
    println!("its first entry is there: {}", store.get(0).is_some());
    println!("large lost nothing: {} entries", large.stat().listed);

    large.remove()?;
    println!("large is gone; its entries are the root's now: {}", store.get(11_000).is_some());
    let mut slabs = 0;
    let mut objects = 0;
    ctl.orphans(&mut |orphan| {
        slabs += 1;
        objects += orphan.objects;
    });
    println!("removed groups left {objects} objects in {slabs} places, behind {} handle", ctl.stat().orphans);

    let got = ctl.root().reclaim(200 << 10);
    println!("the root gives back: {got:?}");
    Ok(())
}
