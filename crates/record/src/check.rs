//! Everything that has to be in place before a recording starts, looked at in one go.
//!
//! A user who lacks four things should learn it in one run and not in four. So every check adds its problem to a
//! list and the rest goes on; only when the list is empty is there a [`Plan`], and nothing has been started or
//! written until then.

use crate::cgroup::Hierarchy;
use crate::error::{Error, Missing, Problem};
use crate::events::{self, Choice};
use crate::folder;
use crate::perf::{self, Perf};
use crate::root::Root;
use crate::{Options, What};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// What the checks look at besides the options.
pub(crate) struct Machine {
    pub(crate) root: Root,
    /// The text of `PATH`.
    pub(crate) search: String,
    /// Whether this process is root.
    pub(crate) is_root: bool,
}

impl Machine {
    pub(crate) fn this() -> Self {
        Machine {
            root: Root::system(),
            search: std::env::var_os("PATH").unwrap_or_default().to_string_lossy().into_owned(),
            is_root: rustix::process::geteuid().is_root(),
        }
    }
}

/// What the recording will use.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) perf: Perf,
    pub(crate) events: Vec<&'static str>,
    /// The folder `events` of tracefs.
    pub(crate) tracefs: String,
    pub(crate) hierarchy: Option<Hierarchy>,
    pub(crate) missing: Vec<Missing>,
}

/// Checks everything. The error lists all problems.
pub(crate) fn plan(options: &Options, machine: &Machine) -> Result<Plan, Error> {
    let root = &machine.root;
    let mut problems = Vec::new();
    problems.extend(options_problem(options, &machine.search));
    problems.extend(folder::check(&options.out, options.force));
    problems.extend(privilege(root, machine.is_root));
    problems.extend(namespace(root));
    let mut choice = Choice::default();
    let mut folder = String::new();
    match tracefs(root) {
        Err(problem) => problems.push(problem),
        Ok(events) => {
            choice = events::choose(|event| root.path(&events).join(event).is_dir());
            if !choice.required.is_empty() {
                let what = format!("this kernel has no event {}", choice.required.join(", "));
                problems.push(Problem::new(
                    what,
                    "it needs a kernel with CONFIG_TRACEPOINTS and CONFIG_EVENT_TRACING",
                ));
            }
            folder = events;
        }
    }
    let perf = match perf::find(root, options.perf.as_deref(), &machine.search) {
        Ok(perf) => Some(perf),
        Err(problem) => {
            problems.push(problem);
            None
        }
    };
    let (Some(perf), true) = (perf, problems.is_empty()) else { return Err(Error::Refused(problems)) };
    let mut missing = choice.missing;
    let hierarchy = Hierarchy::find(root);
    match &hierarchy {
        None => missing.push(Missing::new(
            "groups",
            "the memory controller is absent or disabled (boot option cgroup_disable=memory): all tasks are in `/`",
        )),
        Some(Hierarchy { mount: None, .. }) => missing.push(Missing::new(
            "counters of each group",
            "the hierarchy of the memory controller is not mounted: nothing to compare a replay with",
        )),
        Some(_) => {}
    }
    Ok(Plan { perf, events: choice.events, tracefs: folder, hierarchy, missing })
}

fn options_problem(options: &Options, search: &str) -> Option<Problem> {
    match &options.what {
        What::Seconds(seconds) if !(seconds.is_finite() && *seconds > 0.0) => {
            Some(Problem::new(format!("{seconds} seconds cannot be recorded"), "give a number above 0"))
        }
        What::Seconds(_) => None,
        What::Command(words) => {
            let Some(first) = words.first() else {
                return Some(Problem::new(
                    "there is nothing to record",
                    "give --seconds N, or -- and a command",
                ));
            };
            let name = first.to_string_lossy();
            let found = match name.contains('/') {
                true => perf::executable(Path::new(first)),
                false => perf::in_path(&name, search).is_some(),
            };
            (!found).then(|| {
                Problem::new(format!("there is no command `{name}`"), "give its path, or install it")
            })
        }
    }
    .or_else(|| {
        let odd = options.stamp_at.iter().find(|at| !(at.is_finite() && **at >= 0.0))?;
        Some(Problem::new(format!("there is no stamp at {odd} seconds"), "give numbers from 0 on"))
    })
}

/// The folder `events` of tracefs, or how to get there.
fn tracefs(root: &Root) -> Result<String, Problem> {
    let mut denied = None;
    for folder in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
        let events = format!("{folder}/events");
        match fs::read_dir(root.path(&events)) {
            Ok(_) => return Ok(events),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => denied = denied.or(Some(folder)),
            Err(_) => {}
        }
    }
    Err(match denied {
        Some(folder) => Problem::new(
            format!("{folder} may not be read by this user"),
            "run as root (sudo), or `mount -o remount,mode=755 /sys/kernel/tracing`",
        ),
        None => Problem::new(
            "tracefs is not mounted at /sys/kernel/tracing",
            "as root: mount -t tracefs nodev /sys/kernel/tracing",
        ),
    })
}

