//! A table of a few records made in advance, for models: loom's atomics cannot begin as zeroed memory.

use super::Record;
use crate::error::{Error, Result};
use crate::meta::Meta;
use crate::sync::atomic::{AtomicU32, AtomicU64};
use core::ptr::NonNull;
use core::sync::atomic::AtomicPtr;

pub(super) struct Table<T>([T; 8]);

impl Table<Record> {
    pub(super) fn new() -> Self {
        Self(core::array::from_fn(|_| Record {
            node: AtomicPtr::new(core::ptr::null_mut()),
            charged: AtomicU64::new(0),
            state: AtomicU32::new(0),
            refs: AtomicU32::new(0),
        }))
    }

    pub(super) fn get(&self, id: u32) -> Option<NonNull<Record>> {
        self.0.get(id as usize).map(NonNull::from)
    }

    pub(super) fn grow(&self, id: u32, _meta: &Meta, table: &'static str) -> Result<NonNull<Record>> {
        self.get(id).ok_or(Error::Full { table })
    }

    pub(super) fn resident(&self, used: u32) -> usize {
        used as usize * size_of::<Record>()
    }

    pub(super) unsafe fn shrink(&self, _used: u32, _touched: u32, _meta: &Meta) -> usize {
        0
    }

    pub(super) unsafe fn release(&self, _meta: &Meta) {}
}
