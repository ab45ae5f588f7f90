//! The only place where the historic designs touch what lies below them: pages of a node, and groups that count bytes.
//!
//! Both are tenalloc's, so every design stands on the same memory and the same tree.

use core::ptr::NonNull;

use tenalloc::{Config, Controller, Topology};
pub(crate) use tenalloc::{Group, Owner, PAGE};

/// Why the memory or the groups refused.
pub use tenalloc::Error;

/// Pages and groups of one run. Clones share them.
#[derive(Clone)]
pub(crate) struct Engine {
    ctl: Controller,
}

impl Engine {
    /// An engine of `nodes` nodes and `cpus` CPUs.
    pub(crate) fn new(nodes: u8, cpus: u16) -> Result<Self, Error> {
        // Charges are by slab here, rare and large: exact ones cost nothing and need no stock.
        let config = Config::new().topology(Topology::simulated(nodes, cpus)).exact_charges(true);
        Ok(Self { ctl: Controller::new(config)? })
    }

    /// A run of `count` pages of `node`, charged to nobody.
    pub(crate) fn pages(&self, count: usize, node: u8) -> Result<NonNull<u8>, Error> {
        self.ctl.pages(count, node)
    }

    /// Gives a run back.
    ///
    /// # Safety
    /// `run` came from [`pages`](Self::pages) and nothing in it is used any more.
    pub(crate) unsafe fn free_pages(&self, run: NonNull<u8>) {
        // SAFETY: the caller's promise.
        let freed = unsafe { self.ctl.free_pages(run) };
        debug_assert_eq!(freed, Ok(()));
    }

    /// The root of the groups.
    pub(crate) fn root(&self) -> Group {
        self.ctl.root()
    }

    /// Bytes handed out and not given back.
    #[cfg(test)]
    pub(crate) fn bytes_out(&self) -> u64 {
        self.ctl.stat().raw_bytes
    }
}
