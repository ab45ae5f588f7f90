//! An array of pointers by kmem id, for D1 to D3: one a row, all of the same length, all growing at once.
//!
//! Follows `memcg_update_all_list_lrus()`: when an id does not fit, every array of every list_lru is made anew, twice as
//! long. What a new pointer leads to is the generation's idea: a head made now, or nothing yet.

use super::ledger::Ledger;
use super::link::Link;
use crate::Error;
use crate::kernel::list_lru::{POINTER, RCU};
use crate::linux_5_8::ids::KmemIds;
use crate::lists::What;

/// All arrays of a generation.
#[derive(Default)]
pub(super) struct Arrays {
    ids: KmemIds,
    rows: Vec<Option<Vec<Link>>>, // none: freed
    pointers: u64,                // in all of them
}

/// `struct list_lru_memcg` up to 5.17: an RCU head, then a pointer for each id. No ids, no array.
fn bytes(ids: usize) -> u64 {
    if ids == 0 { 0 } else { RCU + POINTER * ids as u64 }
}

impl Arrays {
    /// The lowest free id, and how many pointers were made because it did not fit.
    pub(super) fn take_id(
        &mut self,
        ledger: &mut Ledger,
        mut new: impl FnMut() -> Link,
    ) -> Result<(u32, u64), Error> {
        let before = self.ids.size();
        let id = self.ids.take()?;
        let mut made = 0;
        if self.ids.size() > before {
            for row in 0..self.rows.len() {
                made += self.grow(row, ledger, &mut new);
            }
        }
        Ok((id, made))
    }

    /// Gives an id back. No array gets shorter for it.
    pub(super) fn put_id(&mut self, id: u32) {
        self.ids.put(id);
    }

    /// The next row, and how many pointers it has.
    pub(super) fn add(&mut self, ledger: &mut Ledger, mut new: impl FnMut() -> Link) -> u64 {
        self.rows.push(Some(Vec::new()));
        self.grow(self.rows.len() - 1, ledger, &mut new)
    }

    fn grow(&mut self, row: usize, ledger: &mut Ledger, new: &mut impl FnMut() -> Link) -> u64 {
        let size = self.ids.size() as usize;
        let Some(Some(array)) = self.rows.get_mut(row) else { return 0 };
        let fresh = size - array.len();
        ledger.made(What::Index, bytes(size), 1);
        ledger.freed(What::Index, bytes(array.len()), 1);
        array.reserve_exact(fresh);
        array.resize_with(size, new);
        self.pointers += fresh as u64;
        fresh as u64
    }

    /// Frees a row; what it led to.
    pub(super) fn remove(&mut self, row: usize, ledger: &mut Ledger) -> Vec<Link> {
        let array = self.rows.get_mut(row).and_then(Option::take).unwrap_or_default();
        ledger.freed(What::Index, bytes(array.len()), 1);
        self.pointers -= array.len() as u64;
        array
    }

    /// Where a pointer leads to.
    #[inline]
    pub(super) fn get(&self, row: usize, id: u32) -> Link {
        let array = self.rows.get(row).and_then(Option::as_ref);
        array.and_then(|array| array.get(id as usize)).copied().unwrap_or(Link::NONE)
    }

    /// The pointer itself.
    pub(super) fn get_mut(&mut self, row: usize, id: u32) -> Option<&mut Link> {
        self.rows.get_mut(row)?.as_mut()?.get_mut(id as usize)
    }

    /// Bytes allocated by this process.
    pub(super) fn here(&self) -> u64 {
        self.pointers * size_of::<Link>() as u64
    }
}
