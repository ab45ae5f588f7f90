//! A pass over a subtree: groups with lists, each asked in proportion to what it holds above its protection.

use super::protect::{Protection, claim};
use super::shrinker::{GENTLEST, Scanned, portion};
use crate::controller::Inner;
use crate::group::Group;
use crate::group::knobs::{self, Event};
use crate::sync::this_thread;
use core::sync::atomic::{AtomicUsize, Ordering::*};
use core::time::Duration;

/// What reclaim got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Bytes by which the group's exact charge fell meanwhile.
    pub bytes: u64,
    /// Objects that shrinkers freed.
    pub freed: u64,
    /// Objects that shrinkers asked for and that will follow.
    pub asked: u64,
    /// Groups passed over because `min` or `low` protects all that they use.
    pub protected: u64,
    /// The time given was over before everything was asked.
    pub out_of_time: bool,
}

/// One pass.
struct Pass<'a> {
    inner: &'a Inner,
    priority: u32,
    /// Also what `low` protects.
    break_low: bool,
    found: Reclaimed,
    /// Something was left because of `low` alone.
    low_spared: bool,
    /// Lists and free-standing shrinkers that had anything.
    asked: u64,
    goal: &'a Goal<'a>,
    /// A call of a shrinker is for a whole list: the walk looks for few among many.
    whole: bool,
}

/// What a reclaim is for.
pub(super) struct Goal<'a> {
    pub(super) group: &'a Group,
    /// Its exact charge at the beginning, and by how much that is to fall.
    pub(super) before: u64,
    pub(super) target: u64,
    /// When to stop, by the monotonic clock.
    pub(super) end: Option<Duration>,
}

impl Goal<'_> {
    fn got(&self) -> u64 {
        self.before.saturating_sub(self.group.exact())
    }

    fn is_over(&self) -> bool {
        self.end.is_some_and(|end| now() >= end)
    }
}

/// The monotonic clock.
pub(super) fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is a live timespec. The clock always exists, so the result does not matter.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Inner {
    /// Reclaims from `group` and its descendants until their exact charge fell by `target` bytes or nothing more can
    /// be had. A thread that is reclaiming already does not begin again inside: a shrinker's own charges fail.
    pub(crate) fn reclaim(&self, group: &Group, target: u64) -> Reclaimed {
        self.reclaim_within(group, target, None)
    }

    /// As [`reclaim`](Self::reclaim), until `time` is over.
    pub(crate) fn reclaim_within(&self, group: &Group, target: u64, time: Option<Duration>) -> Reclaimed {
        let end = time.map(|time| now().saturating_add(time));
        let Some(_inside) = self.reclaimers.enter() else { return Reclaimed::default() };
        let goal = Goal { group, before: group.exact(), target, end };
        let mut sum = Reclaimed::default();
        for break_low in [false, true] {
            let mut spared = false;
            for priority in (0..=GENTLEST).rev() {
                let mut pass = Pass {
                    inner: self,
                    priority,
                    break_low,
                    found: Reclaimed::default(),
                    low_spared: false,
                    asked: 0,
                    goal: &goal,
                    whole: false,
                };
                pass.subtree(group, Protection::UNLIMITED, None);
                sum.freed += pass.found.freed;
                sum.asked += pass.found.asked;
                sum.protected = pass.found.protected;
                sum.out_of_time |= pass.found.out_of_time;
                sum.bytes = goal.got();
                spared |= pass.low_spared;
                if sum.bytes >= target || pass.asked == 0 || sum.out_of_time {
                    break;
                }
            }
            // Below `low` only for want of anything else.
            if sum.bytes >= target || !spared || sum.out_of_time {
                break;
            }
        }
        sum
    }
}

/// One pass that asks for all objects above `min` and `low` that the walks of this thread are shown.
pub(super) fn all_in_focus(inner: &Inner, goal: &Goal<'_>) -> Reclaimed {
    let found = Reclaimed::default();
    let (break_low, low_spared, asked, whole) = (false, false, 0, true);
    let mut pass = Pass { inner, priority: 0, break_low, found, low_spared, asked, goal, whole };
    pass.subtree(goal.group, Protection::UNLIMITED, None);
    Reclaimed { bytes: goal.got(), ..pass.found }
}

