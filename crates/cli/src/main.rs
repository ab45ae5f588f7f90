//! The `tenalloc` command: record slab traces, replay them through slab designs.
//!
//! Data goes to standard output, everything else to standard error. Exit codes: 0 all is well, 1 a check failed or
//! the work did, 2 usage or bad input, 130 interrupted; `record -- COMMAND` passes on the command's own.

mod output;
mod plan;
mod progress;
mod record;
mod replay;
mod scenario;

use clap::{ColorChoice, Parser, Subcommand};
use std::process::ExitCode;

/// Memory control groups inside a process, and what Linux spends on its own.
#[derive(Parser)]
#[command(name = "tenalloc", version, arg_required_else_help = true, color = ColorChoice::Auto)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a recorded slab trace through slab designs and report what each would have spent
    Replay(replay::Args),
    /// Build a situation for real and measure what it costs
    Scenario(scenario::Args),
    /// What each Linux generation spends on groups and mounts: on this host, or with the numbers given
    Plan(plan::Args),
    /// Record the slab allocations of this machine with stock perf (root)
    Record(record::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Replay(args) => replay::run(&args),
        Command::Scenario(args) => scenario::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Record(args) => record::run(args),
    };
    result.unwrap_or_else(|failure| {
        output::say(failure.text);
        ExitCode::from(failure.code)
    })
}

/// What ends the command with a message.
struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    fn new(code: u8, text: impl std::fmt::Display) -> Self {
        Self { text: text.to_string(), code }
    }
}
