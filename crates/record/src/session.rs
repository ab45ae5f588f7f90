//! One recording from start to end: the order in which everything is done, and why in that order.
//!
//! ```text
//! check ─ partial folder ─ signals ─ formats, caches, slabinfo  quiet, not in the trace
//! perf up ─ tasks ─ enable+ack ─ tasks                          the trace begins inside; see tasks.rs
//! stamp `before` ─ command … stamp1, stamp2 … ─ stamp `after`   inside the trace, so each can be compared with it
//! slabinfo ─ perf ends ─ caches, symbols, nodes ─ rename        quiet again
//! ```
//!
//! What is large and does not change (symbols) comes last, when its own allocations disturb nobody.

use crate::cgroup::{Hierarchy, Version};
use crate::check::{self, Machine, Plan};
use crate::command::{self, CommandEnd, User};
use crate::describe::{self, Facts, Recording};
use crate::error::{Error, Missing};
use crate::events;
use crate::folder::Partial;
use crate::perf::{self, LEAST_RING, Start};
use crate::root::Root;
use crate::running::{self, Running, rings_too_large};
use crate::settle;
use crate::signals::Signals;
use crate::slabs::{self, Geometry};
use crate::symbols;
use crate::tasks::{self, Moved};
use crate::truth::{Moment, SIDE_HEAD, stamp};
use crate::{Options, Progress, Summary, What};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::Child;
use std::time::Duration;

/// How often [`Progress::Tick`] is told.
const TICK: f64 = 1.0;

/// Records. See [`crate::record`].
pub(crate) fn run(options: &Options, tell: &mut dyn FnMut(Progress<'_>)) -> Result<Summary, Error> {
    let machine = Machine::this();
    let plan = check::plan(options, &machine)?;
    let user = User::behind_sudo(machine.is_root, |name| std::env::var(name).ok());
    let signals = Signals::take()?;
    let partial = Partial::create(&options.out)?;
    let session =
        Session { options, plan, root: machine.root, user, signals, partial, stamps: Stamps::default() };
    session.record(tell)
}

struct Session<'a> {
    options: &'a Options,
    plan: Plan,
    root: Root,
    user: Option<User>,
    signals: Signals,
    partial: Partial,
    stamps: Stamps,
}

/// What the stamps so far have given.
#[derive(Default)]
struct Stamps {
    labels: Vec<String>,
    steady: String,
    side: String,
}

/// What was learnt while perf recorded.
struct Recorded {
    geometry: Geometry,
    ring: u64,
    moved: Vec<Moved>,
    tasks: usize,
    start: Moment,
    end: Moment,
    said: String,
    interrupted: bool,
    child: Option<Child>,
}

