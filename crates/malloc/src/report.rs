//! The groups with what they hold, as a table or as one line of JSON, in one write.
//!
//! Written in the thread that ends the process, in the handler of the signal that asks for it, or, where that
//! interrupted a thread inside this library, by that thread as soon as it is out; where another thread writes one already
//! (`turn`), by that one. The figures are the controller's exact ones, so locks are taken; `serve::undisturbed` sees to it
//! that this is possible. The memory for the text is mapped, and so is the stack.

pub(crate) mod departed;
pub(crate) mod turn;

use crate::settings::{Grouping, Reporting, Target};
use crate::stack::{self, Mapped};
use crate::text::{Json, Plain, Text};
use crate::thread::{OPEN, Thread, me, name_of};
use crate::{serve, start, stderr, tell};
use core::fmt::{self, Write};
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::*;
use tenalloc::{Events, Group};

/// Gets ready for what was asked.
pub(crate) fn prepare(reporting: &Reporting<'_>) {
    stderr::keep();
    if let Some(signal) = reporting.signal {
        // SAFETY: a zeroed action is a valid one; the handler has the type that SA_SIGINFO's absence asks for.
        let done = unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = asked as extern "C" fn(i32) as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
            libc::sigaction(signal, &action, core::ptr::null_mut())
        };
        if done != 0 {
            tell::line(format_args!("TENALLOC_REPORT: signal {signal} cannot be had"));
        }
    }
}

/// The signal came.
extern "C" fn asked(_: i32) {
    let me = me();
    turn::ask();
    if me.inside.load(Relaxed) == 0 {
        write_asked(me);
    }
}

/// For a thread that was where none can be written.
#[inline]
pub(crate) fn write_if_asked(me: &Thread) {
    if turn::is_asked() {
        write_asked(me);
    }
}

/// Writes what was asked for, and what was asked for meanwhile, unless somebody else is at it.
#[cold]
fn write_asked(me: &Thread) {
    if me.window.load(Relaxed) != OPEN {
        return;
    }
    // SAFETY: the thread's own errno.
    let errno = unsafe { *libc::__errno_location() };
    turn::answer(me, || serve::undisturbed(me, || write("signal")));
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Writes the last report, in the thread that ends the process.
pub(crate) fn write_last() {
    let me = me();
    serve::undisturbed(me, || turn::take(me, || write("exit")));
}

/// A line of the report.
struct Row {
    group: Option<Group>,
    exact: u64,
    own: u64,
    peak: u64,
}

/// Writes the report that the environment asks for, now. `when`: what for.
fn write(when: &str) {
    let Some(reporting) = start::settings().report else { return };
    let compose = if reporting.json { json } else { table };
    compose_and(|text, rows| compose(text, when, rows), |report| send(&reporting, report));
}

/// Writes the table to standard error, whatever the environment says. `when`: what for.
pub(crate) fn show(when: &str) {
    let to_error = |report: &[u8]| _ = stderr::write_all(2, report);
    turn::take(me(), || compose_and(|text, rows| table(text, when, rows), to_error));
}

/// Gives `send` what `compose` wrote about the groups, if there is memory for it. Composed on a stack of our own; sent
/// from the caller's, where signals come, as it may take long.
fn compose_and(compose: impl FnOnce(&mut Text<'_>, &[Row]) -> fmt::Result, send: impl FnOnce(&[u8])) {
    let mut report = None;
    stack::deep(|| {
        let most = start::process().children().count() + 64;
        let (rows, text) = ((most + 1) * size_of::<Row>(), 64 << 10 | (most * 512).next_power_of_two());
        let (Some(rows), Some(text)) = (Mapped::new(rows), Mapped::new(text)) else { return };
        // SAFETY: two fresh mappings, aligned to pages; zeros are no rows, but written before they are read.
        let (all, bytes) = unsafe {
            (
                core::slice::from_raw_parts_mut(rows.0.cast::<MaybeUninit<Row>>(), most + 1),
                core::slice::from_raw_parts_mut(text.0, text.1),
            )
        };
        let all = gather(all);
        let mut composed = Text::new(bytes);
        let _ = compose(&mut composed, all);
        all.iter_mut().for_each(|row| drop(row.group.take()));
        let length = composed.bytes().len();
        report = Some((text, length));
    });
    if let Some((text, length)) = &report {
        // SAFETY: written above.
        send(unsafe { core::slice::from_raw_parts(text.0, *length) });
    }
}

/// The process first, then the groups by what they hold.
fn gather(to: &mut [MaybeUninit<Row>]) -> &mut [Row] {
    let process = start::process();
    let mut n = 1;
    let mut below = 0;
    for group in process.children() {
        let Some(place) = to.get_mut(n) else { break };
        let exact = group.exact();
        below += exact;
        place.write(Row { exact, own: exact, peak: group.peak(), group: Some(group) });
        n += 1;
    }
    let exact = process.exact();
    to[0].write(Row {
        exact,
        own: exact.saturating_sub(below),
        peak: process.peak(),
        group: Some(process.clone()),
    });
    // SAFETY: the first `n` were written.
    let rows = unsafe { core::slice::from_raw_parts_mut(to.as_mut_ptr().cast::<Row>(), n) };
    rows[1..].sort_unstable_by_key(|row| core::cmp::Reverse((row.exact, row.peak)));
    rows
}

/// The name of a group as it is now, and its thread's number: threads are named after their groups are made.
fn name<'a>(group: &'a Group, to: &'a mut [u8; 16]) -> (&'a [u8], Option<u32>) {
    let made = group.name();
    if start::settings().grouping == Grouping::Thread
        && let Some((comm, tid)) = made.rsplit_once('-')
        && let Ok(tid) = tid.parse()
    {
        let now = name_of(tid, to);
        return (if now.is_empty() { comm.as_bytes() } else { now }, Some(tid));
    }
    if made.is_empty() { (b"process", None) } else { (made.as_bytes(), None) }
}

struct Limit(u64);

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == u64::MAX { f.pad("-") } else { self.0.fmt(f) }
    }
}

