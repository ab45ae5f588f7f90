//! tenalloc beside other allocators, and beside what people add to them by hand, in one run.
//!
//! `tenalloc-bench --memory PEERS` prints the tables of memory alone, `--speed PEERS` those of time, with whichever peers are
//! there.
//! `tenalloc-bench [--all | --try] PEERS OUT` loads the allocators that are in the folder PEERS (`scripts/peers` puts them
//! there) or in the system, prints tables, and writes OUT/bench.json and OUT/bench.html. It never fails on speed: a
//! figure is for people to read, as a ratio to the peers of the same run. Times are processor time of the thread, so that
//! other work on the machine distorts them less; where threads must run at once, wall time stands beside it.

mod chart;
mod figure;
mod machine;
mod memory;
mod peers;
mod plan;
mod removal;
mod speed;

use peers::library::Allocator;
use plan::Plan;
use serde_json::{Value, json};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

/// Allocators that are loaded keep thread-local data where the C library leaves only little room for late comers.
const ROOM: (&str, &str) = ("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=65536");

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("tenalloc-bench: {e}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if std::env::var(ROOM.0).as_deref() != Ok(ROOM.1) {
        // The C library reads it before main.
        return Err(Command::new(std::env::current_exe()?).args(&args).env(ROOM.0, ROOM.1).exec().into());
    }
    machine::no_huge_pages();
    let all: Vec<&str> = args.iter().map(String::as_str).collect();
    match all[..] {
        ["--child", ..] => memory::child(&args[1..]),
        ["--memory", peers] => {
            let all = peers::library::all(peers.as_ref());
            memory::run(&Plan::MEMORY, peers.as_ref(), &all);
            Ok(())
        }
        ["--speed", peers] => {
            let all = peers::library::all(peers.as_ref());
            peers::capi::load(peers.as_ref());
            speed::run(&Plan::SHORT, &all)?;
            Ok(())
        }
        ["--all", peers, out] => run(&Plan::ALL, peers.as_ref(), out.as_ref()),
        ["--try", peers, out] => run(&Plan::TRY, peers.as_ref(), out.as_ref()),
        [peers, out] if !peers.starts_with('-') => run(&Plan::SHORT, peers.as_ref(), out.as_ref()),
        _ => {
            Err("usage: tenalloc-bench [--all | --try] PEERS OUT, or tenalloc-bench --memory | --speed PEERS"
                .into())
        }
    }
}

fn versions(peers: &[Allocator]) -> Value {
    peers
        .iter()
        .map(|p| (p.name.to_owned(), Value::from(p.version())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn run(plan: &Plan, folder: &Path, out: &Path) -> Result<(), Failure> {
    let start = Instant::now();
    let mut machine = machine::describe();
    println!("{}", machine::line(&machine));
    let peers = peers::library::all(folder);
    peers::capi::load(folder);
    println!(
        "{}\n",
        peers.iter().map(|p| format!("{} {}", p.name, p.version())).collect::<Vec<_>>().join(", ")
    );
    let rows = speed::run(plan, &peers)?;
    // Before the thousands of threads below, which would be in it.
    machine["load_after_speed"] = json!(machine::load());
    let memory = memory::run(plan, folder, &peers);
    let removal = removal::run(plan, &peers)?;
    let all = json!({
        "schema": "tenalloc.bench",
        "version": 2,
        "commit": machine::commit(),
        "machine": machine,
        "peers": versions(&peers),
        "rounds": plan.rounds,
        "steps": plan.steps,
        "seconds": start.elapsed().as_secs(),
        "speed": speed::json(&rows),
        "memory": memory,
        "removal": removal,
    });
    let write = |name: &str, text: String| {
        let file = out.join(name);
        std::fs::write(&file, text).map_err(|e| format!("cannot write {}: {e}", file.display()))
    };
    write("bench.json", serde_json::to_string_pretty(&all)? + "\n")?;
    write("bench.html", chart::page(&all))?;
    println!(
        "{} s; all figures: {}; charts: {}",
        all["seconds"],
        out.join("bench.json").display(),
        out.join("bench.html").display()
    );
    Ok(())
}
