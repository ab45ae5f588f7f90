//! What it costs to remove a group, against the number of objects of it that live on.

use crate::figure::Figure;
use crate::machine::cpu_ns;
use crate::peers::heaps::make;
use crate::peers::library::Allocator;
use crate::plan::Plan;
use serde_json::{Value, json};
use std::hint::black_box;
use tenalloc::{CacheConfig, Config, Controller};

type Failure = Box<dyn std::error::Error>;

/// Written between the last allocation and a cold removal: more than the processor's second-level caches hold.
const CACHES: usize = 256 << 20;
const NUMBERS: [usize; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];

/// When a removal is timed: right after the group's last allocation; right after the removal of another group, whose twenty
/// objects live on too; when nothing is in the processor's caches. The second tells whether the work depends on n, the others also
/// what n objects, or whatever else ran, drove out.
const WHEN: [&str; 3] = ["at once", "after another", "cold caches"];

/// ns to remove a group that owns n objects of 64 bytes, as in [`WHEN`].
fn ours(plan: &Plan, n: usize, flush: &mut [u64]) -> Result<[Figure; 3], Failure> {
    let ctl = Controller::new(Config::new())?;
    let cache = ctl.cache(&CacheConfig::new("object", 64))?;
    let mut ns = [const { Vec::new() }; WHEN.len()];
    for round in 0..ns.len() * plan.rounds {
        let make = |name, n| -> tenalloc::Result<_> {
            let group = ctl.root().create(name)?;
            let objects = (0..n).map(|_| cache.alloc(&group)).collect::<tenalloc::Result<Vec<_>>>()?;
            Ok((group, objects))
        };
        let (group, mut objects) = make("tenant", n)?;
        let when = round % WHEN.len();
        if when == 1 {
            let (other, more) = make("another", 20)?;
            other.remove()?;
            objects.extend(more);
        } else if when == 2 {
            drive_out(flush);
        }
        let start = cpu_ns();
        group.remove()?;
        ns[when].push((cpu_ns() - start) as f64);
        for object in objects {
            // SAFETY: each is live and given back once.
            unsafe { cache.free(object)? };
        }
    }
    Ok(ns.map(Figure::of))
}

/// ns to end a heap while n objects of it live on: they stay where the allocator can leave them, and are copied to the
/// common heap where it cannot.
fn heap(plan: &Plan, peer: &Allocator, n: usize) -> Option<Figure> {
    let heaps = peer.table.heaps?;
    let mut ns = Vec::new();
    for _ in 0..plan.rounds {
        let heap = *make(&heaps, 1).first()?;
        // SAFETY: the heap exists; every object holds 64 bytes, is copied before it goes, and goes once.
        unsafe {
            let mut objects: Vec<_> = (0..n).map(|_| (heaps.malloc)(heap, 64).cast::<u64>()).collect();
            objects.iter().for_each(|object| object.write(1));
            let start = cpu_ns();
            if !heaps.survive {
                for object in &mut objects {
                    let copy = (peer.table.malloc)(64).cast::<u64>();
                    copy.copy_from_nonoverlapping(*object, 8);
                    *object = copy;
                }
            }
            (heaps.delete)(heap);
            ns.push((cpu_ns() - start) as f64);
            objects.into_iter().for_each(|object| (peer.table.free)(object.cast()));
        }
    }
    Some(Figure::of(ns))
}

/// ns to write another owner into n headers: what counting by hand needs, and it must know all addresses for it.
fn walk(plan: &Plan, peer: &Allocator, n: usize) -> Figure {
    let mut ns = Vec::new();
    for _ in 0..plan.rounds {
        // SAFETY: every object holds 72 bytes and goes once.
        unsafe {
            let objects: Vec<_> = (0..n).map(|_| (peer.table.malloc)(72).cast::<u64>()).collect();
            objects.iter().for_each(|object| object.write(1));
            let start = cpu_ns();
            objects.iter().for_each(|object| object.write(0));
            black_box(&objects);
            ns.push((cpu_ns() - start) as f64);
            objects.into_iter().for_each(|object| (peer.table.free)(object.cast()));
        }
    }
    Figure::of(ns)
}

/// ns between two readings of the clock, which are in all figures here: at once, and when nothing of them is in the
/// processor's caches.
fn clock(plan: &Plan, flush: &mut [u64]) -> [Figure; 2] {
    let once = || {
        let start = cpu_ns();
        (cpu_ns() - start) as f64
    };
    let warm = (0..1000).map(|_| once()).collect();
    let cold = (0..plan.rounds).map(|_| {
        drive_out(flush);
        once()
    });
    [Figure::of(warm), Figure::of(cold.collect())]
}

/// Fills the processor's caches with something else.
fn drive_out(flush: &mut [u64]) {
    flush.iter_mut().for_each(|word| *word += 1);
    black_box(&flush);
}

fn row(peer: &str, how: &str, n: usize, ns: Figure) -> Value {
    json!({ "peer": peer, "how": how, "objects": n, "ns": ns.json() })
}

/// A line for each way, a column for each number of objects.
fn line(label: &str, figures: &[Figure]) {
    print!("  {label:38}");
    for figure in figures {
        print!("{:>12.0}", figure.median);
    }
    println!();
}

/// All of it.
pub(crate) fn run(plan: &Plan, peers: &[Allocator]) -> Result<Value, Failure> {
    let mut flush = vec![0u64; CACHES / size_of::<u64>()];
    let clock = clock(plan, &mut flush);
    println!(
        "removing a group with n live objects, ns ({:.0} ns of each are two readings of the clock; {:.0} where caches are cold)",
        clock[0].median, clock[1].median
    );
    print!("{:40}", "");
    NUMBERS.iter().for_each(|n| print!("{n:>12}"));
    println!();
    let mut rows = Vec::new();
    let mut figures = [const { Vec::new() }; WHEN.len()];
    for n in NUMBERS {
        for (i, figure) in ours(plan, n, &mut flush)?.into_iter().enumerate() {
            rows.push(row("tenalloc", WHEN[i], n, figure));
            figures[i].push(figure);
        }
    }
    drop(flush);
    for (when, figures) in WHEN.iter().zip(&figures) {
        line(&format!("tenalloc, {when}"), figures);
    }
    for peer in peers {
        let ended: Vec<_> = NUMBERS.iter().map_while(|n| Some((*n, heap(plan, peer, *n)?))).collect();
        if !ended.is_empty() {
            rows.extend(ended.iter().map(|(n, f)| row(peer.name, "heap ended", *n, *f)));
            line(&format!("{}, its heap ended", peer.name), &ended.iter().map(|e| e.1).collect::<Vec<_>>());
        }
        if peer.name == "glibc" {
            let walked = NUMBERS.map(|n| walk(plan, peer, n));
            rows.extend(
                NUMBERS.iter().zip(&walked).map(|(n, f)| row(peer.name, "headers rewritten", *n, *f)),
            );
            line("glibc, every header rewritten", &walked);
        }
    }
    println!();
    Ok(json!({ "clock_ns": clock[0].median, "clock_cold_ns": clock[1].median, "rows": rows }))
}
