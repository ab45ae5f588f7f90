//! The sequences for aarch64: what `x86_64` does, and besides what that processor does unasked.
//!
//! Whoever had an area may have been moved to another CPU meanwhile, or came through its gate from there, and gives it
//! back with a store-release of `taken` or of `stopped`. So both words are read by one load-acquire, before anything of
//! the area. All else needs no order of its own: what was done on this CPU is in order for it, a thread that the kernel
//! moves sees what was done where it was, and whoever stops the area sees what was done here since he interrupts this CPU.

use super::Sequences;
use crate::percpu::shelf::layout;
use crate::percpu::{Slot, node_of, row, shelf_of};
use core::arch::asm;
use core::ptr::NonNull;

/// There are sequences.
pub(super) struct Here;

/// Where the C library has its `__rseq_offset` and `__rseq_size`; null: it has none.
pub(super) fn symbols() -> Option<(Here, *const isize, *const u32)> {
    // Weak symbols and not dlsym, which may allocate: this runs before a malloc that is made of this works.
    let (offset, size): (*const isize, *const u32);
    // SAFETY: reads two entries of the linker's table, which it makes because they are named here; writes nothing but the
    // two registers.
    unsafe {
        asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "adrp {offset}, :got:__rseq_offset",
            "adrp {size}, :got:__rseq_size",
            "ldr {offset}, [{offset}, :got_lo12:__rseq_offset]",
            "ldr {size}, [{size}, :got_lo12:__rseq_size]",
            offset = out(reg) offset,
            size = out(reg) size,
            options(nostack, pure, readonly, preserves_flags),
        );
    }
    Some((Here, offset, size))
}

/// Loads and acquires. The newer one does not wait for earlier store-releases, of which giving an area back is one.
#[cfg(target_feature = "rcpc")]
macro_rules! acquire {
    () => {
        "ldapr"
    };
}
#[cfg(not(target_feature = "rcpc"))]
macro_rules! acquire {
    () => {
        "ldar"
    };
}

// A key and its stack's top are loaded as a pair.
const _: () = assert!(layout::TOP == 8);

/// A sequence: from its label 4 to 5, and the last store in it commits. Interrupted before, the thread goes on at 6, which
/// the kernel accepts because of the signature in front of it (a `brk` with a number that is glibc's and the kernel's), and
/// from there at 2. Before 4 it says what it is about to run: the kernel forgets that at an interruption.
///
/// It begins alike in all: `{at}` becomes the row of this CPU, or it goes to 7 if there is none or somebody has the area.
/// `aside` is what is done at 7 and ends in front of 9, which follows the commit. It lies in a subsection and not in a
/// section of its own, since conditional branches reach no further than 1 MiB.
macro_rules! sequence {
    (aside: [$($aside:literal),*], sequence: [$($step:literal),* $(,)?], $self:ident, $($operands:tt)*) => {
        asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "3:",
            ".long 0, 0",
            ".quad 4f, 5f - 4f, 6f",
            ".popsection",
            ".subsection 1",
            ".inst 0xd428bc00",
            "6:",
            "b 2f",
            "7:",
            $($aside,)*
            "b 9f",
            ".previous",
            "2:",
            "mrs {t}, tpidr_el0",
            "adrp {at}, 3b",
            "add {t}, {t}, {rseq}",
            "add {at}, {at}, :lo12:3b",
            "str {at}, [{t}, #8]",
            "4:",
            "ldr {at:w}, [{t}, #4]",
            "cmp {at:w}, {cpus:w}",
            "b.hs 7b",
            "madd {at}, {at}, {size}, {areas}",
            concat!(acquire!(), " {t}, [{at}]"),
            "cbnz {t}, 7b",
            $($step,)*
            "5:",
            "9:",
            t = out(reg) _,
            rseq = in(reg) $self.offset,
            cpus = in(reg) $self.cpus,
            areas = in(reg) $self.rows.as_ptr(),
            size = in(reg) row::<A>(),
            $($operands)*
            options(nostack),
        )
    };
}

impl Sequences {
    /// Takes the area of this CPU: returns it if both words at its start were zero, of which the first is now 1.
    /// Nothing else is written.
    ///
    /// # Safety
    /// The rows begin with areas of type `A`.
    #[inline(always)]
    pub(in crate::percpu) unsafe fn take<A>(&self) -> Option<NonNull<A>> {
        let place: *mut A;
        // SAFETY: `detect` found the thread's area registered by the C library, at this offset. The one other store goes
        // to the first word of row number `cpu`, which exists since the number is compared with `cpus` first; a sequence
        // that is begun again has not made it.
        unsafe {
            sequence!(
                aside: ["mov {at}, xzr"],
                sequence: ["mov {t:w}, #1", "str {t:w}, [{at}]"],
                self,
                at = out(reg) place,
            );
        }
        NonNull::new(place)
    }

