//! Resident bytes for many small tenants: 10,000 groups of 14 objects, made tenant after tenant.
//!
//! tenalloc is asked (`Stat`), and so is the kernel: the growth of the process's anonymous memory tells whether
//! what it counts is what it takes. Every object is written in full. Utilisation is requested bytes / growth.

use crate::machine::resident;
use crate::peers::Header;
use serde_json::{Value, json};
use std::ptr::NonNull;
use tenalloc::{Cache, CacheConfig, Config, Controller, Group, Stat};

const TENANTS: usize = 10_000;
const SIZES: [usize; 14] = [192, 32, 696, 64, 128, 32, 256, 192, 64, 1024, 32, 256, 64, 128];

fn requested() -> u64 {
    (TENANTS * SIZES.iter().sum::<usize>()) as u64
}

fn fill(object: NonNull<u8>, size: usize) {
    // SAFETY: the object is ours and holds `size` bytes.
    unsafe { object.write_bytes(1, size) };
}

struct Row {
    name: &'static str,
    grown: u64,
    stat: Option<Stat>,
}

impl Row {
    fn print(&self) {
        let percent = |bytes: u64| 100.0 * requested() as f64 / bytes as f64;
        print!("  {:36}{:>9.1} %", self.name, percent(self.grown));
        match &self.stat {
            Some(s) => println!("{:>11.1} %", percent(s.resident_bytes())),
            None => println!("{:>13}", "-"),
        }
    }

    fn json(&self) -> Value {
        json!({
            "what": self.name, "tenants": TENANTS, "objects_each": SIZES.len(), "requested_bytes": requested(),
            "grown_bytes": self.grown,
            "stat": self.stat.map(|s| json!({
                "resident_bytes": s.resident_bytes(), "live_bytes": s.live_bytes, "slab_bytes": s.slab_bytes,
                "owner_vector_bytes": s.owner_vector_bytes, "metadata_bytes": s.metadata_bytes,
                "free_page_bytes": s.free_page_bytes,
            })),
        })
    }
}

fn groups(ctl: &Controller, handles: &mut Vec<Group>) -> tenalloc::Result<()> {
    for i in 0..TENANTS {
        handles.push(ctl.root().create(&format!("tenant-{i}"))?);
    }
    Ok(())
}

/// Handles are the user's, so their room is taken before the measurement begins.
fn room<T>(n: usize) -> Vec<T> {
    let mut room: Vec<T> = Vec::with_capacity(n);
    let bytes = n * size_of::<T>();
    // SAFETY: the room is ours; nothing in it is initialised yet.
    unsafe { room.as_mut_ptr().cast::<u8>().write_bytes(1, bytes) };
    room
}

fn caches() -> tenalloc::Result<Row> {
    let mut handles = room(TENANTS);
    let before = resident();
    let ctl = Controller::new(Config::new())?;
    groups(&ctl, &mut handles)?;
    let mut caches: Vec<(usize, Cache)> = Vec::new();
    for size in SIZES {
        if caches.iter().all(|(known, _)| *known != size) {
            caches.push((size, ctl.cache(&CacheConfig::new(&format!("object-{size}"), size))?));
        }
    }
    for group in &handles {
        for size in SIZES {
            for (_, cache) in caches.iter().filter(|(of, _)| *of == size) {
                fill(cache.alloc(group)?, size);
            }
        }
    }
    Ok(Row { name: "tenalloc, a cache for each size", grown: resident() - before, stat: Some(ctl.stat()) })
}

fn classes() -> tenalloc::Result<Row> {
    let mut handles = room(TENANTS);
    let before = resident();
    let ctl = Controller::new(Config::new())?;
    groups(&ctl, &mut handles)?;
    for group in &handles {
        for size in SIZES {
            fill(ctl.malloc(group, size, 8)?, size);
        }
    }
    Ok(Row { name: "tenalloc, size classes", grown: resident() - before, stat: Some(ctl.stat()) })
}

fn header() -> Row {
    let mut objects = room(TENANTS * SIZES.len());
    let before = resident();
    let peer = Header::new(0, TENANTS);
    for tenant in 0..TENANTS {
        for size in SIZES {
            let object = peer.alloc_size(tenant, size);
            fill(object, size);
            objects.push((object, size));
        }
    }
    let grown = resident() - before;
    for (object, size) in objects {
        // SAFETY: each is live and given back once.
        unsafe { peer.free_size(object, size) };
    }
    Row { name: "malloc + 8-byte header, counters", grown, stat: None }
}

pub(crate) fn run() -> tenalloc::Result<Value> {
    let (tenants, each) = (TENANTS, SIZES.len());
    println!("{tenants} tenants × {each} objects, utilisation (requested / resident, all bookkeeping in it)");
    println!("  {:36}{:>11}{:>13}", "", "by kernel", "by Stat");
    let mut rows = Vec::new();
    for row in [caches()?, classes()?, header()] {
        row.print();
        rows.push(row.json());
    }
    println!();
    Ok(Value::Array(rows))
}
