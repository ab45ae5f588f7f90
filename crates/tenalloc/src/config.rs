//! What a controller is made from.

use crate::page::{Os, Source, Topology};
use crate::reclaim::OutOfMemory;
use core::time::Duration;

/// Configuration of a [`Controller`](crate::Controller).
#[derive(Clone, Copy)]
pub struct Config {
    pub(crate) source: &'static dyn Source,
    pub(crate) topology: Option<Topology>,
    pub(crate) hardened: bool,
    pub(crate) debug: bool,
    pub(crate) exact_charges: bool,
    pub(crate) sleep: bool,
    pub(crate) oom: Option<&'static dyn OutOfMemory>,
    pub(crate) decay: Duration,
}

impl Config {
    /// The operating system's pages, the machine's topology; hardened in debug builds.
    pub const fn new() -> Self {
        Self {
            source: &Os,
            topology: None,
            hardened: cfg!(debug_assertions),
            debug: false,
            exact_charges: false,
            sleep: true,
            oom: None,
            decay: Duration::from_secs(1),
        }
    }

    /// Another source of pages.
    pub const fn source(self, source: &'static dyn Source) -> Self {
        Self { source, ..self }
    }

    /// Another topology than the machine's.
    pub const fn topology(self, topology: Topology) -> Self {
        Self { topology: Some(topology), ..self }
    }

    /// Hardened: every slab has its owner vector from the first object on (4 bytes an object), so that every
    /// double free is told.
    pub const fn hardened(self, on: bool) -> Self {
        Self { hardened: on, ..self }
    }

    /// Red zones and poison in every cache, those of the size classes too: see
    /// [`CacheConfig::debug`](crate::CacheConfig::debug), which decides for one cache.
    pub const fn debug(self, on: bool) -> Self {
        Self { debug: on, ..self }
    }

    /// Who decides when a limit was hit and reclaim did not help; without it the charge fails.
    pub const fn out_of_memory(self, policy: &'static dyn OutOfMemory) -> Self {
        Self { oom: Some(policy), ..self }
    }

    /// Whether a charge above `high` makes its thread wait when reclaim did not help; so by default. Without, it still
    /// reclaims and is counted: for threads that serve many tasks, which then ask
    /// [`Group::high_delay`](crate::Group::high_delay) how long to wait, or await
    /// [`Group::below_high`](crate::Group::below_high).
    pub const fn sleep(self, on: bool) -> Self {
        Self { sleep: on, ..self }
    }

    /// How long free pages are kept for their next use before they are given to the system: one to two times this; 1 s by
    /// default. Runs of pages that are cut or given back drive it in passing, and [`Controller::tick`](crate::Controller::tick).
    /// With [`Duration::MAX`] only those beyond 8 MiB and an eighth of the pages in use go by themselves.
    pub const fn decay(self, time: Duration) -> Self {
        Self { decay: time, ..self }
    }

    /// Charges go to the tree one by one: `current` is always exact, and every charge touches the counters of
    /// all ancestors.
    pub const fn exact_charges(self, on: bool) -> Self {
        Self { exact_charges: on, ..self }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for Config {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Config")
            .field("topology", &self.topology)
            .field("hardened", &self.hardened)
            .field("debug", &self.debug)
            .field("exact_charges", &self.exact_charges)
            .field("sleep", &self.sleep)
            .finish_non_exhaustive()
    }
}
