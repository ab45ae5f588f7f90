//! `tenalloc replay`: read, run, report.

use crate::output::{self, Colour};
use crate::{Failure, progress};
use clap::ValueEnum;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use tenalloc_replay::fidelity::{self, Recorded};
use tenalloc_replay::report::{Report, check, csv, html, json, table, truth};
use tenalloc_replay::run::{self, Settings};
use tenalloc_trace::{Options, Program};

/// Run a recorded slab trace through slab designs and report what each would have spent
#[derive(clap::Args)]
#[command(after_help = "\
Exit codes: 0 all is well, 1 a --fail-if condition holds or a check failed, 2 usage or bad input, 130 interrupted.

Designs:
  linux-5.8    caches for each group; lists for each group, mount and node
  linux-5.9    slabs shared by all groups, 8 bytes an object for its owner
  +transposed  the same slabs; list_lru series of 2022, patch 1: lists by group
  +lazy        the same slabs; its patches 2 to 10: lists made on first use
  linux-5.18   the same slabs; the whole series: a sparse index of lists
  linux-6.18   Linux 6.18 to 7.0: sheaves for every cache, owners in slack of
               slabs; a lock in each list, shrinker state in units
  tenalloc     this library

Examples:
  tenalloc replay data/small                          the table
  tenalloc replay data/small --html report.html       and a page with charts
  tenalloc replay perf.data --format json -o out.json
  perf script -F comm,tid,cpu,time,event,trace | tenalloc replay -
  tenalloc replay data/small --fail-if 'waste>20%' --fail-if 'truth>0'")]
pub(crate) struct Args {
    /// A folder made by `tenalloc record`, a perf.data, a file with the text of `perf script`, or - for such text on
    /// standard input
    path: PathBuf,
    /// Designs to run, separated by commas, or `all`
    #[arg(long, short, value_name = "NAMES", default_value = "all")]
    design: String,
    /// What to print
    #[arg(long, short, default_value = "table")]
    format: Format,
    /// Where to print it; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Also write the page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also compare each group's bytes with the kernel's own counters, where the trace holds them
    #[arg(long)]
    truth: bool,
    /// Instead: hold the slabs of the recorded kernel's own design against that kernel's slabinfo
    #[arg(long, conflicts_with_all = ["html", "truth", "fail_if", "check", "design"])]
    fidelity: bool,
    /// Exit with 1 if the condition holds, say 'waste>20%' or 'linux-5.8:slab>1GiB'; may be repeated
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<String>,
    /// Compare everything with a plain model after every N steps, and mark each object's memory
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    check: Option<u64>,
    /// Which NUMA node an object must lie on: the one its caller asked for, if any, or the one that it had
    #[arg(long, value_name = "WHICH", default_value = "asked")]
    nodes: Nodes,
    /// Folder with the files that belong beside the recording, if they lie elsewhere
    #[arg(long, value_name = "FOLDER")]
    sidecar: Option<PathBuf>,
    /// Another perf.data of the same kernel, or its tracepoint `format` texts, for a recording that lost its own
    #[arg(long, value_name = "FILE")]
    formats: Option<PathBuf>,
    /// When to colour
    #[arg(long, visible_alias = "color", value_name = "WHEN", default_value = "auto")]
    colour: Colour,
    /// No progress bar and no notes
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Nodes {
    /// Any, unless the caller of the kernel's allocator named one, as few do
    Asked,
    /// Where the recording had it: stricter than the kernel was, for comparison
    Recorded,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people at a terminal
    Table,
    /// Everything, documented in docs/report.md
    Json,
    /// Long form: one figure a line
    Csv,
    /// One page with charts, readable without a network
    Html,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    // What can be told before the work is told before the work.
    let designs = designs(&args.design)?;
    let conditions = conditions(&args.fail_if, &designs)?;
    inputs(args)?;
    if args.fidelity && !matches!(args.format, Format::Table | Format::Json) {
        return Err(Failure::new(2, "--fidelity prints a table, or JSON with --format json"));
    }
    [Some(&args.output), args.html.as_ref()]
        .into_iter()
        .flatten()
        .try_for_each(|path| output::check(path))?;
    output::end_cleanly_on_interrupt()?;
    let start = Instant::now();
    let program = read(args)?;
    let read_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    if args.fidelity {
        return fidelity(args, &program);
    }
    let report = replay(args, &program, &designs, read_ns)?;
    drop(program);
    write(args, &report)?;
    let mut failed = false;
    for verdict in check::run(&conditions, &report).map_err(|e| Failure::new(2, e))? {
        if verdict.failed {
            output::say(&verdict);
            failed = true;
        }
    }
    Ok(ExitCode::from(u8::from(failed)))
}

/// What the reader would take for "nothing there", and a user for a slip.
fn inputs(args: &Args) -> Result<(), Failure> {
    if args.path.is_dir() && !args.path.join("perf.data").exists() {
        let text = format!(
            "{} has no perf.data in it; give a folder made by `tenalloc record`, or a perf.data file",
            args.path.display()
        );
        return Err(Failure::new(2, text));
    }
    if let Some(file) = args.formats.as_ref().filter(|file| !file.is_file()) {
        return Err(Failure::new(2, format!("--formats: there is no file {}", file.display())));
    }
    match &args.sidecar {
        Some(folder) if !folder.is_dir() => {
            let text = format!("--sidecar: there is no folder {}", folder.display());
            Err(Failure::new(2, text))
        }
        _ => Ok(()),
    }
}

fn designs(text: &str) -> Result<Vec<&str>, Failure> {
    let mut names: Vec<&str> = Vec::new();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match name {
            "all" => names.extend(tenalloc_replay::run::DESIGNS),
            name => names.push(name),
        }
    }
    let mut seen = Vec::new();
    names.retain(|name| {
        !seen.contains(name) && {
            seen.push(*name);
            true
        }
    });
    let known = tenalloc_replay::run::DESIGNS;
    match names.iter().find(|name| !known.contains(name)) {
        Some(unknown) => Err(Failure::new(2, run::Error::UnknownDesign((*unknown).into()))),
        None if names.is_empty() => Err(Failure::new(
            2,
            format!("--design names no design: there are {}, or `all`", known.join(", ")),
        )),
        None => Ok(names),
    }
}