    /// Pops the stack in `slot` of this CPU's shelf.
    ///
    /// # Safety
    /// Each row is an area of type `A`, which begins as all do, and a shelf.
    #[inline(always)]
    pub(in crate::percpu) unsafe fn pop<A>(&self, slot: Slot) -> Option<NonNull<u8>> {
        const { assert!(shelf_of::<A>() < 4096 * 8, "an offset in one instruction") };
        let pointer: *mut u8;
        // What is stored before the commit is where it looked.
        //
        // SAFETY: `detect` found the thread's area registered. The row exists, as its number is compared with `cpus` first;
        // nobody has it, so its shelf is this CPU's to read and write until the sequence is interrupted. An entry with this
        // key (never 0) has a stack; what lies below its top is read: the last pointer, or null if there is none. Then
        // the top is written.
        unsafe {
            sequence!(
                aside: ["mov {pointer}, xzr"],
                sequence: [
                    "add {entry}, {at}, {set}",
                    "ldp {pointer}, {top}, [{entry}]",
                    "cmp {pointer}, {key}",
                    "b.eq 8f",
                    "ldp {pointer}, {top}, [{entry}, #{next}]!",
                    "cmp {pointer}, {key}",
                    "b.ne 7b",
                    "8:",
                    "str {entry}, [{at}, #{shelf}]",
                    "ldr {pointer}, [{top}, #-8]!",
                    "cbz {pointer}, 7b",
                    "str {top}, [{entry}, #{top_of}]",
                ],
                self,
                pointer = out(reg) pointer,
                at = out(reg) _,
                entry = out(reg) _,
                top = out(reg) _,
                key = in(reg) slot.key,
                set = in(reg) slot.set() * layout::SET + shelf_of::<A>() + layout::SETS,
                shelf = const shelf_of::<A>(),
                top_of = const layout::TOP,
                next = const layout::ENTRY,
            );
        }
        NonNull::new(pointer)
    }

    /// Pushes to the stack in `slot` of this CPU's shelf, unless the same pointer is the last there. The low half of its key is
    /// read `LOW` bytes behind `beside`, and the CPU's node taken off.
    ///
    /// # Safety
    /// As for [`pop`](Self::pop), and 4 bytes may be read there.
    #[inline(always)]
    pub(in crate::percpu) unsafe fn push<A, const LOW: usize>(
        &self,
        slot: Slot,
        beside: NonNull<u8>,
        pointer: NonNull<u8>,
    ) -> bool {
        const { assert!(shelf_of::<A>() < 4096 * 8, "an offset in one instruction") };
        let done: u64;
        // What is stored before the commit lies above the top of the stack.
        //
        // SAFETY: `detect` found the thread's area registered. The row exists, as its number is compared with `cpus` first;
        // nobody has it, so its shelf is this CPU's to read and write until the sequence is interrupted. Its word `last` is
        // always an entry of it, and an entry with this key (never 0) has a stack. At its top is read: its own address if there
        // is no room, else a place for a pointer, which is written, and then the top. In front of the first pointer lies
        // the header.
        unsafe {
            sequence!(
                aside: ["mov {entry}, xzr"],
                sequence: [
                    "ldr {t:w}, [{beside}, #{low}]",
                    "ldr {found:w}, [{at}, #{node}]",
                    "ldr {entry}, [{at}, #{shelf}]",
                    "eor {t:w}, {t:w}, {found:w}",
                    "orr {t}, {t}, {key}",
                    "ldp {found}, {top}, [{entry}]",
                    "cmp {found}, {t}",
                    "b.eq 8f",
                    "add {entry}, {at}, {set}",
                    "ldp {found}, {top}, [{entry}]",
                    "cmp {found}, {t}",
                    "b.eq 8f",
                    "ldp {found}, {top}, [{entry}, #{next}]!",
                    "cmp {found}, {t}",
                    "b.ne 7b",
                    "8:",
                    "ldp {t}, {found}, [{top}, #-8]",
                    "cmp {found}, {top}",
                    "b.eq 7b",
                    "cmp {t}, {pointer}",
                    "b.eq 7b",
                    "str {pointer}, [{top}], #8",
                    "str {top}, [{entry}, #{top_of}]",
                ],
                self,
                at = out(reg) _,
                entry = out(reg) done,
                found = out(reg) _,
                top = out(reg) _,
                beside = in(reg) beside.as_ptr(),
                low = const LOW,
                node = const node_of(),
                pointer = in(reg) pointer.as_ptr(),
                key = in(reg) slot.key,
                set = in(reg) slot.set() * layout::SET + shelf_of::<A>() + layout::SETS,
                shelf = const shelf_of::<A>(),
                top_of = const layout::TOP,
                next = const layout::ENTRY,
            );
        }
        done != 0
    }
}
