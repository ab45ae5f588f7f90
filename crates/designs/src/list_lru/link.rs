//! A list head and the links through the items on it: `struct list_lru_one` with `struct list_head`.
//!
//! The links are places in a table instead of addresses, so that nothing here is unsafe; sizes and steps are the
//! kernel's: two links in each head and item, adding, deleting and splicing in O(1).

use crate::lists::{ItemKey, LruKey};
use crate::{Error, GroupKey};

/// A place in a table, 8 bytes as a pointer. What is empty is not 0, so that memory of empty heads is written, as the
/// kernel writes it, and not shared pages of zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link(u64);

impl Link {
    /// Leads nowhere.
    pub(crate) const NONE: Self = Self(u64::MAX);

    /// Leads to `place`.
    pub(crate) fn to(place: usize) -> Self {
        Self(place as u64)
    }

    /// The place it leads to.
    #[inline]
    pub(crate) fn place(self) -> Option<usize> {
        (self != Self::NONE).then_some(self.0 as usize)
    }
}

/// `struct list_lru_one` up to 6.12.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct One {
    first: Link,
    last: Link,
    pub(crate) number: i64, // nr_items
}

const _: () = assert!(size_of::<One>() == 24);

impl One {
    /// Of no items.
    pub(crate) const EMPTY: Self = Self { first: Link::NONE, last: Link::NONE, number: 0 };

    /// Takes everything off.
    pub(crate) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::EMPTY)
    }

    /// Where a free head keeps the next free one.
    pub(crate) fn free_link(&mut self) -> &mut Link {
        &mut self.first
    }
}

/// What an object has of its list, and how its list is found: by its owner and the node of its memory.
#[derive(Clone, Copy)]
pub(crate) struct Item {
    next: Link,
    prev: Link,
    pub(crate) lru: LruKey,
    pub(crate) group: Option<GroupKey>,
    pub(crate) node: u8,
    listed: bool,
}

/// All items; free places are chained through `next`.
pub(crate) struct Items {
    all: Vec<Item>,
    free: Link,
}

impl Items {
    /// None.
    pub(crate) fn new() -> Self {
        Self { all: Vec::new(), free: Link::NONE }
    }

    /// An item that is on a list.
    pub(crate) fn get(&self, key: ItemKey) -> Option<&Item> {
        self.all.get(key.0 as usize).filter(|item| item.listed)
    }

    /// Puts a new item at the end of `one`: `list_add_tail()`.
    pub(crate) fn push(
        &mut self,
        one: &mut One,
        lru: LruKey,
        group: Option<GroupKey>,
        node: u8,
    ) -> Result<ItemKey, Error> {
        let item = Item { next: Link::NONE, prev: one.last, lru, group, node, listed: true };
        let at = match self.free.place() {
            Some(at) => {
                self.free = self.all[at].next;
                self.all[at] = item;
                at
            }
            None => {
                self.all.push(item);
                self.all.len() - 1
            }
        };
        let key = ItemKey(u32::try_from(at).map_err(|_| Error::TooMany("items"))?);
        match one.last.place() {
            Some(last) => self.all[last].next = Link::to(at),
            None => one.first = Link::to(at),
        }
        one.last = Link::to(at);
        one.number += 1;
        Ok(key)
    }

    /// Takes an item off `one`, which it is on: `list_del_init()`.
    pub(crate) fn remove(&mut self, one: &mut One, key: ItemKey) {
        let at = key.0 as usize;
        let Item { next, prev, .. } = self.all[at];
        match prev.place() {
            Some(prev) => self.all[prev].next = next,
            None => one.first = next,
        }
        match next.place() {
            Some(next) => self.all[next].prev = prev,
            None => one.last = prev,
        }
        one.number -= 1;
        self.all[at].listed = false;
        self.all[at].next = self.free;
        self.free = Link::to(at);
    }

    /// Moves all of `child` before what is on `parent`: `list_splice_init()`, which makes it the oldest there. No item is
    /// looked at but the two where the lists meet.
    pub(crate) fn splice(&mut self, child: One, parent: &mut One) {
        let (Some(_), Some(last)) = (child.first.place(), child.last.place()) else { return };
        self.all[last].next = parent.first;
        match parent.first.place() {
            Some(first) => self.all[first].prev = child.last,
            None => parent.last = child.last,
        }
        parent.first = child.first;
        parent.number += child.number;
    }

    /// The items of a list, oldest first.
    pub(crate) fn walk(&self, one: &One, show: &mut dyn FnMut(ItemKey)) {
        let mut at = one.first;
        while let Some(place) = at.place() {
            show(ItemKey(place as u32));
            at = self.all[place].next;
        }
    }
}
