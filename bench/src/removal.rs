//! What a group costs when nothing happens in it, and what its removal costs while its objects live on.

use crate::machine::cpu_ns;
use crate::median;
use serde_json::{Value, json};
use std::hint::black_box;
use tenalloc::{CacheConfig, Config, Controller};

const IDLE: u32 = 100_000;
const ROUNDS: usize = 5;

/// Bytes and ns of one of many groups without objects.
pub(crate) fn idle_groups() -> tenalloc::Result<Value> {
    let mut ns = Vec::new();
    let mut bytes = 0.0;
    for _ in 0..ROUNDS {
        let ctl = Controller::new(Config::new())?;
        let root = ctl.root();
        let names: Vec<_> = (0..IDLE).map(|i| format!("tenant-{i}")).collect();
        let before = ctl.stat().metadata_bytes;
        let start = cpu_ns();
        for name in &names {
            root.create(name)?;
        }
        ns.push((cpu_ns() - start) as f64 / f64::from(IDLE));
        bytes = (ctl.stat().metadata_bytes - before) as f64 / f64::from(IDLE);
    }
    let ns = median(ns);
    println!("an idle group of {IDLE}: {bytes:.0} bytes, made in {ns:.0} ns\n");
    Ok(json!({ "groups": IDLE, "bytes": bytes, "create_ns": ns }))
}

/// More than the processor's caches hold.
const CACHES: usize = 256 << 20;

/// ns to remove a group that owns n objects of 64 bytes: right after its last allocation, and when nothing of it is in
/// the processor's caches. The second tells whether the work depends on n, the first also what n objects drove out.
pub(crate) fn run() -> tenalloc::Result<Value> {
    println!("removing a group with n live objects, ns{:>14}{:>14}", "at once", "cold caches");
    let mut rows = Vec::new();
    let mut flush = vec![0u64; CACHES / size_of::<u64>()];
    for n in [10, 100, 1_000, 10_000, 100_000, 1_000_000] {
        let ctl = Controller::new(Config::new())?;
        let cache = ctl.cache(&CacheConfig::new("object", 64))?;
        let mut ns = [const { Vec::new() }; 2];
        for round in 0..2 * ROUNDS {
            let group = ctl.root().create("tenant")?;
            let mut objects = Vec::with_capacity(n);
            for _ in 0..n {
                objects.push(cache.alloc(&group)?);
            }
            if round % 2 == 1 {
                flush.iter_mut().for_each(|word| *word += 1);
                black_box(&flush);
            }
            let start = cpu_ns();
            group.remove()?;
            ns[round % 2].push((cpu_ns() - start) as f64);
            for object in objects {
                // SAFETY: each is live and given back once.
                unsafe { cache.free(object)? };
            }
        }
        let [at_once, cold] = ns.map(median);
        println!("  n = {n:>9}{at_once:>41.0}{cold:>14.0}");
        rows.push(json!({ "objects": n, "ns": at_once, "cold_ns": cold }));
    }
    println!();
    Ok(Value::Array(rows))
}
