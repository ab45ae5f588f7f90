//! Everybody who takes part in the speed tables: each allocator under each policy, and tenalloc.

use super::shapes::{Shape, run};
use super::threads::{Time, relay, together};
use crate::peers::capi::CLibrary;
use crate::peers::floor::Floor;
use crate::peers::hand::{Counted, Owned, Raw};
use crate::peers::heaps::{Heaped, make};
use crate::peers::library::Allocator;
use crate::peers::ours::{Called, Ours};
use crate::peers::{Peer, Policy};

/// The workloads on one peer, whatever its objects are.
pub(crate) trait Run {
    /// CPU ns a step of one thread.
    fn alone(&self, shape: Shape, size: usize, steps: usize) -> f64;
    /// As [`together`].
    fn together(&self, shape: Shape, size: usize, threads: usize, own: bool, steps: usize) -> Time;
    /// As [`relay`].
    fn relay(&self, size: usize, steps: usize) -> (f64, f64);
}

impl<P: Peer> Run for P {
    fn alone(&self, shape: Shape, size: usize, steps: usize) -> f64 {
        self.settle();
        let ns = run(self, shape, size, 0, steps, &mut || {});
        self.settle();
        ns as f64 / steps as f64
    }

    fn together(&self, shape: Shape, size: usize, threads: usize, own: bool, steps: usize) -> Time {
        together(self, shape, size, threads, own, steps)
    }

    fn relay(&self, size: usize, steps: usize) -> (f64, f64) {
        relay(self, size, steps)
    }
}

/// One that takes part.
pub(crate) struct Entry {
    /// The allocator.
    pub(crate) peer: &'static str,
    /// What was added to it; `None` for tenalloc, which counts three levels itself, and the floor.
    pub(crate) policy: Option<Policy>,
    /// Whether threads may share it.
    pub(crate) threads: bool,
    pub(crate) run: Box<dyn Run>,
}

/// tenalloc, inlined.
pub(crate) const OURS: &str = "tenalloc";
/// The measure of the machine; one level, one thread.
pub(crate) const FLOOR: &str = "floor";
/// tenalloc, called by address.
pub(crate) const CALLED: &str = "tenalloc, called";
/// tenalloc, through its C library.
pub(crate) const C_LIBRARY: &str = "tenalloc, C library";

/// Heaps are made once: some allocators have no more than a few thousand of them in a process.
pub(crate) struct Stage<'a> {
    peers: Vec<(&'a Allocator, Vec<usize>)>,
    groups: usize,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(peers: &'a [Allocator], groups: usize) -> Self {
        let heaps = |p: &Allocator| p.table.heaps.map_or_else(Vec::new, |h| make(&h, groups));
        Self { peers: peers.iter().map(|p| (p, heaps(p))).collect(), groups }
    }

    /// All of them, for objects of one size.
    pub(crate) fn entries(&self, size: usize) -> tenalloc::Result<Vec<Entry>> {
        let mut all = vec![
            Entry { peer: OURS, policy: None, threads: true, run: Box::new(Ours::new(size, self.groups)?) },
            Entry {
                peer: CALLED,
                policy: None,
                threads: true,
                run: Box::new(Called::new(size, self.groups)?),
            },
            Entry { peer: FLOOR, policy: None, threads: false, run: Box::new(Floor::new(size, self.groups)) },
        ];
        if let Some(library) = CLibrary::new(size, self.groups) {
            all.push(Entry { peer: C_LIBRARY, policy: None, threads: true, run: Box::new(library) });
        }
        for (peer, heaps) in &self.peers {
            for policy in Policy::ALL {
                let Some(run) = self.run(peer, policy, heaps) else { continue };
                let any = policy != Policy::Heap || peer.table.heaps.is_some_and(|h| h.any_thread);
                all.push(Entry {
                    peer: peer.name,
                    policy: Some(policy),
                    threads: peer.table.threads && any,
                    run,
                });
            }
        }
        Ok(all)
    }

    fn run(&self, peer: &Allocator, policy: Policy, heaps: &[usize]) -> Option<Box<dyn Run>> {
        let table = &peer.table;
        // talloc is a hierarchy with limits itself; nobody adds one to it.
        if !table.threads && !matches!(policy, Policy::Raw | Policy::Heap) {
            return None;
        }
        Some(match policy {
            Policy::Raw => Box::new(Raw::new(table)),
            Policy::Counter => Box::new(Counted::new(table, self.groups)),
            Policy::Header => Box::new(Owned::<false>::new(table, self.groups)),
            Policy::Batch => Box::new(Owned::<true>::new(table, self.groups)),
            Policy::Heap => {
                let all = heaps.len() == self.groups;
                Box::new(Heaped::new(table.heaps.as_ref().filter(|_| all)?, heaps.to_vec()))
            }
        })
    }
}
