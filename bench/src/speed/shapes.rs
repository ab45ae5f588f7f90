//! What one thread does with objects, over and over: the workloads, written once for every peer.
//!
//! Each is warmed up first and counted in processor time of the thread, so that what else runs on the machine shows as
//! little as it can: in caches that it emptied, not in time that it took.

use crate::machine::cpu_ns;
use crate::peers::Peer;
use std::hint::black_box;

/// Objects taken before the first is given back.
const BATCH: usize = 1000;

/// The order in which objects come and go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One object, taken, touched, given back.
    Pair,
    /// A thousand taken, then given back last first.
    Lifo,
    /// A thousand taken, then given back first first.
    Fifo,
    /// `slots` live objects; a random one is given back and one taken for a random one of `groups`.
    Random {
        /// Live objects.
        slots: usize,
        /// Groups to choose among; with one, the thread's own.
        groups: usize,
    },
}

impl Shape {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Pair => "pair".into(),
            Self::Lifo => "LIFO 1,000".into(),
            Self::Fifo => "FIFO 1,000".into(),
            Self::Random { slots, groups: 1 } => format!("random, {} k slots", slots >> 10),
            Self::Random { groups, .. } => format!("random, {groups} groups"),
        }
    }
}

/// A linear congruential generator (Knuth's constants): the same way in every run, for a nanosecond a number.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    #[inline]
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// Takes an object and writes to it.
#[inline]
pub(crate) fn take<P: Peer>(peer: &P, group: usize, size: usize) -> P::Object {
    let object = peer.alloc(group, size);
    let place = P::address(object);
    // SAFETY: the object is ours and holds at least 8 bytes.
    unsafe { place.cast::<u64>().write(group as u64) };
    black_box(place);
    object
}

fn pairs<P: Peer>(peer: &P, group: usize, size: usize, steps: usize) {
    for _ in 0..steps {
        // SAFETY: just taken.
        unsafe { peer.free(take(peer, group, size), size) };
    }
}

fn batches<P: Peer>(peer: &P, group: usize, size: usize, steps: usize, lifo: bool) {
    let mut live = Vec::with_capacity(BATCH);
    for _ in 0..steps / BATCH {
        for _ in 0..BATCH {
            live.push(take(peer, group, size));
        }
        let back = |object| {
            // SAFETY: taken above, given back once.
            unsafe { peer.free(object, size) };
        };
        if lifo {
            live.drain(..).rev().for_each(back);
        } else {
            live.drain(..).for_each(back);
        }
    }
}

/// Random lifetimes, filled, ready to go on.
struct Life<O> {
    live: Vec<O>,
    random: Random,
    groups: usize,
    own: usize,
}

impl<O: Copy> Life<O> {
    fn begin<P: Peer<Object = O>>(peer: &P, own: usize, size: usize, slots: usize, groups: usize) -> Self {
        let mut life = Self { live: Vec::with_capacity(slots), random: Random(7 + own as u64), groups, own };
        for _ in 0..slots {
            let group = life.group();
            life.live.push(take(peer, group, size));
        }
        life
    }

    #[inline]
    fn group(&mut self) -> usize {
        if self.groups == 1 { self.own } else { self.random.below(self.groups) }
    }

    fn go<P: Peer<Object = O>>(&mut self, peer: &P, size: usize, steps: usize) {
        for _ in 0..steps {
            let at = self.random.below(self.live.len());
            let group = self.group();
            // SAFETY: a live object, replaced right away.
            unsafe { peer.free(self.live[at], size) };
            self.live[at] = take(peer, group, size);
        }
    }
}

/// Runs a shape for `group`: a warm-up, then `ready`, then `steps` steps. Returns the CPU ns of the steps.
pub(crate) fn run<P: Peer>(
    peer: &P,
    shape: Shape,
    size: usize,
    group: usize,
    steps: usize,
    ready: &mut dyn FnMut(),
) -> u64 {
    let mut timed = |go: &mut dyn FnMut(usize)| {
        go(steps / 10);
        ready();
        let start = cpu_ns();
        go(steps);
        cpu_ns() - start
    };
    match shape {
        Shape::Pair => timed(&mut |n| pairs(peer, group, size, n)),
        Shape::Lifo => timed(&mut |n| batches(peer, group, size, n, true)),
        Shape::Fifo => timed(&mut |n| batches(peer, group, size, n, false)),
        Shape::Random { slots, groups } => {
            let mut life = Life::begin(peer, group, size, slots, groups);
            let ns = timed(&mut |n| life.go(peer, size, n));
            for object in life.live {
                // SAFETY: each is live and given back once.
                unsafe { peer.free(object, size) };
            }
            ns
        }
    }
}
