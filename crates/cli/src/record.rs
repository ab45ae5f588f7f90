//! `tenalloc record`: the recorder, told on standard error.

use crate::output::say;
use crate::{Failure, progress};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tenalloc_record::{Options, Progress, Summary, What};

/// Record the slab allocations of this machine with stock perf (root)
#[derive(clap::Args)]
#[command(after_help = "\
The folder appears whole or not at all. Ctrl-C ends the recording and keeps it. SIGUSR1 stamps the kernel's counters.
With a COMMAND the exit code is the command's; else 0, 1 when something failed, 2 when something is missing, 130 when
nothing was kept after Ctrl-C.

Examples:
  sudo tenalloc record -o trace --seconds 30
  sudo tenalloc record -o trace -- docker run --rm debian true
  tenalloc replay trace --truth")]
pub(crate) struct Args {
    /// Folder to make
    #[arg(long, short, value_name = "FOLDER")]
    output: PathBuf,
    /// Replace the folder if it holds a recording
    #[arg(long)]
    force: bool,
    /// Record for so long; without it and without a COMMAND: until Ctrl-C
    #[arg(long, value_name = "N", conflicts_with = "command")]
    seconds: Option<f64>,
    /// Stamp the kernel's counters so many seconds after the start; may be repeated
    #[arg(long, value_name = "N")]
    stamp_at: Vec<f64>,
    /// Bytes of perf's ring for each CPU, say 32M; perf loses events when it is too small
    #[arg(long, value_name = "SIZE", value_parser = size)]
    ring: Option<u64>,
    /// The perf to use
    #[arg(long, value_name = "FILE")]
    perf: Option<PathBuf>,
    /// Record while this runs
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().trim_end_matches(['b', 'i']) {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return Err(format!("unknown unit {:?}: use K, M or G", &text[digits.len()..])),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{digits:?} is not a whole number"))?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

/// Longest recording without a command, seconds: a year. It is ended by Ctrl-C.
const UNTIL_STOPPED: f64 = 365.0 * 86_400.0;

pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    let what = match (args.command.is_empty(), args.seconds) {
        (false, _) => What::Command(args.command),
        (true, seconds) => What::Seconds(seconds.unwrap_or(UNTIL_STOPPED)),
    };
    let mut options = Options::new(args.output, what);
    options.force = args.force;
    options.ring = args.ring;
    options.stamp_at = args.stamp_at;
    options.perf = args.perf;
    let bar = progress::spinner();
    let result = tenalloc_record::record(&options, &mut |p| show(&bar, p));
    bar.finish_and_clear();
    let summary = result.map_err(|e| match e {
        tenalloc_record::Error::Interrupted => Failure::new(130, e),
        e => Failure::new(e.exit_code(), e),
    })?;
    tell(&summary);
    Ok(ExitCode::from(summary.command.map_or(0, |end| end.exit_code())))
}

fn show(bar: &indicatif::ProgressBar, progress: Progress<'_>) {
    match progress {
        Progress::Preparing => bar.set_message("looking at what this machine can record"),
        Progress::Recording { ring } => {
            bar.set_message(format!("recording ({} MiB of ring a CPU)", ring >> 20));
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Progress::Tick { elapsed, bytes } => {
            bar.set_message(format!(
                "recording: {:.0} s, {:.1} MiB",
                elapsed.as_secs_f64(),
                bytes as f64 / 1048576.0
            ));
        }
        Progress::Stamped { label, groups } => bar.println(format!("stamped {label}: {groups} groups")),
        Progress::Stopping => bar.set_message("stopping perf"),
        Progress::Finishing => bar.set_message("writing the rest"),
    }
}

fn tell(summary: &Summary) {
    let Summary { folder, bytes, seconds, tasks, missing, .. } = summary;
    say(format_args!(
        "recorded {seconds:.1} s, {:.1} MiB, {tasks} tasks at the start, in {}",
        *bytes as f64 / 1048576.0,
        folder.display()
    ));
    for gap in missing {
        say(format_args!("not kept: {}: {}", gap.what, gap.why));
    }
    say(format_args!("now: tenalloc replay {}", folder.display()));
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("32M"), Ok(32 << 20));
        assert_eq!(size("1GiB"), Ok(1 << 30));
        assert!(size("x").is_err() && size("5T").is_err() && size("99999999999G").is_err());
    }
}
