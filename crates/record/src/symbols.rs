//! `kallsyms.tsv`: the kernel's functions by address, to name the call sites in a trace.
//!
//! A recording has some thousand distinct call sites, and finding them means reading the whole trace, which is the
//! reader's work and not the recorder's. So the recording keeps what the answer depends on and what the next boot
//! changes: the table of functions. Data symbols are left out, and so are the `__pfx_` ones: they are the padding
//! before a function, from where nothing is ever called, and half of the table.
//!
//! ```text
//! ffffffff81000000<TAB>_stext                  address in hexadecimal, ascending
//! ffffffffc0201000<TAB>ovl_fill_super<TAB>overlay      a module's function: its name in a third column
//! ```
//!
//! A call site belongs to the last row at or below it.

use crate::root::Root;
use std::fmt::Write;

/// The text of the file, or why there is none.
pub(crate) fn text(root: &Root) -> Result<String, String> {
    let kallsyms = root.read("/proc/kallsyms").map_err(|error| format!("/proc/kallsyms: {error}"))?;
    table(&kallsyms)
}

fn table(kallsyms: &str) -> Result<String, String> {
    let mut rows: Vec<(u64, &str, &str)> = Vec::new();
    let mut hidden = false;
    for line in kallsyms.lines() {
        let mut fields = line.split_whitespace();
        let (Some(address), Some(kind), Some(name)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        // w and W are functions that another definition may replace; weak data has a v.
        if !matches!(kind, "t" | "T" | "w" | "W") || name.starts_with("__pfx_") {
            continue;
        }
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        if address == 0 {
            hidden = true;
            continue;
        }
        let module = fields.next().unwrap_or_default().trim_matches(['[', ']']);
        rows.push((address, name, module));
    }
    if rows.is_empty() {
        return Err(String::from(if hidden {
            "the addresses in /proc/kallsyms are hidden: sysctl kernel.kptr_restrict=0, or 1 and record as root"
        } else {
            "/proc/kallsyms has no functions (CONFIG_KALLSYMS)"
        }));
    }
    rows.sort_by_key(|&(address, ..)| address);
    // Several names for one address: one is enough to name a call site.
    rows.dedup_by_key(|&mut (address, ..)| address);
    let mut text = String::with_capacity(rows.len() * 40);
    for (address, name, module) in rows {
        let _ = match module {
            "" => writeln!(text, "{address:x}\t{name}"),
            module => writeln!(text, "{address:x}\t{name}\t{module}"),
        };
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_sorted_without_data_and_padding() {
        let kallsyms = "ffffffff81000100 T b\nffffffff81000000 T _stext\nffffffff81000000 T _text\n\
                        ffffffff810000f0 t __pfx_b\nffffffff82000000 D data\nnonsense\n\
                        ffffffffc0000010 t probe\t[overlay]\nffffffff81000200 W arch_init\n";
        let wanted = "ffffffff81000000\t_stext\nffffffff81000100\tb\nffffffff81000200\tarch_init\n\
                      ffffffffc0000010\tprobe\toverlay\n";
        assert_eq!(table(kallsyms).as_deref(), Ok(wanted));
    }

    #[test]
    fn hidden_addresses_are_told_apart_from_none() {
        assert!(table("0000000000000000 T a\n").is_err_and(|why| why.contains("kptr_restrict")));
        assert!(table("").is_err_and(|why| why.contains("CONFIG_KALLSYMS")));
    }
}
