//! Effective protection: a parent's `min` and `low` are shared out among its children by what they use of their own.
//!
//! Follows Linux `mm/page_counter.c` `effective_protection()` without `memory_recursiveprot`: what a child does not
//! claim stays with nobody. The group that is being reclaimed has no protection of its own against it.

use crate::group::tree::Node;
use core::sync::atomic::Ordering::Relaxed;

/// Bytes that a group may keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Protection {
    pub(super) min: u64,
    pub(super) low: u64,
}

/// What a group claims: its settings, as far as it uses them.
pub(super) fn claim(node: &Node) -> Protection {
    let usage = node.counter.current();
    let of = |setting: u64| setting.min(usage);
    node.knobs().map_or(Protection::default(), |k| Protection {
        min: of(k.min.load(Relaxed)),
        low: of(k.low.load(Relaxed)),
    })
}

impl Protection {
    pub(super) const UNLIMITED: Self = Self { min: u64::MAX, low: u64::MAX };

    pub(super) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), low: self.low.saturating_add(other.low) }
    }

    /// What is granted of `claim`, when all siblings together claim `siblings` of the parent's own `self`.
    pub(super) fn grant(self, claim: Self, siblings: Self) -> Self {
        let part = |have: u64, claim: u64, all: u64| {
            if all > have { (u128::from(claim) * u128::from(have) / u128::from(all)) as u64 } else { claim }
        };
        Self { min: part(self.min, claim.min, siblings.min), low: part(self.low, claim.low, siblings.low) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn low(low: u64) -> Protection {
        Protection { min: 0, low }
    }

    /// The hierarchy of the kernel's test of `memory.low`: B has 50 of A's 200 and C, D, E, F ask for 75, 25, 0, 500,
    /// using 50, 50, 50, 0.
    #[test]
    fn a_parents_protection_is_shared_by_claims() {
        let claims = [50, 25, 0, 0].map(low);
        let all = claims.into_iter().fold(Protection::default(), Protection::plus);
        let granted = claims.map(|c| low(50).grant(c, all).low);
        assert_eq!(granted, [33, 16, 0, 0]);
        assert_eq!(
            Protection::UNLIMITED.grant(low(25), all),
            low(25),
            "no more asked than there is: all is granted"
        );
    }
}
