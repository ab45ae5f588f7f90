//! `tenalloc plan`: this host, or any other that is described by numbers, under every generation.

use crate::Failure;
use crate::output::{self, Colour};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tenalloc_designs::kernel::Version;
use tenalloc_plan::host::Host;
use tenalloc_plan::report::{self, check, csv, html, table};
use tenalloc_plan::sweep::Range;
use tenalloc_plan::{Error, Plan, Request, published, vectors};

/// What each Linux generation spends on groups and mounts: on this host, or with the numbers given
///
/// Reads /proc and /sys, as any user; what could not be read is said, and every number can be given instead. Nothing is
/// measured: the bytes are computed by the formulas in docs/plan.md.
#[derive(clap::Args)]
#[command(after_help = "\
Exit codes: 0 all is well, 1 the work failed, 2 usage or impossible numbers, 130 interrupted.

Examples:
  tenalloc plan                                            this host
  tenalloc plan --nodes 4 --groups 24574 --mounts 952      another one
  tenalloc plan --kernel 6.12 --mounts 10000 --groups 100..100000 --html plan.html
  tenalloc plan --check-published                          the formulas beside real kernels")]
pub(crate) struct Args {
    /// Kernel release, say 6.12
    #[arg(long, value_name = "RELEASE")]
    kernel: Option<Version>,
    /// Possible NUMA nodes
    #[arg(long, value_name = "N")]
    nodes: Option<u64>,
    /// Possible CPUs
    #[arg(long, value_name = "N")]
    cpus: Option<u64>,
    /// Memory groups (cgroups), removed ones that are still held too; or a range, 100..100000, to see the growth
    #[arg(long, value_name = "N|A..B", value_parser = range)]
    groups: Option<Range>,
    /// The most groups there ever were at once: Linux up to 5.17 never forgets [default: as many as now]
    #[arg(long, value_name = "N")]
    peak_groups: Option<u64>,
    /// Mounted file systems; or a range
    #[arg(long, value_name = "N|A..B", value_parser = range)]
    mounts: Option<Range>,
    /// list_lrus of a mount [default: 2]
    #[arg(long, value_name = "N")]
    lists_per_mount: Option<u64>,
    /// Mounts that one group uses [default: each mount is used by one group]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    used_per_group: Option<f64>,
    /// Shrinkers that know groups beside those of the mounts
    #[arg(long, value_name = "N")]
    extra_shrinkers: Option<u64>,
    /// Bytes of a page
    #[arg(long, value_name = "BYTES")]
    page_size: Option<u64>,
    /// Booted with cgroup.memory=nokmem, or not
    #[arg(long, value_name = "BOOL")]
    nokmem: Option<bool>,
    /// A copy of /proc/slabinfo, for owner vectors and slack
    #[arg(long, value_name = "FILE")]
    slabinfo: Option<PathBuf>,
    /// Read the machine whose proc and sys lie in this folder
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    root: PathBuf,
    /// Compare the formulas with what was measured on Linux 5.10, 6.1 and 6.12, and print nothing else
    #[arg(long, conflicts_with_all = ["html", "groups", "mounts", "root"])]
    check_published: bool,
    /// What to print
    #[arg(long, short, default_value = "table")]
    format: Format,
    /// Where to print it; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Also write a page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// For programs: all numbers, where each is from, and the formulas
    Json,
    /// For spreadsheets: design, cause, bytes
    Csv,
}

fn range(text: &str) -> Result<Range, String> {
    text.parse()
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    output::end_cleanly_on_interrupt()?;
    output::check(&args.output)?;
    args.html.as_deref().map_or(Ok(()), output::check)?;
    let width = output::style(&args.output, Colour::Never).width;
    if args.check_published {
        let checks = published::checks();
        output::write(&args.output, |out| match args.format {
            Format::Json => {
                serde_json::to_writer_pretty(&mut *out, &checks)?;
                writeln!(out)
            }
            _ => check::write(&checks, out, width),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let host = Host::read(&args.root);
    if host.is_empty() && args.root != Path::new("/") {
        return Err(Failure::new(2, Error::Root(args.root.display().to_string())));
    }
    let plan = Plan::new(&request(args, &host)?, &host).map_err(|e| Failure::new(2, e))?;
    if let Some(path) = &args.html {
        output::write(path, |out| html::write(&plan, out))?;
    }
    output::write(&args.output, |out| match args.format {
        Format::Table => table::write(&plan, out, width),
        Format::Json => report::json(&plan, out),
        Format::Csv => csv::write(&plan, out),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn request(args: &Args, host: &Host) -> Result<Request, Failure> {
    let page = args.page_size.or(host.page_size.as_ref().map(|page| page.value)).unwrap_or(4096);
    let slabs = args.slabinfo.as_deref().map(|path| slabinfo(path, page)).transpose()?;
    Ok(Request {
        kernel: args.kernel,
        page_size: args.page_size,
        nodes: args.nodes,
        cpus: args.cpus,
        groups: args.groups,
        peak_groups: args.peak_groups,
        mounts: args.mounts,
        lists_per_mount: args.lists_per_mount,
        used_per_group: args.used_per_group,
        extra_shrinkers: args.extra_shrinkers,
        nokmem: args.nokmem,
        slabs,
    })
}

fn slabinfo(path: &Path, page: u64) -> Result<(vectors::SlabTable, String), Failure> {
    let name = path.display().to_string();
    let failed = |why: String| Failure::new(2, Error::Slabinfo { path: name.clone(), why });
    let bytes = std::fs::read(path).map_err(|e| failed(e.to_string()))?;
    let text = String::from_utf8_lossy(&bytes);
    let table = vectors::SlabTable::parse(&text, page, vectors::is_well_known).map_err(failed)?;
    Ok((table, name))
}
