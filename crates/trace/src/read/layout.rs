//! From the bytes of one tracepoint record to a [`Kind`].
//!
//! A [`Layout`] is made once per event from its format text; decoding a record is then a few loads. A field that
//! is missing or has a size no number has is an error that names event and field, never a guess.

use super::bytes;
use super::event::{Alloc, GFP_ACCOUNT, Kind, Names};
use super::format::{Format, Location};

/// A number in a record.
#[derive(Clone, Copy, Debug)]
struct Number {
    offset: u16,
    size: u8,
    signed: bool,
}

impl Number {
    #[inline]
    fn read(self, raw: &[u8]) -> Option<u64> {
        let at = usize::from(self.offset);
        Some(match (self.size, self.signed) {
            (8, _) => bytes::u64(raw, at)?,
            (4, false) => u64::from(bytes::u32(raw, at)?),
            (4, true) => i64::from(bytes::u32(raw, at)? as i32) as u64,
            (2, false) => u64::from(bytes::u16(raw, at)?),
            (2, true) => i64::from(bytes::u16(raw, at)? as i16) as u64,
            (_, false) => u64::from(*raw.get(at)?),
            (_, true) => i64::from(*raw.get(at)? as i8) as u64,
        })
    }
}

/// A text in a record.
#[derive(Clone, Copy, Debug)]
enum Text {
    /// `offset | length << 16` at this place, from the start of the record (0) or from another base.
    Located { at: u16, base: u16 },
    /// In place.
    Fixed { at: u16, size: u16 },
}

impl Text {
    #[inline]
    fn read<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        let (start, len) = match *self {
            Self::Located { at, base } => {
                let v = bytes::u32(raw, usize::from(at))?;
                ((v & 0xffff) as usize + usize::from(base), (v >> 16) as usize)
            }
            Self::Fixed { at, size } => (usize::from(at), usize::from(size)),
        };
        Some(bytes::until_nul(raw.get(start..start + len)?))
    }
}

/// How to read one kind of record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    flags: Number,
    body: Body,
}

#[derive(Clone, Copy, Debug)]
enum Body {
    Alloc {
        kmalloc: bool,
        ptr: Number,
        site: Number,
        size: Number,
        gfp: Number,
        node: Option<Number>,
        accounted: Option<Number>,
        name: Option<Text>,
    },
    Free {
        ptr: Number,
        name: Option<Text>,
    },
    Fork {
        parent: Number,
        child: Number,
    },
    Exit,
    Attach {
        pid: Number,
        root: Number,
        path: Text,
    },
    Mkdir {
        root: Number,
        path: Text,
    },
    Rmdir {
        root: Number,
        path: Text,
    },
    MountEnter {
        flags: Number,
    },
    MountExit {
        ret: Number,
    },
    UmountEnter,
    UmountExit {
        ret: Number,
    },
    Other,
}

impl Layout {
    /// Make the layout of an event; the error names event and field.
    pub(crate) fn new(f: &Format) -> Result<Self, String> {
        let number = |name| number(f, name);
        let maybe = |name: &'static str| f.field(name).map(|_| number(name)).transpose();
        let text = |name| text(f, name);
        let body = match f.name.as_str() {
            "kmem:kmalloc" | "kmem:kmalloc_node" | "kmem:kmem_cache_alloc" | "kmem:kmem_cache_alloc_node" => {
                Body::Alloc {
                    kmalloc: f.name.starts_with("kmem:kmalloc"),
                    ptr: number("ptr")?,
                    site: number("call_site")?,
                    size: number("bytes_alloc")?,
                    gfp: number("gfp_flags")?,
                    node: maybe("node")?,
                    accounted: maybe("accounted")?,
                    name: f.field("name").map(|_| text("name")).transpose()?,
                }
            }
            "kmem:kfree" | "kmem:kmem_cache_free" => {
                Body::Free { ptr: number("ptr")?, name: f.field("name").map(|_| text("name")).transpose()? }
            }
            "sched:sched_process_fork" => {
                Body::Fork { parent: number("parent_pid")?, child: number("child_pid")? }
            }
            "sched:sched_process_exit" => Body::Exit,
            "cgroup:cgroup_attach_task" => {
                Body::Attach { pid: number("pid")?, root: number("dst_root")?, path: text("dst_path")? }
            }
            "cgroup:cgroup_mkdir" => Body::Mkdir { root: number("root")?, path: text("path")? },
            "cgroup:cgroup_rmdir" => Body::Rmdir { root: number("root")?, path: text("path")? },
            "syscalls:sys_enter_mount" => Body::MountEnter { flags: number("flags")? },
            "syscalls:sys_exit_mount" => Body::MountExit { ret: number("ret")? },
            "syscalls:sys_enter_umount" => Body::UmountEnter,
            "syscalls:sys_exit_umount" => Body::UmountExit { ret: number("ret")? },
            _ => Body::Other,
        };
        Ok(Self { flags: number("common_flags")?, body })
    }

    /// Whether the event is an allocation or a free.
    pub(crate) fn is_slab(&self) -> bool {
        matches!(self.body, Body::Alloc { .. } | Body::Free { .. })
    }

    /// Whether this is an allocation from a cache that does not tell if it is accounted (before 6.1).
    pub(crate) fn hides_accounted(&self) -> bool {
        matches!(self.body, Body::Alloc { kmalloc: false, accounted: None, .. })
    }

