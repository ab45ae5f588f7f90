//! Where the fields of a tracepoint lie, from the format texts of the recorded kernel.
//!
//! perf keeps them in the TRACING_DATA section, in the order of `trace-cmd`'s file format 0.6:
//!
//! ```text
//!   17 08 44 "tracing"  version\0  endian u8  long u8  page size u32
//!   "header_page\0"  u64 size, text      "header_event\0"  u64 size, text
//!   u32 count of ftrace's own formats:   u64 size, text
//!   u32 count of systems:  name\0  u32 count:  u64 size, text      <- the tracepoints
//!   u32 kallsyms   u32 printk formats   u64 command lines          <- not needed here
//! ```
//!
//! What a field *means* to us is in [`super::layout`]; this file knows only text.

use super::bytes::Cursor;
use crate::error::Error;

/// System and name of the events that mean something to us.
const KNOWN: [(&str, &str); 16] = [
    ("kmem", "kmalloc"),
    ("kmem", "kmalloc_node"),
    ("kmem", "kmem_cache_alloc"),
    ("kmem", "kmem_cache_alloc_node"),
    ("kmem", "kfree"),
    ("kmem", "kmem_cache_free"),
    ("sched", "sched_process_fork"),
    ("sched", "sched_process_exit"),
    ("cgroup", "cgroup_attach_task"),
    ("cgroup", "cgroup_mkdir"),
    ("cgroup", "cgroup_rmdir"),
    ("cgroup", "cgroup_release"),
    ("syscalls", "sys_enter_mount"),
    ("syscalls", "sys_exit_mount"),
    ("syscalls", "sys_enter_umount"),
    ("syscalls", "sys_exit_umount"),
];

/// The format texts of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Formats {
    /// Page size of the recorded machine, bytes; 0 where it is not known.
    pub(crate) page_size: u32,
    /// The tracepoints.
    pub(crate) events: Vec<Format>,
}

/// One tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// `kmem:kmalloc`.
    pub(crate) name: String,
    /// The kernel's number for it, `config` of its perf attribute.
    pub(crate) id: u64,
    /// Its fields, the common ones too.
    pub(crate) fields: Vec<Field>,
}

/// One field of a tracepoint's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Its name.
    pub(crate) name: String,
    /// Bytes from the start of the record.
    pub(crate) offset: u16,
    /// Bytes it takes.
    pub(crate) size: u16,
    /// Whether its sign is to be extended.
    pub(crate) signed: bool,
    /// The text lies elsewhere, and this field tells where.
    pub(crate) location: Location,
}

/// How a field holds its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// In place.
    Here,
    /// `__data_loc`: offset from the start of the record, and length.
    Start,
    /// `__rel_loc`: offset from the end of this field, and length.
    Behind,
}

impl Formats {
    /// Read a TRACING_DATA section that begins at byte `base` of `file`.
    pub(crate) fn parse(bytes: &[u8], file: &str, base: u64) -> Result<Self, Error> {
        let mut c = Cursor::new(bytes);
        let mut formats = Self::default();
        match formats.read(&mut c) {
            Ok(()) => Ok(formats),
            Err(what) => Err(Error::at(
                file,
                base + c.at() as u64,
                format!("the tracepoint formats (TRACING_DATA) are damaged: {what}"),
                "copy the file again, or record anew",
            )),
        }
    }

    fn read(&mut self, c: &mut Cursor<'_>) -> Result<(), String> {
        let end = || "the section ends too early".to_owned();
        if c.take(10).ok_or_else(end)? != b"\x17\x08Dtracing" {
            return Err("it does not begin with its magic number".into());
        }
        let _version = c.c_string().ok_or_else(end)?;
        if c.u8().ok_or_else(end)? != 0 {
            return Err("the recorded machine is big-endian, which is not supported".into());
        }
        let _long = c.u8().ok_or_else(end)?;
        self.page_size = c.u32().ok_or_else(end)?;
        for header in [&b"header_page"[..], b"header_event"] {
            if c.c_string().ok_or_else(end)? != header {
                return Err(format!("`{}` is missing", header.escape_ascii()));
            }
            c.block64().ok_or_else(end)?;
        }
        for _ in 0..c.u32().ok_or_else(end)? {
            c.block64().ok_or_else(end)?;
        }
        for _ in 0..c.u32().ok_or_else(end)? {
            let system = String::from_utf8_lossy(c.c_string().ok_or_else(end)?).into_owned();
            for _ in 0..c.u32().ok_or_else(end)? {
                let text = String::from_utf8_lossy(c.block64().ok_or_else(end)?);
                self.events.push(Format::parse(&system, &text)?);
            }
        }
        Ok(())
    }

    /// Read `format` files of tracefs, one after the other.
    pub(crate) fn from_texts(text: &str, file: &str) -> Result<Self, Error> {
        let starts: Vec<usize> = text.match_indices("name:").map(|m| m.0).collect();
        let starts = starts.into_iter().filter(|&i| i == 0 || text[..i].ends_with('\n')).collect::<Vec<_>>();
        let ends = starts.iter().skip(1).copied().chain([text.len()]);
        let mut formats = Self::default();
        for (start, end) in starts.iter().copied().zip(ends) {
            let part = &text[start..end];
            let name = part.lines().next().and_then(|l| l.strip_prefix("name:")).unwrap_or("").trim();
            // The file does not tell its system; none of the events we know shares its name.
            let system = KNOWN.iter().find(|k| k.1 == name).map_or("?", |k| k.0);
            let format = Format::parse(system, part).map_err(|what| {
                let line = text[..start].lines().count() as u64 + 1;
                Error::line(file, line, what, "give the `format` files of the recorded kernel")
            })?;
            formats.events.push(format);
        }
        Ok(formats)
    }

