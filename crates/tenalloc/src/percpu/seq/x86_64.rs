//! The sequences for x86-64. `fs` is the thread pointer; every load is an acquire and every store a release, so none of them
//! has to ask for it.

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
            "mov {offset}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {size}, qword ptr [rip + __rseq_size@GOTPCREL]",
            offset = out(reg) offset,
            size = out(reg) size,
            options(nostack, pure, readonly, preserves_flags),
        );
    }
    Some((Here, offset, size))
}

/// A sequence: from its label 4 to 5, and the last store in it commits. Interrupted before, the thread goes on at 6, which
/// the kernel accepts because of the signature in front of it (`ud1` with a number that is glibc's and the kernel's), and
/// from there at 2. Before 4 it says what it is about to run: the kernel forgets that at an interruption.
///
/// `scratch` is an operand that the sequence writes before it reads it; `aside` is code out of the way, at a label of its
/// own; `after` follows the commit. `rseq` is the operand with [`Sequences::offset`].
macro_rules! sequence {
    (
        scratch: $scratch:literal,
        aside: [$($aside:literal),*],
        sequence: [$($step:literal),* $(,)?],
        after: [$($after:literal),*],
        $($operands:tt)*
    ) => {
        asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "3:",
            ".long 0, 0",
            ".quad 4f, 5f - 4f, 6f",
            ".popsection",
            ".pushsection __rseq_failure, \"ax\"",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "6:",
            "jmp 2f",
            $($aside,)*
            ".popsection",
            "2:",
            concat!("lea {", $scratch, "}, [rip + 3b]"),
            concat!("mov qword ptr fs:[{rseq} + 8], {", $scratch, "}"),
            "4:",
            $($step,)*
            "5:",
            $($after,)*
            $($operands)*
        )
    };
}

impl Sequences {
    /// Takes the area of this CPU: returns it if both words at its start were zero, of which the first is now 1.
    /// Nothing else is written.
    ///
    /// # Safety
    /// There are `cpus` areas of type `A` in a row; each begins with two 32-bit words.
    #[inline(always)]
    pub(in crate::percpu) unsafe fn take<A>(&self, areas: NonNull<A>, cpus: u32) -> Option<NonNull<A>> {
        let place: *mut A;
        // SAFETY: `detect` found the thread's area registered by the C library, at this offset. The one other store goes
        // to the first word of row number `cpu`, which exists since the number is compared with `cpus` first; a sequence
        // that is begun again has not made it.
        unsafe {
            sequence!(
                scratch: "place",
                aside: [],
                sequence: [
                    "mov {place:e}, dword ptr fs:[{rseq} + 4]",
                    "cmp {place:e}, {cpus:e}",
                    "jae 7f",
                    "imul {place}, {place}, {size}",
                    "add {place}, {areas}",
                    // One compare of both would wait for the last store to the first to reach the cache.
                    "cmp dword ptr [{place}], 0",
                    "jne 7f",
                    "cmp dword ptr [{place} + 4], 0",
                    "jne 7f",
                    "mov dword ptr [{place}], 1",
                ],
                after: ["jmp 8f", "7:", "xor {place:e}, {place:e}", "8:"],
                place = out(reg) place,
                rseq = in(reg) self.offset,
                cpus = in(reg) cpus,
                areas = in(reg) areas.as_ptr(),
                size = const row::<A>(),
                options(nostack),
            );
        }
        NonNull::new(place)
    }

