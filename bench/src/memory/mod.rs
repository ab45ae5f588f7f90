//! What memory groups take, each case in a process of its own: nothing that ran before lies in its figures.
//!
//! | file | what it measures |
//! |---|---|
//! | `stores` | who takes part, with what each does when a group goes |
//! | `ours` | tenalloc among them |
//! | `tenants` | many groups with a few objects each |
//! | `churn` | groups that come and go, while 5 % of their objects live on |
//! | `idle` | groups without objects, threads that hold nothing |
//! | `placement` | which slabs a group's objects share, seen by what comes back when it goes |
//! | `apart` | which chunks objects that can be reclaimed share with others, seen by what comes back when they are |
//!
//! The parent starts a child for each case and reads one line of JSON from it.

mod apart;
mod churn;
mod idle;
mod ours;
mod placement;
mod stores;
mod tenants;

use self::ours::Objects;
use crate::peers::Policy;
use crate::peers::library::Allocator;
use crate::plan::Plan;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

type Failure = Box<dyn std::error::Error>;

/// What a child is asked: kind, peer, policy, groups or threads, objects.
fn ask(
    folder: &Path,
    kind: &str,
    peer: &str,
    policy: &str,
    n: usize,
    objects: usize,
) -> Result<Value, Failure> {
    let out = Command::new(std::env::current_exe()?)
        .arg("--child")
        .arg(folder)
        .args([kind, peer, policy, &n.to_string(), &objects.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    if !out.status.success() {
        return Err(format!(
            "{kind} of {peer}, {policy}, {n} × {objects}: the child ended with {}",
            out.status
        )
        .into());
    }
    Ok(serde_json::from_slice(&out.stdout)?)
}

/// The child's side: the arguments of [`ask`] after `--child`.
pub(crate) fn child(args: &[String]) -> Result<(), Failure> {
    let [folder, kind, peer, policy, n, objects] = args else {
        return Err("a child takes six arguments".into());
    };
    let (folder, n, objects) = (Path::new(folder), n.parse()?, objects.parse()?);
    let mut value = match kind.as_str() {
        "tenants" => stores::with(folder, peer, policy, n, tenants::Tenants { groups: n, objects })?,
        "churn" => {
            stores::with(folder, peer, policy, churn::Churn::total(n), churn::Churn { live: n, objects })?
        }
        "groups" => idle::groups(folder, peer, n)?,
        "threads" => idle::threads(folder, peer, n)?,
        "placement" => placement::measure(policy)?,
        "apart" => apart::measure(policy)?,
        _ => return Err(format!("nothing is known of the case {kind}").into()),
    };
    value["peer"] = peer.as_str().into();
    value["policy"] = policy.as_str().into();
    println!("{value}");
    Ok(())
}

/// The policies whose memory differs: a counter by hand takes what the allocator takes, a batch what the header takes.
const POLICIES: [Policy; 3] = [Policy::Raw, Policy::Header, Policy::Heap];

/// Who takes part in the tables of tenants: allocator and policy.
fn who(peers: &[Allocator]) -> Vec<(&'static str, &'static str)> {
    let mut all: Vec<_> = Objects::PLAIN.map(|kind| ("tenalloc", kind.name())).into();
    for peer in peers {
        for policy in POLICIES {
            let has = match policy {
                Policy::Heap => peer.table.heaps.is_some(),
                _ => peer.table.threads,
            };
            if has {
                all.push((peer.name, policy.name()));
            }
        }
    }
    all
}

fn tell(result: Result<Value, Failure>, rows: &mut Vec<Value>, print: impl Fn(&Value)) {
    match result {
        Ok(row) => {
            print(&row);
            rows.push(row);
        }
        Err(e) => eprintln!("left out: {e}"),
    }
}

/// More heaps than this are not tried: 100,000 of mimalloc 3 would take 18 GB, and it has 64,512 at most.
const MOST_HEAPS: usize = 10_000;

/// All of it.
pub(crate) fn run(plan: &Plan, folder: &Path, peers: &[Allocator]) -> Value {
    let mut tenants = Vec::new();
    for &(groups, objects) in plan.tenants {
        tenants::head(groups, objects);
        for (peer, policy) in who(peers) {
            if policy == Policy::Heap.name() && groups > MOST_HEAPS {
                continue;
            }
            tell(ask(folder, "tenants", peer, policy, groups, objects), &mut tenants, tenants::print);
        }
        println!();
    }
    let mut churned = Vec::new();
    for &(live, objects) in plan.churn {
        churn::head(live, objects);
        let giving = Objects::GIVING.map(|kind| ("tenalloc", kind.name()));
        for (peer, policy) in giving.into_iter().chain(who(peers)) {
            tell(ask(folder, "churn", peer, policy, live, objects), &mut churned, churn::print);
        }
        println!();
    }
    let mut groups = Vec::new();
    println!("a group without objects{:>17}{:>12}{:>12}", "made", "bytes", "ns");
    let heaps =
        peers.iter().filter(|p| p.table.heaps.is_some()).map(|p| (p.name, MOST_HEAPS.min(plan.idle_groups)));
    for (peer, n) in std::iter::once(("tenalloc", plan.idle_groups)).chain(heaps) {
        tell(ask(folder, "groups", peer, "", n, 0), &mut groups, idle::print_groups);
    }
    let mut threads = Vec::new();
    println!("\nthreads that took 280 objects, gave them back and wait: KiB a thread, without its stack");
    let many = peers.iter().filter(|p| p.table.threads).map(|p| p.name);
    for peer in ["nobody", "tenalloc"].into_iter().chain(many) {
        let result = ask(folder, "threads", peer, "", plan.idle_threads, 0);
        let base: Option<f64> = threads.first().and_then(|r: &Value| r["grown_bytes"].as_f64());
        tell(result, &mut threads, |row| idle::print_threads(row, base));
    }
    let mut placed = Vec::new();
    placement::head();
    for case in placement::cases() {
        tell(ask(folder, "placement", "tenalloc", &case, 0, 0), &mut placed, placement::print);
    }
    let mut reclaimed = Vec::new();
    apart::head();
    for case in apart::cases() {
        tell(ask(folder, "apart", "tenalloc", case, 0, 0), &mut reclaimed, apart::print);
    }
    println!();
    serde_json::json!({
        "tenants": tenants, "churn": churned, "idle_groups": groups, "idle_threads": threads, "placement": placed,
        "apart": reclaimed,
    })
}
