//! Where the kernel's map of all physical memory begins: `pointer - base` is the physical address of a slab object,
//! and that tells its NUMA node.
//!
//! The base is fixed on some machines and moved at every boot on others (KASLR moves it in steps of 1 GiB on
//! x86-64). The kernel tells it in one place that root can read: `/proc/kcore` is an ELF file whose loadable
//! segments carry virtual and physical addresses. Several segments are RAM and share one difference between the two;
//! the segment of the kernel's own text has another, and segments that are not RAM have the physical address -1
//! (or, before 4.8, 0). So the base is the difference that most bytes agree on, and it has to pass a second test:
//! the physical side of its segments must lie in memory that the machine has.
//!
//! Kernels built without `/proc/kcore` leave one way: to know that the base was not moved.

use crate::nodes::NodeRange;
use crate::root::Root;
use std::fs::File;
use std::io::Read;

/// How much of `/proc/kcore` is read: the ELF header and some hundred program headers fit in it.
const HEAD: u64 = 64 << 10;

/// A loadable segment of `/proc/kcore`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    virt: u64,
    phys: u64,
    bytes: u64,
}

/// The base of the direct map, or why it is not known.
pub(crate) fn base(root: &Root, nodes: &[NodeRange]) -> Result<u64, String> {
    match read_head(root) {
        Ok(head) => choose(&segments(&head)?, nodes),
        Err(why) => fixed(root).ok_or(why),
    }
}

fn read_head(root: &Root) -> Result<Vec<u8>, String> {
    let mut head = Vec::new();
    let file = File::open(root.path("/proc/kcore")).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => String::from("this kernel has no /proc/kcore (CONFIG_PROC_KCORE)"),
        std::io::ErrorKind::PermissionDenied => String::from("only root may read /proc/kcore"),
        _ => format!("/proc/kcore: {error}"),
    })?;
    file.take(HEAD).read_to_end(&mut head).map_err(|error| format!("/proc/kcore: {error}"))?;
    Ok(head)
}

/// The base on an x86-64 kernel that did not move it. The two values are part of the kernel's documented memory
/// layout; which one holds depends on the depth of the page tables (`la57` is shown only where five levels are in
/// use). That it was not moved is known from the boot option, or from the flag by which the kernel's loader tells
/// the kernel that it chose random places; a kernel started without that loader never moves.
fn fixed(root: &Root) -> Option<u64> {
    const LOADFLAGS: usize = 0x211;
    const KASLR: u8 = 2;
    let told =
        root.read("/proc/cmdline").is_ok_and(|text| text.split_whitespace().any(|word| word == "nokaslr"));
    let loaded = || std::fs::read(root.path("/sys/kernel/boot_params/data")).ok()?.get(LOADFLAGS).copied();
    let unmoved = told || loaded().is_some_and(|flags| flags & KASLR == 0);
    let flags = root.read("/proc/cpuinfo").ok()?;
    let flags: Vec<&str> = flags.lines().find(|line| line.starts_with("flags"))?.split_whitespace().collect();
    if !unmoved || !flags.contains(&"lm") {
        return None;
    }
    Some(if flags.contains(&"la57") { 0xff11_0000_0000_0000 } else { 0xffff_8880_0000_0000 })
}

fn bytes<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The loadable segments of a 64-bit ELF file in this machine's byte order.
fn segments(head: &[u8]) -> Result<Vec<Segment>, String> {
    const CLASS_64: u8 = 2;
    const LOAD: u32 = 1;
    if head.get(..4) != Some(b"\x7fELF") || head.get(4) != Some(&CLASS_64) {
        return Err(String::from("/proc/kcore does not begin as a 64-bit ELF file"));
    }
    let cut = || String::from("/proc/kcore ends within its program headers");
    let word = |at| bytes::<8>(head, at).map(u64::from_ne_bytes).ok_or_else(cut);
    let half = |at| bytes::<2>(head, at).map(u16::from_ne_bytes).ok_or_else(cut);
    let table = usize::try_from(word(32)?).map_err(|_| cut())?;
    let (size, count) = (usize::from(half(54)?), usize::from(half(56)?));
    let mut segments = Vec::new();
    for number in 0..count {
        let at = number.checked_mul(size).and_then(|offset| offset.checked_add(table)).ok_or_else(cut)?;
        let kind = bytes::<4>(head, at).map(u32::from_ne_bytes).ok_or_else(cut)?;
        if kind == LOAD {
            segments.push(Segment { virt: word(at + 16)?, phys: word(at + 24)?, bytes: word(at + 40)? });
        }
    }
    Ok(segments)
}

