//! Threads that are gone, by name: how many there were, and the most that one of them held.

use crate::spin::Spin;

/// Names at most; later ones are counted under none.
const NAMES: usize = 128;

#[derive(Clone, Copy)]
pub(crate) struct Departed {
    pub(crate) name: [u8; 16],
    pub(crate) threads: u64,
    /// Bytes.
    pub(crate) peak: u64,
}

pub(crate) type All = [Departed; NAMES];

const NONE: Departed = Departed { name: [0; 16], threads: 0, peak: 0 };

pub(crate) static TABLE: Spin<All> = Spin::new([NONE; NAMES]);

/// A thread of that name goes.
pub(crate) fn count(name: &[u8], peak: u64) {
    let mut padded = [0; 16];
    let n = name.len().min(15);
    padded[..n].copy_from_slice(&name[..n]);
    TABLE.with(|table| {
        let place = table.iter().position(|d| d.threads == 0 || d.name == padded).unwrap_or(NAMES - 1);
        let entry = &mut table[place];
        if entry.threads == 0 {
            entry.name = padded;
        } else if entry.name != padded {
            entry.name = *b"(others)\0\0\0\0\0\0\0\0";
        }
        entry.threads += 1;
        entry.peak = entry.peak.max(peak);
    });
}

/// A copy of the table.
pub(crate) fn all() -> All {
    TABLE.with(|table| *table)
}
