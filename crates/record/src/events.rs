//! Which tracepoints to record on the running kernel.
//!
//! Kernels differ in their names: before 6.1 an allocation for a NUMA node had events of its own (`kmalloc_node`,
//! `kmem_cache_alloc_node`), and a kernel built without `CONFIG_FTRACE_SYSCALLS` has no mount events. What exists
//! under `events/` of tracefs decides; the kernel's version never does, since distributions carry changes back.

use crate::error::Missing;
use crate::root::Root;

/// How much a recording depends on an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Need {
    /// There is no slab trace without it.
    Required,
    /// A replay knows less without it; the text says what.
    Wanted(&'static str),
    /// Exists on old kernels only: taken where it is, not missed where it is not.
    Old,
}

const GROUPS: &str = "groups that come and go are seen only through their tasks";
const MOUNTS: &str = "mounts are not told apart (kernel without CONFIG_FTRACE_SYSCALLS)";

const EVENTS: &[(&str, Need)] = &[
    ("kmem:kmalloc", Need::Required),
    ("kmem:kfree", Need::Required),
    ("kmem:kmem_cache_alloc", Need::Required),
    ("kmem:kmem_cache_free", Need::Required),
    ("kmem:kmalloc_node", Need::Old),
    ("kmem:kmem_cache_alloc_node", Need::Old),
    ("sched:sched_process_fork", Need::Wanted("tasks born during the recording have no known group")),
    ("sched:sched_process_exit", Need::Wanted("what a dying task allocates is charged to its group")),
    ("cgroup:cgroup_attach_task", Need::Wanted("tasks that change their group are charged to the old one")),
    ("cgroup:cgroup_mkdir", Need::Wanted(GROUPS)),
    ("cgroup:cgroup_rmdir", Need::Wanted(GROUPS)),
    ("cgroup:cgroup_release", Need::Wanted(GROUPS)),
    ("syscalls:sys_enter_mount", Need::Wanted(MOUNTS)),
    ("syscalls:sys_exit_mount", Need::Wanted(MOUNTS)),
    ("syscalls:sys_enter_umount", Need::Wanted(MOUNTS)),
    ("syscalls:sys_exit_umount", Need::Wanted(MOUNTS)),
];

/// The events to record, and those that this kernel does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// `group:name`, in the order given to perf.
    pub(crate) events: Vec<&'static str>,
    /// Events without which there is nothing to record.
    pub(crate) required: Vec<&'static str>,
    /// Events the recording goes without.
    pub(crate) missing: Vec<Missing>,
}

/// Chooses among the events for which `exists("group/name")` holds.
pub(crate) fn choose(exists: impl Fn(&str) -> bool) -> Choice {
    let mut choice = Choice::default();
    for &(event, need) in EVENTS {
        if exists(&event.replace(':', "/")) {
            choice.events.push(event);
            continue;
        }
        match need {
            Need::Required => choice.required.push(event),
            Need::Wanted(consequence) => choice
                .missing
                .push(Missing::new(format!("event {event}"), format!("not in this kernel: {consequence}"))),
            Need::Old => {}
        }
    }
    choice
}

/// The text of `formats.txt`: the `format` files of the events, one after the other. `folder` is `events/` of tracefs.
///
/// perf writes them behind everything else, when it ends: a recording that is cut short, by a kill or a full disk, has
/// lost them, and without them not one of its samples can be understood.
pub(crate) fn formats(root: &Root, folder: &str, events: &[&str]) -> Result<String, Missing> {
    let texts = events.iter().map(|event| root.read(format!("{folder}/{}/format", event.replace(':', "/"))));
    texts.collect::<Result<String, _>>().map_err(|error| {
        let why = format!("{folder}: {error}; should perf be killed, its file cannot be read");
        Missing::new("formats.txt", why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::Machine;

    #[test]
    fn formats_are_kept_whole_or_missed() {
        let machine = Machine::new(&[
            ("/t/events/kmem/kfree/format", "name: kfree\nID: 1\n"),
            ("/t/events/kmem/kmalloc/format", "name: kmalloc\nID: 2\n"),
        ]);
        let text = |events: &[&str]| formats(&machine.root(), "/t/events", events);
        let wanted = "name: kmalloc\nID: 2\nname: kfree\nID: 1\n";
        assert_eq!(text(&["kmem:kmalloc", "kmem:kfree"]).as_deref(), Ok(wanted));
        assert!(text(&["kmem:kfree", "sched:x"]).is_err_and(|missing| missing.what == "formats.txt"));
    }

    #[test]
    fn a_6_12_kernel_gets_all_but_the_node_events() {
        let choice = choose(|event| !event.ends_with("_node"));
        assert_eq!(choice.events.len(), EVENTS.len() - 2);
        assert_eq!((choice.required, choice.missing), (vec![], vec![]));
    }

    #[test]
    fn a_5_10_kernel_gets_the_node_events_too() {
        assert!(choose(|_| true).events.contains(&"kmem:kmem_cache_alloc_node"));
    }

    #[test]
    fn what_a_kernel_lacks_is_said_with_its_consequence() {
        let choice = choose(|event| !event.starts_with("syscalls/"));
        assert!(choice.required.is_empty());
        assert_eq!(choice.missing.len(), 4);
        assert!(choice.missing.iter().all(|missing| missing.why.contains("CONFIG_FTRACE_SYSCALLS")));
    }

    #[test]
    fn without_slab_events_there_is_nothing_to_record() {
        assert_eq!(choose(|event| event.starts_with("sched/")).required.len(), 4);
    }
}
