//! What a group costs when nothing happens in it, and what its removal costs while its objects live on.

use crate::machine::cpu_ns;
use crate::median;
use serde_json::{Value, json};
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

/// ns to remove a group that owns n objects of 64 bytes.
pub(crate) fn run() -> tenalloc::Result<Value> {
    println!("removing a group with n live objects");
    let mut rows = Vec::new();
    for n in [10, 100, 1_000, 10_000, 100_000, 1_000_000] {
        let ctl = Controller::new(Config::new())?;
        let cache = ctl.cache(&CacheConfig::new("object", 64))?;
        let mut ns = Vec::new();
        for _ in 0..ROUNDS {
            let group = ctl.root().create("tenant")?;
            let mut objects = Vec::with_capacity(n);
            for _ in 0..n {
                objects.push(cache.alloc(&group)?);
            }
            let start = cpu_ns();
            group.remove()?;
            ns.push((cpu_ns() - start) as f64);
            for object in objects {
                // SAFETY: each is live and given back once.
                unsafe { cache.free(object)? };
            }
        }
        let ns = median(ns);
        println!("  n = {n:>9}: {ns:>6.0} ns");
        rows.push(json!({ "objects": n, "ns": ns }));
    }
    println!();
    Ok(Value::Array(rows))
}
