//! The whole answer: what went in and from where, what each generation spends, how it grows, what to do.

use serde::Serialize;
use serde_json::Value;
use tenalloc_designs::kernel::Version;
use tenalloc_replay::report::units::counted;

use crate::advice::{self, Advice};
use crate::formulas::{self, Formula};
use crate::host::{Host, Read, Unread};
use crate::situation::{Error, Input, MOST_GROUPS, Origin, Situation};
use crate::spend::{self, Row};
use crate::sweep::{Curve, Range};
use crate::vectors::{SlabTable, Slack};
use crate::{SCHEMA, VERSION};

/// What the user gave; the rest is read from the host, or assumed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The kernel.
    pub kernel: Option<Version>,
    /// Bytes of a page.
    pub page_size: Option<u64>,
    /// Nodes.
    pub nodes: Option<u64>,
    /// CPUs.
    pub cpus: Option<u64>,
    /// Groups, or a range of them.
    pub groups: Option<Range>,
    /// The most groups there ever were.
    pub peak_groups: Option<u64>,
    /// Mounts, or a range of them.
    pub mounts: Option<Range>,
    /// list_lrus of a mount.
    pub lists_per_mount: Option<u64>,
    /// Mounts that a group uses.
    pub used_per_group: Option<f64>,
    /// Shrinkers beside those of mounts.
    pub extra_shrinkers: Option<u64>,
    /// Whether booted with `cgroup.memory=nokmem`.
    pub nokmem: Option<bool>,
    /// Caches, and the file they stand in.
    pub slabs: Option<(SlabTable, String)>,
}

/// The answer. Its serde form is the JSON form.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// Version of tenalloc that computed it.
    pub tenalloc: &'static str,
    /// The release of the kernel, in full where it was read.
    pub kernel: String,
    /// Groups, mounts or another number was given, so that this is not (only) the host as it is.
    pub hypothetical: bool,
    /// Groups, mounts and nodes in words.
    pub size: String,
    /// All numbers that went in.
    pub inputs: Vec<Input>,
    /// What could not be read.
    pub unread: Vec<Unread>,
    /// Bytes of memory of the host.
    pub memory: Option<u64>,
    /// Bytes of all its slabs.
    pub slab: Option<u64>,
    /// Free slots and leftovers in those slabs.
    pub slack: Option<Slack>,
    /// One a design, oldest first.
    pub designs: Vec<Row>,
    /// What to do.
    pub advice: Advice,
    /// How each design grows, if a range was given.
    pub curve: Option<Curve>,
    /// What the letters of the formulas mean.
    pub symbols: &'static str,
    /// How each column was computed.
    pub formulas: &'static [Formula],
}

impl Plan {
    /// Computes everything. `host` is used for what `request` leaves open; [`Host::default`] knows nothing.
    ///
    /// # Errors
    /// [`Error`] when a number cannot be.
    pub fn new(request: &Request, host: &Host) -> Result<Self, Error> {
        let mut inputs = Inputs::default();
        let both = |range: &Option<Range>| range.is_some_and(|r| !r.is_one());
        if both(&request.groups) && both(&request.mounts) {
            return Err(Error::TwoRanges);
        }
        let host = &narrowed(request, host);
        let situation = situation(request, host, &mut inputs);
        situation.check()?;
        let designs = spend::rows(&situation);
        let curve = Curve::of(&situation, request.groups, request.mounts)?;
        let advice = advice::advise(&situation, &designs, host.memory.as_ref().map(|m| m.value));
        let kernel = match &host.kernel {
            Some(read) if request.kernel.is_none() => read.value.0.clone(),
            _ => situation.kernel.to_string(),
        };
        let given = inputs.0.iter().any(|input| input.origin == Origin::Given);
        Ok(Self {
            schema: SCHEMA,
            version: VERSION,
            tenalloc: env!("CARGO_PKG_VERSION"),
            kernel,
            hypothetical: given,
            size: size(&situation),
            inputs: inputs.0,
            unread: if request.groups.is_some() && request.mounts.is_some() {
                Vec::new()
            } else {
                host.unread.clone()
            },
            memory: host.memory.as_ref().map(|m| m.value),
            slab: host.slab.as_ref().map(|s| s.value).filter(|_| request.slabs.is_none()),
            slack: situation.slabs.as_ref().map(SlabTable::slack),
            designs,
            advice,
            curve,
            symbols: formulas::SYMBOLS,
            formulas: &formulas::ALL,
        })
    }

    /// What the plan is about, in one line.
    pub fn title(&self) -> String {
        let what = if self.hypothetical { "Numbers given" } else { "This host" };
        format!("{what}: Linux {}, {}", self.kernel, self.size)
    }

