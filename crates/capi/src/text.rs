//! Figures in words: lines of name and value as cgroup v2's files have them, and JSON.
//!
//! Written straight into the caller's buffer, like `snprintf`: no memory is needed, so it works where there is none.

use crate::error::{Failure, length};
use crate::handle::{controller, given, ten_cache, ten_controller, ten_group};
use crate::knobs::ten_events;
use crate::stat::{ten_cache_stat, ten_group_stat, ten_stat};
use core::ffi::c_char;
use core::fmt::{self, Display, Formatter, Write};
use tenalloc::{Cache, Controller, Group};

/// Writes as much as there is room for, and counts the rest.
#[derive(Debug)]
pub struct Cut<'a> {
    buffer: &'a mut [u8],
    wanted: usize,
}

impl<'a> Cut<'a> {
    /// Into `buffer`, whose last byte is for the NUL.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, wanted: 0 }
    }

    /// Ends with NUL; returns the bytes that all of it has, without the NUL.
    pub fn finish(self) -> usize {
        if let Some(room) = self.buffer.len().checked_sub(1) {
            self.buffer[self.wanted.min(room)] = 0;
        }
        self.wanted
    }
}

impl Write for Cut<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.buffer.len().saturating_sub(1).saturating_sub(self.wanted).min(text.len());
        if room > 0 {
            self.buffer[self.wanted..self.wanted + room].copy_from_slice(&text.as_bytes()[..room]);
        }
        self.wanted += text.len();
        Ok(())
    }
}

/// Writes `what` into a buffer of C.
///
/// # Safety
/// `buffer` has `size` bytes; it may be NULL if `size` is 0.
pub unsafe fn into(buffer: *mut c_char, size: usize, what: impl Display) -> Result<usize, Failure> {
    let buffer: &mut [u8] = match (buffer.is_null(), size) {
        (_, 0) => &mut [],
        (true, _) => return Err(Failure::Null("buffer")),
        // SAFETY: the caller's promise; bytes are written before any is read.
        (false, _) => unsafe { core::slice::from_raw_parts_mut(buffer.cast(), size) },
    };
    let mut out = Cut::new(buffer);
    let _ = write!(out, "{what}");
    Ok(out.finish())
}

/// A string as JSON has it.
struct Quoted<T>(T);

impl<T: Display> Display for Quoted<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        struct Escape<'a, 'b>(&'a mut Formatter<'b>);
        impl Write for Escape<'_, '_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                text.chars().try_for_each(|c| match c {
                    '"' | '\\' => write!(self.0, "\\{c}"),
                    c if u32::from(c) < 0x20 => write!(self.0, "\\u{:04x}", u32::from(c)),
                    c => self.0.write_char(c),
                })
            }
        }
        f.write_char('"')?;
        write!(Escape(f), "{}", self.0)?;
        f.write_char('"')
    }
}

/// Something written by a function.
struct By<F>(F);

impl<F: Fn(&mut Formatter<'_>) -> fmt::Result> Display for By<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        (self.0)(f)
    }
}

/// `name value` lines.
fn lines(fields: impl Iterator<Item = (&'static str, u64)> + Clone) -> impl Display {
    By(move |f: &mut Formatter<'_>| {
        fields.clone().try_for_each(|(name, value)| writeln!(f, "{name} {value}"))
    })
}

/// `"name":value` members, commas between.
fn members(fields: impl Iterator<Item = (&'static str, u64)> + Clone) -> impl Display {
    By(move |f: &mut Formatter<'_>| {
        fields.clone().enumerate().try_for_each(|(i, (name, value))| {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}\"{name}\":{value}")
        })
    })
}

/// A limit: `null` without.
struct Bytes(u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0 == u64::MAX { f.write_str("null") } else { self.0.fmt(f) }
    }
}

fn events(e: &ten_events) -> impl Iterator<Item = (&'static str, u64)> + Clone + use<> {
    [("low", e.low), ("high", e.high), ("max", e.max), ("oom", e.oom), ("oom_victim", e.oom_victim)]
        .into_iter()
}

/// Levels of groups in one JSON text: each takes some of the stack, and readers have limits too.
const LEVELS: u32 = 64;

