//! Nanoseconds for one allocation and one free, through three levels of groups.
//!
//! * `pair`: one object, taken, touched, given back.
//! * `lifo`, `fifo`: a thousand taken, then given back last first, or first first.
//! * `1024 groups`: 16,384 live objects; a random one is given back and one taken for a random one of 1,024 groups.
//!
//! The peers take turns within each round, so that a slow moment of the machine meets them all.

use crate::machine::cpu_ns;
use crate::median;
use crate::peers::{Header, Ours, Peer, Raw};
use serde_json::{Value, json};
use std::hint::black_box;
use std::ptr::NonNull;

const ROUNDS: usize = 5;
const GROUPS: usize = 1024;
const LIVE: usize = 16_384;
const BATCH: usize = 1000;
/// Allocations and frees of one measurement.
const STEPS: usize = 1_000_000;

/// A linear congruential generator (Knuth's constants): the same way in every run, for a nanosecond a number.
struct Random(u64);

impl Random {
    #[inline]
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

#[inline]
fn take(peer: &impl Peer, tenant: usize) -> NonNull<u8> {
    let object = peer.alloc(tenant);
    // SAFETY: the object is ours and holds at least 8 bytes.
    unsafe { object.cast::<u64>().write(tenant as u64) };
    black_box(object)
}

fn pair(peer: &impl Peer) {
    for _ in 0..STEPS {
        // SAFETY: just taken.
        unsafe { peer.free(take(peer, 0)) };
    }
}

fn batches(peer: &impl Peer, last_first: bool) {
    let mut live = Vec::with_capacity(BATCH);
    for _ in 0..STEPS / BATCH {
        live.extend((0..BATCH).map(|_| take(peer, 0)));
        if last_first {
            live.reverse();
        }
        for object in live.drain(..) {
            // SAFETY: taken above, given back once.
            unsafe { peer.free(object) };
        }
    }
}

/// Returns CPU ns of the steps alone, without filling and emptying.
fn random(peer: &impl Peer) -> u64 {
    let mut random = Random(7);
    let mut live: Vec<_> = (0..LIVE).map(|i| take(peer, i % GROUPS)).collect();
    let start = cpu_ns();
    for _ in 0..STEPS {
        let slot = &mut live[random.below(LIVE)];
        // SAFETY: a live object, replaced right away.
        unsafe { peer.free(*slot) };
        *slot = take(peer, random.below(GROUPS));
    }
    let ns = cpu_ns() - start;
    for object in live {
        // SAFETY: each is live and given back once.
        unsafe { peer.free(object) };
    }
    ns
}

const WORKLOADS: [&str; 4] = ["pair", "lifo 1000", "fifo 1000", "1024 groups"];

/// ns a step.
fn measure(peer: &impl Peer, workload: usize) -> f64 {
    let start = cpu_ns();
    let ns = match workload {
        0 => {
            pair(peer);
            cpu_ns() - start
        }
        1 | 2 => {
            batches(peer, workload == 1);
            cpu_ns() - start
        }
        _ => random(peer),
    };
    ns as f64 / STEPS as f64
}

pub(crate) fn run() -> tenalloc::Result<Value> {
    println!("allocate + free, ns (CPU time of one thread, median of {ROUNDS} rounds in turn; 3 levels)");
    println!(
        "{:21}{:>9}{:>17}{:>10}{:>14}{:>11}",
        "", "malloc", "malloc + header", "tenalloc", "÷ header", "÷ malloc"
    );
    let mut rows = Vec::new();
    for size in [64, 192] {
        let (raw, header, ours) = (Raw(size), Header::new(size, GROUPS), Ours::new(size, GROUPS)?);
        for (w, name) in WORKLOADS.iter().enumerate() {
            let mut ns = [const { Vec::new() }; 3];
            for _ in 0..ROUNDS {
                ns[0].push(measure(&raw, w));
                ns[1].push(measure(&header, w));
                ns[2].push(measure(&ours, w));
            }
            let [raw, header, ours] = ns.map(median);
            let label = format!("{size:>4} B, {name}");
            let (by_header, by_raw) = (ours / header, ours / raw);
            println!("{label:21}{raw:>9.1}{header:>17.1}{ours:>10.1}{by_header:>13.2}×{by_raw:>10.1}×");
            rows.push(json!({
                "bytes": size, "workload": name, "levels": 3, "unit": "ns",
                "malloc": raw, "malloc_header": header, "tenalloc": ours,
            }));
        }
    }
    println!("Every operation of tenalloc still takes its CPU's lock.");
    Ok(Value::Array(rows))
}
