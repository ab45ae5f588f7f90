//! Shrinkers: the program's way to give memory back, and how much is asked of one list.

use crate::group::Group;
use crate::lru::ListLru;
use crate::lru::list::List;

/// What a scan did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Objects looked at: they count against what was asked for.
    pub looked_at: u64,
    /// Objects freed by now.
    pub freed: u64,
    /// Objects whose owners were asked and that will follow later. They are not waited for.
    pub asked: u64,
    /// Nothing more can be had from this list now.
    pub stop: bool,
}

/// Gives objects of a list_lru back. Bound to its lists with [`ListLru::set_shrinker`].
pub trait Shrinker: Sync {
    /// Looks at up to `number` objects of `group` on `node`, oldest first, and frees what can be spared; usually with
    /// [`ListLru::walk`]. Runs with no lock held, in the thread that needs the memory; it may allocate and free.
    fn scan(&self, lru: &ListLru, group: &Group, node: u8, number: u64) -> Scanned;

    /// How many accesses it takes to make an object again: 1 is cheap, 2 usual. Cheap ones give first and more; 0 gives
    /// half of what there is at once.
    fn seeks(&self) -> u32 {
        2
    }

    /// Objects that one call of [`scan`](Self::scan) should be asked for at most.
    fn batch(&self) -> u64 {
        128
    }
}

/// Highest priority number: the gentlest pass asks each list for 1/4,096 of its objects times 4 / seeks.
pub(crate) const GENTLEST: u32 = 12;

/// One object, as pressure is carried.
pub(super) const ONE: u64 = 1 << 16;

/// What `number` objects are to give at `priority`, when `share` (in 1/65,536) of their group is above protection: in
/// 1/65,536 of an object, and never more than twice what is there. The last pass asks for all of it, however dear: after
/// it there is only failure.
pub(super) fn pressure(number: u64, priority: u32, seeks: u32, share: u64) -> u64 {
    let number = number.min(1 << 40); // a program may say anything; this is beyond all memory
    let pressure = match seeks {
        _ if priority == 0 => (number * share).max(number * share * 4 / u64::from(seeks.max(1))),
        0 => number * share / 2,
        seeks => ((number * share) >> priority) * 4 / u64::from(seeks),
    };
    pressure.min(2 * number * ONE)
}

/// How many objects a list is to give at `priority`, when `share` (in 1/65,536) of its group is above protection. What
/// is less than an object is carried to the next time.
pub(crate) fn portion(list: &mut List, priority: u32, seeks: u32, share: u64) -> u64 {
    let number = u64::from(list.number);
    let total = (list.carried + pressure(number, priority, seeks, share)).min(2 * number * ONE);
    list.carried = total % ONE;
    total / ONE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(number: u32) -> List {
        let mut list = List::new();
        list.number = number;
        list
    }

    /// No blind zone: one object in a list is reached after as many gentle passes as there are parts in it.
    #[test]
    fn the_smallest_list_is_reached() {
        let mut one = list(1);
        let passes = (1..).find(|_| portion(&mut one, GENTLEST, 2, ONE) > 0).unwrap();
        assert_eq!(passes, 4096 / 2);
    }

    #[test]
    fn over_time_every_list_gives_its_share() {
        for number in [1, 7, 100, 4095, 100_000] {
            let mut l = list(number);
            let given: u64 = (0..4096).map(|_| portion(&mut l, GENTLEST, 2, ONE)).sum();
            assert!(given.abs_diff(2 * u64::from(number)) <= 1, "{number}: {given}");
        }
    }

    #[test]
    fn cheap_objects_go_first_and_protected_ones_less() {
        assert_eq!(portion(&mut list(4096), GENTLEST, 1, ONE), 4);
        assert_eq!(portion(&mut list(4096), GENTLEST, 2, ONE), 2);
        assert_eq!(portion(&mut list(4096), GENTLEST, 0, ONE), 2048);
        assert_eq!(portion(&mut list(4096), 1, 2, ONE / 4), 1024);
        assert_eq!(portion(&mut list(4096), 1, 2, 0), 0);
        assert_eq!(portion(&mut list(10), 0, 1, ONE), 20, "never more than twice what is there");
        for seeks in [0, 5, 8, u32::MAX] {
            assert!(
                portion(&mut list(10), 0, seeks, ONE) >= 10,
                "the last pass spares nothing for being dear"
            );
        }
    }
}