impl Pass<'_> {
    /// Asks `group` and its descendants. `own` is what its children may share; `granted` what it may keep itself,
    /// `None` for the root of the walk, which has no protection against its own reclaim.
    fn subtree(&mut self, group: &Group, own: Protection, granted: Option<Protection>) {
        self.group(group, granted);
        // A group without lists has no descendant with any: it is passed over with all below it. What is on no list
        // is asked for wherever there is a charge.
        let inner = self.inner;
        let free_standing = !inner.shrinkers.is_empty();
        let worth = |child: &Group| inner.has_lists(child.node()) || free_standing && child.current() > 0;
        let children = || group.children().filter(worth);
        let claims = children().fold(Protection::default(), |sum, child| sum.plus(claim(child.node())));
        let children: &mut dyn Iterator<Item = Group> = &mut group.children();
        for child in children {
            if self.over() {
                break;
            }
            if worth(&child) {
                let grant = own.grant(claim(child.node()), claims);
                self.subtree(&child, grant, Some(grant));
            }
        }
    }

    fn group(&mut self, group: &Group, granted: Option<Protection>) {
        let usage = group.current();
        let keep = granted.unwrap_or_default();
        let floor = if self.break_low { keep.min } else { keep.min.max(keep.low) };
        if usage <= floor {
            self.found.protected += u64::from(granted.is_some());
            self.low_spared |= keep.min < usage;
            return;
        }
        if self.break_low && usage <= keep.low {
            knobs::count(group.node(), Event::Low);
        }
        let share = (u128::from(usage - floor) * 65_536 / u128::from(usage)) as u64;
        // Cheapest first. The dearer are spared if the group's cheap ones were asked and there is enough; other groups
        // are asked all the same, so that all give in proportion.
        let asked = self.asked;
        let mut seeks = 0;
        loop {
            let mut dearer = None;
            self.lists(group, share, seeks, &mut dearer);
            self.free_standing(group, share, seeks, &mut dearer);
            let enough = || self.asked > asked && self.goal.got() >= self.goal.target;
            match dearer {
                Some(next) if !self.found.out_of_time && !enough() => seeks = next,
                _ => break,
            }
        }
    }

    /// Asks the group's lists whose shrinker's seeks are `seeks`; the next higher ones go to `dearer`.
    fn lists(&mut self, group: &Group, share: u64, seeks: u32, dearer: &mut Option<u32>) {
        for _ in 0..self.inner.number_of_lists(group.node()) {
            if self.over() {
                break;
            }
            let Some(lru) = self.inner.turn_lists(group) else { continue };
            let Some(shrinker) = lru.shrinker() else { continue };
            if !is_turn(shrinker.seeks(), seeks, dearer) {
                continue;
            }
            for node in 0..self.inner.topology.nodes() {
                let Some(mut list) = lru.lock(group, node) else { continue };
                if list.number == 0 {
                    continue;
                }
                self.asked += 1;
                let portion = portion(&mut list, self.priority, seeks, share);
                drop(list);
                self.scan(portion, shrinker.batch(), |number| shrinker.scan(&lru, group, node, number));
            }
        }
    }

    /// Asks the free-standing shrinkers whose seeks are `seeks`.
    fn free_standing(&mut self, group: &Group, share: u64, seeks: u32, dearer: &mut Option<u32>) {
        let mut after = (seeks, 0);
        while let Some(running) = self.inner.shrinkers.next(self.inner, after) {
            after = running.key();
            if !is_turn(after.0, seeks, dearer) || self.over() {
                break; // they are in that order
            }
            for node in 0..self.inner.topology.nodes() {
                let number = running.shrink().count(group, node);
                if number == 0 {
                    continue;
                }
                self.asked += 1;
                let portion = running.portion(number, self.priority, share);
                let shrink = running.shrink();
                self.scan(portion, shrink.batch(), |number| shrink.scan(group, node, number));
            }
        }
    }

    fn scan(&mut self, mut left: u64, batch: u64, scan: impl Fn(u64) -> Scanned) {
        let batch = if self.whole { u64::MAX } else { batch.max(1) };
        while left > 0 && !self.over() {
            let scanned = scan(left.min(batch));
            self.found.freed += scanned.freed;
            self.found.asked += scanned.asked;
            if scanned.stop || scanned.looked_at == 0 {
                break;
            }
            left = left.saturating_sub(scanned.looked_at);
        }
    }

    fn over(&mut self) -> bool {
        self.found.out_of_time |= self.goal.is_over();
        self.found.out_of_time
    }
}