/// The difference that most bytes share, checked against the ranges of the nodes where these are known.
fn choose(segments: &[Segment], nodes: &[NodeRange]) -> Result<u64, String> {
    let ram = |segment: &&Segment| segment.phys != u64::MAX && segment.bytes > 0;
    let base_of = |segment: &Segment| segment.virt.wrapping_sub(segment.phys);
    let in_memory = |segment: &&Segment| {
        nodes.is_empty() || nodes.iter().any(|node| node.start <= segment.phys && segment.phys <= node.end)
    };
    let mut sums: Vec<(u64, u64)> = Vec::new();
    for segment in segments.iter().filter(ram).filter(in_memory) {
        let base = base_of(segment);
        match sums.iter_mut().find(|(known, _)| *known == base) {
            Some((_, sum)) => *sum = sum.saturating_add(segment.bytes),
            None => sums.push((base, segment.bytes)),
        }
    }
    let (base, _) = sums
        .into_iter()
        .max_by_key(|&(_, sum)| sum)
        .ok_or("no segment of /proc/kcore lies in the memory of this machine")?;
    let ends_in_memory = |segment: &Segment| {
        let last = segment.phys.saturating_add(segment.bytes - 1);
        nodes.is_empty() || nodes.iter().any(|node| node.start <= last && last <= node.end)
    };
    match segments.iter().filter(ram).filter(in_memory).find(|s| base_of(s) == base && !ends_in_memory(s)) {
        None => Ok(base),
        Some(Segment { phys, bytes, .. }) => Err(format!(
            "/proc/kcore maps {bytes:#x} bytes at {phys:#x}, more memory than the machine has there"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::Machine;

    const BASE: u64 = 0xffff_9c40_0000_0000;

    /// An ELF file as `/proc/kcore` begins: a note, the kernel's text, two pieces of RAM, and vmalloc.
    fn kcore() -> Vec<u8> {
        let mut file = vec![0u8; 64];
        file[..5].copy_from_slice(b"\x7fELF\x02");
        file[32..40].copy_from_slice(&64u64.to_ne_bytes());
        file[54..56].copy_from_slice(&56u16.to_ne_bytes());
        file[56..58].copy_from_slice(&5u16.to_ne_bytes());
        let text = (1u32, 0xffff_ffff_8100_0000, 0x100_0000, 0x300_0000);
        let low = (1, BASE + 0x1000, 0x1000, 0x9e000);
        let high = (1, BASE + 0x1_0000_0000, 0x1_0000_0000, 0x4000_0000);
        let vmalloc = (1, 0xffff_c900_0000_0000, u64::MAX, 1 << 44);
        for (kind, virt, phys, size) in [(4, 0, 0, 0), text, low, high, vmalloc] {
            file.extend_from_slice(&kind.to_ne_bytes());
            for word in [0u32; 3] {
                file.extend_from_slice(&word.to_ne_bytes());
            }
            for word in [virt, phys, size, size, 4096u64] {
                file.extend_from_slice(&word.to_ne_bytes());
            }
        }
        file
    }

    fn node(start: u64, end: u64) -> NodeRange {
        NodeRange { node: 0, start, end }
    }

    #[test]
    fn the_base_is_what_most_ram_agrees_on() {
        let segments = segments(&kcore()).expect("an ELF file");
        assert_eq!(segments.len(), 4);
        let nodes = [node(0, 0xbfff_ffff), node(0x1_0000_0000, 0x1_3fff_ffff)];
        assert_eq!(choose(&segments, &nodes), Ok(BASE));
        assert_eq!(choose(&segments, &[]), Ok(BASE));
    }

    #[test]
    fn a_base_that_does_not_fit_the_memory_is_not_given() {
        let segments = segments(&kcore()).expect("an ELF file");
        let short = [node(0, 0xbfff_ffff), node(0x1_0000_0000, 0x1_0fff_ffff)];
        assert!(choose(&segments, &short).is_err_and(|why| why.contains("more memory")));
        assert!(choose(&segments, &[node(1 << 50, 1 << 51)]).is_err());
    }

    #[test]
    fn a_file_cut_anywhere_is_an_error_or_whole() {
        let file = kcore();
        for end in 0..file.len() {
            assert!(segments(&file[..end]).is_err() || end >= file.len() - 8, "cut at {end}");
        }
    }

    #[test]
    fn without_kcore_only_a_base_that_was_not_moved_is_known() {
        let told = [
            ("/proc/cmdline", "quiet nokaslr\n"),
            ("/proc/cpuinfo", "processor : 0\nflags\t: fpu lm la57\n"),
        ];
        assert_eq!(base(&Machine::new(&told).root(), &[]), Ok(0xff11_0000_0000_0000));
        let silent = Machine::new(&[("/proc/cmdline", "quiet\n"), ("/proc/cpuinfo", "flags\t: fpu lm\n")]);
        let unknown = |machine: &Machine| {
            base(&machine.root(), &[]).is_err_and(|why| why.contains("CONFIG_PROC_KCORE"))
        };
        assert!(unknown(&silent));
        // The loader's flags lie at 0x211 of the boot parameters; 1 is "loaded high", 2 is "moved".
        silent.put("/sys/kernel/boot_params/data", &format!("{}\x03", "\0".repeat(0x211)));
        assert!(unknown(&silent));
        silent.put("/sys/kernel/boot_params/data", &format!("{}\x01", "\0".repeat(0x211)));
        assert_eq!(base(&silent.root(), &[]), Ok(0xffff_8880_0000_0000));
    }
}
