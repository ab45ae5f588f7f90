//! The recording machine's own `/proc/slabinfo`, at the moments at which it was read.

use super::Error;
use std::path::Path;
use tenalloc_trace::Program;
use tenalloc_trace::program::Cache;
use tenalloc_trace::slabinfo::{self, CacheUse};

/// The kernel's slabs at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The stamp's name, or `after`.
    pub label: String,
    /// ns since the first event.
    pub time: u64,
    /// By cache.
    pub caches: Vec<CacheUse>,
}

/// All that a recording's folder has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Just before the recording.
    pub before: Vec<CacheUse>,
    /// Since then, by time.
    pub moments: Vec<Moment>,
}

impl Recorded {
    /// Reads `slab.before.txt`, `steady.txt` and `slab.after.txt` of `folder`.
    ///
    /// # Errors
    /// [`Error::NoSlabinfo`] when there is nothing to compare with; a file that cannot be read or understood.
    pub fn read(folder: &Path, program: &Program) -> Result<Self, Error> {
        let load = |name: &str| {
            let path = folder.join(name);
            match std::fs::read(&path) {
                Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(e) => Err(Error::Io(path.display().to_string(), e)),
            }
        };
        let nothing = || Error::NoSlabinfo(folder.display().to_string());
        let before = slabinfo::parse(&load("slab.before.txt")?.ok_or_else(nothing)?, "slab.before.txt")?;
        let mut moments = Vec::new();
        // One table for each reading of the counters, in their order.
        let tables = tables(&load("steady.txt")?.unwrap_or_default());
        for (stamp, text) in program.stamps.iter().zip(&tables) {
            let caches = slabinfo::parse(text, "steady.txt")?;
            moments.push(Moment { label: stamp.label.clone(), time: stamp.time, caches });
        }
        if let Some(text) = load("slab.after.txt")? {
            let caches = slabinfo::parse(&text, "slab.after.txt")?;
            moments.push(Moment { label: "after".into(), time: program.length_ns, caches });
        }
        if moments.is_empty() {
            return Err(nothing());
        }
        moments.sort_by_key(|m| m.time);
        Ok(Self { before, moments })
    }
}

/// The tables of slabinfo within a text, each from its heading on.
fn tables(text: &str) -> Vec<String> {
    let mut tables: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.starts_with("slabinfo - version") {
            tables.push(String::new());
        } else if line.contains(" : slabdata ")
            && let Some(table) = tables.last_mut()
        {
            table.push_str(line);
            table.push('\n');
        }
    }
    tables
}

/// The kernel's line for a cache of the trace, by any of its names.
pub(super) fn of<'a>(cache: &Cache, lines: &'a [CacheUse]) -> Option<&'a CacheUse> {
    let short = |name: &str| match name.rsplit_once('-').map(|(front, n)| (front, n.parse::<u32>())) {
        Some((front, Ok(n))) if n >= 1024 && n % 1024 == 0 => format!("{front}-{}k", n / 1024),
        _ => name.to_owned(),
    };
    let names = || std::iter::once(&cache.name).chain(&cache.aliases);
    lines.iter().find(|line| {
        line.slot_size == cache.slot_size && names().any(|n| line.name == *n || line.name == short(n))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_found_between_other_things() {
        let line = |n| format!("dentry 1 2 192 21 1 : tunables 0 0 0 : slabdata {n} {n} 0");
        let text = format!(
            "MemTotal: 1 kB\nslabinfo - version: 2.1\n# name\n{}\n/g/a 1 slab 2\n# one 2.5\nslabinfo - version: 2.1\n{}\n",
            line(3),
            line(4)
        );
        let slabs: Vec<u64> =
            tables(&text).iter().map(|t| slabinfo::parse(t, "t").unwrap()[0].slabs).collect();
        assert_eq!(slabs, [3, 4]);
    }

    #[test]
    fn a_cache_is_known_by_any_of_its_names() {
        let text = "kmalloc-cg-2k 1 2 2048 16 8 : tunables 0 0 0 : slabdata 3 3 0\n\
                    pid 1 2 128 32 1 : tunables 0 0 0 : slabdata 4 4 0\n";
        let lines = slabinfo::parse(text, "t").unwrap();
        let cache = |name: &str, aliases: &[&str], slot_size| Cache {
            name: name.into(),
            aliases: aliases.iter().map(|a| (*a).to_owned()).collect(),
            slot_size,
            geometry: None,
        };
        let slabs = |c: &Cache| of(c, &lines).map(|l| l.slabs);
        assert_eq!(slabs(&cache("kmalloc-cg-2048", &[], 2048)), Some(3));
        assert_eq!(slabs(&cache("eventpoll", &["pid"], 128)), Some(4));
        assert_eq!((slabs(&cache("pid", &[], 192)), slabs(&cache("filp", &[], 128))), (None, None));
    }
}
