//! `pids.tsv`: which task was in which group when the recording began.
//!
//! A trace tells of forks and attaches, but not where a task was that did neither. That has to be read from `/proc`,
//! and reading `/proc` takes milliseconds in which tasks fork and move. So the table is read twice, right before
//! perf is told to record and right after perf has said that it does:
//!
//! ```text
//!   first reading      enable .. ack      second reading        time ->
//!   |-----------|      |-----------|      |------------|
//!                       events recorded from somewhere in here on
//! ```
//!
//! * **A task only in the first reading** ended meanwhile. If its exit is in the trace its row is needed; if not, the
//!   row is harmless, as a reused number shows up with a fork of its own.
//! * **Only in the second**: it was forked meanwhile. If the fork is in the trace, replaying it overwrites the row
//!   with the group of the parent at that moment, which is the truth, and attaches that follow are replayed too. If
//!   the fork came before the first event, this row is the only word of it. One reading before the enabling would
//!   lose such tasks.
//! * **In both, at one place**: known exactly. One reading after the enabling would not do: a task that sits in A,
//!   forks a child there and then moves to B would be written down as "B", and the replay of the fork would put the
//!   child into B for good.
//! * **In both, at two places**: it moved, and whether the attach is in the trace only the trace can tell. The row
//!   holds the second place, so that the error is bounded by the milliseconds of the reading, and
//!   [`Moved`] in `recording.json` tells the first, so that a reader which finds the attach can do better.

use crate::cgroup::Hierarchy;
use crate::root::Root;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// One task (a thread, as the scheduler sees it).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) tgid: u32,
    /// Path in the memory hierarchy; `/` when there is no such hierarchy.
    pub(crate) path: String,
    pub(crate) comm: String,
}

/// Tasks by their thread id.
pub(crate) type Tasks = BTreeMap<u32, Task>;

/// A task whose group changed while the recording was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Moved {
    /// Thread id.
    pub(crate) tid: u32,
    /// Its group before perf was told to record; `pids.tsv` has the one after.
    pub(crate) from: String,
}

/// Reads every task's group. Tasks that end while they are read are left out.
pub(crate) fn read(root: &Root, hierarchy: Option<&Hierarchy>) -> Tasks {
    let mut tasks = Tasks::new();
    for process in root.names("/proc") {
        let Ok(tgid) = process.parse::<u32>() else { continue };
        for thread in root.names(format!("/proc/{tgid}/task")) {
            let Ok(tid) = thread.parse::<u32>() else { continue };
            let folder = format!("/proc/{tgid}/task/{tid}");
            let Ok(comm) = root.read(format!("{folder}/comm")) else { continue };
            let path = match hierarchy {
                Some(hierarchy) => {
                    let Ok(lines) = root.read(format!("{folder}/cgroup")) else { continue };
                    hierarchy.path_of(&lines).unwrap_or("/").to_owned()
                }
                None => String::from("/"),
            };
            let comm = comm.strip_suffix('\n').unwrap_or(&comm).to_owned();
            tasks.insert(tid, Task { tgid, path, comm });
        }
    }
    tasks
}

/// Joins the two readings by the rules above.
pub(crate) fn join(first: Tasks, second: Tasks) -> (Tasks, Vec<Moved>) {
    let mut joined = first;
    let mut moved = Vec::new();
    for (tid, task) in second {
        match joined.get(&tid) {
            Some(earlier) if earlier.tgid == task.tgid && earlier.path != task.path => {
                moved.push(Moved { tid, from: earlier.path.clone() });
            }
            _ => {}
        }
        joined.insert(tid, task);
    }
    (joined, moved)
}

/// The text of `pids.tsv`: thread, process, path and name, by thread id, without a heading.
pub(crate) fn table(tasks: &Tasks) -> String {
    let mut text = String::new();
    for (tid, task) in tasks {
        let _ = writeln!(text, "{tid}\t{}\t{}\t{}", task.tgid, field(&task.path), field(&task.comm));
    }
    text
}

/// Makes a name safe for one field of a table: control characters become `\ooo`, as in `/proc/self/mountinfo`. A
/// backslash stays as it is, since the paths in the events have it plainly (`dev-disk\x2d1`).
pub(crate) fn field(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for letter in name.chars() {
        if letter.is_ascii_control() {
            let _ = write!(text, "\\{:03o}", u32::from(letter));
        } else {
            text.push(letter);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Version;
    use crate::root::fake::Machine;

    fn task(path: &str) -> Task {
        Task { tgid: 1, path: path.into(), comm: "sh".into() }
    }

    #[test]
    fn every_thread_has_a_row_in_the_memory_hierarchy() {
        let machine = Machine::new(&[
            ("/proc/1/task/1/comm", "init\n"),
            ("/proc/1/task/1/cgroup", "4:memory:/\n0::/other\n"),
            ("/proc/20/task/20/comm", "a\tb\n"),
            ("/proc/20/task/20/cgroup", "4:memory:/g/x\n0::/\n"),
            ("/proc/20/task/21/comm", "worker\n"),
            ("/proc/20/task/21/cgroup", "4:memory:/g/y\n"),
            ("/proc/20/task/22/cgroup", "gone: no name to read\n"),
            ("/proc/meminfo", ""),
        ]);
        let hierarchy = Hierarchy { id: 4, version: Version::V1, mount: None };
        let tasks = read(&machine.root(), Some(&hierarchy));
        assert_eq!(table(&tasks), "1\t1\t/\tinit\n20\t20\t/g/x\ta\\011b\n21\t20\t/g/y\tworker\n");
    }

    #[test]
    fn two_readings_join_by_the_rules() {
        let first = Tasks::from([(1, task("/stays")), (2, task("/ends")), (3, task("/from"))]);
        let second = Tasks::from([(1, task("/stays")), (3, task("/to")), (4, task("/born"))]);
        let (joined, moved) = join(first, second);
        let paths: Vec<_> = joined.iter().map(|(tid, task)| (*tid, task.path.as_str())).collect();
        assert_eq!(paths, [(1, "/stays"), (2, "/ends"), (3, "/to"), (4, "/born")]);
        assert_eq!(moved, [Moved { tid: 3, from: "/from".into() }]);
    }
}
