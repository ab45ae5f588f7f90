//! How much is measured: a few minutes' worth, or everything.

/// What a run does.
pub(crate) struct Plan {
    /// Rounds of every measurement of time, in turn.
    pub(crate) rounds: usize,
    /// Allocations and frees of one measurement of time.
    pub(crate) steps: usize,
    /// Object sizes of the speed tables.
    pub(crate) sizes: &'static [usize],
    /// Tenants and objects of each, of the memory tables.
    pub(crate) tenants: &'static [(usize, usize)],
    /// Groups at a time, and objects of each, where groups come and go.
    pub(crate) churn: &'static [(usize, usize)],
    /// Groups without objects.
    pub(crate) idle_groups: usize,
    /// Threads that took objects, gave them back and wait.
    pub(crate) idle_threads: usize,
}

impl Plan {
    /// What `make bench` does by default.
    pub(crate) const SHORT: Self = Self {
        rounds: 5,
        steps: 400_000,
        sizes: &[64, 192],
        tenants: &[(10_000, 14), (10_000, 100)],
        churn: &[(2048, 100)],
        idle_groups: 1_000_000,
        idle_threads: 10_000,
    };

    /// `BENCH=all`.
    pub(crate) const ALL: Self = Self {
        rounds: 7,
        steps: 1_000_000,
        sizes: &[32, 64, 192, 696, 4096],
        tenants: &[(10_000, 14), (10_000, 100), (100_000, 14), (100_000, 100)],
        churn: &[(2048, 14), (2048, 100)],
        idle_groups: 1_000_000,
        idle_threads: 10_000,
    };

    /// The tables of memory alone.
    pub(crate) const MEMORY: Self = Self { churn: &[(2048, 14), (2048, 100)], ..Self::SHORT };

    /// To see that all of it runs; its figures say nothing.
    pub(crate) const TRY: Self = Self {
        rounds: 2,
        steps: 20_000,
        sizes: &[64],
        tenants: &[(500, 14)],
        churn: &[(128, 14)],
        idle_groups: 10_000,
        idle_threads: 50,
    };
}