    /// Decode a record: in an interrupt or not, and what happened. `None`: it is shorter than its format says.
    #[inline]
    pub(crate) fn decode(&self, raw: &[u8], names: &mut Names) -> Option<(bool, Kind)> {
        let interrupt = self.flags.read(raw)? & 0x18 != 0;
        let kind = match &self.body {
            Body::Alloc { kmalloc, ptr, site, size, gfp, node, accounted, name } => {
                // The upper half of `unsigned long gfp_flags` is always 0: gfp_t has 32 bits.
                let gfp = gfp.read(raw)? as u32;
                Kind::Alloc(Alloc {
                    ptr: ptr.read(raw)?,
                    site: site.read(raw)?,
                    size: u32::try_from(size.read(raw)?).ok()?,
                    gfp,
                    name: match name {
                        Some(n) => Some(names.intern(n.read(raw)?)),
                        None => None,
                    },
                    node: match node {
                        Some(n) => (n.read(raw)? as i64).clamp(-1, i64::from(i16::MAX)) as i16,
                        None => -1,
                    },
                    kmalloc: *kmalloc,
                    accounted: match accounted {
                        Some(a) => a.read(raw)? != 0,
                        None => gfp & GFP_ACCOUNT != 0,
                    },
                })
            }
            Body::Free { ptr, name } => Kind::Free {
                ptr: ptr.read(raw)?,
                name: match name {
                    Some(n) => Some(names.intern(n.read(raw)?)),
                    None => None,
                },
            },
            Body::Fork { parent, child } => {
                Kind::Fork { parent: parent.read(raw)? as i32, child: child.read(raw)? as i32 }
            }
            Body::Exit => Kind::Exit,
            Body::Attach { pid, root, path } => Kind::Attach {
                pid: pid.read(raw)? as i32,
                root: root.read(raw)? as i32,
                path: names.intern(path.read(raw)?),
            },
            Body::Mkdir { root, path } => {
                Kind::Mkdir { root: root.read(raw)? as i32, path: names.intern(path.read(raw)?) }
            }
            Body::Rmdir { root, path } => {
                Kind::Rmdir { root: root.read(raw)? as i32, path: names.intern(path.read(raw)?) }
            }
            Body::MountEnter { flags } => Kind::MountEnter { flags: flags.read(raw)? },
            Body::MountExit { ret } => Kind::MountExit { ret: ret.read(raw)? as i64 },
            Body::UmountEnter => Kind::UmountEnter,
            Body::UmountExit { ret } => Kind::UmountExit { ret: ret.read(raw)? as i64 },
            Body::Other => Kind::Other,
        };
        Some((interrupt, kind))
    }
}

fn number(f: &Format, name: &str) -> Result<Number, String> {
    let field = f.field(name).ok_or_else(|| format!("{} has no field `{name}`", f.name))?;
    match (field.size, field.location) {
        (size @ (1 | 2 | 4 | 8), Location::Here) => {
            Ok(Number { offset: field.offset, size: size as u8, signed: field.signed })
        }
        (size, _) => Err(format!("field `{name}` of {} has {size} bytes and is no number", f.name)),
    }
}

fn text(f: &Format, name: &str) -> Result<Text, String> {
    let field = f.field(name).ok_or_else(|| format!("{} has no field `{name}`", f.name))?;
    match (field.location, field.size) {
        (Location::Start, 4) => Ok(Text::Located { at: field.offset, base: 0 }),
        (Location::Behind, 4) => Ok(Text::Located { at: field.offset, base: field.offset.saturating_add(4) }),
        (Location::Here, size) if size > 0 => Ok(Text::Fixed { at: field.offset, size }),
        (_, size) => Err(format!("field `{name}` of {} has {size} bytes and is no text", f.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(fields: &str) -> Format {
        let text = format!(
            "name: kmem_cache_free\nID: 1\nfield:unsigned char common_flags; offset:2; size:1; signed:0;\n\
             {fields}"
        );
        Format::parse("kmem", &text).unwrap()
    }

    #[test]
    fn offsets_come_from_the_format_and_nowhere_else() {
        let f = format(
            "field:void * ptr; offset:4; size:8; signed:0;\nfield:__data_loc char[] name; offset:12; size:4;",
        );
        let mut raw = vec![0, 0, 0x10, 0];
        raw.extend(0xdead_u64.to_le_bytes());
        raw.extend((16u32 | 5 << 16).to_le_bytes());
        raw.extend(b"filp\0");
        let mut names = Names::default();
        let layout = Layout::new(&f).unwrap();
        let (interrupt, kind) = layout.decode(&raw, &mut names).unwrap();
        assert!(interrupt);
        assert_eq!(kind, Kind::Free { ptr: 0xdead, name: Some(names.intern(b"filp")) });
        for n in 0..raw.len() {
            assert!(layout.decode(&raw[..n], &mut names).is_none());
        }
    }

    #[test]
    fn an_unknown_field_size_names_event_and_field() {
        let f = format("field:u128 ptr; offset:8; size:16; signed:0;");
        let error = Layout::new(&f).unwrap_err();
        assert!(error.contains("kmem:kmem_cache_free") && error.contains("`ptr`"), "{error}");
        let error = Layout::new(&format("")).unwrap_err();
        assert!(error.contains("kmem:kmem_cache_free") && error.contains("`ptr`"), "{error}");
    }

    #[test]
    fn signs_and_sizes() {
        let n = |size, signed| Number { offset: 0, size, signed }.read(&[0xff; 8]).unwrap() as i64;
        assert_eq!((n(1, true), n(2, true), n(4, true), n(8, true)), (-1, -1, -1, -1));
        assert_eq!((n(1, false), n(2, false), n(4, false)), (255, 65535, 0xffff_ffff));
    }
}
