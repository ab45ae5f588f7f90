//! The recorded kernel's own list_lrus and shrinkers, told from the call sites of their allocations: which superblocks
//! there were, which groups used how many lists, and which objects are no workload but the kernel's bookkeeping.
//!
//! Apart from `sites`, which knows functions: here it is told which of a function's allocations is which. A function may
//! make two things from two call sites; it always makes the lesser one first, so that the site seen first is known.

use super::sites::Role;
use super::stream::Resolver;
use crate::program::{GroupId, OpKind};
use crate::read::event::Event;
use hashbrown::HashMap;

/// What an allocation is to the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// Nothing.
    Other,
    /// A superblock.
    Super,
    /// State of list_lrus or shrinkers.
    Own,
    /// An array of heads, made with its list_lru.
    Array,
    /// The part of a list_lru for the group so many levels above the task's.
    Use(u32),
}

/// What is remembered of the call sites.
#[derive(Default)]
pub(crate) struct Lists {
    /// The site of each function that came first.
    first: [Option<u64>; 3],
    /// Whether another site of `memcg_list_lru_alloc` was seen: then the first makes a table.
    tables: bool,
    /// Since a task made its table: parts of lists made.
    depth: HashMap<i32, u32>,
    /// Steps for allocations that may prove to be tables.
    doubtful: Vec<u32>,
    /// Superblocks of the recording that are live.
    pub(super) supers: u64,
    /// The task that makes all arrays grow, and: times that they did, list_lrus of the recording each time, arrays.
    growing: Option<i32>,
    growth: (u64, u64, u64),
}

/// list_lrus of a superblock: dentries, inodes.
const LISTS_OF_SUPER: u64 = 2;

impl Lists {
    /// An allocation by task `tid` from `site`.
    #[inline]
    pub(crate) fn alloc(&mut self, role: Role, tid: i32, site: u64) -> Listed {
        match role {
            Role::Other | Role::OwnerVector => Listed::Other,
            Role::NewGroup => {
                // A group grows them at most once.
                self.growing = self.growing.filter(|grows| *grows != tid);
                Listed::Other
            }
            Role::Super => Listed::Super,
            Role::ListGrowth => {
                if self.growing.replace(tid) != Some(tid) {
                    self.growth.0 += 1;
                    self.growth.1 += LISTS_OF_SUPER * self.supers;
                }
                self.growth.2 += 1;
                Listed::Own
            }
            Role::ListHead | Role::Shrinker => Listed::Own,
            Role::ListArray => Listed::Array,
            Role::List if self.is_first(0, site) => Listed::Own,
            Role::List => Listed::Array,
            // The shrinker itself is part of the workload: every generation has it.
            Role::NewShrinker if self.is_first(1, site) => Listed::Other,
            Role::NewShrinker => Listed::Own,
            Role::ListUse if self.is_first(2, site) && self.tables => {
                self.depth.insert(tid, 0);
                Listed::Own
            }
            Role::ListUse => {
                self.tables |= !self.is_first(2, site);
                let depth = self.depth.entry(tid).or_default();
                *depth += u32::from(self.tables);
                Listed::Use(depth.saturating_sub(1))
            }
        }
    }

    /// list_lrus that grew without having been made in the recording: so many are older. `None`: none ever grew, or
    /// the sum is not even.
    pub(crate) fn older(&self, nodes: u8) -> Option<u64> {
        let (times, ours, arrays) = self.growth;
        let all = arrays.checked_div(nodes.into()).filter(|all| all * u64::from(nodes) == arrays)?;
        let older = all.checked_sub(ours)?;
        older.checked_div(times).filter(|each| each * times == older)
    }

    fn is_first(&mut self, function: usize, site: u64) -> bool {
        self.first.get_mut(function).is_some_and(|first| *first.get_or_insert(site) == site)
    }
}

impl Resolver {
    /// The step that goes with an allocation, after it.
    pub(super) fn list_step(&mut self, e: &Event, time: u64, listed: Listed) {
        match listed {
            Listed::Super => {
                let number = self.counts.supers as u32;
                self.counts.supers += 1;
                self.lists.supers += 1;
                self.push(time, number, self.owner(e), e.cpu, OpKind::Super);
            }
            Listed::Use(above) => {
                if self.lists.tables {
                    // What the first site made before was a table, too.
                    let tables = std::mem::take(&mut self.lists.doubtful);
                    self.counts.list_uses -= tables.len() as u64;
                    self.cancelled.extend(tables);
                } else {
                    self.lists.doubtful.push(self.ops.len() as u32);
                }
                let mut group = self.owner(e);
                for _ in 0..above {
                    group = self.groups.parent(group).unwrap_or(GroupId::ROOT);
                }
                self.counts.list_uses += 1;
                self.push(time, above, group, e.cpu, OpKind::ListUse);
            }
            Listed::Other | Listed::Own | Listed::Array => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_sites_the_first_makes_a_table_and_each_part_stands_one_level_higher() {
        let mut lists = Lists::default();
        let mut at = |site| lists.alloc(Role::ListUse, 5, site);
        // Until the second site is seen, the first may be the only one, as from 6.13 on.
        assert_eq!([at(1), at(2), at(2)], [Listed::Use(0), Listed::Use(0), Listed::Use(1)]);
        assert_eq!([at(1), at(2), at(1), at(2)], [Listed::Own, Listed::Use(0), Listed::Own, Listed::Use(0)]);
    }

    #[test]
    fn the_list_itself_comes_before_its_arrays_and_the_shrinker_before_its_state() {
        let mut lists = Lists::default();
        let found = [(Role::List, 1), (Role::List, 2), (Role::NewShrinker, 7), (Role::NewShrinker, 8)]
            .map(|(role, site)| lists.alloc(role, 5, site));
        assert_eq!(found, [Listed::Own, Listed::Array, Listed::Other, Listed::Own]);
        assert_eq!(lists.alloc(Role::ListArray, 5, 9), Listed::Array);
    }

    #[test]
    fn lists_that_grow_and_were_not_seen_made_are_older() {
        let mut lists = Lists::default();
        assert_eq!(lists.older(2), None);
        // Two nodes; five older lists, and those of three superblocks at the second time.
        let mut grow = |supers, arrays| {
            lists.supers = supers;
            for _ in 0..arrays {
                lists.alloc(Role::ListGrowth, 5, 1);
            }
            lists.alloc(Role::NewGroup, 5, 2);
        };
        grow(0, 10);
        grow(3, 22);
        assert_eq!((lists.older(2), lists.older(3)), (Some(5), None));
    }
}
