//! The text of `perf script`, line by line, in the order it comes: perf has sorted it.
//!
//! ```text
//!   web server  3012/3012 [001]  12.345678:  kmem:kmalloc: call_site=f+0x1 ptr=0xff… bytes_req=9 bytes_alloc=16 …
//!   comm        tid or pid/tid, CPU, time    event         the kernel's own print of the fields
//! ```
//!
//! The line is found from its time on: a comm may hold anything. What the text does not tell (interrupts; addresses of
//! call sites, for which it has symbols) is said in notes or made up for by numbering.

use super::bytes::until_nul;
use super::event::{Alloc, Event, GFP_ACCOUNT, GFP_DMA, GFP_RECLAIMABLE, Kind, Names};
use super::{Recording, Sink};
use crate::error::Error;
use crate::sidecar::seconds;
use std::io::{BufRead, Read};

/// Longer lines are none of perf's.
const LONGEST_LINE: u64 = 64 << 10;
/// After so many lines without one that can be read, the input is something else.
const PATIENCE: u64 = 10_000;
/// Progress is told each time this many bytes were read.
const STEP: u64 = 1 << 20;

/// Read all lines.
pub(crate) fn read(
    mut input: impl BufRead,
    file: &str,
    sink: &mut dyn Sink,
    progress: &mut dyn FnMut(u64),
) -> Result<Recording, Error> {
    let mut r = Recording { tells_accounted: true, ..Recording::default() };
    let mut names = Names::default();
    let (mut line, mut n, mut at, mut told) = (Vec::new(), 0u64, 0u64, 0u64);
    let (mut understood, mut slab, mut odd) = (0u64, false, 0u64);
    let mut first_odd = None;
    loop {
        line.clear();
        let got = input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        let got = got.map_err(|e| Error::io(file, e))?;
        if got == 0 {
            break;
        }
        n += 1;
        at += got as u64;
        let text = String::from_utf8_lossy(until_nul(&line));
        let text = text.trim_end();
        // Callchains stand on lines of their own, comments come with --header.
        if text.is_empty() || text.starts_with(['\t', '#']) {
            continue;
        }
        match parse(text, &mut names, &mut r, sink) {
            Some(event) => {
                understood += 1;
                slab |= matches!(event.kind, Kind::Alloc(_) | Kind::Free { .. });
                sink.event(&event, &names);
            }
            None => {
                odd += 1;
                first_odd.get_or_insert(n);
            }
        }
        if understood == 0 && odd >= PATIENCE {
            break;
        }
        if at - told >= STEP {
            told = at;
            progress(at);
        }
    }
    progress(at);
    sink.end(&names);
    let help = "give a perf.data, or text made with `perf script -F comm,tid,cpu,time,event,trace`";
    if understood == 0 {
        let what = if n == 0 { "the input is empty" } else { "no line reads as one of `perf script`" };
        return Err(Error::line(file, first_odd.unwrap_or(1), what, help));
    }
    if !slab {
        let what = format!("no slab events up to here (only: {})", r.events.join(", "));
        return Err(Error::line(
            file,
            n,
            what,
            "record with `tenalloc record`, or -e kmem:kmalloc and the others",
        ));
    }
    if let Some(first) = first_odd {
        r.notes.push(format!("{file}: {odd} lines could not be read, the first is line {first}: left out"));
    }
    Ok(r)
}

/// One line.
fn parse(line: &str, names: &mut Names, r: &mut Recording, sink: &mut dyn Sink) -> Option<Event> {
    let (before, time, event, fields) = split(line)?;
    let (tid, cpu) = task(before)?;
    let kind = kind(event, fields, names, r, sink)?;
    Some(Event { time, tid, cpu, sample: r.event(event), interrupt: false, kind })
}

/// What stands before the time, the time, the event's name, and its fields.
fn split(line: &str) -> Option<(&str, u64, &str, &str)> {
    for (i, _) in line
        .match_indices(": ")
        .filter(|(i, _)| line.as_bytes().get(i.wrapping_sub(1)).is_some_and(u8::is_ascii_digit))
    {
        let (front, rest) = (line.get(..i)?, line.get(i + 2..)?);
        let Some((before, time)) = front.rsplit_once(char::is_whitespace) else { continue };
        let Some(time) = time.contains('.').then(|| seconds(time)).flatten() else { continue };
        let mut rest = rest.trim_start();
        // The period, if perf was asked for it.
        if let Some((first, after)) = rest.split_once(' ')
            && first.bytes().all(|b| b.is_ascii_digit())
        {
            rest = after.trim_start();
        }
        let Some((event, fields)) = rest.split_once(": ").or_else(|| rest.strip_suffix(':').map(|e| (e, "")))
        else {
            continue;
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':');
        if event.contains(':') && event.chars().all(is_name) {
            return Some((before.trim_end(), time, event, fields));
        }
    }
    None
}

/// Task and CPU, at the end of what stands before the time.
fn task(before: &str) -> Option<(i32, u16)> {
    let mut words = before.split_whitespace().rev();
    let (mut word, mut cpu) = (words.next()?, 0);
    // Between CPU and time the latency format has flags.
    let bracketed =
        |w: &str| w.strip_prefix('[').and_then(|w| w.strip_suffix(']')).and_then(|w| w.parse::<u16>().ok());
    for _ in 0..2 {
        if let Some(c) = bracketed(word) {
            cpu = c.min(0x7fff);
            word = words.next()?;
            break;
        }
        if word.rsplit('/').next()?.parse::<i32>().is_ok() {
            break;
        }
        word = words.next()?;
    }
    Some((word.rsplit('/').next()?.parse().ok()?, cpu))
}