    /// The tracepoint with this id.
    pub(crate) fn by_id(&self, id: u64) -> Option<&Format> {
        self.events.iter().find(|f| f.id == id)
    }
}

impl Format {
    /// Read one `format` file of tracefs; `system` is the folder it lies in.
    pub(crate) fn parse(system: &str, text: &str) -> Result<Self, String> {
        let (mut name, mut id, mut fields) = (None, None, Vec::new());
        for line in text.lines() {
            let line = line.trim();
            if line.starts_with("print fmt") {
                break;
            } else if let Some(v) = line.strip_prefix("name:") {
                name = Some(v.trim().to_owned());
            } else if let Some(v) = line.strip_prefix("ID:") {
                id = v.trim().parse().ok();
            } else if line.starts_with("field:") {
                let field = Field::parse(line)
                    .ok_or_else(|| format!("`{line}` of {system}:{}", name.as_deref().unwrap_or("?")))?;
                fields.push(field);
            }
        }
        let name = name.ok_or_else(|| format!("a format of {system} has no name"))?;
        let id = id.ok_or_else(|| format!("{system}:{name} has no ID"))?;
        Ok(Self { name: format!("{system}:{name}"), id, fields })
    }

    /// The field with this name.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }
}

impl Field {
    /// Read `field:TYPE NAME[N]; offset:O; size:S; signed:B;`.
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split(';').map(str::trim);
        let declaration = parts.next()?.strip_prefix("field:")?.trim();
        let number =
            |part: Option<&str>, key: &str| -> Option<u16> { part?.strip_prefix(key)?.trim().parse().ok() };
        let offset = number(parts.next(), "offset:")?;
        let size = number(parts.next(), "size:")?;
        // Kernels before 2.6.32 and a few dynamic events leave this out.
        let signed = number(parts.next(), "signed:") == Some(1);
        let last = declaration.split_whitespace().next_back()?;
        let name = last.split('[').next()?.trim_start_matches('*');
        let location = match declaration.split_whitespace().next()? {
            "__data_loc" => Location::Start,
            "__rel_loc" => Location::Behind,
            _ => Location::Here,
        };
        (!name.is_empty()).then(|| Self { name: name.to_owned(), offset, size, signed, location })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const KMALLOC: &str = "name: kmalloc\nID: 658\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:const void * ptr;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:int node;\toffset:48;\tsize:4;\tsigned:1;\n\
        \tfield:__data_loc char[] name;\toffset:52;\tsize:4;\tsigned:0;\n\
        \tfield:char comm[16];\toffset:56;\tsize:16;\tsigned:0;\n\n\
        print fmt: \"field:int nothing;\"\n";

    /// A TRACING_DATA section with these (system, text) formats.
    pub(crate) fn section(formats: &[(&str, &str)]) -> Vec<u8> {
        let mut s = b"\x17\x08Dtracing0.6\0\0\x08\0\x10\0\0".to_vec();
        for header in ["header_page", "header_event"] {
            s.extend(header.as_bytes());
            s.extend([0, 3, 0, 0, 0, 0, 0, 0, 0, b'a', b'b', b'c']);
        }
        s.extend(0u32.to_le_bytes());
        s.extend((formats.len() as u32).to_le_bytes());
        for (system, text) in formats {
            s.extend(system.as_bytes());
            s.push(0);
            s.extend(1u32.to_le_bytes());
            s.extend((text.len() as u64).to_le_bytes());
            s.extend(text.as_bytes());
        }
        s
    }

    #[test]
    fn a_format_text_gives_places_sizes_and_signs() {
        let f = Formats::parse(&section(&[("kmem", KMALLOC)]), "f", 0).unwrap();
        assert_eq!(f.page_size, 4096);
        let k = f.by_id(658).unwrap();
        assert_eq!(k.name, "kmem:kmalloc");
        let of = |n: &str| {
            let f = k.field(n).unwrap();
            (f.offset, f.size, f.signed, f.location)
        };
        assert_eq!(of("ptr"), (16, 8, false, Location::Here));
        assert_eq!(of("node"), (48, 4, true, Location::Here));
        assert_eq!(of("name"), (52, 4, false, Location::Start));
        assert_eq!(of("comm"), (56, 16, false, Location::Here));
        assert!(k.field("nothing").is_none());
    }

    #[test]
    fn format_files_one_after_the_other() {
        let two = format!("{KMALLOC}{}", KMALLOC.replace("kmalloc", "cgroup_rmdir").replace("658", "9"));
        let f = Formats::from_texts(&two, "formats.txt").unwrap();
        assert_eq!(
            (f.events[0].name.as_str(), f.events[1].name.as_str()),
            ("kmem:kmalloc", "cgroup:cgroup_rmdir")
        );
        assert_eq!(f.by_id(9).unwrap().fields.len(), 5);
        let e = Formats::from_texts(&two.replace("ID: 9", ""), "formats.txt").unwrap_err().to_string();
        assert!(e.starts_with("formats.txt, line 12"), "{e}");
    }

    #[test]
    fn a_damaged_section_tells_where() {
        let whole = section(&[("kmem", KMALLOC)]);
        for n in 0..whole.len() {
            let error = Formats::parse(&whole[..n], "cut.data", 1000).unwrap_err();
            assert!(error.offset().unwrap() >= 1000 && error.offset().unwrap() <= 1000 + n as u64);
        }
        let broken = KMALLOC.replace("offset:48", "offset:x");
        let error = Formats::parse(&section(&[("kmem", &broken)]), "f", 0).unwrap_err().to_string();
        assert!(error.contains("kmem:kmalloc") && error.contains("node"), "{error}");
        let mut huge = whole;
        huge[32..40].fill(0xff);
        assert!(Formats::parse(&huge, "f", 0).is_err());
    }
}
