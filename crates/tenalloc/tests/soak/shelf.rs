//! A cache of the program that is on no list: a free-standing shrinker, and the out-of-memory policy.

use std::sync::Mutex;
use tenalloc::{Group, OutOfMemory, Owner, Scanned, Shrink, Verdict};

/// Bytes charged through an owner, without objects, that anybody may give up.
pub(crate) struct Good {
    pub(crate) owner: Owner,
    pub(crate) group: usize,
    pub(crate) bytes: u64,
}

/// Charged and uncharged with its lock not held: both may reclaim, and come here again.
#[derive(Default)]
pub(crate) struct Shelf(pub(crate) Mutex<Vec<Good>>);

impl Shelf {
    /// Gives up to `number` goods that `which` picks back.
    fn clear(&self, number: u64, which: impl Fn(&Group) -> bool) -> Scanned {
        let mut taken = Vec::new();
        let mut goods = self.0.lock().unwrap();
        let mut at = 0;
        while at < goods.len() && (taken.len() as u64) < number {
            if which(&goods[at].owner.group()) {
                taken.push(goods.swap_remove(at));
            } else {
                at += 1;
            }
        }
        drop(goods);
        taken.iter().for_each(|good| good.owner.uncharge(good.bytes));
        let freed = taken.len() as u64;
        Scanned { looked_at: freed, freed, ..Scanned::default() }
    }
}

impl Shrink for Shelf {
    fn count(&self, group: &Group, node: u8) -> u64 {
        let goods = self.0.lock().unwrap();
        if node == 0 { goods.iter().filter(|good| good.owner.group() == *group).count() as u64 } else { 0 }
    }

    fn scan(&self, group: &Group, _: u8, number: u64) -> Scanned {
        self.clear(number, |owner| owner == group)
    }
}

impl OutOfMemory for Shelf {
    /// Gives up one good of the subtree.
    fn out_of_memory(&self, group: &Group, _: u64) -> Verdict {
        let below = |owner: &Group| {
            let mut at = Some(owner.clone());
            while let Some(g) = at {
                if g == *group {
                    return true;
                }
                at = g.parent();
            }
            false
        };
        group.count_oom_victim();
        if self.clear(1, below).freed > 0 { Verdict::Retry } else { Verdict::Fail }
    }
}
