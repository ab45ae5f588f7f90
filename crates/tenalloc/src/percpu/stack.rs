//! A stack of pointers in one block of metadata, apart from the shelf on which a CPU uses it: it also lies on a
//! pile with others.
//!
//! ```text
//!   header … 0 │ pointer 0 │ … │ pointer len - 1 │ free … │ end
//!                                                 ▲ top
//! ```
//!
//! Where its top is says the shelf, in the place that the key is in: to pop or to push, nothing of the header is read. What
//! lies in front of the first pointer is null, and what lies behind the last place is its own address, which no pointer
//! is that a shelf is given; so who reads there sees that it is empty, or full.

use crate::meta::Meta;
use core::ptr::{NonNull, null_mut};

/// A stack: this header, and room for `limit` pointers behind it.
#[repr(C)]
pub(crate) struct Stack {
    /// How many pointers, while it is on no shelf.
    len: u16,
    limit: u16,
    /// The CPU from whose shelf it came to a pile.
    left_by: u16,
    /// The shelf's owner's.
    pub(crate) note: Note,
    /// The shelf's owner's: what the pointers are.
    pub(crate) of: *const (),
    /// Under which it is, or was last.
    pub(super) key: u64,
    /// The stack below it on its pile.
    below: *mut Stack,
    /// The next pile, of the top of one. Null on a shelf: it is what lies in front of the first pointer.
    next: *mut Stack,
}

const _: () = assert!(core::mem::offset_of!(Stack, next) + size_of::<usize>() == size_of::<Stack>());

/// What the shelf's owner remembers of a stack.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Note {
    /// Its length when it was looked at last, and of its last pointer so much as tells it from most others.
    pub(crate) counted: u16,
    pub(crate) topmost: u16,
    /// Pointers that the next miss brings along.
    pub(crate) refill: u8,
    /// Pointers that it let go when it was full.
    pub(crate) refused: u8,
    /// Misses after that: what would have been kept would have been used.
    pub(crate) wanted: u8,
    /// How often in a row it was as long as before when its turn came.
    pub(crate) idle: u8,
}

/// What is seen of a stack, wherever it is.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    key: u64,
    len: u32,
    left_by: u16,
    pub(crate) of: *const (),
}

impl Seen {
    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The CPU whose it was, as [`Bundle::leave`] was told.
    pub(crate) fn left_by(&self) -> u16 {
        self.left_by
    }
}

impl Stack {
    /// The address of pointer number `index`, which is at most `limit`.
    fn pointer(&self, index: u32) -> NonNull<*mut u8> {
        // A reference to the header ends where the pointers begin: what may be reached through it does, too.
        let at = core::ptr::from_ref(self).addr() + size_of::<Self>() + index as usize * size_of::<*mut u8>();
        // SAFETY: not null, as it is behind a header; `create` exposed the block.
        unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(at)) }
    }

    /// Where the top of a stack with so many pointers is.
    pub(super) fn top(&self, len: u32) -> *mut *mut u8 {
        self.pointer(len).as_ptr()
    }

    /// How many pointers are below `top`.
    pub(super) fn below(&self, top: *mut *mut u8) -> u32 {
        ((top.addr() - self.pointer(0).addr().get()) / size_of::<*mut u8>()) as u32
    }

    pub(super) fn set_len(&mut self, len: u32) {
        debug_assert!(len <= self.limit());
        self.len = len as u16;
    }

    pub(crate) fn len(&self) -> u32 {
        self.len.into()
    }

    pub(crate) fn limit(&self) -> u32 {
        self.limit.into()
    }

    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    pub(super) fn seen(&self, len: u32) -> Seen {
        Seen { key: self.key, len, left_by: self.left_by, of: self.of }
    }

    /// The last of `len` pointers.
    pub(super) fn last_of(&self, len: u32) -> Option<*mut u8> {
        // SAFETY: the pointers below the top are initialised.
        len.checked_sub(1).map(|last| unsafe { self.pointer(last).read() })
    }

    /// Lays another on `len` pointers. False: there is no room.
    pub(super) fn push_on(&mut self, len: u32, pointer: *mut u8) -> bool {
        let room = len < self.limit();
        if room {
            // SAFETY: below the limit.
            unsafe { self.pointer(len).write(pointer) };
        }
        room
    }

    /// Takes the lowest of `len` pointers, as many as `into` has room for. `None`: there are fewer, and nothing was done;
    /// else how many are left.
    pub(super) fn take_lowest_of(&mut self, len: u32, into: &mut [*mut u8]) -> Option<u32> {
        let rest = (len as usize).checked_sub(into.len())?;
        let (lowest, number) = (self.pointer(0), into.len());
        // SAFETY: `len` pointers are initialised, of which these are the first and those the rest.
        unsafe {
            lowest.copy_to_nonoverlapping(NonNull::from(&mut *into).cast(), number);
            lowest.add(number).copy_to(lowest, rest);
        }
        Some(rest as u32)
    }

    /// Takes the last one, while it is on no shelf.
    pub(super) fn pop(&mut self) -> Option<*mut u8> {
        let last = self.last_of(self.len())?;
        self.len -= 1;
        Some(last)
    }
}

