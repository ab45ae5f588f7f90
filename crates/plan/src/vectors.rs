//! Owner vectors and free slots of a machine's slabs, from its `/proc/slabinfo`.
//!
//! Which slabs hold an owned object is not told by any file. So the bytes are those of a vector in *every* slab of the
//! caches whose objects are accounted: at most that, and nearly that on a machine that runs in groups. Caches are
//! accounted if they were made so (`SLAB_ACCOUNT`), which the name of their folder in `/sys/kernel/slab` tells (`A`
//! before the dash), or, where a cache has no such name, if they are among the kernel's own well known ones.

use serde::Serialize;
use tenalloc_designs::kernel::Kmalloc;
use tenalloc_designs::kernel::owners::{Slab, Vectors};

use crate::ours;

/// One cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// `dentry`.
    pub name: String,
    /// Objects in use. SLUB counts those in slabs of CPUs as used: the true number is lower.
    pub active: u64,
    /// Bytes from one object to the next.
    pub slot: u64,
    /// Objects in a slab.
    pub objects: u64,
    /// Bytes of a slab.
    pub slab_bytes: u64,
    /// Slabs.
    pub slabs: u64,
    /// Its objects have owners.
    pub accounted: bool,
}

/// All caches of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SlabTable {
    /// In the order of the file.
    pub caches: Vec<Cache>,
}

/// Slab memory as it is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Slack {
    /// Pages of all slabs, in bytes.
    pub slab_bytes: u64,
    /// Of it objects in use.
    pub active_bytes: u64,
    /// Of it slots that nobody uses.
    pub free_slots: u64,
    /// Of it what slabs leave over behind their last object.
    pub leftover: u64,
}

impl SlabTable {
    /// Reads `/proc/slabinfo`, version 2. `is_accounted` is asked for each name.
    ///
    /// # Errors
    /// What is wrong, with the line's number.
    pub fn parse(text: &str, page: u64, is_accounted: impl Fn(&str) -> bool) -> Result<Self, String> {
        if !text.starts_with("slabinfo - version: 2.") {
            return Err("not a slabinfo of version 2: copy /proc/slabinfo as root".into());
        }
        let mut caches = Vec::new();
        for (at, line) in text.lines().enumerate().skip(1) {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let cache = cache(line, page).ok_or_else(|| format!("line {} is not that of a cache", at + 1))?;
            caches.push(Cache { accounted: is_accounted(&cache.name), ..cache });
        }
        if caches.is_empty() {
            return Err("no cache in it".into());
        }
        Ok(Self { caches })
    }

    /// What vectors take at most where a generation keeps them.
    pub fn vectors(&self, place: Vectors, kmalloc: Kmalloc) -> u64 {
        let each = |cache: &Cache| {
            // Which part of a slot is padding is not in slabinfo: none is taken to be.
            let slab = Slab {
                bytes: cache.slab_bytes,
                objects: cache.objects,
                slot: cache.slot,
                object: cache.slot,
            };
            place.bytes(slab, kmalloc).saturating_mul(cache.slabs)
        };
        self.owned().map(each).fold(0, u64::saturating_add)
    }

    /// What tenalloc's would take at most: every slab with more than one owner.
    pub fn our_vectors(&self) -> u64 {
        let each = |cache: &Cache| {
            ours::block(cache.objects.saturating_mul(ours::VECTOR_ENTRY)).saturating_mul(cache.slabs)
        };
        self.owned().map(each).fold(0, u64::saturating_add)
    }

    /// Slab memory in use and not, over all caches.
    pub fn slack(&self) -> Slack {
        self.caches.iter().fold(Slack::default(), |sum, cache| {
            let slab_bytes = cache.slab_bytes.saturating_mul(cache.slabs);
            let slots = cache.objects.saturating_mul(cache.slot).saturating_mul(cache.slabs);
            let active = cache.active.saturating_mul(cache.slot).min(slots);
            Slack {
                slab_bytes: sum.slab_bytes.saturating_add(slab_bytes),
                active_bytes: sum.active_bytes.saturating_add(active),
                free_slots: sum.free_slots.saturating_add(slots - active),
                leftover: sum.leftover.saturating_add(slab_bytes.saturating_sub(slots)),
            }
        })
    }

    fn owned(&self) -> impl Iterator<Item = &Cache> {
        self.caches.iter().filter(|cache| cache.accounted)
    }
}

