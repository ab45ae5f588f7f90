//! `slabgeom.txt`: the layout of every slab cache, from `/sys/kernel/slab`.
//!
//! ```text
//! C name object_size slab_size order objs_per_slab      a cache; slab_size is the distance of two objects, in bytes
//! A alias target                                        a cache merged into another; target has a C line
//! ```
//!
//! The folder is read before and after the recording and both are kept: a module that was unloaded in between takes
//! its caches with it, and one that was loaded brings new ones.

use crate::root::Root;
use std::collections::BTreeMap;
use std::fs;

const FOLDER: &str = "/sys/kernel/slab";

/// A cache's name and the rest of its line.
pub(crate) type Geometry = BTreeMap<String, String>;

/// Reads the caches there are now; empty when the kernel has no such folder (SLAB, or SLUB without its sysfs).
pub(crate) fn read(root: &Root) -> Geometry {
    let mut geometry = Geometry::new();
    for name in root.names(FOLDER) {
        let place = format!("{FOLDER}/{name}");
        if let Ok(target) = fs::read_link(root.path(&place)) {
            if let Some(target) = target.file_name() {
                let line = format!("A {name} {}", target.to_string_lossy());
                geometry.insert(name, line);
            }
            continue;
        }
        let fields = ["object_size", "slab_size", "order", "objs_per_slab"];
        let numbers: Option<Vec<String>> = fields
            .iter()
            .map(|field| root.word(format!("{place}/{field}")).filter(|text| text.parse::<u64>().is_ok()))
            .collect();
        if let Some(numbers) = numbers {
            let line = format!("C {name} {}", numbers.join(" "));
            geometry.insert(name, line);
        }
    }
    geometry
}

/// The text of the file: caches seen before or after, the later line where both have one.
pub(crate) fn text(before: Geometry, after: Geometry) -> String {
    let mut all = before;
    all.extend(after);
    all.into_values().map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::Machine;

    fn cache(machine: &Machine, name: &str, numbers: [&str; 4]) {
        for (field, number) in ["object_size", "slab_size", "order", "objs_per_slab"].iter().zip(numbers) {
            machine.put(&format!("{FOLDER}/{name}/{field}"), &format!("{number}\n"));
        }
    }

    #[test]
    fn caches_and_aliases() {
        let machine = Machine::new(&[]);
        cache(&machine, ":0000048", ["48", "48", "0", "85"]);
        cache(&machine, "filp", ["192", "256", "1", "32"]);
        machine.put(&format!("{FOLDER}/broken/object_size"), "8\n");
        std::os::unix::fs::symlink(":0000048", machine.root().path(format!("{FOLDER}/Acpi-Namespace")))
            .expect("a link");
        let before = read(&machine.root());
        let mut after = Geometry::new();
        after.insert("filp".into(), "C filp 184 192 0 21".into());
        assert_eq!(
            text(before, after),
            "C :0000048 48 48 0 85\nA Acpi-Namespace :0000048\nC filp 184 192 0 21\n"
        );
    }
}