    /// Pops the stack in `slot` of this CPU's shelf, with the CPU's node in the low part of its key.
    ///
    /// # Safety
    /// There are `cpus` rows in a row, each an area of type `A` that begins as all do and a shelf; `slot.set` is below
    /// `SETS`.
    #[inline(always)]
    pub(in crate::percpu) unsafe fn pop<A>(
        &self,
        areas: NonNull<A>,
        cpus: u32,
        slot: Slot,
    ) -> Option<NonNull<u8>> {
        let pointer: *mut u8;
        // What is stored before the commit is where it looked.
        //
        // SAFETY: `detect` found the thread's area registered. The row exists, as its number is compared with `cpus` first;
        // nobody has it, so its shelf is this CPU's to read and write until the sequence is interrupted. An entry with this
        // key (never 0) has a stack, whose pointer number `len - 1` is read, and then its length written.
        unsafe {
            sequence!(
                scratch: "pointer",
                aside: ["7:", "xor {pointer:e}, {pointer:e}", "jmp 9f"],
                sequence: [
                    "mov {at:e}, dword ptr fs:[{rseq} + 4]",
                    "cmp {at:e}, {cpus:e}",
                    "jae 7b",
                    "imul {at}, {at}, {size}",
                    "add {at}, {areas}",
                    "cmp qword ptr [{at}], 0",
                    "jne 7b",
                    "mov {t:e}, dword ptr [{at} + {node}]",
                    "or {t}, {key}",
                    "lea {pointer}, [{at} + {set} + {shelf} + {sets}]",
                    "cmp qword ptr [{pointer}], {t}",
                    "je 8f",
                    "add {pointer}, {entry}",
                    "cmp qword ptr [{pointer}], {t}",
                    "jne 7b",
                    "8:",
                    "mov qword ptr [{at} + {shelf}], {pointer}",
                    "mov {at}, qword ptr [{pointer} + {stack}]",
                    "mov {t:e}, dword ptr [{at}]",
                    "sub {t:e}, 1",
                    "jb 7b",
                    "mov {pointer}, qword ptr [{at} + {t} * 8 + {pointers}]",
                    "mov dword ptr [{at}], {t:e}",
                ],
                after: ["9:"],
                pointer = out(reg) pointer,
                at = out(reg) _,
                t = out(reg) _,
                rseq = in(reg) self.offset,
                cpus = in(reg) cpus,
                areas = in(reg) areas.as_ptr(),
                key = in(reg) slot.key,
                set = in(reg) slot.set << layout::SET_SHIFT,
                size = const row::<A>(),
                node = const node_of(),
                shelf = const shelf_of::<A>(),
                sets = const layout::SETS,
                stack = const layout::STACK,
                pointers = const layout::POINTERS,
                entry = const layout::ENTRY,
                options(nostack),
            );
        }
        NonNull::new(pointer)
    }

    /// Pushes to the stack in `slot` of this CPU's shelf, whose key's low part is read from `low`, unless the same pointer
    /// is the last there.
    ///
    /// # Safety
    /// As for [`pop`](Self::pop), and `low` may be read.
    #[inline(always)]
    pub(in crate::percpu) unsafe fn push<A>(
        &self,
        areas: NonNull<A>,
        cpus: u32,
        slot: Slot,
        low: *const u32,
        pointer: NonNull<u8>,
    ) -> bool {
        let done: u64;
        // What is stored before the commit lies above the length of the stack.
        //
        // SAFETY: `detect` found the thread's area registered. The row exists, as its number is compared with `cpus` first;
        // nobody has it, so its shelf is this CPU's to read and write until the sequence is interrupted. Its word `last` is
        // always an entry of it, and an entry with this key (never 0) has a stack with room for `limit` pointers: number
        // `len`, compared with that, is written, and then the length. In front of the first pointer lies the header.
        unsafe {
            sequence!(
                scratch: "at",
                aside: ["7:", "xor {t:e}, {t:e}", "jmp 9f"],
                sequence: [
                    "mov {at:e}, dword ptr fs:[{rseq} + 4]",
                    "cmp {at:e}, {cpus:e}",
                    "jae 7b",
                    "imul {at}, {at}, {size}",
                    "add {at}, {areas}",
                    "cmp qword ptr [{at}], 0",
                    "jne 7b",
                    "mov {t:e}, dword ptr [{low}]",
                    "or {t:r}, {key}",
                    "lea {there}, [{at} + {set} + {shelf} + {sets}]",
                    "mov {at}, qword ptr [{at} + {shelf}]",
                    "cmp qword ptr [{at}], {t}",
                    "je 8f",
                    "mov {at}, {there}",
                    "cmp qword ptr [{at}], {t}",
                    "je 8f",
                    "add {at}, {entry}",
                    "cmp qword ptr [{at}], {t}",
                    "jne 7b",
                    "8:",
                    "mov {at}, qword ptr [{at} + {stack}]",
                    "mov {t:e}, dword ptr [{at}]",
                    "cmp {t:e}, dword ptr [{at} + {limit}]",
                    "jae 7b",
                    "cmp qword ptr [{at} + {t} * 8 + {pointers} - 8], {pointer}",
                    "je 7b",
                    "mov qword ptr [{at} + {t} * 8 + {pointers}], {pointer}",
                    "add {t:e}, 1",
                    "mov dword ptr [{at}], {t:e}",
                ],
                after: ["9:"],
                at = out(reg) _,
                t = out(reg) done,
                low = in(reg) low,
                pointer = in(reg) pointer.as_ptr(),
                rseq = in(reg) self.offset,
                cpus = in(reg) cpus,
                areas = in(reg) areas.as_ptr(),
                key = in(reg) slot.key,
                set = in(reg) slot.set << layout::SET_SHIFT,
                there = out(reg) _,
                size = const row::<A>(),
                shelf = const shelf_of::<A>(),
                sets = const layout::SETS,
                stack = const layout::STACK,
                limit = const layout::LIMIT,
                pointers = const layout::POINTERS,
                entry = const layout::ENTRY,
                options(nostack),
            );
        }
        done != 0
    }
}
