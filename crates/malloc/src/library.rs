//! Which library an address is in, and the group of that library.
//!
//! Asked for each call, so the answer for a page of code is kept in a table that is read without a lock. What is not
//! there is looked for in the ranges of code that were asked for before, and what is not there either in
//! `/proc/self/maps`. Nothing here allocates, and the loader, who may hold locks and be waiting for us, is not asked.
//!
//! Code at an address where another library was before, closed since, counts as that library's.

use crate::spin::Spin;
use crate::start;
use crate::text::Text;
use core::cell::UnsafeCell;
use core::fmt::Write;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, Ordering::*};
use tenalloc::Group;

/// Libraries at most; what is beyond counts as the first, code without a file.
const LIBRARIES: usize = 1024;
const RANGES: usize = 4096;
const PAGES: usize = 2048;

#[derive(Clone, Copy)]
struct Range {
    start: usize,
    end: usize,
    library: u16,
}

pub(crate) struct Table {
    ranges: [Range; RANGES],
    number: usize,
    libraries: usize,
}

/// For lines of a file: not on the stack, which may be a small one.
type Lines = [u8; 4096];

pub(crate) static TABLE: Spin<(Table, Lines)> = Spin::new((Table::new(), [0; 4096]));

/// Page of code << 16 | library + 1.
static KNOWN: [AtomicU64; PAGES] = [const { AtomicU64::new(0) }; PAGES];

struct Groups(UnsafeCell<[MaybeUninit<Group>; LIBRARIES]>);

// SAFETY: an entry is written once, under the table's lock, before its number is known to anybody.
unsafe impl Sync for Groups {}

static GROUPS: Groups = Groups(UnsafeCell::new([const { MaybeUninit::uninit() }; LIBRARIES]));

fn group(library: u16) -> &'static Group {
    // SAFETY: whoever knows the number came after the entry was written, and it stays.
    unsafe { (*GROUPS.0.get().cast::<MaybeUninit<Group>>().add(library.into())).assume_init_ref() }
}

/// The group of the library that `caller` is in.
pub(crate) fn group_of(caller: usize) -> &'static Group {
    let page = (caller >> 12) as u64;
    let known = &KNOWN[page as usize % PAGES];
    let seen = known.load(Acquire);
    if seen >> 16 == page && seen & 0xffff != 0 {
        return group((seen & 0xffff) as u16 - 1);
    }
    let Some(library) = TABLE.with(|(table, lines)| table.find(caller, lines)) else {
        return start::process();
    };
    known.store(page << 16 | u64::from(library + 1), Release);
    group(library)
}

impl Table {
    const fn new() -> Self {
        let none = Range { start: 0, end: 0, library: 0 };
        Self { ranges: [none; RANGES], number: 0, libraries: 0 }
    }

    fn look(&self, address: usize) -> Option<u16> {
        let at = self.ranges[..self.number].partition_point(|range| range.end <= address);
        self.ranges[..self.number].get(at).filter(|range| range.start <= address).map(|range| range.library)
    }

    /// `None`: it cannot be known now, or there is no memory for its group.
    #[cold]
    #[inline(never)]
    fn find(&mut self, address: usize, lines: &mut Lines) -> Option<u16> {
        if self.libraries == 0 {
            self.enter(b"[no file]")?;
        }
        if let Some(library) = self.look(address) {
            return Some(library);
        }
        let mut found = None;
        // Address 0: nobody in particular.
        if address > 0 {
            let read = each_line(c"/proc/self/maps", lines, |line| {
                let Some((start, end, name)) = code(line) else { return };
                if (start..end).contains(&address) {
                    found = if name.is_empty() { Some(0) } else { self.enter(name) };
                    self.add(Range { start, end, library: found.unwrap_or(0) });
                }
            });
            // Where the program has no descriptor left just now, nothing is known for good.
            if !read {
                return None;
            }
        }
        Some(found.unwrap_or(0))
    }

    /// Enters a range in place of those that were there before.
    fn add(&mut self, new: Range) {
        let old = &mut self.ranges[..self.number];
        let first = old.partition_point(|range| range.end <= new.start);
        let last = old.partition_point(|range| range.start < new.end);
        let number = self.number + 1 + first - last;
        if number <= RANGES {
            self.ranges.copy_within(last..self.number, first + 1);
            self.ranges[first] = new;
            self.number = number;
        }
    }

