//! The formulas beside real kernels: what mounts and groups were measured to take, and what is computed for them.
//!
//! The measurements (`data/published.csv`, its head names the source) made N groups in a fresh virtual machine, then M
//! mounts, and read the growth of `Slab` in `/proc/meminfo`. A mount takes more than lists and shrinker state, and a
//! group far more, so two figures are taken from the measurements themselves and not computed: what a mount takes on
//! that kernel without any group, and what a group takes on it for its own (from the runs of 1,000 × 1,000 on 1 and on
//! 2 nodes; these two rows then agree by construction and are marked). All that depends on how many there are of the
//! others, and on the number of nodes, is computed.
//!
//! On 6.1 mounts measured more than computed. The runs were repeated for this project (`data/settled.csv`) and read twice:
//! every 64 mounts the kernel makes the arrays of all groups anew and frees the old ones after a grace period, in
//! batches. Right after the last mount many of the old ones are still there; 20 seconds later they are gone, and the
//! formula holds. The published figures lie between the two.

use serde::Serialize;
use tenalloc_designs::kernel::generation::{Generation, Lists, Version};
use tenalloc_designs::kernel::list_lru::{self, Population, ROOT_NODE};
use tenalloc_designs::kernel::{Kmalloc, ids};

/// The measurements.
const TABLE: &str = include_str!("../data/published.csv");
/// The runs on 6.1 repeated, with a pause.
const SETTLED: &str = include_str!("../data/settled.csv");
/// Shrinkers that know groups on such a machine before any mount of the test, nearly all of them superblocks: counted on
/// Debian 6.1.192 with 1,000 groups, where `Slab` leaps at the mounts 40, 104, 168, 232, 296: the 40th brings the 65th
/// shrinker. What was published agrees: on 6.12 kmalloc-1k grew by 156 units a group and node with 10,000 mounts and by
/// 16 with 1,000, which takes 25 to 48 of them.
pub const AT_BOOT: u64 = 25;
/// The group that the test itself ran in.
const OWN_GROUP: u64 = 1;

/// One measured figure and the computed one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// `6.12`.
    pub kernel: String,
    /// Nodes.
    pub nodes: u64,
    /// Groups of the run.
    pub groups: u64,
    /// Mounts of the run.
    pub mounts: u64,
    /// `mount`, `pair` or `group`; `settled mount`: of the repeated runs, after a pause;
    /// `settled mount in use`: without free slots.
    pub of: &'static str,
    /// Bytes measured.
    pub measured: f64,
    /// Bytes computed.
    pub computed: f64,
    /// The measurement went into the computation.
    pub by_construction: bool,
}

impl Check {
    /// How far the computed figure is off, as a share of the measured one.
    pub fn off(&self) -> f64 {
        (self.computed - self.measured) / self.measured
    }
}

/// A line of the table.
#[derive(Clone, Copy)]
struct Run {
    kernel: Version,
    nodes: u64,
    groups: u64,
    mounts: u64,
    per_group: f64,
    per_mount: f64,
    alone: f64,
}

fn runs() -> Vec<Run> {
    TABLE.lines().filter_map(run).collect()
}

fn run(line: &str) -> Option<Run> {
    let mut fields = line.split(',');
    let kernel = fields.next()?.parse().ok()?;
    let mut number = || fields.next()?.parse::<u64>().ok();
    Some(Run {
        kernel,
        nodes: number()?,
        groups: number()?,
        mounts: number()?,
        per_group: number()? as f64,
        per_mount: number()? as f64,
        alone: number()? as f64,
    })
}

/// A line of the repeated runs: bytes of a mount.
#[derive(Clone, Copy)]
struct Settled {
    kernel: Version,
    nodes: u64,
    groups: u64,
    mounts: u64,
    /// Right after the last mount.
    #[cfg_attr(not(test), expect(dead_code, reason = "shown in docs/plan.md and held by a test"))]
    at_once: u64,
    /// After a pause.
    settled: u64,
    /// Of it slots that are not in use.
    free: u64,
}

fn settled() -> Vec<Settled> {
    let line = |line: &str| {
        let (kernel, numbers) = line.split_once(',')?;
        let mut numbers = numbers.split(',').map(str::parse::<u64>);
        let mut number = || numbers.next()?.ok();
        Some(Settled {
            kernel: kernel.parse().ok()?,
            nodes: number()?,
            groups: number()?,
            mounts: number()?,
            at_once: number()?,
            settled: number()?,
            free: number()?,
        })
    };
    SETTLED.lines().filter_map(line).collect()
}

