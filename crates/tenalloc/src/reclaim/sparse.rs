//! Reclaim for the sake of pages: objects on lists that lie in nearly empty slabs, the emptiest first.
//!
//! Reclaim by age frees the oldest objects wherever they lie; each leaves a hole, and hardly a slab becomes empty. This asks the
//! same shrinkers, but their walks are shown only objects of slabs that are sparse: first of those that are an eighth as
//! full as the caller says, then two eighths, and so on, until enough pages came back. A slab that was begun becomes sparser with
//! each object, so it is gone through to the end; what is used (marked since the last walk) is spared once, as always.
//!
//! Where Linux was to get this (C. Lameter's slab defragmentation, 2007 on: a cache's `get` and `kick`) the slab was walked
//! and the cache asked for each object. Walking the lists needs nothing new of a program that has them, knows ages, and
//! keeps `min` and `low`; it costs a look at each listed object's descriptor.

use super::walk::{Goal, all_in_focus, now};
use crate::controller::Inner;
use crate::group::Group;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

/// Steps from the emptiest slabs to those as full as the caller says.
const STEPS: usize = 8;

/// What [`Group::reclaim_sparse`] got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sparse {
    /// Objects that shrinkers freed.
    pub freed: u64,
    /// Bytes by which all slabs became less meanwhile; they are free pages now, which
    /// [`Controller::trim`](crate::Controller::trim) gives to the system.
    pub bytes: u64,
    /// The time given was over before that was enough.
    pub out_of_time: bool,
}

impl Group {
    /// Reclaims objects that are on lists of it and its descendants and lie in slabs at most `fill` percent full, the
    /// emptiest slabs first, until slabs of `bytes` in all became empty, for at most about `time`. Runs shrinkers in this
    /// thread; `min` and `low` of descendants are kept. Costs up to eight walks over all lists below it.
    ///
    /// A thread that is reclaiming already gets nothing.
    pub fn reclaim_sparse(&self, bytes: u64, fill: u8, time: Option<Duration>) -> Sparse {
        let inner = self.controller().inner();
        // What CPUs hold in advance would seem to be above `min` and `low`.
        inner.drain_within(self.node());
        let goal = Goal {
            group: self,
            before: self.exact(),
            target: u64::MAX,
            end: time.map(|time| now().saturating_add(time)),
        };
        inner.empty_sheaves();
        let before = inner.slab_bytes.load(Relaxed);
        let mut done = Sparse::default();
        let fill = usize::from(fill.min(100));
        // Without a bound every slab would do.
        for step in (1..=STEPS).filter(|_| fill > 0) {
            let Some(inside) = inner.reclaimers.enter_focused((0, 0), (fill * step).div_ceil(STEPS)) else {
                break;
            };
            let got = all_in_focus(inner, &goal);
            drop(inside);
            inner.empty_sheaves();
            done.freed += got.freed;
            done.out_of_time |= got.out_of_time;
            done.bytes = before.saturating_sub(inner.slab_bytes.load(Relaxed));
            if done.bytes >= bytes || done.out_of_time {
                break;
            }
        }
        done
    }
}

impl Inner {
    /// Objects out of the slab of a live object, and those that fit.
    pub(crate) fn fill_of(&self, address: usize) -> Option<(u32, u32)> {
        // SAFETY: `find` found a run in use.
        let slab = unsafe { self.chunks.find(address)?.as_ref() };
        // SAFETY: a slab's cache outlives it; whole pages have none.
        let objects = unsafe { slab.cache.as_ref() }.map_or(1, |record| record.objects);
        Some((slab.out().max(1).into(), objects.into()))
    }

    /// Free objects go back into their slabs, and empty slabs to their chunks.
    fn empty_sheaves(&self) {
        self.for_each_cache(|record| {
            // SAFETY: listed records are in place.
            let record = unsafe { record.as_ref() };
            self.flush_cache(record);
            record.shrink(self);
        });
    }
}