impl Session<'_> {
    fn record(mut self, tell: &mut dyn FnMut(Progress<'_>)) -> Result<Summary, Error> {
        tell(Progress::Preparing);
        let mut recorded = self.trace(tell)?;
        tell(Progress::Finishing);
        let recording = self.describe(&mut recorded)?;
        let owner = self.user.as_ref().map(|user| (user.uid, user.gid));
        if self.signals.look().given_up() {
            return Err(Error::Interrupted);
        }
        let (folder, bytes) = self.partial.publish(self.options.force, owner)?;
        // From here on the recording is safe, and a stop signal only ends the waiting.
        let command = recorded.child.map(|child| last_wait(child, &mut self.signals)).transpose()?;
        Ok(Summary {
            folder,
            bytes,
            seconds: recording.end - recording.start,
            events: recording.events,
            missing: recording.missing,
            stamps: recording.stamps,
            tasks: recorded.tasks,
            ring: recorded.ring,
            perf_said: recording.perf_said,
            interrupted: recorded.interrupted,
            command,
        })
    }

    /// Everything that happens while perf runs.
    fn trace(&mut self, tell: &mut dyn FnMut(Progress<'_>)) -> Result<Recorded, Error> {
        // First of all what a recording needs that gets no further than perf.
        let early = describe::early(self.plan.hierarchy.as_ref());
        self.partial.write("recording.json", &early)?;
        match events::formats(&self.root, &self.plan.tracefs, &self.plan.events) {
            Ok(text) => self.partial.write("formats.txt", &text)?,
            Err(missing) => self.plan.missing.push(missing),
        }
        let geometry = slabs::read(&self.root);
        self.keep_slabinfo("slab.before.txt")?;
        let (mut perf, ring) = self.launch()?;
        let hierarchy = self.plan.hierarchy.clone();
        let first = tasks::read(&self.root, hierarchy.as_ref());
        perf.enable(&mut self.signals)?;
        let start = Moment::now();
        let (all, moved) = tasks::join(first, tasks::read(&self.root, hierarchy.as_ref()));
        self.partial.write("pids.tsv", &tasks::table(&all))?;
        self.stamp("before", tell);
        tell(Progress::Recording { ring });
        let mut child = match &self.options.what {
            What::Command(words) => Some(command::start(words, self.user.as_ref())?),
            What::Seconds(_) => None,
        };
        if let Err(error) = self.watch(&mut perf, child.as_mut(), tell) {
            end(child.as_mut());
            return Err(error);
        }
        tell(Progress::Stopping);
        self.stamp("after", tell);
        self.keep_slabinfo("slab.after.txt")?;
        let end_moment = Moment::now();
        let finished = perf.finish(self.partial.path(), &mut self.signals);
        // Without a signal or a failure the command has ended by itself.
        end(child.as_mut());
        let interrupted = self.signals.look().stopped();
        let said = finished?;
        let tasks = all.len();
        Ok(Recorded { geometry, ring, moved, tasks, start, end: end_moment, said, interrupted, child })
    }

    /// Starts perf, with smaller rings as long as it is refused the memory for them.
    fn launch(&mut self) -> Result<(Running, u64), Error> {
        let mut start = if self.plan.perf.can.control { Start::Control } else { Start::Echo };
        let mut ring = match self.options.ring {
            Some(bytes) => bytes.max(4096).next_power_of_two(),
            None => perf::default_ring(available(&self.root), cpus_online()),
        };
        let wanted = ring;
        loop {
            let folder = self.partial.path();
            match Running::launch(&self.plan.perf, &self.plan.events, start, ring, folder, &mut self.signals)
            {
                Ok(running) => {
                    if ring < wanted {
                        let why = format!(
                            "this user may lock less memory than {wanted} bytes per CPU (sysctl \
                             kernel.perf_event_mlock_kb, or run as root): more events may be lost"
                        );
                        self.plan.missing.push(Missing::new(format!("rings larger than {ring} bytes"), why));
                    }
                    return Ok((running, ring));
                }
                Err(error) if rings_too_large(&error) && ring > LEAST_RING => {
                    ring = (ring / 2).max(LEAST_RING)
                }
                // A file system without fifos (vfat, some shared folders) still takes the other way.
                Err(Error::File { doing: running::MAKING_FIFO, .. }) if start == Start::Control => {
                    start = Start::Echo
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the end of what is recorded, or for a stop signal, and stamps meanwhile.
    fn watch(
        &mut self,
        perf: &mut Running,
        mut child: Option<&mut Child>,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), Error> {
        let begin = Moment::now().seconds();
        let limit = match self.options.what {
            What::Seconds(seconds) => seconds,
            What::Command(_) => f64::INFINITY,
        };
        let mut due = self.options.stamp_at.clone();
        due.sort_by(|a, b| b.total_cmp(a));
        let mut tick = TICK;
        loop {
            let now = Moment::now().seconds() - begin;
            if let Some(status) = perf.ended()? {
                return Err(perf.failure(status));
            }
            if let Some(child) = &mut child
                && child.try_wait().map_err(Error::system("waiting for the command"))?.is_some()
            {
                return Ok(());
            }
            if now >= limit || self.signals.stopped() {
                return Ok(());
            }
            while due.last().is_some_and(|at| *at <= now) {
                due.pop();
                self.next_stamp(tell);
            }
            if now >= tick {
                tick = now + TICK;
                let bytes =
                    fs::metadata(self.partial.path().join("perf.data")).map_or(0, |about| about.len());
                tell(Progress::Tick { elapsed: Duration::from_secs_f64(now), bytes });
            }
            let until = due.last().copied().unwrap_or(limit).min(limit).min(tick);
            // Stamping may have taken a while: what is due already is not waited for.
            let now = Moment::now().seconds() - begin;
            let wait = Duration::try_from_secs_f64((until - now).max(0.0)).unwrap_or_default();
            for _ in 0..self.signals.wait(&[perf.messages()], Some(wait))? {
                self.next_stamp(tell);
            }
        }
    }

    fn next_stamp(&mut self, tell: &mut dyn FnMut(Progress<'_>)) {
        let label = format!("stamp{}", self.stamps.labels.len());
        self.stamp(&label, tell);
    }

    fn stamp(&mut self, label: &str, tell: &mut dyn FnMut(Progress<'_>)) {
        let page_size = rustix::param::page_size() as u64;
        let taken = stamp(&self.root, self.plan.hierarchy.as_ref(), page_size, label);
        self.stamps.steady += &taken.steady;
        self.stamps.side += &taken.side;
        self.stamps.labels.push(label.to_owned());
        tell(Progress::Stamped { label, groups: taken.groups });
    }

    fn keep_slabinfo(&mut self, name: &str) -> Result<(), Error> {
        match self.root.read("/proc/slabinfo") {
            Ok(text) => self.partial.write(name, &text),
            Err(error) => {
                self.plan.missing.push(Missing::new(name, format!("/proc/slabinfo: {error} (root only)")));
                Ok(())
            }
        }
    }

    /// Writes the files about the machine.
    fn describe(&mut self, recorded: &mut Recorded) -> Result<Recording, Error> {
        let mut missing = std::mem::take(&mut self.plan.missing);
        self.partial.write("steady.txt", &self.stamps.steady)?;
        self.partial.write("side.tsv", &format!("{SIDE_HEAD}{}", self.stamps.side))?;
        let geometry = slabs::text(std::mem::take(&mut recorded.geometry), slabs::read(&self.root));
        match geometry.is_empty() {
            false => self.partial.write("slabgeom.txt", &geometry)?,
            true => missing
                .push(Missing::new("slabgeom.txt", "/sys/kernel/slab tells nothing (root only, SLUB only)")),
        }
        match symbols::text(&self.root) {
            Ok(text) => self.partial.write("kallsyms.tsv", &text)?,
            Err(why) => missing.push(Missing::new("kallsyms.tsv", format!("{why}; call sites stay numbers"))),
        }
        let facts = Facts::learn(&self.root, &mut missing);
        let v1 = matches!(self.plan.hierarchy, Some(Hierarchy { version: Version::V1, .. }));
        if v1 {
            missing.push(Missing::new(
                "slab bytes of each group",
                "the memory controller is on a v1 hierarchy, whose memory.stat has none: `kmem` in steady.txt is all \
                 kernel memory of a group, stacks and page tables included",
            ));
        }
        let own = self.root.read("/proc/self/cgroup").unwrap_or_default();
        let own = self.plan.hierarchy.as_ref().and_then(|hierarchy| hierarchy.path_of(&own));
        if let Some(why) = settle::doubt(&facts.release, own, v1) {
            missing.push(Missing::new("exact counters of each group", why));
        }
        let command = match &self.options.what {
            What::Command(words) => {
                Some(words.iter().map(|word| word.to_string_lossy().into_owned()).collect())
            }
            What::Seconds(_) => None,
        };
        let recording = Recording {
            schema: describe::SCHEMA,
            version: describe::VERSION,
            tenalloc: env!("CARGO_PKG_VERSION"),
            kernel: facts.kernel,
            page_size: facts.page_size,
            cpus: facts.cpus,
            cpu_node: facts.cpu_node,
            memory_hierarchy: self.plan.hierarchy.as_ref().map(|hierarchy| hierarchy.id),
            direct_map_base: facts.direct_map_base,
            nodes: facts.nodes,
            events: self.plan.events.iter().map(|event| (*event).to_owned()).collect(),
            missing,
            perf: self.plan.perf.version.clone(),
            ring: recorded.ring,
            command,
            start: recorded.start.seconds(),
            end: recorded.end.seconds(),
            stamps: self.stamps.labels.clone(),
            moved_at_start: std::mem::take(&mut recorded.moved),
            perf_said: recorded.said.clone(),
        };
        // A struct of numbers and text has no way to fail here but memory.
        let json = serde_json::to_string_pretty(&recording)
            .map_err(|error| Error::System { doing: "writing recording.json", source: error.into() })?;
        self.partial.write("recording.json", &(json + "\n"))?;
        Ok(recording)
    }
}

/// Asks the command to end, as a recording that is over or has failed does.
fn end(child: Option<&mut Child>) {
    if let Some(child) = child
        && let (Ok(None), Some(pid)) =
            (child.try_wait(), i32::try_from(child.id()).ok().and_then(Pid::from_raw))
    {
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Waits for the command's end, or for a further stop signal.
fn last_wait(mut child: Child, signals: &mut Signals) -> Result<CommandEnd, Error> {
    loop {
        if let Some(status) = child.try_wait().map_err(Error::system("waiting for the command"))? {
            return Ok(CommandEnd::of(status));
        }
        signals.wait(&[], None)?;
        if signals.given_up() {
            return Ok(CommandEnd::StillRunning(child.id()));
        }
    }
}

/// Bytes of memory that could be had now, 0 when the kernel does not tell.
fn available(root: &Root) -> u64 {
    let meminfo = root.read("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: Option<u64> = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

fn cpus_online() -> u64 {
    let listed = Root::system().read("/sys/devices/system/cpu/online").unwrap_or_default();
    crate::nodes::cpulist(&listed).len().max(1) as u64
}
