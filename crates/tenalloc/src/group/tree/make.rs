//! How a group comes to be: a record, a name, an owner, a place among its siblings.
//!
//! A program that has a group for each request makes one more often than it makes anything else of its size, so this counts
//! cache lines and locked instructions: the tree's lock is the only one taken, nothing is counted that the tree's lock
//! guards already, and the one line that is in no cache, the place of the name, is asked for before the lock.

use super::names::Spelled;
use super::{Links, MAX_DEPTH, NAME_MAX, NIL, Name, Node, Tree};
use crate::controller::Inner;
use crate::error::{Error, Result};
use crate::group::counter::Counter;
use core::cell::UnsafeCell;
use core::ptr::{NonNull, null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};

impl Tree {
    /// Makes a group; `parent` is `None` once, for the root. The new node has two holders: the tree and the caller.
    pub(crate) fn create(&self, inner: &Inner, parent: Option<&Node>, name: &str) -> Result<NonNull<Node>> {
        let spelled = parent.map(|parent| Spelled::new(parent, name));
        if let Some(spelled) = &spelled {
            if name.is_empty() || name.len() > NAME_MAX || !spelled.plain || matches!(name, "." | "..") {
                return Err(Error::BadName);
            }
            self.ahead.fetch(spelled);
        }
        if core::iter::successors(parent, |node| node.parent()).nth(MAX_DEPTH).is_some() {
            return Err(Error::Full { table: "levels of groups" });
        }
        let mut s = self.state.lock();
        let id = if s.free == NIL { s.high } else { s.free };
        let record = self.table.grow(id, &inner.meta, "groups")?;
        if let Some(spelled) = &spelled {
            if spelled.parent.is_removed() {
                return Err(Error::GroupRemoved);
            }
            self.make_place(&mut s, id, &inner.meta)?;
            if self.find(&s, spelled).is_some() {
                return Err(Error::Exists);
            }
        }
        let text = Name::new(name, &inner.meta)?;
        let owner = match inner.owners.create(&mut s.owners, record, &inner.meta) {
            Ok(owner) => owner,
            Err(e) => {
                // SAFETY: just made.
                unsafe { text.free(&inner.meta) };
                return Err(e);
            }
        };
        // Nothing fails from here on.
        if s.free == NIL {
            s.high += 1;
        } else {
            s.free = self.node(id).links(&s).next;
        }
        s.name_bytes += text.outside();
        // SAFETY: the tree's lock is held, mutably.
        let siblings = parent.map(|parent| unsafe { &mut *parent.links.get() });
        let next = siblings.as_ref().map_or(NIL, |links| links.first_child);
        // SAFETY: the record is free, so nobody else looks at it.
        unsafe {
            record.write(Node {
                counter: Counter::new(),
                parent: parent.map_or(null(), core::ptr::from_ref),
                name: text,
                removed: AtomicBool::new(false),
                owner,
                holders: AtomicU32::new(2),
                id,
                links: UnsafeCell::new(Links { first_child: NIL, next, prev: NIL, children: 0 }),
                chain: UnsafeCell::new(null_mut()),
                knobs: AtomicPtr::new(null_mut()),
                frozen: AtomicBool::new(false),
                made: s.made,
            });
        }
        s.nodes += 1;
        s.made = s.made.wrapping_add(1);
        if let (Some(siblings), Some(spelled)) = (siblings, &spelled) {
            siblings.first_child = id;
            siblings.children += 1;
            if next != NIL {
                self.node(next).edit(&mut s, |links| links.prev = id);
            }
            s.hash.put(spelled.hash, id);
            s.groups += 1;
        }
        Ok(record)
    }
}