fn kind(
    event: &str,
    fields: &str,
    names: &mut Names,
    r: &mut Recording,
    sink: &mut dyn Sink,
) -> Option<Kind> {
    Some(match event {
        "kmem:kmalloc" | "kmem:kmalloc_node" | "kmem:kmem_cache_alloc" | "kmem:kmem_cache_alloc_node" => {
            let kmalloc = event.starts_with("kmem:kmalloc");
            let gfp = gfp(word(fields, "gfp_flags=")?);
            let accounted = word(fields, "accounted=");
            r.tells_accounted &= kmalloc || accounted.is_some();
            Kind::Alloc(Alloc {
                ptr: pointer(word(fields, "ptr=")?)?,
                site: site(word(fields, "call_site=")?, names, r, sink),
                size: word(fields, "bytes_alloc=")?.parse().ok()?,
                gfp,
                name: between(fields, "name=", " bytes_req=").map(|t| names.intern(t.as_bytes())),
                node: word(fields, "node=").map_or(Some(-1), |w| w.parse().ok())?,
                kmalloc,
                accounted: accounted.map_or(gfp & GFP_ACCOUNT != 0, |w| w == "true"),
            })
        }
        "kmem:kfree" => Kind::Free { ptr: pointer(word(fields, "ptr=")?)?, name: None },
        "kmem:kmem_cache_free" => Kind::Free {
            ptr: pointer(word(fields, "ptr=")?)?,
            name: after(fields, "name=").map(|t| names.intern(t.as_bytes())),
        },
        "sched:sched_process_fork" => {
            // A comm may hold blanks and equal signs: numbers are looked for from the end.
            let (front, child) = fields.rsplit_once("child_pid=")?;
            let (front, _) = front.rsplit_once(" child_comm=")?;
            Kind::Fork {
                parent: front.rsplit_once("pid=")?.1.trim().parse().ok()?,
                child: child.trim().parse().ok()?,
            }
        }
        "sched:sched_process_exit" => Kind::Exit,
        "cgroup:cgroup_attach_task" => {
            let (front, _) = fields.rsplit_once(" comm=").unwrap_or((fields, ""));
            let (front, pid) = front.rsplit_once(" pid=")?;
            Kind::Attach {
                pid: pid.trim().parse().ok()?,
                root: word(front, "dst_root=")?.parse().ok()?,
                path: names.intern(after(front, "dst_path=")?.as_bytes()),
            }
        }
        "cgroup:cgroup_mkdir" => {
            let (root, path) = cgroup(fields)?;
            Kind::Mkdir { root, path: names.intern(path.as_bytes()) }
        }
        "cgroup:cgroup_rmdir" => {
            let (root, path) = cgroup(fields)?;
            Kind::Rmdir { root, path: names.intern(path.as_bytes()) }
        }
        "syscalls:sys_enter_mount" => {
            let flags = between(fields, "flags: ", ",").and_then(pointer);
            Kind::MountEnter { flags: flags.unwrap_or(0) }
        }
        "syscalls:sys_exit_mount" => Kind::MountExit { ret: pointer(fields.trim())? as i64 },
        "syscalls:sys_enter_umount" => Kind::UmountEnter,
        "syscalls:sys_exit_umount" => Kind::UmountExit { ret: pointer(fields.trim())? as i64 },
        _ => Kind::Other,
    })
}

fn cgroup(fields: &str) -> Option<(i32, &str)> {
    Some((word(fields, "root=")?.parse().ok()?, after(fields, "path=")?))
}

/// All that follows `key`.
fn after<'a>(fields: &'a str, key: &str) -> Option<&'a str> {
    let mut places = fields.match_indices(key).map(|m| m.0);
    let start = places.find(|&i| i == 0 || fields.as_bytes().get(i - 1) == Some(&b' '))?;
    fields.get(start + key.len()..)
}

/// What follows `key`, up to a blank.
fn word<'a>(fields: &'a str, key: &str) -> Option<&'a str> {
    after(fields, key)?.split(' ').next()
}

/// What follows `key`, up to `end`.
fn between<'a>(fields: &'a str, key: &str, end: &str) -> Option<&'a str> {
    after(fields, key)?.split_once(end).map(|s| s.0)
}

/// `0xff…`, `ff…` (before 4.15), or `(nil)`.
fn pointer(text: &str) -> Option<u64> {
    if matches!(text, "(nil)" | "(null)") {
        return Some(0);
    }
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// The address of a call site, or the number of its symbol: addresses of kernels lie far above these.
fn site(text: &str, names: &mut Names, r: &mut Recording, sink: &mut dyn Sink) -> u64 {
    if let Some(address) = pointer(text).filter(|a| *a > u64::from(u32::MAX)) {
        return address;
    }
    let site = names.intern(text.as_bytes()).index() as u64 + 1;
    r.symbols.entry(site).or_insert_with(|| {
        sink.symbol(site, text);
        text.to_owned()
    });
    site
}

/// The bits that slab looks at; all others are left out.
fn gfp(text: &str) -> u32 {
    let bit = |name: &str| match name {
        "__GFP_ACCOUNT" | "GFP_KERNEL_ACCOUNT" => GFP_ACCOUNT,
        "__GFP_RECLAIMABLE" => GFP_RECLAIMABLE,
        "__GFP_DMA" | "GFP_DMA" => GFP_DMA,
        other => other.strip_prefix("0x").and_then(|h| u32::from_str_radix(h, 16).ok()).unwrap_or(0),
    };
    text.split('|').fold(0, |flags, name| flags | bit(name))
}
