//! One name: in the node itself if it is short, else in a block of its own; and the path that names make.
//!
//! Most names are short (`tenant-4711`), and a block would cost 16 bytes, a pointer, and one more line at each look-up.

use super::Node;
use crate::error::{Error, Result};
use crate::meta::Meta;
use core::ptr::NonNull;

/// Longest name that needs no block, bytes.
const SHORT: usize = 13;

/// A name, of which no byte is aligned to anything: it fills what other fields of a node leave.
pub(super) struct Name {
    /// The bytes, or the address of a block with them.
    place: [u8; SHORT],
    len: u8,
}

impl Name {
    /// # Errors
    /// [`Error::NoMemory`] for a block.
    pub(super) fn new(name: &str, meta: &Meta) -> Result<Self> {
        let (mut place, bytes) = ([0; SHORT], name.len());
        if bytes <= SHORT {
            // Two numbers, and not a copy of so many bytes: that would be a call.
            let (low, high) = name.as_bytes().split_at(bytes.min(8));
            place[..8].copy_from_slice(&word(low).to_le_bytes());
            place[8..].copy_from_slice(&word(high).to_le_bytes()[..SHORT - 8]);
        } else {
            let block = meta.alloc(bytes).ok_or(Error::NoMemory { bytes })?;
            // SAFETY: a new block with room for so many bytes.
            unsafe { block.as_ptr().copy_from_nonoverlapping(name.as_ptr(), bytes) };
            // Exposed, since a pointer with its provenance does not fit between bytes.
            place[..size_of::<usize>()].copy_from_slice(&block.as_ptr().expose_provenance().to_ne_bytes());
        }
        Ok(Self { place, len: bytes as u8 })
    }

    fn block(&self) -> Option<NonNull<u8>> {
        let mut address = [0; size_of::<usize>()];
        address.copy_from_slice(&self.place[..size_of::<usize>()]);
        let block = NonNull::new(core::ptr::with_exposed_provenance_mut(usize::from_ne_bytes(address)));
        block.filter(|_| usize::from(self.len) > SHORT)
    }

    pub(super) fn as_str(&self) -> &str {
        let len = usize::from(self.len);
        let bytes = match self.block() {
            // SAFETY: a block that lives as long as the name, and holds so many bytes.
            Some(block) => unsafe { core::slice::from_raw_parts(block.as_ptr(), len) },
            None => &self.place[..len.min(SHORT)],
        };
        // SAFETY: the bytes were copied from a str.
        unsafe { core::str::from_utf8_unchecked(bytes) }
    }

    /// Bytes of metadata beside the node.
    pub(super) fn outside(&self) -> usize {
        if usize::from(self.len) > SHORT { Meta::rounded(self.len.into()) } else { 0 }
    }

    /// # Safety
    /// Nobody reads the name any more; this is called once.
    pub(super) unsafe fn free(&self, meta: &Meta) {
        if let Some(block) = self.block() {
            // SAFETY: the caller's promise; the block was made with this length.
            unsafe { meta.free(block, self.len.into()) };
        }
    }
}

/// The first eight bytes, fewer if there are no more, as a number: the first is its lowest byte.
#[inline]
pub(super) fn word(bytes: &[u8]) -> u64 {
    if let Some(eight) = bytes.first_chunk() {
        return u64::from_le_bytes(*eight);
    }
    match (bytes.first_chunk(), bytes.last_chunk()) {
        // Where the two overlap they are equal.
        (Some(first), Some(last)) => {
            let shift = 8 * (bytes.len() - 4);
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << shift
        }
        _ => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// Prints a node's path: `/` for the root, else `/a/b`.
pub(crate) struct Path<'a>(pub(crate) &'a Node);

impl core::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0.parent() {
            None => f.write_str("/"),
            Some(parent) => {
                if parent.parent().is_some() {
                    Path(parent).fmt(f)?;
                }
                f.write_str("/")?;
                f.write_str(self.0.name())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Os;
    extern crate std;
    use std::string::String;

    #[test]
    fn names_of_all_lengths_are_kept() {
        let meta = Meta::new(&Os);
        for len in 1..=255 {
            let text: String = ('a'..='z').cycle().skip(len).take(len).collect();
            let name = Name::new(&text, &meta).unwrap();
            assert_eq!(name.as_str(), text);
            assert_eq!(name.outside() > 0, len > SHORT);
            // SAFETY: given back once, and read no more.
            unsafe { name.free(&meta) };
        }
        // SAFETY: no block is used again.
        unsafe { meta.release() };
    }
}
