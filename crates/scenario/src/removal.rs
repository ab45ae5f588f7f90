//! Removing a group with n live objects: the time must not depend on n.

use crate::{Error, Figure, Outcome, While};
use std::time::Instant;
use tenalloc::{CacheConfig, Config, Controller};

/// Removals of each size; the median counts.
const ROUNDS: usize = 31;

/// For each of `sizes`: groups with so many live objects are removed; the median time.
///
/// # Errors
/// No memory.
pub fn run(sizes: &[usize]) -> Result<Outcome, Error> {
    let mut outcome =
        Outcome::new("removal", format!("groups with live objects of 64 B removed, median of {ROUNDS}"));
    let ctl = Controller::new(Config::new().hardened(false)).during("the controller")?;
    let cache = ctl.cache(&CacheConfig::new("object", 64)).during("a cache")?;
    let mut times = Vec::new();
    for &n in sizes {
        let mut rounds = Vec::new();
        for round in 0..ROUNDS {
            let group = ctl.root().create(&format!("g{n}-{round}")).during("a group")?;
            let mut objects = Vec::with_capacity(n);
            for _ in 0..n {
                objects.push(cache.alloc(&group).during("an object")?);
            }
            // Making n objects has swept the caches; a removal beside it brings the paths back, so that what is timed is
            // the removal and not the sweeping.
            ctl.root().create("beside").and_then(|g| g.remove()).during("a removal beside it")?;
            let clock = Instant::now();
            group.remove().during("removal")?;
            rounds.push(clock.elapsed().as_nanos() as f64);
            drop(group);
            for object in objects {
                // SAFETY: each is live and freed once.
                unsafe { cache.free(object) }.during("a free")?;
            }
        }
        rounds.sort_by(f64::total_cmp);
        times.push(rounds[ROUNDS / 2]);
        outcome.figures.push(Figure::new(format!("{n} objects"), rounds[ROUNDS / 2], "ns").within(1000.0));
    }
    if let (Some(first), Some(last)) = (times.first(), times.last()) {
        outcome.figures.push(Figure::new("last against first", last / first.max(1.0), "×").within(2.0));
    }
    let left = ctl.stat().orphans as f64;
    outcome.figures.push(Figure::new("owners left", left, "").within(0.0));
    outcome.linux = vec![
        "mimalloc v3 `mi_heap_delete`: 1.9 µs at 10 objects, 28 µs at 100,000; jemalloc: 23 µs to 9 ms"
            .into(),
    ];
    Ok(outcome)
}
