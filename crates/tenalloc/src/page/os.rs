//! Pages from the operating system: mmap, mbind, madvise.

use super::Source;
use core::ptr::{NonNull, null_mut};

/// Anonymous private mappings; `mbind` prefers the node asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Os;

const MPOL_PREFERRED: libc::c_int = 1;

impl Source for Os {
    fn map(&self, bytes: usize, align: usize, node: Option<u8>) -> Option<NonNull<u8>> {
        let want = if align > super::PAGE { bytes.checked_add(align)? } else { bytes };
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let raw = unsafe {
            libc::mmap(
                null_mut(),
                want,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if raw == libc::MAP_FAILED {
            return None;
        }
        let start = trim(raw.cast(), want, bytes, align);
        if let Some(node) = node {
            bind(start, bytes, node);
        }
        NonNull::new(start)
    }

    unsafe fn unmap(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller gives back a whole mapping of ours.
        unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
    }

    unsafe fn remap(&self, start: NonNull<u8>, old: usize, new: usize, align: usize) -> Option<NonNull<u8>> {
        // SAFETY: a whole mapping of ours; without a flag it stays where it is.
        if unsafe { libc::mremap(start.as_ptr().cast(), old, new, 0) } != libc::MAP_FAILED {
            return Some(start);
        }
        let want = new.checked_add(align)?;
        // SAFETY: reserves addresses of the kernel's choice, of which the mapping then takes an aligned part.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let raw = libc::mmap(null_mut(), want, libc::PROT_NONE, flags, -1, 0);
            if raw == libc::MAP_FAILED {
                return None;
            }
            let to = trim(raw.cast(), want, new, align);
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            if libc::mremap(start.as_ptr().cast(), old, new, flags, to) == libc::MAP_FAILED {
                libc::munmap(to.cast(), new);
                return None;
            }
            NonNull::new(to)
        }
    }

    unsafe fn purge(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller says that the contents are not needed.
        let refused = unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_DONTNEED) } != 0;
        if refused {
            // Locked memory (mlockall) stays; it reads zeros all the same.
            // SAFETY: as above.
            unsafe { start.write_bytes(0, bytes) };
        }
    }
}

/// Cuts both ends off a mapping of ours that is `align` longer than `bytes`, and returns the aligned middle.
fn trim(raw: *mut u8, want: usize, bytes: usize, align: usize) -> *mut u8 {
    let before = if want > bytes { raw.align_offset(align) } else { 0 };
    // SAFETY: the mapping is `align` longer than `bytes`, so the aligned part lies inside it.
    let start = unsafe { raw.add(before) };
    let after = want - bytes - before;
    // SAFETY: both trimmed ends belong to the mapping just made and to nobody else.
    unsafe {
        if before > 0 {
            libc::munmap(raw.cast(), before);
        }
        if after > 0 {
            libc::munmap(start.add(bytes).cast(), after);
        }
    }
    start
}

/// Prefers `node` for memory not yet touched. A kernel without NUMA, or a sandbox that forbids the call, leaves
/// the memory wherever it falls: placement is a preference here, so the result is not looked at.
fn bind(start: *mut u8, bytes: usize, node: u8) {
    let mut mask = [0u64; 5];
    mask[node as usize / 64] |= 1 << (node % 64);
    // SAFETY: the range is ours, the mask outlives the call and holds more bits (320) than maxnode says.
    unsafe {
        libc::syscall(libc::SYS_mbind, start, bytes, MPOL_PREFERRED, mask.as_ptr(), 257usize, 0u32);
    }
}
