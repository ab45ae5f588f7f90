//! A stack on its shelf, in the hands of who holds the area: its header, and its top, which the shelf has.

use super::shelf::Entry;
use super::stack::{Bundle, Stack};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// A place of a shelf that is taken.
pub(crate) struct Place<'a> {
    entry: &'a mut Entry,
    stack: &'a mut NonNull<Stack>,
}

impl<'a> Place<'a> {
    /// # Safety
    /// `stack` is a stack of the shelf's alone, of which `entry` has the key and the top.
    pub(super) unsafe fn new(entry: &'a mut Entry, stack: &'a mut NonNull<Stack>) -> Self {
        Self { entry, stack }
    }

    pub(crate) fn len(&self) -> u32 {
        self.below(self.entry.top)
    }

    fn set_len(&mut self, len: u32) {
        self.entry.top = self.top(len);
    }

    pub(crate) fn last(&self) -> Option<*mut u8> {
        self.last_of(self.len())
    }

    pub(crate) fn pop(&mut self) -> Option<NonNull<u8>> {
        let len = self.len();
        let last = self.last_of(len)?;
        self.set_len(len - 1);
        NonNull::new(last)
    }

    /// False: full.
    pub(crate) fn push(&mut self, pointer: *mut u8) -> bool {
        let len = self.len();
        let pushed = self.push_on(len, pointer);
        if pushed {
            self.set_len(len + 1);
        }
        pushed
    }

    /// Takes the lowest pointers, as many as `into` has room for. False: there are fewer, and nothing was done.
    pub(crate) fn take_lowest(&mut self, into: &mut [*mut u8]) -> bool {
        let len = self.len();
        self.take_lowest_of(len, into).inspect(|rest| self.set_len(*rest)).is_some()
    }

    /// Its header, with the length in it, as it is on no shelf any more.
    fn stack_off(&mut self) -> Bundle {
        let len = self.len();
        Stack::set_len(self, len);
        Bundle(*self.stack)
    }

    /// Puts another stack of the same key in its place, which takes over what is noted, and returns this one.
    pub(super) fn exchange(&mut self, mut bundle: Bundle) -> Bundle {
        debug_assert_eq!(bundle.stack().key, self.key);
        let old = self.stack_off();
        bundle.stack_mut().note = self.note;
        self.entry.top = bundle.stack().top(bundle.stack().len());
        *self.stack = bundle.0;
        old
    }

    /// Takes it away: the place is free.
    pub(super) fn take(mut self) -> Bundle {
        let old = self.stack_off();
        *self.entry = Entry::NONE;
        old
    }
}

impl Deref for Place<'_> {
    type Target = Stack;
    fn deref(&self) -> &Stack {
        // SAFETY: the shelf's alone, which this borrows.
        unsafe { self.stack.as_ref() }
    }
}

impl DerefMut for Place<'_> {
    fn deref_mut(&mut self) -> &mut Stack {
        // SAFETY: as above.
        unsafe { self.stack.as_mut() }
    }
}
