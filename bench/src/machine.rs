//! On what, and of which source, the figures are; and the clocks they are read from.

use serde_json::{Value, json};
use std::fs::read_to_string;
use std::process::Command;

/// Without transparent huge pages, so that resident bytes are those that were touched.
pub(crate) fn no_huge_pages() {
    // SAFETY: this option takes plain numbers and changes nothing but the paging of this process.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
}

/// CPU time of this thread, ns.
pub(crate) fn cpu_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Keeps this thread on the `i`th of the CPUs that it may run on; where that is refused it runs where it is put.
pub(crate) fn pin(i: usize) {
    // SAFETY: both sets are live and as large as said; all bits clear is an empty set.
    unsafe {
        let mut may: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&may), &mut may) != 0 {
            return;
        }
        let cpus: Vec<usize> =
            (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &may)).collect();
        let mut only: libc::cpu_set_t = std::mem::zeroed();
        let Some(cpu) = cpus.get(i % cpus.len().max(1)) else { return };
        libc::CPU_SET(*cpu, &mut only);
        libc::sched_setaffinity(0, size_of_val(&only), &only);
    }
}

/// Resident anonymous bytes of this process, as the kernel sums them up page by page.
pub(crate) fn resident() -> u64 {
    let text = read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("Anonymous:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}

/// What the machine runs just now: the kernel's load over the last minute. On an idle machine it is near 0.
pub(crate) fn load() -> Option<f64> {
    read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

fn first(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).output().ok().filter(|o| o.status.success())?;
    String::from_utf8_lossy(&out.stdout).lines().next().map(str::to_owned)
}

/// The commit that the figures belong to, with `-dirty` when files were changed; null outside a checkout.
pub(crate) fn commit() -> Option<String> {
    first("git", &["describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"])
}

/// Processor, CPUs, kernel and C library.
pub(crate) fn describe() -> Value {
    let info = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .map(|l| l.trim_start_matches([':', ' ', '\t']));
    json!({
        "processor": model,
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": first("uname", &["-r"]),
        "load_before": load(),
        "libc": first("getconf", &["GNU_LIBC_VERSION"]),
    })
}

/// The same for people.
pub(crate) fn line(machine: &Value) -> String {
    let text = |key: &str| machine[key].as_str().unwrap_or("?").to_owned();
    format!(
        "{}, {} CPUs, Linux {}, {}, load {} from what else ran",
        text("processor"),
        machine["cpus"],
        text("kernel"),
        text("libc"),
        machine["load_before"],
    )
}
