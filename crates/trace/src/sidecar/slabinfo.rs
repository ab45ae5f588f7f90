//! /proc/slabinfo, version 2.1: what the kernel says each cache holds. Not needed to resolve a trace; kept for
//! comparing a replay's slabs with the kernel's.

use super::{NOT_OURS, tasks::short};
use crate::error::Error;

/// One cache of slabinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheUse {
    /// Name of the cache; merged caches have one line.
    pub name: String,
    /// Objects in use. SLUB counts the free objects of the CPUs' own slabs as used.
    pub active_objects: u64,
    /// Objects for which there is room.
    pub objects: u64,
    /// Bytes from one object to the next.
    pub slot_size: u32,
    /// Objects in a slab.
    pub objects_per_slab: u32,
    /// Pages in a slab.
    pub pages_per_slab: u32,
    /// Slabs.
    pub slabs: u64,
}

/// Read the text of slabinfo; `file` is named in errors.
///
/// # Errors
/// A line that is no line of slabinfo.
pub fn parse(text: &str, file: &str) -> Result<Vec<CacheUse>, Error> {
    let mut caches = Vec::new();
    for (line, n) in text.lines().zip(1..) {
        if line.is_empty() || line.starts_with('#') || line.starts_with("slabinfo") {
            continue;
        }
        caches.push(one(line).ok_or_else(|| {
            Error::line(file, n, format!("`{}` is no cache of slabinfo", short(line)), NOT_OURS)
        })?);
    }
    Ok(caches)
}

fn one(line: &str) -> Option<CacheUse> {
    let mut sections = line.split(" : ");
    let mut words = sections.next()?.split_whitespace();
    let name = words.next()?.to_owned();
    let mut number = || words.next()?.parse::<u64>().ok();
    let (active_objects, objects) = (number()?, number()?);
    let mut small = || u32::try_from(number()?).ok();
    let (slot_size, objects_per_slab, pages_per_slab) = (small()?, small()?, small()?);
    let slabs = sections.find_map(|s| s.trim().strip_prefix("slabdata"))?.split_whitespace().nth(1)?;
    Some(CacheUse {
        name,
        active_objects,
        objects,
        slot_size,
        objects_per_slab,
        pages_per_slab,
        slabs: slabs.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_slabinfo() {
        let text = "slabinfo - version: 2.1\n# name <active_objs>\n\
            bio-128  42  43  192  21  1 : tunables  0  0  0 : slabdata  2  3  0\n";
        let c = parse(text, "slabinfo").unwrap();
        assert_eq!(c.len(), 1);
        assert_eq!(
            (c[0].name.as_str(), c[0].active_objects, c[0].objects, c[0].slot_size),
            ("bio-128", 42, 43, 192)
        );
        assert_eq!((c[0].objects_per_slab, c[0].pages_per_slab, c[0].slabs), (21, 1, 3));
        for bad in ["dentry 1 2 3", "a b c d e f : slabdata 1 2 3", "a 1 2 3 4 5 : tunables 0 0 0"] {
            assert!(parse(bad, "s").is_err(), "{bad}");
        }
    }
}
