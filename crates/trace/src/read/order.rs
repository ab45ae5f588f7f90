//! Samples of all CPUs in time order.
//!
//! perf empties the ring of each CPU in turn and ends every such pass with FINISHED_ROUND. A sample of pass *n* can be
//! older than any of pass *n − 1*, but not older than the newest of pass *n − 2* (its ring was emptied since). So
//! at the end of a pass everything up to the newest time of the pass before may go. What a ring gives is a sorted
//! run; a stable merge sort finds the runs and keeps the file's order among equal times.

use super::event::Event;

/// Samples held back at most (1.8 GB): a damaged or hostile file may have no rounds.
const MOST: usize = 32 << 20;

/// Holds samples back until their order is certain.
pub(crate) struct Order {
    pending: Vec<Event>,
    /// Newest time of the passes before this one.
    safe: u64,
    newest: u64,
    most: usize,
}

impl Default for Order {
    fn default() -> Self {
        Self { pending: Vec::new(), safe: 0, newest: 0, most: MOST }
    }
}

impl Order {
    /// Take a sample in. True: too much is held back, the caller should call [`Order::spill`].
    #[inline]
    pub(crate) fn push(&mut self, event: Event) -> bool {
        self.newest = self.newest.max(event.time);
        self.pending.push(event);
        self.pending.len() >= self.most
    }

    /// A pass over all rings is complete.
    pub(crate) fn round(&mut self, emit: &mut dyn FnMut(&Event)) {
        self.sort();
        let n = self.pending.partition_point(|e| e.time <= self.safe);
        self.release(n, emit);
        self.safe = self.newest;
    }

    /// Give up the older half although its order is not certain.
    pub(crate) fn spill(&mut self, emit: &mut dyn FnMut(&Event)) {
        self.sort();
        self.release(self.pending.len() / 2, emit);
    }

    /// No more samples come.
    pub(crate) fn finish(&mut self, emit: &mut dyn FnMut(&Event)) {
        self.sort();
        self.release(self.pending.len(), emit);
    }

    fn sort(&mut self) {
        self.pending.sort_by_key(|e| e.time);
    }

    fn release(&mut self, n: usize, emit: &mut dyn FnMut(&Event)) {
        for event in self.pending.drain(..n) {
            emit(&event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::Kind;
    use super::*;
    use proptest::prelude::*;

    fn at(time: u64, cpu: u16) -> Event {
        Event { time, tid: 0, cpu, sample: 0, interrupt: false, kind: Kind::Other }
    }

    #[test]
    fn a_round_releases_up_to_the_newest_of_the_round_before() {
        let (mut o, mut out) = (Order::default(), Vec::new());
        for (t, c) in [(1, 0), (2, 0), (2, 1), (3, 1), (4, 1)] {
            o.push(at(t, c));
        }
        o.round(&mut |e| out.push((e.time, e.cpu)));
        assert!(out.is_empty());
        for (t, c) in [(3, 0), (5, 0), (5, 1), (7, 1)] {
            o.push(at(t, c));
        }
        o.round(&mut |e| out.push((e.time, e.cpu)));
        assert_eq!(out, [(1, 0), (2, 0), (2, 1), (3, 1), (3, 0), (4, 1)]);
        o.finish(&mut |e| out.push((e.time, e.cpu)));
        assert_eq!(out[6..], [(5, 0), (5, 1), (7, 1)]);
    }

    #[test]
    fn what_is_held_back_is_bounded() {
        let (mut o, mut out) = (Order { most: 100, ..Order::default() }, 0);
        for t in 0..10_000 {
            if o.push(at(t, 0)) {
                o.spill(&mut |_| out += 1);
            }
            assert!(o.pending.len() < 100);
        }
        o.finish(&mut |_| out += 1);
        assert_eq!(out, 10_000);
    }

    proptest! {
        /// Rings emptied in rounds, each ring sorted: what comes out is the sorted whole.
        #[test]
        fn rings_in_rounds_come_out_sorted(gaps in prop::collection::vec((0u64..50, 0u16..4), 1..400), every in 1usize..40) {
            let mut all: Vec<Event> = Vec::new();
            let mut time = 0;
            for (gap, cpu) in gaps {
                time += gap;
                all.push(at(time, cpu));
            }
            let (mut order, mut out) = (Order::default(), Vec::new());
            for chunk in all.chunks(every) {
                for cpu in 0..4 {
                    for e in chunk.iter().filter(|e| e.cpu == cpu) {
                        order.push(*e);
                    }
                }
                order.round(&mut |e| out.push(*e));
            }
            order.finish(&mut |e| out.push(*e));
            prop_assert_eq!(out.len(), all.len());
            prop_assert!(out.is_sorted_by_key(|e| e.time));
        }
    }
}