/// Whether a shrinker of `has` seeks is asked in the round of `seeks`; if later, the nearest such round is noted.
fn is_turn(has: u32, seeks: u32, dearer: &mut Option<u32>) -> bool {
    if has > seeks {
        *dearer = Some(dearer.map_or(has, |d| d.min(has)));
    }
    has == seeks
}

/// The threads that are reclaiming: a shrinker that allocates must not reclaim again.
pub(crate) struct Reclaimers([Entry; 64]);

#[derive(Debug)]
struct Entry {
    thread: AtomicUsize,
    /// The addresses that walks of this thread are shown; all if `end` is 0.
    start: AtomicUsize,
    end: AtomicUsize,
    /// Of slabs so full at most, percent; of all if 0.
    fill: AtomicUsize,
}

/// A thread's entry in the table.
pub(crate) struct Inside<'a>(&'a Entry);

impl Reclaimers {
    pub(crate) const fn new() -> Self {
        Self(
            [const {
                Entry {
                    thread: AtomicUsize::new(0),
                    start: AtomicUsize::new(0),
                    end: AtomicUsize::new(0),
                    fill: AtomicUsize::new(0),
                }
            }; 64],
        )
    }

    fn mine(&self) -> Option<&Entry> {
        let me = this_thread();
        self.0.iter().find(|entry| entry.thread.load(Relaxed) == me)
    }

    pub(crate) fn inside(&self) -> bool {
        self.mine().is_some()
    }

    /// In the child of a fork: the other threads are not there.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn reset_in_child(&self) {
        let me = this_thread();
        for entry in self.0.iter().filter(|entry| entry.thread.load(Relaxed) != me) {
            entry.thread.store(0, Relaxed);
        }
    }

    /// Whether this thread's walks are to be shown a live object there.
    pub(crate) fn focus<'a>(&self, inner: &'a Inner) -> impl Fn(usize) -> bool + use<'a> {
        let read = |entry: &Entry| [&entry.start, &entry.end, &entry.fill].map(|n| n.load(Relaxed));
        let [start, end, fill] = self.mine().map_or([0; 3], read);
        move |address| {
            (end == 0 || (start..end).contains(&address))
                && (fill == 0
                    || inner.fill_of(address).is_some_and(|(out, of)| out * 100 <= of * fill as u32))
        }
    }

    /// `None`: this thread is in there already, or 64 others are: enough are at it.
    fn enter(&self) -> Option<Inside<'_>> {
        self.enter_focused((0, 0), 0)
    }

    /// As `enter`, and walks of this thread are shown objects between these addresses only, in slabs that are at most
    /// `fill` percent full (0: in all).
    pub(crate) fn enter_focused(&self, (start, end): (usize, usize), fill: usize) -> Option<Inside<'_>> {
        if self.inside() {
            return None;
        }
        let me = this_thread();
        let free = |e: &&Entry| e.thread.compare_exchange(0, me, Relaxed, Relaxed).is_ok();
        let entry = self.0.iter().find(free)?;
        entry.start.store(start, Relaxed);
        entry.end.store(end, Relaxed);
        entry.fill.store(fill, Relaxed);
        Some(Inside(entry))
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.thread.store(0, Relaxed);
    }
}