fn conditions(texts: &[String], designs: &[&str]) -> Result<Vec<check::Condition>, Failure> {
    let parsed: Result<Vec<_>, _> = texts.iter().map(|text| check::parse(text)).collect();
    let conditions = parsed.map_err(|e| Failure::new(2, format!("--fail-if: {e}")))?.concat();
    for condition in &conditions {
        if let Some(name) = condition.design.as_deref().filter(|name| !designs.contains(name)) {
            let (text, known) = (&condition.text, designs.join(", "));
            let text = format!("--fail-if: `{text}`: design `{name}` is not replayed; there are: {known}");
            return Err(Failure::new(2, text));
        }
    }
    Ok(conditions)
}

fn read(args: &Args) -> Result<Program, Failure> {
    let options = Options { sidecar: args.sidecar.clone(), formats: args.formats.clone() };
    let bar = progress::bar("reading", 0, true);
    if args.quiet {
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    let mut tell = |p: tenalloc_trace::Progress| {
        if let Some(total) = p.total {
            bar.set_length(total);
        }
        bar.set_position(p.read);
    };
    let program = if args.path == Path::new("-") {
        if std::io::stdin().is_terminal() {
            output::say("reading the text of perf script from the terminal; end it with Ctrl-D");
        }
        tenalloc_trace::read_script(std::io::stdin().lock(), &options, &mut tell)
    } else {
        tenalloc_trace::open(&args.path, &options, &mut tell)
    };
    bar.finish_and_clear();
    program.map_err(|e| Failure::new(e.exit_code(), e))
}

fn replay(args: &Args, program: &Program, designs: &[&str], read_ns: u64) -> Result<Report, Failure> {
    let bar = progress::bar("replaying", 0, false);
    if args.quiet {
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    let mut shown = String::new();
    let path =
        if args.path == Path::new("-") { "standard input".into() } else { args.path.to_string_lossy() };
    let recorded_nodes = args.nodes == Nodes::Recorded;
    let settings = Settings { check_every: args.check, recorded_nodes };
    let report = run::replay(program, designs, &settings, (&path, read_ns), &mut |p| {
        if shown != p.design {
            shown = p.design.to_owned();
            bar.set_message(shown.clone());
        }
        bar.set_length(p.total);
        bar.set_position(p.done);
    });
    bar.finish_and_clear();
    report.map_err(|e| Failure::new(e.exit_code(), e))
}

/// `--fidelity`.
fn fidelity(args: &Args, program: &Program) -> Result<ExitCode, Failure> {
    let folder = match &args.sidecar {
        Some(folder) => folder.clone(),
        None if args.path.is_dir() => args.path.clone(),
        None => args.path.parent().map(Path::to_owned).unwrap_or_default(),
    };
    let recorded = Recorded::read(&folder, program).map_err(|e| Failure::new(2, e))?;
    let recorded_nodes = args.nodes == Nodes::Recorded;
    let found = fidelity::compare(program, &recorded, recorded_nodes).map_err(|e| Failure::new(1, e))?;
    output::write(&args.output, |out| match args.format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &found)?;
            writeln!(out)
        }
        _ => fidelity::table::write(&found, out),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn write(args: &Args, report: &Report) -> Result<(), Failure> {
    let style = output::style(&args.output, args.colour);
    output::write(&args.output, |out| match args.format {
        Format::Table => {
            table::write(report, style, &mut *out)?;
            if args.truth { truth::write(report, style, out) } else { Ok(()) }
        }
        Format::Json => json::write(report, out),
        Format::Csv => csv::write(report, out),
        Format::Html => html::write(report, out),
    })?;
    // The table has them; who reads another form may never look.
    if args.format != Format::Table && !args.quiet {
        report.notes.iter().for_each(|note| output::say(format_args!("note: {note}")));
    }
    if let Some(path) = &args.html {
        output::write(path, |out| html::write(report, out))?;
        if !args.quiet {
            output::say(format_args!("wrote {}", path.display()));
        }
    }
    Ok(())
}
