//! Replays held against the kernels that were recorded: their slabs, and the list_lru of 5.10.

mod eager;
mod slabs;

use std::path::{Path, PathBuf};
use tenalloc_trace::Program;

fn small() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/small")
}

/// A recording beside the repository; says so when it is not there.
fn shared(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(name);
    let found = folder.join("perf.data").is_file().then_some(folder);
    if found.is_none() {
        println!("skipped: the trace {name} is not here");
    }
    found
}

fn open(folder: &Path) -> Program {
    tenalloc_trace::open(folder, &tenalloc_trace::Options::default(), &mut |_| {})
        .expect("the trace is readable")
}
