//! Runs tenalloc's paths for callgrind to count their instructions; a program of its own, because it has one thread only
//! and defines symbols of the C library.
//!
//! `scripts/instructions` runs it and makes a table of what callgrind wrote down: for each path one part, named
//! "times path". Part "nothing" is the brackets around an operation, to be taken off.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod paths;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod rseq;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod valgrind;

use std::process::ExitCode;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn run() -> Result<(), Box<dyn std::error::Error>> {
    if !valgrind::is_here() {
        return Err("counts only under callgrind; scripts/instructions runs it so".into());
    }
    rseq::begin();
    paths::all()
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn run() -> Result<(), Box<dyn std::error::Error>> {
    Err("counts only on x86-64 Linux, where there are restartable sequences".into())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("tenalloc-count: {e}");
            ExitCode::from(2)
        }
    }
}
