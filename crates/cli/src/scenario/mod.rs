//! `tenalloc scenario`: situations built for real and measured.

mod memory;
mod print;

use crate::{Failure, output};
use clap::{Subcommand, ValueEnum, value_parser};
use std::path::PathBuf;
use std::process::ExitCode;
use tenalloc_scenario::{Error, Outcome, bharata, idle, mounts, muchun, removal, roman};

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
        #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=1_000_000))]
        groups: u32,
        /// Mounts, two list families each
        #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=1_000_000))]
        mounts: u32,
        /// NUMA nodes
        #[arg(long, default_value_t = 2, value_parser = value_parser!(u8).range(1..=64))]
        nodes: u8,
    },
    /// A great many groups that do nothing: bytes and time each
    Idle {
        /// Groups
        #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u32).range(1..=10_000_000))]
        groups: u32,
    },
    /// Removing a group with 10 to 1,000,000 live objects
    Removal,
    /// Muchun Song's list_lru series, each step built: 24,464 → 21,957 → 6,895 → 4,367 MB
    Muchun {
        /// Groups
        #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=65_534))]
        groups: u32,
        /// Mounts, two list_lrus each
        #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=1_000_000))]
        mounts: u32,
        /// NUMA nodes
        #[arg(long, default_value_t = 2, value_parser = value_parser!(u8).range(1..=64))]
        nodes: u8,
        /// Groups that have an object on each mount's lists
        #[arg(long, default_value_t = 0)]
        users: u32,
        /// Memory that may be taken; less is built if need be [default: what is free, at most 16GiB]
        #[arg(long, value_name = "SIZE", value_parser = memory::parse)]
        memory: Option<u64>,
    },
    /// Bharata B Rao's 10,000 containers: list heads before, during and after
    Bharata {
        /// Containers, a group each
        #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=65_534))]
        containers: u32,
        /// Mounts of each container, two list_lrus each
        #[arg(long, default_value_t = 7, value_parser = value_parser!(u32).range(1..=10_000))]
        mounts: u32,
        /// NUMA nodes
        #[arg(long, default_value_t = 2, value_parser = value_parser!(u8).range(1..=64))]
        nodes: u8,
        /// Memory that may be taken; fewer are built if need be [default: what is free, at most 16GiB]
        #[arg(long, value_name = "SIZE", value_parser = memory::parse)]
        memory: Option<u64>,
    },
    /// Roman Gushchin's shared slabs: recorded accounted allocations under Linux 5.8 and 5.9
    Roman {
        /// Recordings, as `tenalloc record` makes them
        #[arg(value_name = "TRACE-FOLDER", default_value = "data/small")]
        traces: Vec<PathBuf>,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    output::check(&args.output)?;
    let outcome = build(&args.scenario).map_err(|e| {
        let code = if matches!(e, Error::Refused(_)) { 2 } else { 1 };
        Failure::new(code, e)
    })?;
    let width = output::style(&args.output, output::Colour::Never).width;
    output::write(&args.output, |out| match args.format {
        Format::Table => print::outcome(&outcome, width, out),
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &outcome)?;
            std::io::Write::write_all(out, b"\n")
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn build(scenario: &Scenario) -> Result<Outcome, Error> {
    match *scenario {
        Scenario::Roman { ref traces } => roman::run(traces),
        Scenario::Mounts { groups, mounts, nodes } => mounts::run(groups as usize, mounts as usize, nodes),
        Scenario::Idle { groups } => idle::run(groups as usize),
        Scenario::Removal => removal::run(&[10, 100, 1_000, 10_000, 100_000, 1_000_000]),
        Scenario::Muchun { groups, mounts, nodes, users, memory } => {
            let plan = muchun::Plan::new(muchun::Params { groups, mounts, nodes, users, memory })?;
            plan.notice().into_iter().for_each(output::say);
            plan.run()
        }
        Scenario::Bharata { containers, mounts, nodes, memory } => {
            let plan = bharata::Plan::new(bharata::Params { containers, mounts, nodes, memory })?;
            plan.notice().into_iter().for_each(output::say);
            plan.run()
        }
    }
}