fn group_json(f: &mut Formatter<'_>, group: &Group, depth: u32) -> fmt::Result {
    let stat = ten_group_stat::from(group.stat());
    write!(f, "{{\"name\":{},\"path\":{},", Quoted(group.name()), Quoted(group.path()))?;
    write!(f, "{},\"peak\":{},", members(stat.fields()), group.peak())?;
    write!(f, "\"max\":{},\"high\":{},", Bytes(group.max()), Bytes(group.high()))?;
    write!(f, "\"low\":{},\"min\":{},\"frozen\":{},", group.low(), group.min(), group.is_frozen())?;
    write!(f, "\"events\":{{{}}}", members(events(&group.events().into())))?;
    if depth > 0 {
        f.write_str(",\"children\":[")?;
        for (i, child) in group.children().enumerate() {
            if i > 0 {
                f.write_char(',')?;
            }
            group_json(f, &child, depth - 1)?;
        }
        f.write_char(']')?;
    }
    f.write_char('}')
}

fn group_text(f: &mut Formatter<'_>, group: &Group) -> fmt::Result {
    write!(f, "{}", lines(ten_group_stat::from(group.stat()).fields()))?;
    writeln!(f, "peak {}", group.peak())?;
    for (name, bytes) in [("max", group.max()), ("high", group.high())] {
        if bytes == u64::MAX { writeln!(f, "{name} max") } else { writeln!(f, "{name} {bytes}") }?;
    }
    writeln!(f, "low {}\nmin {}\nfrozen {}", group.low(), group.min(), u8::from(group.is_frozen()))?;
    events(&group.events().into()).try_for_each(|(name, value)| writeln!(f, "events_{name} {value}"))
}

fn cache_json(f: &mut Formatter<'_>, cache: &Cache) -> fmt::Result {
    let stat = ten_cache_stat::from(cache.stat());
    write!(f, "{{\"name\":{},\"charge\":{},", Quoted(cache.name()), cache.charge())?;
    write!(f, "{}}}", members(stat.fields()))
}

fn controller_json(f: &mut Formatter<'_>, ctl: &Controller) -> fmt::Result {
    write!(f, "{{{},\"caches\":[", members(ten_stat::from(ctl.stat()).fields()))?;
    for (i, cache) in ctl.caches().enumerate() {
        if i > 0 {
            f.write_char(',')?;
        }
        cache_json(f, &cache)?;
    }
    f.write_str("]}")
}

/// A controller's figures, a line each.
///
/// # Safety
/// `buffer` has `size` bytes; it may be NULL if `size` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_controller_text(
    ctl: Option<&ten_controller>,
    buffer: *mut c_char,
    size: usize,
) -> i64 {
    // SAFETY: the caller's promise.
    length(|| unsafe { into(buffer, size, lines(ten_stat::from(controller(ctl)?.stat()).fields())) })
}

/// A controller's figures and its caches as JSON.
///
/// # Safety
/// As for [`ten_controller_text`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_controller_json(
    ctl: Option<&ten_controller>,
    buffer: *mut c_char,
    size: usize,
) -> i64 {
    length(|| {
        let ctl = controller(ctl)?;
        // SAFETY: the caller's promise.
        unsafe { into(buffer, size, By(|f: &mut Formatter<'_>| controller_json(f, ctl))) }
    })
}

/// A group's figures, a line each.
///
/// # Safety
/// As for [`ten_controller_text`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_group_text(group: Option<&ten_group>, buffer: *mut c_char, size: usize) -> i64 {
    length(|| {
        let group = &given(group, "group")?.0;
        // SAFETY: the caller's promise.
        unsafe { into(buffer, size, By(|f: &mut Formatter<'_>| group_text(f, group))) }
    })
}

/// A group's figures as JSON, with those of its descendants `depth` levels down.
///
/// # Safety
/// As for [`ten_controller_text`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_group_json(
    group: Option<&ten_group>,
    depth: u32,
    buffer: *mut c_char,
    size: usize,
) -> i64 {
    length(|| {
        let group = &given(group, "group")?.0;
        // SAFETY: the caller's promise.
        unsafe { into(buffer, size, By(|f: &mut Formatter<'_>| group_json(f, group, depth.min(LEVELS)))) }
    })
}

/// A cache's figures, a line each.
///
/// # Safety
/// As for [`ten_controller_text`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_cache_text(cache: Option<&ten_cache>, buffer: *mut c_char, size: usize) -> i64 {
    // SAFETY: the caller's promise.
    length(|| unsafe {
        into(buffer, size, lines(ten_cache_stat::from(given(cache, "cache")?.0.stat()).fields()))
    })
}

/// A cache's figures as JSON.
///
/// # Safety
/// As for [`ten_controller_text`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_cache_json(cache: Option<&ten_cache>, buffer: *mut c_char, size: usize) -> i64 {
    length(|| {
        let cache = &given(cache, "cache")?.0;
        // SAFETY: the caller's promise.
        unsafe { into(buffer, size, By(|f: &mut Formatter<'_>| cache_json(f, cache))) }
    })
}
