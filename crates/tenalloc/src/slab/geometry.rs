//! How a cache cuts its slabs.

use super::Slab;
use crate::error::{Error, Result};
use crate::page::{PAGE, chunk::MAX_RUN};
use core::cmp::Reverse;

/// Pages of a slab and objects in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Pages of 4 KiB; 1 to 256.
    pub pages: u16,
    /// Objects; what is left of the pages is never used.
    pub objects: u16,
}

/// Smallest slot: it must hold a link while free, aligned.
pub(crate) const MIN_SLOT: usize = 8;
/// Objects that a slab of our choice should hold at least.
const ENOUGH: usize = 16;
/// Pages that it should have at most.
const MOST: usize = 8;
/// What a slab costs beside its pages, bytes: its descriptor.
const DESCRIPTOR: usize = size_of::<Slab>();
/// One of how many bytes may be lost to the descriptor and at the end of a slab.
const LOST: usize = 128;

impl Geometry {
    /// The smallest slab of 1 to 8 pages that holds 16 objects and loses at most 1/128 to its descriptor and its end;
    /// without one, the one of those with 16 objects that loses least; if none has so many, the one of all that leaves the
    /// least part unused, the largest of these; for objects above 4 KiB as many pages as it takes to leave at most 1/8 unused.
    pub(crate) fn choose(slot: usize) -> Self {
        let of = |pages: usize| Self { pages: pages as u16, objects: (pages * PAGE / slot).min(4096) as u16 };
        let bytes = |g: &Self| usize::from(g.pages) * PAGE;
        let unused = |g: &Self| bytes(g) - usize::from(g.objects) * slot;
        if slot > PAGE {
            let least = slot.div_ceil(PAGE);
            return (least..=MAX_RUN)
                .map(of)
                .find(|g| unused(g) * 8 <= bytes(g))
                .unwrap_or_else(|| of(least));
        }
        let small = || (1..=MOST).map(of);
        let large = || small().filter(|g| usize::from(g.objects) >= ENOUGH);
        let lost = |g: &Self| (unused(g) + DESCRIPTOR) * (1 << 20) / bytes(g);
        // 840: of 1 to 8. Of equal ones the largest: a page a slab costs its making and going for each object.
        let least_unused =
            || small().min_by_key(|g| (unused(g) * 840 / usize::from(g.pages), Reverse(g.pages)));
        large()
            .find(|g| lost(g) * LOST <= 1 << 20)
            .or_else(|| large().min_by_key(lost))
            .or_else(least_unused)
            .unwrap_or(of(1))
    }

    /// As given by a user, if `objects` slots fit into `pages`.
    pub(crate) fn checked(self, slot: usize) -> Result<Self> {
        let (pages, objects) = (usize::from(self.pages), usize::from(self.objects));
        let fits = (1..=MAX_RUN).contains(&pages) && objects > 0 && objects < u16::MAX.into();
        if fits && objects * slot <= pages * PAGE {
            Ok(self)
        } else {
            Err(Error::BadSize { size: objects * slot })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_well_filled() {
        for slot in (MIN_SLOT..=65536).step_by(8) {
            let g = Geometry::choose(slot);
            assert!(g.checked(slot).is_ok(), "{slot}: {g:?}");
            let (used, all) = (usize::from(g.objects) * slot, usize::from(g.pages) * PAGE);
            assert!(used * 8 >= all * 7 || slot > 1024, "{slot}: {used} of {all}");
        }
        assert_eq!(Geometry::choose(64), Geometry { pages: 2, objects: 128 });
        assert_eq!(Geometry::choose(192), Geometry { pages: 3, objects: 64 });
        assert_eq!(Geometry::choose(696), Geometry { pages: 7, objects: 41 });
        assert_eq!(Geometry::choose(4096), Geometry { pages: 8, objects: 8 });
    }
}
