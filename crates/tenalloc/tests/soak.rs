//! Random life on two threads against a plain model.
//!
//! Both threads make and remove groups of one tree, allocate in each other's groups, free each other's objects, put
//! objects on lists and take them off, walk, reclaim, trim, set limits and protection, freeze, read, wait for groups to
//! fall to their `high`, take chunks and nodes out of use and cancel it, have objects moved, make and destroy caches, add
//! and drop shrinkers, and let requests for memory fail, one or all for a while. With the feature `std` a third thread
//! reclaims in the background.
//! After a few thousand steps both stop, and everything is compared with the model: what each group and each owner is
//! charged, what is on each list, that who still waits has to, and at the end that nothing is left.
//!
//! What makes a model possible under races: an object's home is the nearest ancestor that lives, of the group that it
//! was allocated in, whatever came first. An object is touched by the thread that pinned it (a compare-and-swap in a
//! table beside the model), so reclaim and its user never both have it.
//!
//! `TENALLOC_SOAK_SECONDS`: how long, 30 if unset. `TENALLOC_SOAK_SEED`: where to begin, else the time; every seed is
//! printed.

mod common;
#[path = "soak/hot.rs"]
mod hot;
#[path = "soak/model.rs"]
mod model;
#[path = "soak/object.rs"]
mod object;
#[path = "soak/shelf.rs"]
mod shelf;
#[path = "soak/tasks.rs"]
mod tasks;
#[path = "soak/worker.rs"]
mod worker;

use model::World;
use std::time::{Duration, Instant, SystemTime};
use worker::Worker;

/// Steps of each thread between two comparisons, and comparisons in one life.
const STEPS: usize = 2000;
const PHASES: usize = 6;
/// Whoever lived so often has seen all that is counted, or tests nothing: of the seldom ones a chunk taken out of use comes
/// about once in a life. Fewer than the first are too few to say so; after the second there is no excuse.
const FEW: u64 = 5;
const MANY: u64 = 40;

/// Kinds that never were.
fn missing(done: &[u64; worker::KINDS]) -> Vec<&'static str> {
    let never = |kind: &usize| done[*kind] == 0 && !worker::RARE.contains(kind);
    (0..worker::KINDS).filter(never).map(|kind| worker::NAMES[kind]).collect()
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{variable}={text}: {e}")))
}

#[test]
fn random_life_on_two_threads_matches_a_plain_model() {
    let time = Duration::from_secs(number("TENALLOC_SOAK_SECONDS").unwrap_or(30));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let first = number("TENALLOC_SOAK_SEED").unwrap_or(now);
    let start = Instant::now();
    let mut lives = 0u64;
    let mut done = [0u64; worker::KINDS];
    while lives == 0 || start.elapsed() < time || (FEW..MANY).contains(&lives) && !missing(&done).is_empty() {
        let seed = first.wrapping_add(lives);
        println!("TENALLOC_SOAK_SEED={seed}");
        let world = World::new(seed);
        let mut workers = [0, 1].map(|t| Worker::new(t, seed));
        for phase in 0..PHASES {
            // In every second phase somebody reclaims in the background; at a quiet point he is gone.
            #[cfg(feature = "std")]
            let background =
                (phase % 2 == 1).then(|| tenalloc::Background::builder(&world.ctl).start().unwrap());
            let _ = phase;
            std::thread::scope(|s| {
                for w in &mut workers {
                    let world = &world;
                    s.spawn(move || (0..STEPS).for_each(|_| w.step(world)));
                }
            });
            #[cfg(feature = "std")]
            background.map_or(Ok(()), tenalloc::Background::stop).unwrap();
            world.quiet(&mut workers);
        }
        for w in &workers {
            done.iter_mut().zip(w.done).for_each(|(sum, n)| *sum += n);
        }
        world.end(workers);
        lives += 1;
    }
    println!("{lives} lives in {:?}", start.elapsed());
    println!("  {:>9} objects moved", object::MOVED.load(std::sync::atomic::Ordering::Relaxed));
    for (kind, n) in worker::NAMES.iter().zip(done) {
        println!("  {n:>9} {kind}");
    }
    assert!(lives < FEW || missing(&done).is_empty(), "in {lives} lives no {:?}", missing(&done));
}
