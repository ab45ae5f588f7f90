//! A node's full stacks of ready objects, which its CPUs exchange: what one frees another may need, or the same a moment
//! later. So a stream of objects from one thread to another, and a wave of more objects than a stack holds, cost one
//! exchange for a whole stack.
//!
//! Its stacks are charged and owned as those on a shelf are, and are found by who looks for those.

use super::bytes_of;
use crate::controller::Inner;
use crate::error::{Error, Result};
use crate::meta::Meta;
use crate::percpu::{Bundle, Piles, Seen};
use crate::sync::{Lock, Rank};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// What a node's stacks may hold at most, bytes of charge, and what those of all nodes may in any case.
pub(crate) const MOST: u64 = 4 << 20;
pub(super) const ALWAYS: u64 = 256 << 10;
const PLACES: usize = 32;
/// Misses that are remembered of a key.
const MISSED: u32 = 64;

struct Depot {
    /// Changed with the area of some CPU held, so that who holds all of them sees it at rest.
    state: Lock<State>,
    /// What they hold, bytes of charge: to be looked at without the lock.
    bytes: AtomicU64,
    /// By key as the piles: the last of which a stack was asked for in vain, and how often. (Two CPUs at once may miscount.)
    missed: [(AtomicU64, AtomicU32); PLACES],
}

struct State {
    /// By key.
    piles: [Piles; PLACES],
    /// Where something was taken last to make room.
    hand: usize,
}

/// One a node.
pub(crate) struct Depots {
    each: NonNull<Depot>,
    nodes: u8,
}

impl Depots {
    pub(crate) const fn none() -> Self {
        Self { each: NonNull::dangling(), nodes: 0 }
    }

    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn new(nodes: u8, meta: &Meta) -> Result<Self> {
        let bytes = usize::from(nodes) * size_of::<Depot>();
        let each = meta.alloc(bytes).ok_or(Error::NoMemory { bytes })?.cast::<Depot>();
        for node in 0..nodes {
            let state = State { piles: [const { Piles::new() }; PLACES], hand: 0 };
            let depot = Depot {
                state: Lock::new(Rank::Leaf, state),
                bytes: AtomicU64::new(0),
                missed: [const { (AtomicU64::new(0), AtomicU32::new(0)) }; PLACES],
            };
            // SAFETY: a block of ours with room for so many.
            unsafe { each.add(node.into()).write(depot) };
        }
        Ok(Self { each, nodes })
    }

    fn of(&self, node: u8) -> &Depot {
        debug_assert!(node < self.nodes);
        // SAFETY: there is one a node.
        unsafe { self.each.add(node.into()).as_ref() }
    }

    /// Whether a stack under `key` was asked for in vain more often than this was asked.
    pub(super) fn was_missed(&self, node: u8, key: u64) -> bool {
        let (missed, times) = &self.of(node).missed[place_of(key)];
        let left = times.load(Relaxed);
        let was = missed.load(Relaxed) == key && left > 0;
        if was {
            times.store(left - 1, Relaxed);
        }
        was
    }

    /// Whether so many bytes more come to no more than `most`, as far as can be seen without a lock.
    pub(super) fn have_room(&self, node: u8, more: u64, most: u64) -> bool {
        self.of(node).bytes.load(Relaxed) + more <= most
    }

    fn all(&self) -> impl Iterator<Item = (u8, &Depot)> {
        (0..self.nodes).map(|node| (node, self.of(node)))
    }

    /// Keeps a stack, and `most` bytes in all. Returns those that it keeps no longer for that, as they come round.
    pub(super) fn deposit(&self, node: u8, bundle: Bundle, most: u64) -> Piles {
        let depot = self.of(node);
        let mut out = Piles::new();
        let mut state = depot.state.lock();
        let (mut bytes, more) = (depot.bytes.load(Relaxed), bytes_of(bundle.seen()));
        while bytes > 0 && bytes + more > most {
            state.hand = (state.hand + 1) % PLACES;
            let hand = state.hand;
            if let Some(old) = state.piles[hand].take(|_| true) {
                bytes -= bytes_of(old.seen());
                out.push(old);
            }
        }
        state.piles[place_of(bundle.stack().key())].push(bundle);
        depot.bytes.store(bytes + more, Relaxed);
        out
    }

    /// A stack under `key`, if `may` is: one that `cpu` left, whose caches know its objects, before others.
    pub(super) fn withdraw(
        &self,
        node: u8,
        cpu: u16,
        key: u64,
        may: impl FnOnce() -> bool,
    ) -> Option<Bundle> {
        let depot = self.of(node);
        let mut found = None;
        if depot.bytes.load(Relaxed) > 0 && may() {
            found = self
                .withdraw_if(node, key, |stack| stack.left_by() == cpu)
                .or_else(|| self.withdraw_if(node, key, |_| true));
        }
        if found.is_none() {
            let (missed, times) = &depot.missed[place_of(key)];
            let before = if missed.load(Relaxed) == key { times.load(Relaxed) } else { 0 };
            missed.store(key, Relaxed);
            times.store((before + 1).min(MISSED), Relaxed);
        }
        found
    }

    /// A stack under `key`, whatever may be.
    pub(super) fn withdraw_any(&self, node: u8, key: u64) -> Option<Bundle> {
        self.withdraw_if(node, key, |_| true)
    }

    fn withdraw_if(&self, node: u8, key: u64, wanted: impl Fn(Seen) -> bool) -> Option<Bundle> {
        let depot = self.of(node);
        if depot.bytes.load(Relaxed) == 0 {
            return None;
        }
        let mut state = depot.state.lock();
        let found = state.piles[place_of(key)].take(|stack| stack.key() == key && wanted(stack))?;
        depot.bytes.store(depot.bytes.load(Relaxed) - bytes_of(found.seen()), Relaxed);
        Some(found)
    }

    /// Calls `each` for every stack. All areas are held.
    pub(super) fn look(&self, mut each: impl FnMut(Seen)) {
        for (_, depot) in self.all().filter(|(_, depot)| depot.bytes.load(Relaxed) > 0) {
            depot.state.lock().piles.iter().flat_map(Piles::iter).for_each(&mut each);
        }
    }

    /// Takes out every stack of `node` for which `wanted` holds. All areas are held.
    pub(super) fn take(&self, node: u8, wanted: impl Fn(Seen) -> bool) -> Piles {
        let (depot, mut out) = (self.of(node), Piles::new());
        if depot.bytes.load(Relaxed) > 0 {
            for piles in &mut depot.state.lock().piles {
                while let Some(bundle) = piles.take(&wanted) {
                    depot.bytes.fetch_sub(bytes_of(bundle.seen()), Relaxed);
                    out.push(bundle);
                }
            }
        }
        out
    }
}

fn place_of(key: u64) -> usize {
    // Fibonacci hashing (D. Knuth): the upper bits of a product with 2^64 / the golden ratio.
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59) as usize % PLACES
}

// SAFETY: the depots are reached through their locks.
unsafe impl Send for Depots {}
// SAFETY: as above.
unsafe impl Sync for Depots {}

impl Inner {
    /// Gives the memory of all stacks back, with nothing done for their objects: the controller goes.
    pub(crate) fn forget_depots(&self) {
        for node in 0..self.depots.nodes {
            let mut all = self.depots.take(node, |_| true);
            while let Some(bundle) = all.take(|_| true) {
                bundle.free(&self.meta);
            }
        }
    }
}
