//! `slabgeom.txt`: how the recorded kernel cut the slabs of each cache, and which names it merged, from
//! /sys/kernel/slab. `C cache object_size slab_size order objs_per_slab`, `A alias target`.

use super::{NOT_OURS, tasks::short};
use crate::error::Error;
use crate::program::Geometry;
use hashbrown::HashMap;

/// One `C` line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Bytes from one object to the next.
    pub(crate) slot_size: u32,
    pub(crate) geometry: Geometry,
    /// Where it stands, from 1.
    pub(crate) line: u64,
}

/// All lines.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Name of the file, for notes.
    pub(crate) file: String,
    cuts: HashMap<String, Cut>,
    targets: HashMap<String, String>,
    names: HashMap<String, Vec<String>>,
    /// The only cache with this slot size, if it is not a kmalloc cache.
    only: HashMap<u32, Option<String>>,
}

impl Table {
    pub(crate) fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let mut t = Self { file: file.to_owned(), ..Self::default() };
        for (line, n) in text.lines().zip(1..) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let understood = match words.as_slice() {
                [] => Some(()),
                // Names may have spaces: the numbers stand at the end.
                ["C", name @ .., object, slot, order, objects] if !name.is_empty() => {
                    t.add_cut(name.join(" "), [object, slot, order, objects], n)
                }
                ["A", alias @ .., target] if !alias.is_empty() => {
                    let target = target.rsplit('/').next().unwrap_or(target);
                    t.targets.insert(alias.join(" "), target.to_owned());
                    t.names.entry(target.to_owned()).or_default().push(alias.join(" "));
                    Some(())
                }
                _ => None,
            };
            understood.ok_or_else(|| {
                let what = format!("`{}` is neither a cache nor an alias", short(line));
                Error::line(file, n, what, NOT_OURS)
            })?;
        }
        Ok(t)
    }

    fn add_cut(&mut self, name: String, numbers: [&str; 4], line: u64) -> Option<()> {
        let [object, slot, order, objects] = numbers.map(|w| w.parse::<u32>().ok());
        let (object_size, slot_size, order, objects) = (object?, slot?, order?, objects?);
        let fits = slot_size > 0 && objects > 0 && object_size <= slot_size && order < 20;
        fits.then_some(())?;
        let geometry = Geometry { object_size, order: order as u8, objects };
        if !name.starts_with("kmalloc") && !name.starts_with("dma-kmalloc") {
            let only = self.only.entry(slot_size);
            only.and_modify(|o| *o = None).or_insert_with(|| Some(name.clone()));
        }
        self.cuts.insert(name, Cut { slot_size, geometry, line });
        Some(())
    }

    /// The cache that a name stands for: itself, or what it was merged into.
    pub(crate) fn identity<'a>(&'a self, name: &'a str) -> &'a str {
        self.targets.get(name).map_or(name, String::as_str)
    }

    /// Every name merged into a cache.
    pub(crate) fn aliases(&self, identity: &str) -> &[String] {
        self.names.get(identity).map_or(&[], Vec::as_slice)
    }

    /// The geometry of a cache.
    pub(crate) fn cut(&self, identity: &str) -> Option<&Cut> {
        self.cuts.get(identity)
    }

    /// The cache with this slot size, when there is exactly one besides the kmalloc caches.
    pub(crate) fn only_with(&self, slot_size: u32) -> Option<&str> {
        self.only.get(&slot_size)?.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_names_lead_to_one_cache() {
        let t = "C :A-0000064 64 64 0 64\nC task_struct 8392 8448 3 3\nC kmalloc-64 64 64 0 64\n\
                 A anon_vma_chain :A-0000064\nA fs_cache :A-0000064\nC a b 10 16 0 256\n";
        let t = Table::parse(t, "slabgeom.txt").unwrap();
        assert_eq!(t.identity("fs_cache"), t.identity("anon_vma_chain"));
        assert_eq!(t.identity("task_struct"), "task_struct");
        let cut = t.cut("task_struct").unwrap();
        assert_eq!((cut.slot_size, cut.geometry.order, cut.geometry.objects, cut.line), (8448, 3, 3, 2));
        assert_eq!(t.aliases(":A-0000064").len(), 2);
        assert_eq!(
            (t.only_with(64), t.only_with(8448), t.only_with(1)),
            (Some(":A-0000064"), Some("task_struct"), None)
        );
        assert_eq!(t.cut("a b").unwrap().slot_size, 16);
    }

    #[test]
    fn another_files_lines_are_told() {
        for bad in
            ["hello", "C x 1 2 3", "C x 10 9 0 1", "C x 8 8 99 1", "C x 8 8 0 0", "A x", "C x 8 -8 0 1"]
        {
            let e = Table::parse(&format!("C ok 8 8 0 512\n{bad}\n"), "g").unwrap_err().to_string();
            assert!(e.starts_with("g, line 2"), "{e}");
        }
    }
}
