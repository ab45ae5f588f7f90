//! The library with the smallest program around it, to try a recording without the command line of `tenalloc`.
//!
//! `record DIR SECONDS` or `record DIR -- COMMAND ARGS…`; a leading `--force` replaces DIR.

use std::process::ExitCode;
use tenalloc_record::{Options, What, record};

fn main() -> ExitCode {
    let mut words: Vec<_> = std::env::args_os().skip(1).collect();
    let force = words.first().is_some_and(|word| word == "--force");
    if force {
        words.remove(0);
    }
    let mut words = words.into_iter();
    let (Some(out), Some(second)) = (words.next(), words.next()) else {
        eprintln!("usage: record [--force] DIR (SECONDS | -- COMMAND ARGS…)");
        return ExitCode::from(2);
    };
    let what = match second.to_str().and_then(|text| text.parse().ok()) {
        Some(seconds) => What::Seconds(seconds),
        None => What::Command(words.collect()),
    };
    let mut options = Options::new(out, what);
    options.force = force;
    match record(&options, &mut |progress| eprintln!("{progress:?}")) {
        Ok(summary) => {
            eprintln!("{summary:#?}");
            ExitCode::from(summary.command.map_or(0, |end| end.exit_code()))
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}