fn table(text: &mut Text<'_>, when: &str, rows: &[Row]) -> fmt::Result {
    let mut program = [0; 16];
    // SAFETY: no preconditions.
    let pid = unsafe { libc::getpid() };
    let program = name_of(pid as u32, &mut program);
    let stat = start::control().stat();
    writeln!(text, "tenalloc: {} ({pid}) at {when}, bytes", Plain(program))?;
    writeln!(text, "{:>14} {:>14} {:>14} {:>14} {:>8}  group", "live", "peak", "max", "high", "hits")?;
    for row in rows {
        let Some(group) = &row.group else { continue };
        let mut now = [0; 16];
        let (name, tid) = name(group, &mut now);
        let Events { max, high, .. } = group.events_local();
        let Row { exact, peak, .. } = row;
        let limits = (Limit(group.max()), Limit(group.high()));
        write!(
            text,
            "{exact:>14} {peak:>14} {:>14} {:>14} {:>8}  {}",
            limits.0,
            limits.1,
            max + high,
            Plain(name)
        )?;
        match tid {
            Some(tid) => writeln!(text, " {tid}")?,
            None => writeln!(text)?,
        }
    }
    if rows.len() > 1 {
        writeln!(
            text,
            "{:>14} of the process's are no group's: of threads that are gone, or without one",
            rows[0].own
        )?;
    }
    for gone in departed::all().iter().filter(|gone| gone.threads > 0) {
        let name = gone.name.split(|b| *b == 0).next().unwrap_or_default();
        writeln!(
            text,
            "{:>14} {:>14} threads that are gone: {}, {}",
            "",
            gone.peak,
            gone.threads,
            Plain(name)
        )?;
    }
    writeln!(
        text,
        "{:>14} resident for it: slabs {}, large {}, owners {}, bookkeeping {}, free {}",
        stat.resident_bytes(),
        stat.slab_bytes,
        stat.large_bytes,
        stat.owner_vector_bytes,
        stat.metadata_bytes,
        stat.free_page_bytes
    )
}

/// `null` where there is no limit.
struct Number(u64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == u64::MAX { f.write_str("null") } else { self.0.fmt(f) }
    }
}

