//! What the kernel would have allocated for what was built: counted by kind and size as it happens.
//!
//! Apart from the structures because their sizes here are those of Rust: a count of allocations with the kernel's size
//! is what makes bytes comparable with slabinfo. The sizes come from [`crate::kernel`].

use crate::kernel::Kmalloc;
use crate::lists::{Made, Parts, What};
use std::collections::BTreeMap;

/// Allocations by kind and size.
pub(crate) struct Ledger {
    kmalloc: Kmalloc,
    rows: BTreeMap<(What, u64, u64), Row>, // kind, asked, taken
}

#[derive(Clone, Copy, Default)]
struct Row {
    made: u64,
    live: u64,
}

impl Ledger {
    /// Of a machine that rounds so.
    pub(crate) fn new(kmalloc: Kmalloc) -> Self {
        Self { kmalloc, rows: BTreeMap::new() }
    }

    /// `n` calls of `kmalloc(asked)`; of `kvmalloc` for what may be large, which is the same up to 4 MiB.
    pub(crate) fn made(&mut self, what: What, asked: u64, n: u64) {
        self.made_in(what, asked, self.kmalloc.kvmalloc(asked), n);
    }

    /// `n` of them were freed.
    pub(crate) fn freed(&mut self, what: What, asked: u64, n: u64) {
        self.freed_in(what, asked, self.kmalloc.kvmalloc(asked), n);
    }

    /// `n` objects of a cache of their own, whose slots have `taken` bytes.
    pub(crate) fn made_in(&mut self, what: What, asked: u64, taken: u64, n: u64) {
        if asked > 0 && n > 0 {
            let row = self.rows.entry((what, asked, taken)).or_default();
            row.made += n;
            row.live += n;
        }
    }

    /// `n` of them were freed.
    pub(crate) fn freed_in(&mut self, what: What, asked: u64, taken: u64, n: u64) {
        if let Some(row) = self.rows.get_mut(&(what, asked, taken)) {
            debug_assert!(row.live >= n, "freed more {what:?} of {asked} bytes than were made");
            row.live = row.live.saturating_sub(n);
        }
    }

    /// Bytes that are allocated now, as rounded.
    pub(crate) fn bytes(&self) -> Parts {
        let mut parts = Parts::default();
        for (&(what, _, taken), row) in &self.rows {
            *parts.part_mut(what) += row.live * taken;
        }
        parts
    }

    /// Every row.
    pub(crate) fn rows(&self) -> Vec<Made> {
        let row = |(&(what, asked, taken), row): (&(What, u64, u64), &Row)| Made {
            what,
            asked,
            taken,
            made: row.made,
            live: row.live,
        };
        self.rows.iter().map(row).collect()
    }
}