/// `dentry 1200 1260 192 21 1 : tunables 0 0 0 : slabdata 60 60 0`
fn cache(line: &str, page: u64) -> Option<Cache> {
    let (numbers, rest) = line.split_once(" : ")?;
    // A name may hold blanks: the last five fields are the numbers.
    let fields: Vec<&str> = numbers.split_whitespace().collect();
    let (name, numbers) = fields.split_at_checked(fields.len().checked_sub(5)?)?;
    let number = |at: usize| numbers.get(at)?.parse::<u64>().ok();
    let slabs = rest.split_once("slabdata")?.1.split_whitespace().nth(1)?.parse().ok()?;
    let (active, slot, objects) = (number(0)?, number(2)?, number(3)?);
    let possible = !name.is_empty() && (8..1 << 32).contains(&slot) && (1..=65_535).contains(&objects);
    possible.then(|| Cache {
        name: name.join(" "),
        active,
        slot,
        objects,
        slab_bytes: number(4).unwrap_or(1).saturating_mul(page),
        slabs,
        accounted: false,
    })
}

/// Whether a cache that has no telling folder name is accounted: the kernel makes these with `SLAB_ACCOUNT`.
pub fn is_well_known(name: &str) -> bool {
    const NAMES: [&str; 16] = [
        "dentry",
        "filp",
        "task_struct",
        "signal_cache",
        "sighand_cache",
        "files_cache",
        "fs_cache",
        "mm_struct",
        "vm_area_struct",
        "vma_lock",
        "maple_node",
        "anon_vma",
        "anon_vma_chain",
        "cred_jar",
        "pid",
        "buffer_head",
    ];
    NAMES.contains(&name)
        || name.starts_with("kmalloc-cg-")
        || name.ends_with("inode_cache")
        || name.ends_with("_inode")
        || name.starts_with("kernfs_node_cache")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "slabinfo - version: 2.1\n\
        # name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> ...\n\
        dentry            80     84    192   42    2 : tunables    0    0    0 : slabdata      2      2      0\n\
        kmalloc-64        64     64     64   64    1 : tunables    0    0    0 : slabdata      1      1      0\n\
        ext4_inode_cache  28     28   1136   28    8 : tunables    0    0    0 : slabdata      1      1      0\n\
        shmem inode_cache 0      0     700   46    8 : tunables    0    0    0 : slabdata      0      0      0\n\
        sock              1      1     700   46    8 : tunables    0    0    0 : slabdata      1      1      0\n";

    #[test]
    fn a_slabinfo_is_read_to_the_byte() {
        let table = SlabTable::parse(TEXT, 4096, is_well_known).unwrap();
        let names: Vec<_> = table.caches.iter().map(|c| (c.name.as_str(), c.accounted)).collect();
        assert_eq!(
            names,
            [
                ("dentry", true),
                ("kmalloc-64", false),
                ("ext4_inode_cache", true),
                ("shmem inode_cache", true),
                ("sock", false)
            ]
        );
        let vectors = |place| table.vectors(place, Kmalloc::X86);
        assert_eq!(
            [Vectors::None, Vectors::Beside, Vectors::InSlack].map(vectors),
            [0, 2 * 512 + 256, 2 * 512]
        );
        assert_eq!(table.our_vectors(), 2 * 176 + 112);
        assert_eq!(
            table.slack(),
            Slack {
                slab_bytes: 2 * 8192 + 4096 + 2 * 32768,
                active_bytes: 80 * 192 + 4096 + 28 * 1136 + 700,
                free_slots: 4 * 192 + 45 * 700,
                leftover: 2 * 128 + 960 + 568,
            }
        );
    }

    #[test]
    fn what_is_no_slabinfo_is_refused() {
        for (text, why) in [
            ("", "not a slabinfo of version 2: copy /proc/slabinfo as root"),
            ("slabinfo - version: 2.1\n", "no cache in it"),
            ("slabinfo - version: 2.1\n# n\nrubbish\n", "line 3 is not that of a cache"),
            (
                "slabinfo - version: 2.1\n# n\na 1 1 0 1 1 : tunables : slabdata 1 1 0\n",
                "line 3 is not that of a cache",
            ),
            ("slabinfo - version: 2.1\n\u{fffd} : \u{fffd}\n", "line 2 is not that of a cache"),
        ] {
            assert_eq!(SlabTable::parse(text, 4096, is_well_known).unwrap_err(), why, "{text:?}");
        }
    }
}
