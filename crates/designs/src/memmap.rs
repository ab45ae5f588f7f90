//! Address → slab, in two reads: the place of the kernel's `struct page` array (`virt_to_head_page()`).
//!
//! One word for each page of the engine. A table rather than a mask of the address, because a free names only an address:
//! whose slab it lies in, and so how large the slab is, must come from the address too; and because an address that was
//! never ours must be answered, not read.

use crate::Error;
use crate::engine::PAGE;

/// A leaf covers 1 GiB; its 1 MiB is zero pages of the system until used.
const LEAF_PAGES: usize = 1 << 18;
/// User space of the usual 64-bit machines: 48 bits of address.
const MAX_LEAVES: usize = (1 << 48) / (LEAF_PAGES * PAGE);

/// Which slab each page belongs to.
#[derive(Default)]
pub(crate) struct MemMap {
    leaves: Vec<Option<Box<[u32]>>>,
}

impl MemMap {
    /// The slab that holds `addr`.
    pub(crate) fn get(&self, addr: usize) -> Option<u32> {
        let page = addr / PAGE;
        self.leaves.get(page / LEAF_PAGES)?.as_ref()?[page % LEAF_PAGES].checked_sub(1)
    }

    /// Says that the pages of `[addr, addr + bytes)` belong to `slab`; `None`: to nobody.
    pub(crate) fn set(&mut self, addr: usize, bytes: usize, slab: Option<u32>) -> Result<(), Error> {
        let first = addr / PAGE;
        let last = first + bytes.div_ceil(PAGE);
        let leaves = last.div_ceil(LEAF_PAGES);
        if leaves > MAX_LEAVES || slab == Some(u32::MAX) {
            return Err(Error::TooMany("slabs, or an address above 48 bits"));
        }
        if leaves > self.leaves.len() {
            self.leaves.resize_with(leaves, || None);
        }
        let word = slab.map_or(0, |s| s + 1);
        for page in first..last {
            let leaf =
                self.leaves[page / LEAF_PAGES].get_or_insert_with(|| vec![0; LEAF_PAGES].into_boxed_slice());
            leaf[page % LEAF_PAGES] = word;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_of_a_run_and_no_other() {
        let mut map = MemMap::default();
        let leaf = LEAF_PAGES * PAGE;
        // Runs across the border of two leaves, and at address 0.
        for (addr, bytes) in [(5 * leaf - 2 * PAGE, 4 * PAGE), (0, PAGE), (3 * leaf, PAGE)] {
            assert_eq!(map.get(addr), None);
            map.set(addr, bytes, Some(7)).unwrap();
            assert_eq!(map.get(addr), Some(7));
            assert_eq!(map.get(addr + bytes - 1), Some(7));
            assert_eq!(map.get(addr + bytes), None);
            map.set(addr, bytes, None).unwrap();
            assert_eq!(map.get(addr), None);
            assert_eq!(map.get(addr + bytes - 1), None);
        }
        assert_eq!(map.get(usize::MAX), None);
        assert!(map.set(1 << 48, PAGE, Some(0)).is_err());
    }
}
