//! tenalloc beside glibc's malloc, and beside glibc's malloc with owners and limits added by hand.
//!
//! `tenalloc-bench [FILE]` prints a table and writes the same figures as JSON to FILE. It never fails on speed: a
//! figure is for people to read, as a ratio to the peers of the same run. Times are CPU time of the thread.

mod machine;
mod memory;
mod peers;
mod removal;
mod speed;

use serde_json::{Value, json};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("tenalloc-bench: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    machine::no_huge_pages();
    let machine = machine::describe();
    println!("{}\n", machine::line(&machine));
    // Memory first: it reads the process's resident size, which is cleanest before anything else ran.
    let memory = memory::run()?;
    let groups = removal::idle_groups()?;
    let removal = removal::run()?;
    let speed = speed::run()?;
    let Some(file) = std::env::args_os().nth(1) else { return Ok(()) };
    let all: Value = json!({
        "schema": "tenalloc.bench",
        "version": 1,
        "commit": machine::commit(),
        "machine": machine,
        "memory": memory,
        "idle_group": groups,
        "removal": removal,
        "speed": speed,
    });
    std::fs::write(&file, serde_json::to_string_pretty(&all)? + "\n")
        .map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    eprintln!("wrote {}", file.display());
    Ok(())
}

/// The middle value.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