/// All measurements, each with what is computed for it.
pub fn checks() -> Vec<Check> {
    let runs = runs();
    let mut checks = Vec::new();
    for run in &runs {
        let check = |of, measured, computed, by_construction| Check {
            kernel: run.kernel.to_string(),
            nodes: run.nodes,
            groups: run.groups,
            mounts: run.mounts,
            of,
            measured,
            computed,
            by_construction,
        };
        let mount = mount(run);
        let pairs = run.groups as f64;
        checks.push(check("mount", run.per_mount, mount, false));
        checks.push(check("pair", run.per_mount / pairs, mount / pairs, false));
        // The own bytes of a group, from the run with as many nodes, 1,000 groups and 1,000 mounts.
        let small =
            |r: &&Run| r.kernel == run.kernel && r.nodes == run.nodes && (r.groups, r.mounts) == (1000, 1000);
        if let Some(basis) = runs.iter().find(small) {
            let own = basis.per_group - lists_there_already(basis);
            let is_basis = (run.groups, run.mounts) == (1000, 1000);
            checks.push(check("group", run.per_group, own + lists_there_already(run), is_basis));
        }
    }
    let settled = settled();
    for run in settled.iter().filter(|run| run.groups > 0) {
        let is_alone = |r: &&Settled| (r.kernel, r.nodes, r.groups) == (run.kernel, run.nodes, 0);
        let Some(alone) = settled.iter().find(is_alone) else { continue };
        let grown = shrinkers_grown(run.kernel, run.nodes, run.groups, run.mounts)
            - shrinkers_grown(alone.kernel, alone.nodes, 0, alone.mounts);
        let check = |of, measured: u64, alone: u64| Check {
            kernel: run.kernel.to_string(),
            nodes: run.nodes,
            groups: run.groups,
            mounts: run.mounts,
            of,
            measured: measured as f64,
            computed: alone as f64 + grown,
            by_construction: false,
        };
        checks.push(check("settled mount", run.settled, alone.settled));
        checks.push(check("settled mount in use", run.settled - run.free, alone.settled - alone.free));
    }
    checks
}

fn list(run: &Run, groups: u64) -> f64 {
    let lists = Generation::of(run.kernel).lists;
    let ids = if lists.has_arrays() { ids::array_length(groups) } else { 0 };
    let at = Population { nodes: run.nodes, ids, users: 0, index_nodes: 0 };
    lists.bytes(at, Kmalloc::X86).total() as f64
}

/// A mount: what it takes alone, its two lists for the groups there are, and its share in the growth of shrinker state.
fn mount(run: &Run) -> f64 {
    let root = |nodes: u64| (2 * ROOT_NODE * nodes) as f64;
    let alone = run.alone - root(2) + root(run.nodes);
    let lists = 2.0 * list(run, run.groups + OWN_GROUP) - root(run.nodes);
    alone + lists + shrinkers_grown(run.kernel, run.nodes, run.groups, run.mounts)
}

/// Growth of all shrinker state by `mounts` mounts, a mount's share: for the groups, the test's own and the root.
fn shrinkers_grown(kernel: Version, nodes: u64, groups: u64, mounts: u64) -> f64 {
    let shrinkers = Generation::of(kernel).shrinkers;
    let state = |there| shrinkers.total(groups + OWN_GROUP + 1, nodes, there, Kmalloc::X86);
    (state(AT_BOOT + mounts) - state(AT_BOOT)) as f64 / mounts as f64
}

/// What the lists that were there before the groups grew by, for each group: about two a shrinker.
fn lists_there_already(run: &Run) -> f64 {
    if !matches!(Generation::of(run.kernel).lists, Lists::Eager) {
        return 0.0;
    }
    let lists = (2 * AT_BOOT) as f64;
    lists * (list(run, run.groups + OWN_GROUP) - list(run, OWN_GROUP)) / run.groups as f64
}

/// What a (group × mount) in use takes on 6.1 and 6.12 with 2 nodes: measured two kmalloc-64, computed two heads.
pub fn pair_in_use() -> (u64, u64) {
    (128, 2 * list_lru::user_head(2, list_lru::ONE, Kmalloc::X86))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_whole() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!((runs().len(), lines), (11, 12));
    }

    /// 5.10 and 6.12 within 1 %; 6.1 once it has settled within 10 %, without free slots within 1 %.
    #[test]
    fn real_kernels_agree() {
        for check in checks() {
            let [least, most] = match (check.kernel.as_str(), check.of) {
                ("6.1", "settled mount in use") => [-0.01, 0.01],
                ("6.1", "settled mount") => [-0.10, 0.10],
                ("6.1", "group") => [-0.02, 0.02],
                ("6.1", _) => [-0.21, 0.0],
                _ => [-0.01, 0.01],
            };
            assert!(
                (least..=most).contains(&check.off()),
                "{check:?} is off by {:.2} %",
                100.0 * check.off()
            );
        }
        assert_eq!(pair_in_use(), (128, 128));
    }

    /// What is not explained by the formula on 6.1 goes away by itself: the published figure lies between ours right after
    /// the mounts and ours after a pause.
    #[test]
    fn old_arrays_of_6_1_wait_for_a_grace_period() {
        let runs = runs();
        let mut compared = 0;
        for here in settled().iter().filter(|here| here.groups > 0) {
            let key = (here.kernel, here.nodes, here.groups, here.mounts);
            let published =
                runs.iter().find(|r| (r.kernel, r.nodes, r.groups, r.mounts) == key).unwrap().per_mount;
            // With 10,000 mounts the published run took more than ours at any time: its folders were made with the mounts.
            let folders = 1_000.0;
            let [least, most] = [here.settled as f64, here.at_once as f64].map(|bytes| bytes + folders);
            assert!((least - folders..=most + 2.0 * folders).contains(&published), "{key:?}");
            compared += 1;
        }
        assert_eq!(compared, 4);
    }

    #[test]
    fn units_of_6_12_came_out_to_eight_objects_in_three_million() {
        let shrinkers = Generation::of(Version { major: 6, minor: 12 }).shrinkers;
        let units = |mounts| tenalloc_designs::kernel::shrinker::units(AT_BOOT + mounts);
        assert_eq!(shrinkers, tenalloc_designs::kernel::shrinker::Shrinkers::Units);
        // 10,000 groups, the test's own and the root, 2 nodes: measured +3,120,632 objects of kmalloc-1k.
        assert_eq!((units(10_000) - units(0)) * 10_002 * 2, 3_120_624);
    }
}
