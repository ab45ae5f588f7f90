//! A pass over a subtree: groups with lists, each asked in proportion to what it holds above its protection.

use super::protect::{Protection, claim};
use super::shrinker::{GENTLEST, portion};
use crate::controller::Inner;
use crate::group::Group;
use crate::group::knobs::{self, Event};
use core::sync::atomic::{AtomicUsize, Ordering::*};

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
    lists: u64,
}

impl Inner {
    /// Reclaims from `group` and its descendants until their exact charge fell by `target` bytes or nothing more can
    /// be had. A thread that is reclaiming already does not begin again inside: a shrinker's own charges fail.
    pub(crate) fn reclaim(&self, group: &Group, target: u64) -> Reclaimed {
        let Some(_inside) = self.reclaimers.enter() else { return Reclaimed::default() };
        let before = group.exact();
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
                    lists: 0,
                };
                pass.subtree(group, Protection::UNLIMITED, None);
                sum.freed += pass.found.freed;
                sum.asked += pass.found.asked;
                sum.protected = pass.found.protected;
                sum.bytes = before.saturating_sub(group.exact());
                spared |= pass.low_spared;
                if sum.bytes >= target || pass.lists == 0 {
                    break;
                }
            }
            // Below `low` only for want of anything else.
            if sum.bytes >= target || !spared {
                break;
            }
        }
        sum
    }
}

impl Pass<'_> {
    /// Asks `group` and its descendants. `own` is what its children may share; `granted` what it may keep itself,
    /// `None` for the root of the walk, which has no protection against its own reclaim.
    fn subtree(&mut self, group: &Group, own: Protection, granted: Option<Protection>) {
        self.group(group, granted);
        // A group without lists has no descendant with any: it is passed over with all below it.
        let children = || group.children().filter(|child| self.inner.has_lists(child.node()));
        let claims = children().fold(Protection::default(), |sum, child| sum.plus(claim(child.node())));
        let children: &mut dyn Iterator<Item = Group> = &mut group.children();
        for child in children {
            if self.inner.has_lists(child.node()) {
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
        for _ in 0..self.inner.number_of_lists(group.node()) {
            let Some(lru) = self.inner.turn_lists(group) else { continue };
            let Some(shrinker) = lru.shrinker() else { continue };
            for node in 0..self.inner.topology.nodes() {
                let Some(mut list) = lru.lock(group, node) else { continue };
                if list.number == 0 {
                    continue;
                }
                self.lists += 1;
                let mut left = portion(&mut list, self.priority, shrinker.seeks(), share);
                drop(list);
                while left > 0 {
                    let scanned = shrinker.scan(&lru, group, node, left.min(shrinker.batch().max(1)));
                    self.found.freed += scanned.freed;
                    self.found.asked += scanned.asked;
                    if scanned.stop || scanned.looked_at == 0 {
                        break;
                    }
                    left = left.saturating_sub(scanned.looked_at);
                }
            }
        }
    }
}

/// The threads that are reclaiming: a shrinker that allocates must not reclaim again.
pub(crate) struct Reclaimers([Entry; 64]);

#[derive(Debug)]
struct Entry {
    thread: AtomicUsize,
    /// The addresses that walks of this thread are shown; all if `end` is 0.
    start: AtomicUsize,
    end: AtomicUsize,
}

/// A thread's entry in the table.
pub(crate) struct Inside<'a>(&'a Entry);

impl Reclaimers {
    pub(crate) const fn new() -> Self {
        Self(
            [const { Entry { thread: AtomicUsize::new(0), start: AtomicUsize::new(0), end: AtomicUsize::new(0) } };
                64],
        )
    }

    fn me() -> usize {
        // SAFETY: no preconditions.
        unsafe { libc::pthread_self() as usize }
    }

    fn mine(&self) -> Option<&Entry> {
        let me = Self::me();
        self.0.iter().find(|entry| entry.thread.load(Relaxed) == me)
    }

    pub(crate) fn inside(&self) -> bool {
        self.mine().is_some()
    }

    /// Whether this thread's walks are to be shown an object there.
    pub(crate) fn focus(&self) -> impl Fn(usize) -> bool + use<> {
        let (start, end) =
            self.mine().map_or((0, 0), |entry| (entry.start.load(Relaxed), entry.end.load(Relaxed)));
        move |address| end == 0 || (start..end).contains(&address)
    }

    /// `None`: this thread is in there already, or 64 others are: enough are at it.
    fn enter(&self) -> Option<Inside<'_>> {
        self.enter_focused((0, 0))
    }

    /// As `enter`, and walks of this thread are shown objects between these addresses only.
    pub(crate) fn enter_focused(&self, (start, end): (usize, usize)) -> Option<Inside<'_>> {
        if self.inside() {
            return None;
        }
        let me = Self::me();
        let free = |e: &&Entry| e.thread.compare_exchange(0, me, Relaxed, Relaxed).is_ok();
        let entry = self.0.iter().find(free)?;
        entry.start.store(start, Relaxed);
        entry.end.store(end, Relaxed);
        Some(Inside(entry))
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.thread.store(0, Relaxed);
    }
}
