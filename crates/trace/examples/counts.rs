//! `counts PATH [SIDECAR]` prints what a recording holds, how fast it was read, and its notes. `-` reads the text of
//! `perf script` from standard input.

use std::path::{Path, PathBuf};
use std::time::Instant;
use tenalloc_trace::{Options, open, read_script};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: counts PATH [SIDECAR]")?;
    let options = Options { sidecar: arguments.next().map(PathBuf::from), ..Options::default() };
    let start = Instant::now();
    let program = match path.as_str() {
        "-" => read_script(std::io::stdin().lock(), &options, &mut |_| {})?,
        path => open(Path::new(path), &options, &mut |_| {})?,
    };
    let took = start.elapsed().as_secs_f64();
    let events: u64 = program.counts.samples.iter().map(|s| s.1).sum();
    println!("{path}: {events} samples in {took:.3} s, {:.2} M/s", events as f64 / took / 1e6);
    let file = Path::new(&path);
    let file = if file.is_dir() { file.join("perf.data") } else { file.to_owned() };
    if let Ok(bytes) = std::fs::read(file)
        && bytes.starts_with(b"PERFILE2")
    {
        let start = Instant::now();
        let events = tenalloc_trace::fuzzing::perf_events(&bytes)?;
        let took = start.elapsed().as_secs_f64();
        println!("reading alone: {took:.3} s, {:.2} M/s", events as f64 / took / 1e6);
    }
    println!(
        "{:?}: {} CPUs, {} nodes, {:.2} s, {} caches, {} groups, {} steps, {} slots",
        program.kernel,
        program.cpus,
        program.nodes,
        program.length_ns as f64 / 1e9,
        program.caches.len(),
        program.groups.len(),
        program.ops.len(),
        program.slots
    );
    println!("{:#?}", program.counts);
    for stamp in &program.stamps {
        println!("stamp {} at {:.9} s: {} cgroups", stamp.label, stamp.time as f64 / 1e9, stamp.slab.len());
    }
    for note in &program.notes {
        println!("note: {}", note.text);
    }
    Ok(())
}
