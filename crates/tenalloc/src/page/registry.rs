//! Which addresses are chunks: one bit for each 2 MiB of address space.
//!
//! The bitmap covers 47 bits of addresses (8 MiB of address space, of which a 4 KiB page is touched for each
//! 64 GiB that hold a chunk), on aarch64 48 (16 MiB), so one load tells whether a pointer may be followed to a chunk
//! header. Addresses beyond (57-bit, or there 52-bit, mappings must be asked for) are never ours.

use super::chunk::CHUNK;
use super::{PAGE, Source};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the kernel gives a process that does not ask for more: x86-64 keeps one bit of 48 for itself, aarch64 has two tables.
const ADDRESS_BITS: u32 = if cfg!(target_arch = "aarch64") { 48 } else { 47 };
const WORDS: usize = (1 << ADDRESS_BITS) / CHUNK / 64;
const BYTES: usize = WORDS * 8;

pub(crate) struct Registry {
    words: NonNull<AtomicU64>,
}

// SAFETY: the words are atomics in memory that lives as long as the registry.
unsafe impl Send for Registry {}
// SAFETY: as above.
unsafe impl Sync for Registry {}

impl Registry {
    pub(crate) fn new(source: &dyn Source) -> Option<Self> {
        Some(Self { words: source.map(BYTES, PAGE, None)?.cast() })
    }

    fn word(&self, address: usize) -> Option<(&AtomicU64, u64)> {
        let chunk = address / CHUNK;
        // SAFETY: the index is below WORDS.
        (chunk < WORDS * 64).then(|| (unsafe { self.words.add(chunk / 64).as_ref() }, 1 << (chunk % 64)))
    }

    /// Whether the chunk that would hold `address` is ours.
    #[inline]
    pub(crate) fn has(&self, address: usize) -> bool {
        self.word(address).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    /// False where the address is beyond what is covered.
    pub(crate) fn insert(&self, address: usize) -> bool {
        self.word(address).map(|(word, bit)| word.fetch_or(bit, Relaxed)).is_some()
    }

    pub(crate) fn remove(&self, address: usize) {
        if let Some((word, bit)) = self.word(address) {
            word.fetch_and(!bit, Relaxed);
        }
    }

    /// # Safety
    /// The registry is not used again.
    pub(crate) unsafe fn release(&self, source: &dyn Source) {
        // SAFETY: the mapping made by `new`, whole.
        unsafe { source.unmap(self.words.cast(), BYTES) };
    }
}
