//! A great many groups that do nothing: bytes and time each.

use crate::{Error, Figure, Outcome, While};
use std::time::Instant;
use tenalloc::{Config, Controller};

/// Makes `groups` groups, looks one up, and removes them all.
///
/// # Errors
/// No memory.
pub fn run(groups: usize) -> Result<Outcome, Error> {
    let mut outcome = Outcome::new("idle", format!("{groups} groups that never allocate, beside each other"));
    let ctl = Controller::new(Config::new().hardened(false)).during("the controller")?;
    let before = ctl.stat().metadata_bytes as f64;
    let names: Vec<String> = (0..groups).map(|i| format!("t{i}")).collect();
    let root = ctl.root();
    let n = groups.max(1) as f64;

    let clock = Instant::now();
    for name in &names {
        root.create(name).during("a group")?;
    }
    let made = clock.elapsed().as_nanos() as f64 / n;
    let bytes = ctl.stat().metadata_bytes as f64 - before;

    let clock = Instant::now();
    for name in names.iter().step_by(7) {
        root.lookup(name).during("a look-up")?;
    }
    let found = clock.elapsed().as_nanos() as f64 / names.len().div_ceil(7).max(1) as f64;

    let clock = Instant::now();
    for name in &names {
        root.lookup(name).and_then(|g| g.remove()).during("a removal")?;
    }
    let removed = clock.elapsed().as_nanos() as f64 / n;
    outcome.figures = vec![
        Figure::new("all groups", bytes, "B").within(268.0 * n.max(1000.0)),
        Figure::new("a group", bytes / n, "B").within(200.0),
        Figure::new("making one", made, "ns").within(1000.0),
        Figure::new("looking one up by its path", found, "ns"),
        Figure::new("looking one up and removing it", removed, "ns"),
        Figure::new("groups and owners left", (ctl.stat().groups + ctl.stat().orphans) as f64, "")
            .within(0.0),
    ];
    outcome.linux = vec![
        "6.12 measured: 24,190 B of slab and 4,729 B of per-CPU memory a cgroup on 2 nodes".into(),
        "mimalloc v3: 192 KB and 4.4 µs a heap; jemalloc: 128 KB and 58 µs an arena".into(),
    ];
    Ok(outcome)
}