/// What a stack takes: its header, the pointers, and the end.
const fn bytes(limit: u32) -> usize {
    size_of::<Stack>() + (limit as usize + 1) * size_of::<*mut u8>()
}

/// The largest limit whose stack takes no larger block than one of `limit` rounded up to a power of two.
pub(crate) const fn rounded(limit: u32) -> u32 {
    (bytes(limit).next_power_of_two() - bytes(0)) as u32 / size_of::<*mut u8>() as u32
}

/// A stack that is its holder's alone.
pub(crate) struct Bundle(pub(super) NonNull<Stack>);

impl Bundle {
    /// `None`: no memory.
    pub(crate) fn create(limit: u32, of: *const (), key: u64, meta: &Meta) -> Option<Self> {
        let block = meta.alloc(bytes(limit))?.cast::<Stack>();
        let stack = Stack {
            len: 0,
            limit: limit as u16,
            left_by: 0,
            note: Note::default(),
            of,
            key,
            below: null_mut(),
            next: null_mut(),
        };
        block.as_ptr().expose_provenance();
        // SAFETY: a block of ours, large enough for a header, `limit` pointers and the end.
        unsafe {
            block.write(stack);
            let end = block.as_ref().pointer(limit);
            end.write(core::ptr::without_provenance_mut(end.addr().get()));
        }
        Some(Self(block))
    }

    pub(crate) fn stack(&self) -> &Stack {
        // SAFETY: the holder's alone.
        unsafe { self.0.as_ref() }
    }

    /// It comes from the shelf of `cpu`.
    pub(crate) fn leave(mut self, cpu: u16) -> Self {
        self.stack_mut().left_by = cpu;
        self
    }

    pub(crate) fn seen(&self) -> Seen {
        self.stack().seen(self.stack().len())
    }

    pub(super) fn stack_mut(&mut self) -> &mut Stack {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }

    /// Holds what the first `len` pointers of `other` are, which is as much as there is room for at most.
    pub(super) fn copy_from(&mut self, other: &Stack, len: u32) {
        let to = self.stack_mut();
        to.set_len(len.min(to.limit()));
        // SAFETY: both have room for so many pointers, and are two blocks.
        unsafe { to.pointer(0).copy_from_nonoverlapping(other.pointer(0), to.len() as usize) };
    }

    /// Gives its memory back; what is left in it is forgotten.
    pub(crate) fn free(self, meta: &Meta) {
        let limit = self.stack().limit();
        // SAFETY: made with this limit, and nobody else's.
        unsafe { meta.free(self.0.cast(), bytes(limit)) };
    }
}

/// Stacks, those of one key and one CPU on one pile. Zeroed memory is an empty one.
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
    fn find(&mut self, mut wanted: impl FnMut(Seen) -> bool) -> *mut *mut Stack {
        let mut link = &raw mut self.0;
        // SAFETY: those in the piles are their own alone, and so are the links.
        while let Some(top) = unsafe { (*link).as_mut() }
            && !wanted(top.seen(top.len()))
        {
            link = &raw mut top.next;
        }
        link
    }

    /// Lays a stack on the pile of its key and CPU.
    pub(crate) fn push(&mut self, mut bundle: Bundle) {
        let stack = bundle.stack_mut();
        let link = self.find(|top| (top.key, top.left_by) == (stack.key, stack.left_by));
        // SAFETY: as in `find`.
        unsafe {
            stack.below = *link;
            stack.next =
                (*link).as_mut().map_or(null_mut(), |top| core::mem::replace(&mut top.next, null_mut()));
            *link = stack;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Seen> {
        // SAFETY: those in the piles are their own alone.
        let follow = |at: *mut Stack| unsafe { at.as_ref() };
        let tops = core::iter::successors(follow(self.0), move |top| follow(top.next));
        tops.flat_map(move |top| core::iter::successors(Some(top), move |stack| follow(stack.below)))
            .map(|stack| stack.seen(stack.len()))
    }

    /// The top of the first pile for which `wanted` holds.
    pub(crate) fn take(&mut self, wanted: impl FnMut(Seen) -> bool) -> Option<Bundle> {
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
