//! Tasks that changed their group while the recording was started.
//!
//! The recorder reads the table of tasks twice, before perf is told to record and after; `pids.tsv` has the second
//! reading. A task found at two places moved in between, and only the trace can tell on which side of its first event:
//!
//! * its attach to the second place is in the trace: the trace begins with the task at the first place, and what it
//!   allocates or forks up to then belongs there;
//! * it is not: it moved before, and the second place holds from the start.
//!
//! So the events up to the end of the second reading are held back until that is known. They are those of a few
//! milliseconds, and only in recordings that name such a task.

use super::stream::Resolver;
use crate::read::event::{Event, Kind, Names};
use crate::sidecar::Sidecar;
use hashbrown::HashMap;

/// Events held back at most (60 MB).
const MOST: usize = 1 << 20;
/// ns after the start at which the second reading has ended for certain, in a recording without stamps.
const READING: u64 = 1_000_000_000;

/// When the second reading had ended, ns on the clock of the recording; `None` for recordings that do not tell when they
/// began, whose table of tasks was made before.
pub(crate) fn reading_ends(side: &Sidecar) -> Option<u64> {
    let start = side.recording.start()?;
    // The first stamp is taken when the reading is done.
    Some(side.stamps.first().map_or(start.saturating_add(READING), |s| s.time))
}

/// The tasks that moved, and the events held back.
#[derive(Debug)]
pub(crate) struct Moved {
    /// First and second place of each task.
    places: HashMap<i32, (String, String)>,
    /// Tasks whose move is in the trace.
    seen: Vec<i32>,
    held: Vec<Event>,
    /// End of the second reading, clock of the recording; without it the first event decides.
    until: Option<u64>,
}

impl Moved {
    /// `None` when no task moved.
    pub(crate) fn new(side: &Sidecar) -> Option<Self> {
        let second: HashMap<i32, &String> =
            side.tasks.iter().flatten().map(|(tid, path)| (*tid, path)).collect();
        let places: HashMap<_, _> = side
            .recording
            .moved()
            .filter_map(|(tid, from)| Some((tid, (from, (*second.get(&tid)?).clone()))))
            .collect();
        let until = reading_ends(side);
        (!places.is_empty()).then(|| Self { places, seen: Vec::new(), held: Vec::new(), until })
    }

    /// Whether the event is to wait.
    pub(crate) fn holds(&mut self, e: &Event, names: &Names, hierarchy: i32) -> bool {
        let until = *self.until.get_or_insert(e.time.saturating_add(READING));
        if e.time > until || self.held.len() >= MOST {
            return false;
        }
        if let Kind::Attach { pid, root, path } = e.kind
            && root == hierarchy
            && self.places.get(&pid).is_some_and(|(_, to)| names.text(path) == to.as_str())
        {
            self.seen.push(pid);
        }
        self.held.push(*e);
        true
    }
}

impl Resolver {
    /// Put the tasks where they were at the start, and take the events that waited for it.
    pub(super) fn release(&mut self, names: &Names) {
        let Some(moved) = self.moved.take() else { return };
        for (from, tid) in moved.seen.iter().filter_map(|tid| Some((&moved.places.get(tid)?.0, *tid))) {
            match self.groups.named(from, 0) {
                Some(group) => self.tasks.put(tid, group),
                None => self.bad_paths += 1,
            }
        }
        for e in &moved.held {
            self.take(e, names);
        }
    }
}
