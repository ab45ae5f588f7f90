//! `tenalloc scenario`: situations built for real and measured.

use crate::{Failure, output};
use clap::{Subcommand, ValueEnum};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use tenalloc_replay::report::units;
use tenalloc_scenario::{Figure, Outcome, idle, mounts, removal};

/// Build a situation for real and measure what it costs
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    scenario: Scenario,
    /// What to print
    #[arg(long, short, default_value = "table", global = true)]
    format: Format,
    /// Where to print it; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-", global = true)]
    output: PathBuf,
}

#[derive(Subcommand)]
enum Scenario {
    /// Many groups and mounts, each mount used by one group: bytes of lists and shrinker state
    Mounts {
        /// Groups
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        groups: u32,
        /// Mounts, two list families each
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        mounts: u32,
        /// NUMA nodes
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
        nodes: u8,
    },
    /// A great many groups that do nothing: bytes and time each
    Idle {
        /// Groups
        #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
        groups: u32,
    },
    /// Removing a group with 10 to 1,000,000 live objects
    Removal,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let outcome = match args.scenario {
        Scenario::Mounts { groups, mounts, nodes } => mounts::run(groups as usize, mounts as usize, nodes),
        Scenario::Idle { groups } => idle::run(groups as usize),
        Scenario::Removal => removal::run(&[10, 100, 1_000, 10_000, 100_000, 1_000_000]),
    };
    let outcome = outcome.map_err(|e| Failure::new(1, e))?;
    output::write(&args.output, |out| match args.format {
        Format::Table => table(&outcome, out),
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &outcome)?;
            writeln!(out)
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn table(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}\n", outcome.situation)?;
    let width = outcome.figures.iter().map(|f| f.what.chars().count()).max().unwrap_or(0);
    for figure in &outcome.figures {
        let verdict = match figure.is_within() {
            None => String::new(),
            Some(true) => format!("   budget {}", show(figure, figure.budget.unwrap_or(0.0))),
            Some(false) => format!("   OVER the budget of {}", show(figure, figure.budget.unwrap_or(0.0))),
        };
        let gap = width - figure.what.chars().count();
        writeln!(out, "  {}{:gap$}  {:>12}{verdict}", figure.what, "", show(figure, figure.value))?;
    }
    writeln!(out, "\nLinux and others (published, not measured here)")?;
    outcome.linux.iter().try_for_each(|line| writeln!(out, "  {line}"))
}

fn show(figure: &Figure, value: f64) -> String {
    match figure.unit {
        "B" if value >= 1024.0 => units::bytes(value as u64),
        "B" => format!("{value:.1} B"),
        "ns" if value >= 10_000.0 => format!("{:.1} µs", value / 1000.0),
        "ns" => format!("{value:.0} ns"),
        "×" => format!("{value:.2} ×"),
        unit => format!("{} {unit}", units::count(value as u64)).trim_end().to_owned(),
    }
}