/// Whether this process may record all CPUs with raw tracepoint data.
fn privilege(root: &Root, is_root: bool) -> Option<Problem> {
    // CAP_SYS_ADMIN, and since 5.8 CAP_PERFMON, which is less.
    const SUFFICE: u64 = 1 << 21 | 1 << 38;
    let status = root.read("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
        .unwrap_or(if is_root { u64::MAX } else { 0 });
    let paranoid: i64 =
        root.word("/proc/sys/kernel/perf_event_paranoid").and_then(|text| text.parse().ok()).unwrap_or(2);
    if effective & SUFFICE != 0 || paranoid < 0 {
        return None;
    }
    Some(match is_root {
        true => Problem::new(
            "this root has neither CAP_PERFMON nor CAP_SYS_ADMIN (a container?)",
            "run on the host, or in a container with --privileged --pid=host --cgroupns=host",
        ),
        false => Problem::new(
            format!(
                "recording every task of the machine takes root (kernel.perf_event_paranoid is {paranoid})"
            ),
            "run with sudo; or sysctl kernel.perf_event_paranoid=-1, and do without what only root can read",
        ),
    })
}

/// Task numbers and group paths in the events are the host's; read from inside a name space, `/proc` would give
/// others and every allocation would be charged wrongly without anyone noticing.
fn namespace(root: &Root) -> Option<Problem> {
    // The kernel gives its first name spaces fixed inode numbers (include/linux/proc_ns.h).
    let first = [("pid", 0xEFFF_FFFCu32), ("cgroup", 0xEFFF_FFFB)];
    let inside: Vec<&str> = first
        .into_iter()
        .filter(|(kind, inode)| {
            let link = fs::read_link(root.path(format!("/proc/self/ns/{kind}")));
            link.is_ok_and(|link| link.to_string_lossy() != format!("{kind}:[{inode}]"))
        })
        .map(|(kind, _)| kind)
        .collect();
    (!inside.is_empty()).then(|| {
        Problem::new(
            format!("this process runs in a {} name space of its own (a container?)", inside.join(" and a ")),
            "run on the host, or in a container with --pid=host --cgroupns=host",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake;
    use std::os::unix::fs::symlink;

    fn machine(fake: &fake::Machine, is_root: bool) -> Machine {
        Machine { root: fake.root(), search: fake.root().path("/bin").display().to_string(), is_root }
    }

    fn options(fake: &fake::Machine, words: &[&str]) -> Options {
        Options::new(fake.root().path("/out"), What::Command(words.iter().map(Into::into).collect()))
    }

    #[test]
    fn all_that_is_missing_is_told_in_one_run() {
        let fake = fake::Machine::new(&[
            ("/out/thesis.txt", ""),
            ("/proc/self/status", "CapEff:\t0000000000000000\n"),
            ("/proc/sys/kernel/perf_event_paranoid", "2\n"),
            ("/proc/self/ns/keep", ""),
        ]);
        symlink("pid:[4026532001]", fake.root().path("/proc/self/ns/pid")).expect("a link");
        symlink("cgroup:[4026531835]", fake.root().path("/proc/self/ns/cgroup")).expect("a link");
        let error =
            plan(&options(&fake, &["nonsense"]), &machine(&fake, false)).expect_err("nothing is there");
        let text = error.to_string();
        assert_eq!(error.exit_code(), 2);
        for part in [
            "6 things",
            "`nonsense`",
            "--force",
            "sudo",
            "a pid name space",
            "--pid=host",
            "mount -t tracefs",
            "perf is not installed",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("cgroup name space"), "{text}");
    }

    #[test]
    fn a_whole_machine_gives_a_plan() {
        let fake = fake::Machine::new(&[
            ("/proc/self/status", "CapEff:\t0000004000000000\n"),
            ("/proc/sys/kernel/perf_event_paranoid", "2\n"),
            ("/proc/cgroups", "memory\t4\t9\t1\n"),
        ]);
        for event in ["kmem/kmalloc", "kmem/kfree", "kmem/kmem_cache_alloc", "kmem/kmem_cache_free"] {
            fake.put(&format!("/sys/kernel/debug/tracing/events/{event}/id"), "1\n");
        }
        fake.program("perf", "#!/bin/sh\necho perf version 5.4.1\n");
        fake.program("true", "#!/bin/sh\n");
        let plan = plan(&options(&fake, &["true"]), &machine(&fake, false)).expect("a plan");
        assert_eq!(plan.events.len(), 4);
        assert_eq!(plan.hierarchy.map(|hierarchy| hierarchy.id), Some(4));
        assert_eq!(plan.perf.version, "perf version 5.4.1");
        assert!(plan.missing.iter().any(|missing| missing.what == "event sched:sched_process_fork"));
        assert!(plan.missing.iter().any(|missing| missing.what == "counters of each group"));
    }

    #[test]
    fn numbers_that_mean_nothing_are_refused() {
        let fake = fake::Machine::new(&[]);
        let mut options = Options::new("x", What::Seconds(f64::NAN));
        assert!(options_problem(&options, "").is_some());
        options.what = What::Seconds(1.0);
        assert_eq!(options_problem(&options, ""), None);
        options.stamp_at = vec![-1.0];
        assert!(options_problem(&options, "").is_some_and(|problem| problem.what.contains("-1")));
        assert!(privilege(&fake.root(), true).is_none());
    }
}
