//! Many groups with a few objects each, made group after group; then every group removed while a random 5 % of the
//! objects live on.
//!
//! Utilisation is what was asked for and lives / how much the process's anonymous memory grew, all bookkeeping in it.
//! Every object is written in full. What the program itself keeps (addresses, handles) is touched before.

use super::Failure;
use super::stores::{Store, Visit};
use crate::machine::resident;
use crate::speed::Random;
use serde_json::{Value, json};

/// Sizes of a group's objects, over and over: the mix that the peers were measured with before.
pub(super) const SIZES: [usize; 14] = [192, 32, 696, 64, 128, 32, 256, 192, 64, 1024, 32, 256, 64, 128];

/// One of how many objects lives on.
const SURVIVOR: usize = 20;

/// Room for `n`, touched, so that filling it takes no new memory.
pub(super) fn room<T>(n: usize) -> Vec<T> {
    let mut room: Vec<T> = Vec::with_capacity(n);
    let bytes = n * size_of::<T>();
    // SAFETY: the room is ours; nothing in it is initialised yet.
    unsafe { room.as_mut_ptr().cast::<u8>().write_bytes(1, bytes) };
    room
}

pub(super) struct Case {
    pub(super) groups: usize,
    pub(super) objects: usize,
}

impl Visit for Case {
    fn visit<S: Store>(self, make: impl FnOnce() -> Result<(S, usize), Failure>) -> Result<Value, Failure> {
        let mut live: Vec<(S::Object, usize)> = room(self.groups * self.objects);
        let mut alive: Vec<(S::Object, usize)> = room(self.groups * self.objects / SURVIVOR * 2 + 64);
        let before = resident();
        let (store, groups) = make()?;
        for group in 0..groups {
            for i in 0..self.objects {
                let size = SIZES[i % SIZES.len()];
                let object = store.alloc(group, size);
                // SAFETY: the object is ours and holds `size` bytes.
                unsafe { S::address(object).write_bytes(1, size) };
                live.push((object, size));
            }
        }
        let full = resident().saturating_sub(before);
        let stat = store.stat();
        let requested: usize = live.iter().map(|o| o.1).sum();
        let mut random = Random(11);
        for (group, objects) in live.chunks(self.objects.max(1)).enumerate() {
            let first = alive.len();
            for &(object, size) in objects {
                if random.below(SURVIVOR) == 0 {
                    alive.push((object, size));
                } else {
                    // SAFETY: live, given back once.
                    unsafe { store.free(object, size) };
                }
            }
            store.remove(group, &mut alive[first..]);
        }
        let removed = resident().saturating_sub(before);
        store.purge();
        let reclaimed = resident().saturating_sub(before);
        let surviving: usize = alive.iter().map(|o| o.1).sum();
        Ok(json!({
            "groups": groups, "asked_groups": self.groups, "objects_each": self.objects,
            "requested_bytes": requested, "grown_bytes": full,
            "surviving_bytes": surviving, "removed_bytes": removed, "reclaimed_bytes": reclaimed,
            "stat": stat.map(|s| json!({
                "resident_bytes": s.resident_bytes(), "live_bytes": s.live_bytes, "slab_bytes": s.slab_bytes,
                "owner_vector_bytes": s.owner_vector_bytes, "metadata_bytes": s.metadata_bytes,
                "free_page_bytes": s.free_page_bytes,
            })),
        }))
    }
}

pub(super) fn head(groups: usize, objects: usize) {
    println!(
        "{groups} groups × {objects} objects: live / resident, all bookkeeping in it; then all groups removed, 5 % of the"
    );
    println!(
        "objects live on: before and after memory was asked back{:>14}{:>9}{:>10}{:>9}",
        "KB/group", "live", "removed", "asked"
    );
}

/// Percent of `part` in `whole`, both bytes in a row.
fn percent(row: &Value, part: &str, whole: &str) -> f64 {
    100.0 * row[part].as_f64().unwrap_or(0.0) / row[whole].as_f64().unwrap_or(f64::NAN)
}

pub(super) fn print(row: &Value) {
    let text = |key: &str| row[key].as_str().unwrap_or("?").to_owned();
    let groups = row["groups"].as_f64().unwrap_or(1.0);
    let label = format!("  {:12} {}", text("peer"), text("policy"));
    let each = row["grown_bytes"].as_f64().unwrap_or(0.0) / groups / 1000.0;
    let (live, removed, asked) = (
        percent(row, "requested_bytes", "grown_bytes"),
        percent(row, "surviving_bytes", "removed_bytes"),
        percent(row, "surviving_bytes", "reclaimed_bytes"),
    );
    print!("{label:55}{each:>14.2}{live:>8.1}%{removed:>9.1}%{asked:>8.1}%");
    if row["groups"] != row["asked_groups"] {
        print!("  (no more than {groups} can be made)");
    }
    if let Some(stat) = row["stat"]["resident_bytes"].as_f64() {
        print!("  by Stat {:.1}%", 100.0 * row["requested_bytes"].as_f64().unwrap_or(0.0) / stat);
    }
    println!();
}
