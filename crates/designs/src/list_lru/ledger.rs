//! What the kernel would have allocated for what was built: counted by kind and size as it happens.
//!
//! Apart from the structures because their sizes here are those of Rust: a count of allocations with the kernel's size
//! is what makes bytes comparable with slabinfo.

use crate::kernel::kmalloc;
use crate::lists::{Made, Parts, What};
use std::collections::BTreeMap;

/// Allocations by kind and size asked for.
#[derive(Default)]
pub(crate) struct Ledger {
    rows: BTreeMap<(What, u64), Row>,
}

#[derive(Clone, Copy, Default)]
struct Row {
    made: u64,
    live: u64,
}

impl Ledger {
    /// `n` allocations of `asked` bytes.
    pub(crate) fn made(&mut self, what: What, asked: u64, n: u64) {
        if asked > 0 && n > 0 {
            let row = self.rows.entry((what, asked)).or_default();
            row.made += n;
            row.live += n;
        }
    }

    /// `n` of them were freed.
    pub(crate) fn freed(&mut self, what: What, asked: u64, n: u64) {
        if let Some(row) = self.rows.get_mut(&(what, asked)) {
            debug_assert!(row.live >= n, "freed more {what:?} of {asked} bytes than were made");
            row.live = row.live.saturating_sub(n);
        }
    }

    /// Bytes that are allocated now, rounded as `kmalloc` does.
    pub(crate) fn bytes(&self) -> Parts {
        let mut parts = Parts::default();
        for (&(what, asked), row) in &self.rows {
            *parts.part_mut(what) += row.live * kmalloc(asked);
        }
        parts
    }

    /// Every row.
    pub(crate) fn rows(&self) -> Vec<Made> {
        let row = |(&(what, asked), row): (&(What, u64), &Row)| Made {
            what,
            asked,
            taken: kmalloc(asked),
            made: row.made,
            live: row.live,
        };
        self.rows.iter().map(row).collect()
    }
}
