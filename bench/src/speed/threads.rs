//! Two threads at once, and objects that one thread takes and another gives back.

use super::shapes::{Shape, run, take};
use crate::machine::{cpu_ns, pin};
use crate::peers::Peer;
use std::sync::mpsc::sync_channel;
use std::sync::{Barrier, Mutex};
use std::time::Instant;

/// ns a step.
#[derive(Clone, Copy)]
pub(crate) struct Time {
    /// Processor time of one thread, the mean of all.
    pub(crate) cpu: f64,
    /// From the first start to the last end, over the steps of one thread. Other load on the machine is in it.
    pub(crate) wall: f64,
}

/// `threads` threads do the same; each for a group of its own, or all for group 0.
pub(crate) fn together<P: Peer>(
    peer: &P,
    shape: Shape,
    size: usize,
    threads: usize,
    own: bool,
    steps: usize,
) -> Time {
    let barrier = Barrier::new(threads);
    let spans = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for i in 0..threads {
            let (barrier, spans) = (&barrier, &spans);
            scope.spawn(move || {
                // Left alone, the scheduler keeps both on one CPU for longer than a measurement takes.
                pin(i);
                peer.settle();
                let mut start = Instant::now();
                let group = if own { i } else { 0 };
                let cpu = run(peer, shape, size, group, steps, &mut || {
                    barrier.wait();
                    start = Instant::now();
                });
                let span = (start, Instant::now(), cpu);
                peer.settle();
                spans.lock().expect("no thread panicked").push(span);
            });
        }
    });
    let spans = spans.into_inner().expect("no thread panicked");
    let start = spans.iter().map(|s| s.0).min();
    let end = spans.iter().map(|s| s.1).max();
    let wall = start.zip(end).map_or(0, |(s, e)| (e - s).as_nanos());
    let cpu: u64 = spans.iter().map(|s| s.2).sum();
    Time { cpu: cpu as f64 / (threads * steps) as f64, wall: wall as f64 / steps as f64 }
}

/// Objects of one hand-over.
const HANDED: usize = 8192;

/// One thread takes 8,192 objects, another gives them all back, in turns. CPU ns of one object: of taking it, and of
/// giving it back. In turns, because threads that run at once on a busy machine measure the machine.
pub(crate) fn relay<P: Peer>(peer: &P, size: usize, steps: usize) -> (f64, f64) {
    let turns = (steps / HANDED).max(2);
    let (full, take_full) = sync_channel::<Vec<P::Object>>(1);
    let (empty, take_empty) = sync_channel::<Vec<P::Object>>(1);
    let (taking, giving) = std::thread::scope(|scope| {
        let producer = scope.spawn(move || {
            pin(0);
            peer.settle();
            let mut ns = 0;
            let mut live = Vec::with_capacity(HANDED);
            for turn in 0..=turns {
                let start = cpu_ns();
                for _ in 0..HANDED {
                    live.push(take(peer, 0, size));
                }
                // The first turn warms up.
                ns += if turn == 0 { 0 } else { cpu_ns() - start };
                if full.send(live).is_err() {
                    break;
                }
                match take_empty.recv() {
                    Ok(back) => live = back,
                    Err(_) => break,
                }
            }
            peer.settle();
            ns
        });
        let consumer = scope.spawn(move || {
            pin(1);
            peer.settle();
            let mut ns = 0;
            for turn in 0..=turns {
                let Ok(mut live) = take_full.recv() else { break };
                let start = cpu_ns();
                for object in live.drain(..) {
                    // SAFETY: taken by the other thread, given back once.
                    unsafe { peer.free(object, size) };
                }
                ns += if turn == 0 { 0 } else { cpu_ns() - start };
                if empty.send(live).is_err() {
                    break;
                }
            }
            peer.settle();
            ns
        });
        (producer.join().unwrap_or(0), consumer.join().unwrap_or(0))
    });
    let objects = (turns * HANDED) as f64;
    (taking as f64 / objects, giving as f64 / objects)
}
