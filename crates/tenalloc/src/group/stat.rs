//! What a group holds, gathered when asked: an idle group has no counters for it.

use super::{Events, Group};
use crate::group::tree::Node;
use core::fmt;

/// A group and its descendants at one moment; from [`Group::stat`]. Prints as cgroup v2's flat-keyed files do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupStat {
    /// Bytes charged, with what CPUs hold in advance.
    pub current: u64,
    /// Bytes charged without that.
    pub exact: u64,
    /// Of `exact`, what is the group's own and no descendant's.
    pub own: u64,
    /// Groups below it.
    pub descendants: u64,
    /// Lists that it and its descendants have: one for each family used and each node.
    pub lists: u64,
    /// Objects on these lists: what reclaim can ask for.
    pub listed: u64,
    /// Bytes of these lists, without the families' indexes.
    pub list_bytes: u64,
}

impl Group {
    /// What it and its descendants hold. Visits each of them, its lists and every CPU's area; what goes on meanwhile may
    /// show in one figure and not yet in another.
    pub fn stat(&self) -> GroupStat {
        let mut stat = GroupStat { current: self.current(), exact: self.exact(), ..GroupStat::default() };
        let below: u64 = self.children().map(|child| child.exact()).sum();
        stat.own = stat.exact.saturating_sub(below);
        self.gather(&mut stat);
        stat
    }

    fn gather(&self, stat: &mut GroupStat) {
        let inner = self.controller().inner();
        inner.count_lists(self.node(), stat);
        for child in self.children() {
            stat.descendants += 1;
            child.gather(stat);
        }
    }

    /// Whether [`freeze`](Self::freeze) stopped the growth of it or of an ancestor.
    pub fn is_frozen(&self) -> bool {
        core::iter::successors(Some(self.node()), |node: &&Node| node.parent()).any(Node::is_frozen)
    }
}

impl fmt::Display for GroupStat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { current, exact, own, descendants, lists, listed, list_bytes } = self;
        write!(f, "current {current}\nexact {exact}\nown {own}\ndescendants {descendants}\n")?;
        write!(f, "lists {lists}\nlisted {listed}\nlist_bytes {list_bytes}\n")
    }
}

impl fmt::Display for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { low, high, max, oom, oom_victim } = self;
        write!(f, "low {low}\nhigh {high}\nmax {max}\noom {oom}\noom_victim {oom_victim}\n")
    }
}