    /// The row of the kernel in question.
    pub fn running(&self) -> Option<&Row> {
        self.designs.iter().find(|row| row.running)
    }
}

fn size(at: &Situation) -> String {
    let groups = counted(at.groups, "group", "groups");
    let mounts = counted(at.mounts, "mount", "mounts");
    format!("{groups} × {mounts} × {}", counted(at.nodes, "node", "nodes"))
}

/// Other groups, mounts or nodes are another machine: this host's memory and slabs say nothing about it.
fn narrowed(request: &Request, host: &Host) -> Host {
    if request.groups.is_none() && request.mounts.is_none() && request.nodes.is_none() {
        return host.clone();
    }
    Host { memory: None, slab: None, slabs: None, ..host.clone() }
}

/// What a kernel has beyond the mounts that are seen, where that cannot be read: file systems of its own and shrinkers of
/// no file system. Debian's 6.1 has 25 right after boot (see [`crate::published::AT_BOOT`]), 7 of them mounted to be seen.
const USUAL_EXTRA: u64 = 18;

/// Collects inputs while they are decided.
#[derive(Default)]
struct Inputs(Vec<Input>);

impl Inputs {
    fn note(
        &mut self,
        name: &'static str,
        symbol: &'static str,
        value: Value,
        origin: Origin,
        from: impl Into<String>,
    ) {
        self.0.push(Input { name, symbol, value, origin, from: from.into() });
    }

    /// Given, else read, else assumed.
    fn pick<T: Copy + Into<Value>>(
        &mut self,
        (name, symbol): (&'static str, &'static str),
        given: Option<T>,
        read: Option<&Read<T>>,
        assumed: (T, &str),
    ) -> T {
        let (value, origin, from) = match (given, read) {
            (Some(value), _) => (value, Origin::Given, format!("--{name}")),
            (None, Some(read)) => (read.value, Origin::Host, read.from.clone()),
            (None, None) => (assumed.0, Origin::Assumed, assumed.1.to_owned()),
        };
        self.note(name, symbol, value.into(), origin, from);
        value
    }
}

fn situation(request: &Request, host: &Host, inputs: &mut Inputs) -> Situation {
    let kernel = match (request.kernel, &host.kernel) {
        (Some(kernel), _) => {
            inputs.note("kernel", "", kernel.to_string().into(), Origin::Given, "--kernel");
            kernel
        }
        (None, Some(read)) => {
            inputs.note("kernel", "", read.value.0.clone().into(), Origin::Host, read.from.clone());
            read.value.1
        }
        (None, None) => {
            let kernel = Version { major: 6, minor: 12 };
            let why = "the long-term release of today; give --kernel";
            inputs.note("kernel", "", kernel.to_string().into(), Origin::Assumed, why);
            kernel
        }
    };
    let page_size =
        inputs.pick(("page-size", ""), request.page_size, host.page_size.as_ref(), (4096, "as most"));
    let nodes = inputs.pick(("nodes", "N"), request.nodes, host.nodes.as_ref(), (1, "no other is known"));
    let cpus = inputs.pick(("cpus", "P"), request.cpus, host.cpus.as_ref(), (1, "no other is known"));
    let groups = groups(request, host, inputs);
    let peak =
        (groups, "no more than there are now; a host that once had more has longer arrays on Linux ≤ 5.17");
    let peak_groups = inputs.pick(("peak-groups", ""), request.peak_groups, None, peak);
    let mounts = request.mounts.map(Range::last);
    let mounts = inputs.pick(("mounts", ""), mounts, host.mounts.as_ref(), (0, "none could be read"));
    let two = (2, "dentries and inodes");
    let lists_per_mount = inputs.pick(("lists-per-mount", "A"), request.lists_per_mount, None, two);
    match request.used_per_group {
        Some(used) => inputs.note("used-per-group", "", used.into(), Origin::Given, "--used-per-group"),
        None => {
            let why = "every mount is used by one group (u = 1), which no file tells";
            inputs.note("used-per-group", "", Value::Null, Origin::Assumed, why);
        }
    }
    // What a kernel mounts for itself belongs to a host, not to a number of mounts that somebody names.
    let (read, extra) = match (&request.mounts, &host.mounts) {
        (None, Some(_)) => (
            host.extra_shrinkers.as_ref(),
            (USUAL_EXTRA, "about what a kernel mounts for itself; no file shows it"),
        ),
        _ => (None, (0, "none beside the mounts that were given")),
    };
    let extra_shrinkers = inputs.pick(("extra-shrinkers", ""), request.extra_shrinkers, read, extra);
    let on = (false, "not known: accounted, as is usual");
    let nokmem = inputs.pick(("nokmem", ""), request.nokmem, host.nokmem.as_ref(), on);
    let slabs = match (&request.slabs, &host.slabs) {
        (Some((table, path)), _) => {
            inputs.note("slabinfo", "", table.caches.len().into(), Origin::Given, path.clone());
            Some(table.clone())
        }
        (None, Some(read)) => {
            inputs.note("slabinfo", "", read.value.caches.len().into(), Origin::Host, read.from.clone());
            Some(read.value.clone())
        }
        (None, None) => None,
    };
    Situation {
        kernel,
        page_size,
        nodes,
        cpus,
        groups,
        peak_groups,
        mounts,
        lists_per_mount,
        used_per_group: request.used_per_group,
        extra_shrinkers,
        nokmem,
        slabs,
    }
}

