//! A stack of pointers in one block of metadata, apart from the shelf on which a CPU uses it: it also lies on a
//! pile with others.

use crate::meta::Meta;
use core::ptr::{NonNull, null_mut};

/// A stack: this header, and room for `limit` pointers behind it.
#[repr(C)]
pub(crate) struct Stack {
    pub(super) len: u32,
    pub(super) limit: u32,
    /// The shelf's owner's.
    pub(crate) note: Note,
    /// Which place of its shelf it has.
    pub(super) place: u32,
    /// The shelf's owner's: what the pointers are.
    pub(crate) of: *const (),
    /// Under which it is, or was last.
    pub(super) key: u64,
    /// The stack below it on its pile.
    pub(super) below: *mut Stack,
    /// The next pile, of the top of one. Null on a shelf.
    pub(super) next: *mut Stack,
}

/// What the shelf's owner remembers of a stack.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Note {
    /// Pointers that the next miss brings along.
    pub(crate) refill: u8,
    /// Pointers that it let go when it was full.
    pub(crate) refused: u8,
    /// Misses after that: what would have been kept would have been used.
    pub(crate) wanted: u8,
    /// How often in a row it was as long as before when its turn came.
    pub(crate) idle: u8,
    /// Its length when it was looked at last.
    pub(crate) counted: u32,
}

impl Stack {
    fn pointer(&self, index: u32) -> NonNull<*mut u8> {
        // A reference to the header ends where the pointers begin: what may be reached through it does, too.
        let end = core::ptr::from_ref(self).addr() + bytes(index);
        // SAFETY: `limit` pointers follow the header, and callers stay below it; `create` exposed the block.
        unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(end)) }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    pub(crate) fn last(&self) -> Option<*mut u8> {
        // SAFETY: pointers below `len` are initialised.
        self.len.checked_sub(1).map(|last| unsafe { self.pointer(last).read() })
    }

    pub(crate) fn pop(&mut self) -> Option<*mut u8> {
        let last = self.last()?;
        self.len -= 1;
        Some(last)
    }

    /// Takes the lowest pointers, as many as `into` has room for. False: there are fewer, and nothing was done.
    pub(crate) fn take_lowest(&mut self, into: &mut [*mut u8]) -> bool {
        let Some(rest) = (self.len as usize).checked_sub(into.len()) else { return false };
        let (lowest, number) = (self.pointer(0), into.len());
        // SAFETY: `len` pointers are initialised, of which these are the first and those the rest.
        unsafe {
            lowest.copy_to_nonoverlapping(NonNull::from(&mut *into).cast(), number);
            lowest.add(number).copy_to(lowest, rest);
        }
        self.len = rest as u32;
        true
    }

    /// False: full.
    pub(crate) fn push(&mut self, pointer: *mut u8) -> bool {
        if self.len == self.limit {
            return false;
        }
        // SAFETY: below the limit.
        unsafe { self.pointer(self.len).write(pointer) };
        self.len += 1;
        true
    }
}

fn bytes(limit: u32) -> usize {
    size_of::<Stack>() + limit as usize * size_of::<*mut u8>()
}

/// The largest limit whose stack takes no larger block than one of `limit` rounded up to a power of two.
pub(crate) const fn rounded(limit: u32) -> u32 {
    let bytes = (size_of::<Stack>() + limit as usize * size_of::<*mut u8>()).next_power_of_two();
    ((bytes - size_of::<Stack>()) / size_of::<*mut u8>()) as u32
}

/// A stack that is its holder's alone.
pub(crate) struct Bundle(pub(super) NonNull<Stack>);

impl Bundle {
    /// `None`: no memory.
    pub(crate) fn create(limit: u32, of: *const (), key: u64, meta: &Meta) -> Option<Self> {
        let block = meta.alloc(bytes(limit))?.cast::<Stack>();
        let stack = Stack {
            len: 0,
            limit,
            note: Note::default(),
            place: 0,
            of,
            key,
            below: null_mut(),
            next: null_mut(),
        };
        // SAFETY: a block of ours, large enough.
        unsafe { block.write(stack) };
        block.as_ptr().expose_provenance();
        Some(Self(block))
    }

    pub(crate) fn stack(&self) -> &Stack {
        // SAFETY: the holder's alone.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn stack_mut(&mut self) -> &mut Stack {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }

    /// Takes over what `other` holds, as much as there is room for.
    pub(super) fn fill_from(&mut self, other: &mut Stack) {
        let to = self.stack_mut();
        to.len = other.len.min(to.limit);
        other.len -= to.len;
        // SAFETY: both have room for so many pointers, and are two blocks.
        unsafe { to.pointer(0).copy_from_nonoverlapping(other.pointer(other.len), to.len as usize) };
    }

    /// Gives its memory back; what is left in it is forgotten.
    pub(crate) fn free(self, meta: &Meta) {
        let limit = self.stack().limit;
        // SAFETY: made with this limit, and nobody else's.
        unsafe { meta.free(self.0.cast(), bytes(limit)) };
    }
}

/// Stacks, those of one key on one pile. Zeroed memory is an empty one.
#[repr(transparent)]
pub(crate) struct Piles(*mut Stack);

// SAFETY: the stacks belong to the piles alone.
unsafe impl Send for Piles {}

impl Piles {
    pub(crate) const fn new() -> Self {
        Self(null_mut())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_null()
    }

    /// The link to the first top of a pile for which `wanted` holds, or the last link.
    fn find(&mut self, mut wanted: impl FnMut(&Stack) -> bool) -> *mut *mut Stack {
        let mut link = &raw mut self.0;
        // SAFETY: those in the piles are their own alone, and so are the links.
        while let Some(top) = unsafe { (*link).as_mut() }
            && !wanted(top)
        {
            link = &raw mut top.next;
        }
        link
    }

    /// Lays a stack on the pile of its key.
    pub(crate) fn push(&mut self, mut bundle: Bundle) {
        let stack = bundle.stack_mut();
        let link = self.find(|top| top.key == stack.key);
        // SAFETY: as in `find`.
        unsafe {
            stack.below = *link;
            stack.next =
                (*link).as_mut().map_or(null_mut(), |top| core::mem::replace(&mut top.next, null_mut()));
            *link = stack;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stack> {
        // SAFETY: those in the piles are their own alone.
        let follow = |at: *mut Stack| unsafe { at.as_ref() };
        let tops = core::iter::successors(follow(self.0), move |top| follow(top.next));
        tops.flat_map(move |top| core::iter::successors(Some(top), move |stack| follow(stack.below)))
    }

    /// The top of the first pile for which `wanted` holds.
    pub(crate) fn take(&mut self, wanted: impl FnMut(&Stack) -> bool) -> Option<Bundle> {
        let link = self.find(wanted);
        // SAFETY: as in `find`.
        unsafe {
            let mut top = NonNull::new(*link)?;
            let next = core::mem::replace(&mut top.as_mut().next, null_mut());
            let below = core::mem::replace(&mut top.as_mut().below, null_mut());
            *link = match below.as_mut() {
                Some(below) => {
                    below.next = next;
                    below
                }
                None => next,
            };
            Some(Bundle(top))
        }
    }
}
