//! Many groups with a few objects each, made group after group.
//!
//! Utilisation is what was asked for and lives / how much the process's anonymous memory grew, all bookkeeping in it.
//! Every object is written in full. What the program itself keeps (addresses, handles) is touched before.

use super::Failure;
use super::stores::{Store, Visit};
use crate::machine::resident;
use serde_json::{Value, json};

/// Sizes of a group's objects, over and over: the mix that the peers were measured with before.
pub(super) const SIZES: [usize; 14] = [192, 32, 696, 64, 128, 32, 256, 192, 64, 1024, 32, 256, 64, 128];

/// Room for `n`, touched, so that filling it takes no new memory.
pub(super) fn room<T>(n: usize) -> Vec<T> {
    let mut room: Vec<T> = Vec::with_capacity(n);
    let bytes = n * size_of::<T>();
    // SAFETY: the room is ours; nothing in it is initialised yet.
    unsafe { room.as_mut_ptr().cast::<u8>().write_bytes(1, bytes) };
    room
}

pub(super) struct Tenants {
    pub(super) groups: usize,
    pub(super) objects: usize,
}

/// An object of `group`, its `i`th, written in full.
pub(super) fn take<S: Store>(store: &S, group: usize, i: usize) -> (S::Object, usize) {
    let size = SIZES[i % SIZES.len()];
    let object = store.alloc(group, size);
    // SAFETY: the object is ours and holds `size` bytes.
    unsafe { S::address(object).write_bytes(1, size) };
    (object, size)
}

impl Visit for Tenants {
    fn visit<S: Store>(self, make: impl FnOnce() -> Result<S, Failure>) -> Result<Value, Failure> {
        let before = resident();
        let mut store = make()?;
        let mut requested = 0;
        let mut groups = 0;
        while groups < self.groups && store.create(groups)? {
            for i in 0..self.objects {
                requested += take(&store, groups, i).1;
            }
            groups += 1;
        }
        let grown = resident().saturating_sub(before);
        Ok(json!({
            "groups": groups, "asked_groups": self.groups, "objects_each": self.objects,
            "requested_bytes": requested, "grown_bytes": grown,
            "stat": store.stat().map(|s| json!({
                "resident_bytes": s.resident_bytes(), "live_bytes": s.live_bytes, "slab_bytes": s.slab_bytes,
                "owner_vector_bytes": s.owner_vector_bytes, "metadata_bytes": s.metadata_bytes,
                "free_page_bytes": s.free_page_bytes,
            })),
            "parts": parts(&store),
        }))
    }
}

/// Where a store's bytes are.
pub(super) fn parts<S: Store>(store: &S) -> Vec<Value> {
    store.parts().into_iter().map(|(name, bytes)| json!({ "part": name, "bytes": bytes })).collect()
}

/// Prints where the bytes of a row are.
pub(super) fn print_parts(row: &Value, parts: &str) {
    let parts = row[parts].as_array().map(Vec::as_slice).unwrap_or_default();
    let sum: f64 = parts.iter().filter_map(|p| p["bytes"].as_f64()).sum();
    for part in parts {
        let bytes = part["bytes"].as_f64().unwrap_or(0.0);
        let name = part["part"].as_str().unwrap_or("?");
        println!("      {name:62}{:>10.0}{:>8.2}%", bytes / 1000.0, 100.0 * bytes / sum);
    }
}

pub(super) fn head(groups: usize, objects: usize) {
    let title = format!("{groups} groups × {objects} objects, live / resident with all bookkeeping");
    println!("{title:68}{:>10}{:>9}{:>11}", "KB/group", "live", "by Stat");
}

/// Percent of `part` in `whole`, both bytes in a row.
pub(super) fn percent(row: &Value, part: &str, whole: &str) -> f64 {
    100.0 * row[part].as_f64().unwrap_or(0.0) / row[whole].as_f64().unwrap_or(f64::NAN)
}

/// Who a row is about.
pub(super) fn label(row: &Value) -> String {
    let text = |key: &str| row[key].as_str().unwrap_or("?").to_owned();
    format!("  {:12} {}", text("peer"), text("policy"))
}

pub(super) fn print(row: &Value) {
    let groups = row["groups"].as_f64().unwrap_or(1.0);
    let each = row["grown_bytes"].as_f64().unwrap_or(0.0) / groups / 1000.0;
    print!("{:68}{each:>10.2}{:>8.1}%", label(row), percent(row, "requested_bytes", "grown_bytes"));
    if let Some(stat) = row["stat"]["resident_bytes"].as_f64() {
        print!("{:>10.1}%", 100.0 * row["requested_bytes"].as_f64().unwrap_or(0.0) / stat);
    }
    if row["groups"] != row["asked_groups"] {
        print!("  (no more than {groups} can be made)");
    }
    println!();
}
