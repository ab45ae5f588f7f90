//! Which chunk a run is cut from, by its life: what must hold while there is memory, and that without it nothing fails.

use super::*;

const LIVES: [Life; 2] = [Life::Lasting, Life::Reclaimable];
/// Pages of a chunk that runs may have.
const ROOM: usize = PAGES - RESERVED;

struct World {
    source: &'static Simulated,
    chunks: Chunks,
    /// Chunk, life and descriptor of each run.
    runs: Vec<(usize, Life, NonNull<Slab>)>,
}

impl World {
    fn new() -> Self {
        let (source, chunks) = chunks();
        Self { source, chunks, runs: Vec::new() }
    }

    /// A run, and the chunk that it is in.
    fn cut(&mut self, pages: usize, node: u8, life: Life) -> Option<usize> {
        let run = self.chunks.alloc_slab(pages, node, life)?;
        let chunk = chunk_of(at(run).0);
        self.runs.push((chunk, life, run));
        Some(chunk)
    }

    fn free(&mut self, place: usize) {
        let (.., run) = self.runs.swap_remove(place);
        // SAFETY: live until here.
        unsafe { self.chunks.free(run) };
    }

    fn free_if(&mut self, gone: impl Fn(usize, Life) -> bool) {
        for place in (0..self.runs.len()).rev() {
            if gone(self.runs[place].0, self.runs[place].1) {
                self.free(place);
            }
        }
    }

    /// The lives of the runs of each chunk of a node, in the order of their addresses.
    fn lives(&self, node: u8) -> Vec<Vec<Life>> {
        // SAFETY: all of them are live.
        let here = self.runs.iter().filter(|run| unsafe { run.2.as_ref() }.node == node);
        let mut chunks: Vec<_> = here.map(|run| run.0).collect();
        chunks.sort_unstable();
        chunks.dedup();
        let has = |chunk, life: &Life| self.runs.iter().any(|run| run.0 == chunk && run.1 == *life);
        chunks.into_iter().map(|c| LIVES.into_iter().filter(|life| has(c, life)).collect()).collect()
    }

    /// Chunks of a node that have runs of both lives.
    fn mixed(&self, node: u8) -> usize {
        self.lives(node).iter().filter(|lives| lives.len() == 2).count()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.free_if(|_, _| true);
        self.chunks.trim();
        assert_eq!(self.chunks.totals().mapped, 0);
        // SAFETY: not used again.
        unsafe { self.chunks.release() };
        assert_eq!(self.source.total(), 0);
    }
}

#[test]
fn the_first_chunk_serves_all_and_later_ones_are_apart() {
    let mut w = World::new();
    for page in 0..5 * ROOM {
        w.cut(1, 0, LIVES[page % 2]).unwrap();
    }
    // Two of the lasting ones and two of the others, which hold as many runs.
    assert_eq!((w.lives(0).len(), w.mixed(0)), (5, 1));
    w.free_if(|_, life| life == Life::Reclaimable);
    w.chunks.trim();
    assert_eq!(w.chunks.totals().mapped, 3 * CHUNK, "two and the one that has some of all");
}

/// A chunk that lost its last run may serve another life.
#[test]
fn a_chunk_without_runs_is_of_no_life() {
    let mut w = World::new();
    let first = w.cut(MAX_RUN, 0, Life::Lasting).unwrap();
    w.cut(ROOM - MAX_RUN, 0, Life::Lasting).unwrap();
    let second = w.cut(1, 0, Life::Reclaimable).unwrap();
    w.free_if(|chunk, _| chunk == second);
    assert_eq!(w.cut(1, 0, Life::Lasting), Some(second), "it is free, and kept");
    let third = w.cut(1, 0, Life::Reclaimable).unwrap();
    assert_ne!(third, second, "now it has lasting ones");
    // So does the one that served all: without it the next chunk that is needed does.
    w.free_if(|chunk, _| chunk == first);
    assert_eq!(w.cut(MAX_RUN, 0, Life::Reclaimable), Some(third));
    assert_eq!(w.cut(MAX_RUN, 0, Life::Reclaimable), Some(first));
    assert_eq!(w.cut(1, 0, Life::Lasting), Some(first));
}

#[test]
fn without_memory_the_other_life_gives_room_the_emptiest_first() {
    let mut w = World::new();
    for _ in 0..4 * ROOM {
        w.cut(1, 0, Life::Lasting).unwrap();
    }
    let (first, last) = (w.runs[0].0, w.runs[4 * ROOM - 1].0);
    // The first serves all anyway, and is full. Of the others one gets 10 holes, and one 20, in one piece each.
    let between: Vec<_> = (1..3).map(|chunk| w.runs[chunk * ROOM].0).collect();
    for place in (0..20).rev() {
        w.free(2 * ROOM + place);
    }
    for place in (0..10).rev() {
        w.free(ROOM + place);
    }
    w.source.set_limit(w.source.total());
    let got: Vec<_> = (0..30).map(|_| w.cut(1, 0, Life::Reclaimable).unwrap()).collect();
    assert_eq!(got[0], between[1]);
    let of = |chunk| got.iter().filter(|c| **c == chunk).count();
    assert_eq!((of(between[0]), of(between[1]), of(first), of(last)), (10, 20, 0, 0));
    assert_eq!(w.cut(1, 0, Life::Reclaimable), None, "nothing is left");
    assert_eq!(w.cut(1, 1, Life::Reclaimable), None);
    w.source.set_limit(u64::MAX);
    assert_ne!(w.cut(1, 0, Life::Reclaimable), Some(last));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// On each node one chunk at most has runs of both lives while there is memory; and all that is free can be had when
    /// there is none.
    #[test]
    fn lives_are_apart_while_there_is_memory(
        steps in prop::collection::vec((0usize..5, 1usize..=MAX_RUN, 0usize..2, 0u8..2), 1..200),
    ) {
        let mut w = World::new();
        for (kind, pages, life, node) in steps {
            if kind == 0 && !w.runs.is_empty() {
                w.free(pages % w.runs.len());
            } else if kind == 1 {
                w.free_if(|_, of| of == LIVES[life]);
            } else {
                // Short runs too, or chunks would have two each.
                prop_assert!(w.cut(pages.min(1 << (pages % 9)), node, LIVES[life]).is_some());
            }
            prop_assert!(w.mixed(node) <= 1, "{:?}", w.lives(node));
        }
        w.source.set_limit(w.source.total());
        for node in 0..2 {
            for turn in 0.. {
                if w.cut(1, node, LIVES[turn % 2]).is_none() {
                    break;
                }
            }
        }
        // No page is free now.
        prop_assert_eq!(w.chunks.totals().runs % (ROOM * PAGE), 0);
        prop_assert_eq!(w.chunks.totals().dirty, 0);
    }
}
