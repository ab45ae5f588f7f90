//! What is held for nothing: groups without objects, and threads that gave everything back.

use super::Failure;
use super::tenants::{SIZES, room};
use crate::machine::{cpu_ns, resident};
use crate::peers::heaps::make;
use crate::peers::library::find;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::RwLock;
use std::sync::mpsc::channel;
use tenalloc::{Config, Controller};

/// `n` groups, or as many heaps as can be made.
pub(super) fn groups(folder: &Path, peer: &str, n: usize) -> Result<Value, Failure> {
    let (made, bytes, ns);
    if peer == "tenalloc" {
        let mut names: Vec<String> = room(n);
        names.extend((0..n).map(|i| format!("tenant-{i}")));
        let before = resident();
        let ctl = Controller::new(Config::new())?;
        let root = ctl.root();
        let start = cpu_ns();
        for name in &names {
            root.create(name)?;
        }
        ns = cpu_ns() - start;
        bytes = resident().saturating_sub(before);
        made = n;
    } else {
        let found = find(peer, folder)?;
        let heaps = found.table.heaps.ok_or("it has no heaps")?;
        let before = resident();
        let start = cpu_ns();
        let all = make(&heaps, n);
        ns = cpu_ns() - start;
        bytes = resident().saturating_sub(before);
        made = all.len();
    }
    Ok(json!({
        "groups": made, "grown_bytes": bytes,
        "bytes": bytes as f64 / made.max(1) as f64, "create_ns": ns as f64 / made.max(1) as f64,
    }))
}

pub(super) fn print_groups(row: &Value) {
    let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
    let peer = row["peer"].as_str().unwrap_or("?");
    println!("  {peer:30}{:>8}{:>12.0}{:>12.0}", row["groups"], number("bytes"), number("create_ns"));
}

/// Rounds of taking and giving back in each thread.
const ROUNDS: usize = 20;
/// Of a thread that does next to nothing.
const STACK: usize = 64 << 10;

/// `n` threads that each took objects, gave them back, and wait; `nobody` for threads that take none.
pub(super) fn threads(folder: &Path, peer: &str, n: usize) -> Result<Value, Failure> {
    type Churn = Box<dyn Fn() + Send + Sync>;
    let churn: Churn = match peer {
        "nobody" => Box::new(|| ()),
        "tenalloc" => {
            let ctl = Controller::new(Config::new())?;
            let group = ctl.root().create("tenant")?;
            Box::new(move || {
                let live: Vec<_> = SIZES
                    .iter()
                    .cycle()
                    .take(SIZES.len() * ROUNDS)
                    .map(|size| ctl.malloc(&group, *size, 8))
                    .collect();
                for object in live.into_iter().flatten() {
                    // SAFETY: live, given back once.
                    unsafe { ctl.free(object) }.expect("a live object");
                }
            })
        }
        _ => {
            let table = find(peer, folder)?.table;
            Box::new(move || {
                let take = |size: &usize| {
                    // SAFETY: malloc has no preconditions; what it gave holds a byte.
                    unsafe {
                        let object = (table.malloc)(*size);
                        object.cast::<u8>().write(1);
                        object
                    }
                };
                let live: Vec<_> = SIZES.iter().cycle().take(SIZES.len() * ROUNDS).map(take).collect();
                for object in live {
                    // SAFETY: live, given back once.
                    unsafe { (table.free)(object) };
                }
            })
        }
    };
    churn();
    let before = resident();
    let (done, ready) = channel();
    let gate = RwLock::new(());
    let closed = gate.write().map_err(|_| "the gate")?;
    let (started, grown) = std::thread::scope(|scope| {
        let mut started = 0;
        for _ in 0..n {
            let (done, churn, gate) = (done.clone(), &churn, &gate);
            let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, move || {
                churn();
                let told = done.send(());
                drop(gate.read());
                told
            });
            if thread.is_err() {
                break;
            }
            started += 1;
        }
        for _ in 0..started {
            if ready.recv().is_err() {
                break;
            }
        }
        let grown = resident().saturating_sub(before);
        drop(closed);
        (started, grown)
    });
    Ok(json!({ "threads": started, "asked_threads": n, "grown_bytes": grown }))
}

/// `base`: bytes that as many threads take that do nothing.
pub(super) fn print_threads(row: &Value, base: Option<f64>) {
    let peer = row["peer"].as_str().unwrap_or("?");
    let threads = row["threads"].as_f64().unwrap_or(1.0);
    let grown = row["grown_bytes"].as_f64().unwrap_or(0.0);
    let each = |bytes: f64| bytes / threads / 1024.0;
    match base {
        None => println!("  {:30}{threads:>8}{:>12.1}  (taken off below)", "threads alone", each(grown)),
        Some(base) => println!("  {peer:30}{threads:>8}{:>12.1}", each(grown - base)),
    }
}
