//! What the environment says. A mistake is told in one line, and the default holds.

use crate::tell;
use crate::text::Plain;
use core::ffi::CStr;

/// What has a group of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    Process,
    Thread,
    Library,
}

/// Where a report goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    Stderr,
    /// `%p` in it stands for the process's number.
    File(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reporting<'a> {
    pub(crate) target: Target<'a>,
    pub(crate) json: bool,
    /// Not only at exit.
    pub(crate) signal: Option<i32>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) grouping: Grouping,
    /// Bytes, for each group.
    pub(crate) max: Option<u64>,
    pub(crate) high: Option<u64>,
    pub(crate) report: Option<Reporting<'static>>,
}

impl Settings {
    pub(crate) const DEFAULT: Self =
        Self { grouping: Grouping::Process, max: None, high: None, report: None };

    /// What the environment says now.
    pub(crate) fn read() -> Self {
        unknown_names();
        Self {
            grouping: variable(c"TENALLOC_GROUP", "process, thread or library", grouping)
                .unwrap_or(Grouping::Process),
            max: variable(c"TENALLOC_MAX", "bytes, as 512M or 2G", bytes).flatten(),
            high: variable(c"TENALLOC_HIGH", "bytes, as 512M or 2G", bytes).flatten(),
            report: variable(
                c"TENALLOC_REPORT",
                "stderr or a file, then if wanted ,json and ,signal=USR1",
                reporting,
            ),
        }
    }
}

/// Tells of variables with a name like ours that is none of ours.
fn unknown_names() {
    unsafe extern "C" {
        static environ: *const *const core::ffi::c_char;
    }
    let ours: [&[u8]; 4] = [b"TENALLOC_GROUP", b"TENALLOC_MAX", b"TENALLOC_HIGH", b"TENALLOC_REPORT"];
    // SAFETY: the C library's list of strings, which ends with null and stays; read before the program changes it.
    unsafe {
        let mut at = (&raw const environ).read();
        while libc::getauxval(libc::AT_SECURE) == 0 && !at.is_null() && !(*at).is_null() {
            let text = CStr::from_ptr(*at).to_bytes();
            let name = &text[..text.iter().position(|b| *b == b'=').unwrap_or(text.len())];
            if name.starts_with(b"TENALLOC_") && !ours.contains(&name) {
                let name = Plain(&name[..name.len().min(80)]);
                tell::line(format_args!(
                    "{name} is not used: there are TENALLOC_GROUP, _MAX, _HIGH and _REPORT"
                ));
            }
            at = at.add(1);
        }
    }
}

/// A variable's value, read by `parse`; one that it cannot read is told.
fn variable<T>(name: &CStr, wanted: &str, parse: impl Fn(&'static [u8]) -> Option<T>) -> Option<T> {
    unsafe extern "C" {
        fn secure_getenv(name: *const core::ffi::c_char) -> *const core::ffi::c_char;
    }
    // A program that runs with more rights than its user writes no file for him.
    // SAFETY: the name ends with a NUL; the value is part of the environment, which stays.
    let value = unsafe {
        let value = secure_getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())?
    };
    if value.is_empty() {
        return None;
    }
    let parsed = parse(value);
    if parsed.is_none() {
        tell::line(format_args!(
            "{}={} is not used: it should be {wanted}",
            Plain(name.to_bytes()),
            Plain(&value[..value.len().min(80)])
        ));
    }
    parsed
}

fn grouping(value: &[u8]) -> Option<Grouping> {
    match value {
        b"process" => Some(Grouping::Process),
        b"thread" => Some(Grouping::Thread),
        b"library" => Some(Grouping::Library),
        _ => None,
    }
}

fn number(value: &[u8]) -> Option<u64> {
    core::str::from_utf8(value).ok().filter(|v| !v.starts_with('+'))?.parse().ok()
}

/// `Some(None)`: no limit.
#[expect(clippy::option_option, reason = "a value that says: no limit, and no value")]
fn bytes(value: &[u8]) -> Option<Option<u64>> {
    if value == b"max" {
        return Some(None);
    }
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    let shift = match &value[digits..] {
        b"" | b"B" => 0,
        b"K" | b"k" | b"KiB" => 10,
        b"M" | b"m" | b"MiB" => 20,
        b"G" | b"g" | b"GiB" => 30,
        b"T" | b"t" | b"TiB" => 40,
        _ => return None,
    };
    number(&value[..digits])?.checked_mul(1 << shift).map(Some)
}

fn signal(name: &[u8]) -> Option<i32> {
    let name = name.strip_prefix(b"SIG").unwrap_or(name);
    let known = [
        (&b"USR1"[..], libc::SIGUSR1),
        (b"USR2", libc::SIGUSR2),
        (b"HUP", libc::SIGHUP),
        (b"QUIT", libc::SIGQUIT),
        (b"URG", libc::SIGURG),
        (b"WINCH", libc::SIGWINCH),
        (b"PROF", libc::SIGPROF),
        (b"IO", libc::SIGIO),
    ];
    let named = known.iter().find(|(n, _)| *n == name).map(|(_, number)| *number);
    // Those of faults, and those that cannot be caught, are for others.
    let never =
        [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, 32, 33];
    named.or_else(|| i32::try_from(number(name)?).ok().filter(|n| (1..=64).contains(n) && !never.contains(n)))
}

fn reporting(value: &[u8]) -> Option<Reporting<'_>> {
    let mut parts = value.split(|b| *b == b',');
    let target = match parts.next()? {
        b"" => return None,
        b"stderr" | b"-" => Target::Stderr,
        path => Target::File(path),
    };
    let mut reporting = Reporting { target, json: false, signal: None };
    for part in parts {
        match part {
            b"json" => reporting.json = true,
            b"text" => reporting.json = false,
            _ => reporting.signal = Some(signal(part.strip_prefix(b"signal=")?)?),
        }
    }
    Some(reporting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, value) in [
            ("0", 0),
            ("4096", 4096),
            ("64K", 64 << 10),
            ("512M", 512 << 20),
            ("2GiB", 2 << 30),
            ("1t", 1 << 40),
            ("7B", 7),
        ] {
            assert_eq!(bytes(text.as_bytes()), Some(Some(value)), "{text}");
        }
        assert_eq!(bytes(b"max"), Some(None));
        for wrong in ["M", "-1", "+1", "1.5G", "12X", "99999999999999999999", "99999999T", "1 M", "MAX"] {
            assert_eq!(bytes(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn reports() {
        let of = |target, json, signal| Some(Reporting { target, json, signal });
        assert_eq!(reporting(b"stderr"), of(Target::Stderr, false, None));
        assert_eq!(reporting(b"-,json"), of(Target::Stderr, true, None), "not a file of that name");
        assert_eq!(reporting(b"/tmp/a-%p,json"), of(Target::File(b"/tmp/a-%p"), true, None));
        assert_eq!(reporting(b"stderr,signal=USR2,json"), of(Target::Stderr, true, Some(libc::SIGUSR2)));
        assert_eq!(reporting(b"r,signal=SIGHUP"), of(Target::File(b"r"), false, Some(libc::SIGHUP)));
        assert_eq!(reporting(b"r,signal=34"), of(Target::File(b"r"), false, Some(34)));
        for wrong in ["", ",json", "stderr,", "stderr,signal=KILL", "stderr,signal=9", "a,xml", "a,signal="] {
            assert_eq!(reporting(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn groupings() {
        assert_eq!(grouping(b"thread"), Some(Grouping::Thread));
        assert_eq!(grouping(b"Thread"), None);
    }
}