    /// The number of the library of that name.
    fn enter(&mut self, name: &[u8]) -> Option<u16> {
        let mut text = [0; 255];
        let mut text = Text::new(&mut text);
        let plain = |b: &u8| if (0x20..0x7f).contains(b) { char::from(*b) } else { '?' };
        name.iter().take(255).map(plain).for_each(|c| _ = text.write_char(c));
        let name = text.as_str();
        let same = (0..self.libraries as u16).find(|library| group(*library).name() == name);
        if same.is_some() || self.libraries == LIBRARIES {
            return same;
        }
        let made = start::process().create(name).ok()?;
        start::limit(&made);
        let library = self.libraries;
        // SAFETY: nobody knows this number yet.
        unsafe { (*GROUPS.0.get().cast::<MaybeUninit<Group>>().add(library)).write(made) };
        self.libraries += 1;
        Some(library as u16)
    }
}

/// Range and file of a line like `7f..-7f.. r-xp 00001000 08:01 123 /usr/lib/libc.so.6`, if it is one of code.
fn code(line: &[u8]) -> Option<(usize, usize, &[u8])> {
    let mut words = line.split(|b| *b == b' ').filter(|word| !word.is_empty());
    let mut ends = words.next()?.split(|b| *b == b'-').map(hexadecimal);
    let (start, end) = (ends.next()??, ends.next()??);
    if words.next()?.get(2) != Some(&b'x') {
        return None;
    }
    let name = match line.iter().position(|b| matches!(b, b'/' | b'[')) {
        Some(at) if line[at] == b'/' => line[at..].rsplit(|b| *b == b'/').next().unwrap_or_default(),
        Some(at) => &line[at..],
        None => b"",
    };
    Some((start, end, name.strip_suffix(b" (deleted)").unwrap_or(name)))
}

fn hexadecimal(word: &[u8]) -> Option<usize> {
    usize::from_str_radix(core::str::from_utf8(word).ok()?, 16).ok()
}

/// Calls `each` for the lines of a file; of a line longer than 4 KiB for its beginning. False: there is no descriptor left
/// to read it with; a file that is not there is an empty one.
fn each_line(path: &core::ffi::CStr, buffer: &mut Lines, mut each: impl FnMut(&[u8])) -> bool {
    let mut held = 0;
    // SAFETY: the path ends with a NUL; reads go into the free part of the buffer; the descriptor is closed again.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return !matches!(*libc::__errno_location(), libc::EMFILE | libc::ENFILE);
        }
        loop {
            let n = libc::read(fd, buffer.as_mut_ptr().add(held).cast(), buffer.len() - held);
            if n <= 0 {
                break;
            }
            held += n as usize;
            let mut start = 0;
            while let Some(length) = buffer[start..held].iter().position(|b| *b == b'\n') {
                each(&buffer[start..start + length]);
                start += length + 1;
            }
            if start == 0 && held == buffer.len() {
                held = 0;
            }
            buffer.copy_within(start..held.max(start), 0);
            held = held.saturating_sub(start);
        }
        libc::close(fd);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_file() {
        let (mut lines, mut found) = (0, 0);
        let here = lines_of_a_file as *const () as usize;
        each_line(c"/proc/self/maps", &mut [0; 4096], |line| {
            lines += 1;
            found += usize::from(code(line).is_some_and(|(start, end, _)| (start..end).contains(&here)));
        });
        assert!(lines > 5);
        assert_eq!(found, 1);
    }

    #[test]
    fn a_line_of_code() {
        let line = b"7f00-7f80 r-xp 00026000 fd:00 1311  /usr/lib/a b/libc.so.6 (deleted)";
        assert_eq!(code(line), Some((0x7f00, 0x7f80, &b"libc.so.6"[..])));
        assert_eq!(code(b"7f00-7f80 r-xp 00000000 00:00 0 "), Some((0x7f00, 0x7f80, &b""[..])));
        assert_eq!(code(b"7f00-7f80 r-xp 00000000 00:00 0  [vdso]"), Some((0x7f00, 0x7f80, &b"[vdso]"[..])));
        assert_eq!(code(b"7f00-7f80 rw-p 00026000 fd:00 1311  /usr/lib/libc.so.6"), None);
        assert_eq!((code(b""), code(b"x-y r-xp")), (None, None));
    }

    #[test]
    fn a_new_range_takes_the_place_of_what_it_covers() {
        let mut table = Table::new();
        for (start, end, library) in [(50, 60, 1), (10, 20, 2), (30, 40, 3), (35, 55, 4)] {
            table.add(Range { start, end, library });
        }
        assert_eq!(table.number, 2);
        assert_eq!(
            [10, 19, 20, 30, 35, 54, 55].map(|a| table.look(a)),
            [Some(2), Some(2), None, None, Some(4), Some(4), None]
        );
    }
}