fn json(text: &mut Text<'_>, when: &str, rows: &[Row]) -> fmt::Result {
    let mut program = [0; 16];
    // SAFETY: no preconditions.
    let pid = unsafe { libc::getpid() };
    let program = name_of(pid as u32, &mut program);
    let mut plain = [0; 16];
    let program = plain_str(program, &mut plain);
    write!(text, "{{\"program\":\"{}\",\"pid\":{pid},\"when\":\"{when}\",\"groups\":[", Json(program))?;
    for (i, row) in rows.iter().enumerate() {
        let Some(group) = &row.group else { continue };
        let mut now = [0; 16];
        let (name, tid) = name(group, &mut now);
        let mut plain = [0; 255];
        let name = plain_str(name, &mut plain);
        write!(text, "{}{{\"name\":\"{}\",", if i > 0 { "," } else { "" }, Json(name))?;
        if let Some(tid) = tid {
            write!(text, "\"tid\":{tid},")?;
        }
        let Row { exact, own, peak, .. } = row;
        let e = group.events_local();
        let (max, high) = (Number(group.max()), Number(group.high()));
        write!(text, "\"live\":{exact},\"own\":{own},\"peak\":{peak},\"max\":{max},\"high\":{high},")?;
        write!(text, "\"events\":{{\"max\":{},\"high\":{},\"oom\":{}}}}}", e.max, e.high, e.oom)?;
    }
    text.write_str("],\"gone\":[")?;
    for (i, gone) in departed::all().iter().filter(|gone| gone.threads > 0).enumerate() {
        let name = gone.name.split(|b| *b == 0).next().unwrap_or_default();
        let mut plain = [0; 16];
        let name = Json(plain_str(name, &mut plain));
        let comma = if i > 0 { "," } else { "" };
        write!(text, "{comma}{{\"name\":\"{name}\",\"threads\":{},\"peak\":{}}}", gone.threads, gone.peak)?;
    }
    let stat = start::control().stat();
    write!(text, "],\"resident\":{},\"slabs\":{},", stat.resident_bytes(), stat.slab_bytes)?;
    write!(text, "\"large\":{},\"owners\":{},", stat.large_bytes, stat.owner_vector_bytes)?;
    write!(text, "\"bookkeeping\":{},\"free\":{},", stat.metadata_bytes, stat.free_page_bytes)?;
    writeln!(text, "\"objects\":{}}}", stat.objects)
}

/// Bytes as ASCII, in a buffer.
fn plain_str<'a>(bytes: &[u8], to: &'a mut [u8]) -> &'a str {
    let n = bytes.len().min(to.len());
    for (to, b) in to.iter_mut().zip(bytes) {
        *to = if (0x20..0x7f).contains(b) { *b } else { b'?' };
    }
    core::str::from_utf8(&to[..n]).unwrap_or_default()
}

/// Where the report goes: opened for adding, so that programs of several processes keep all of theirs.
fn send(reporting: &Reporting<'_>, report: &[u8]) {
    let (fd, path);
    let mut buffer = [0; 1024];
    match reporting.target {
        Target::Stderr => {
            fd = stderr::descriptor();
            path = None;
        }
        Target::File(name) => {
            let mut text = Text::new(&mut buffer);
            let mut rest = name;
            while let Some(at) = rest.windows(2).position(|two| two == b"%p") {
                text.push(&rest[..at]);
                // SAFETY: no preconditions.
                let _ = write!(text, "{}", unsafe { libc::getpid() });
                rest = &rest[at + 2..];
            }
            text.push(rest);
            text.push(b"\0");
            let name = core::ffi::CStr::from_bytes_until_nul(text.into_bytes()).unwrap_or_default();
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NOCTTY;
            // SAFETY: the path ends with a NUL.
            fd = unsafe { libc::open(name.as_ptr(), flags, 0o644) };
            path = Some(name);
        }
    }
    let done = stderr::write_all(fd, report);
    if let Some(path) = path {
        if !done {
            tell::line(format_args!("the report could not be written to {}", Plain(path.to_bytes())));
        }
        if fd >= 0 {
            // SAFETY: opened above.
            unsafe { libc::close(fd) };
        }
    }
}