/// Living and dying ones together: both have shrinker state and handles.
fn groups(request: &Request, host: &Host, inputs: &mut Inputs) -> u64 {
    if let Some(range) = request.groups {
        // Of a range the last step that Linux has ids for: beyond it there is nothing to compare.
        let possible = range.steps().into_iter().rev().find(|step| *step <= MOST_GROUPS);
        let groups = possible.filter(|_| !range.is_one()).unwrap_or(range.last());
        return inputs.pick(("groups", "M"), Some(groups), None, (0, ""));
    }
    let living = inputs.pick(("groups", "M"), None, host.groups.as_ref(), (0, "none could be read"));
    match &host.dying {
        Some(dying) => living.saturating_add(inputs.pick(("dying-groups", "M"), None, Some(dying), (0, ""))),
        None => living,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(request: &Request) -> Plan {
        Plan::new(request, &Host::default()).unwrap()
    }

    fn given(groups: &str, mounts: &str) -> Request {
        Request {
            kernel: "6.12".parse().ok(),
            nodes: Some(2),
            groups: groups.parse().ok(),
            mounts: mounts.parse().ok(),
            ..Request::default()
        }
    }

    #[test]
    fn a_host_of_which_nothing_is_known_has_a_plan_too() {
        let plan = plan(&Request::default());
        assert!(!plan.hypothetical && plan.inputs.iter().all(|input| input.origin == Origin::Assumed));
        assert_eq!((plan.kernel.as_str(), plan.designs.len()), ("6.12", 11));
    }

    #[test]
    fn what_was_given_is_told_apart_from_what_was_read() {
        let read = |value| Some(Read { value, from: "/a/file".into() });
        let host = Host {
            nodes: read(4),
            cpus: read(64),
            memory: read(1 << 30),
            mounts: read(40),
            ..Host::default()
        };
        let plan = Plan::new(&given("1000", "1000"), &host).unwrap();
        let origins: Vec<_> =
            plan.inputs.iter().map(|i| (i.name, i.origin)).filter(|(_, o)| *o != Origin::Assumed).collect();
        let given = ["kernel", "nodes", "groups", "mounts"].map(|name| (name, Origin::Given));
        assert_eq!(origins, [given[0], given[1], ("cpus", Origin::Host), given[2], given[3]]);
        assert!(plan.hypothetical && plan.memory.is_none(), "another machine has another memory");
        assert_eq!(plan.running().map(|row| row.design), Some("linux-6.7"));
    }

    #[test]
    fn a_range_is_shown_where_linux_still_can() {
        let long = plan(&given("100..100000", "50"));
        let groups = long.inputs.iter().find(|input| input.name == "groups").unwrap();
        assert_eq!((&groups.value, long.curve.is_some()), (&Value::from(50_000), true));
        assert_eq!(plan(&given("70000", "50")).running().unwrap().bytes, None);
        let two = Plan::new(&given("1..5", "1..5"), &Host::default()).unwrap_err();
        assert_eq!(
            two.to_string(),
            "only one of --groups and --mounts can be a range: give the other as one number"
        );
    }

    #[test]
    fn the_same_numbers_as_json() {
        let json = serde_json::to_value(plan(&given("10000", "10000"))).unwrap();
        assert_eq!((&json["schema"], &json["version"]), (&"tenalloc.plan".into(), &1.into()));
        let row = &json["designs"][6];
        assert_eq!((&row["design"], &row["running"]), (&"linux-6.7".into(), &true.into()));
        assert_eq!(row["bytes"]["shrinkers"], 20_002_u64 * (157 * 1024 + 2048));
        assert_eq!(row["bytes"]["vectors"], Value::Null);
        assert!(json["formulas"].as_array().is_some_and(|all| all.len() == crate::formulas::ALL.len()));
    }
}
