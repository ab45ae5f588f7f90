//! The sequences for x86-64. `fs` is the thread pointer; every load is an acquire and every store a release, so none of them
//! has to ask for it.

use super::Sequences;
use crate::percpu::shelf::layout;
use crate::percpu::{Slot, node_of, row, shelf_of};
use core::arch::asm;
use core::mem::offset_of;
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
/// It begins alike in all: `{at}` becomes the row of this CPU, or it goes to `$none` if there is none. `aside` is code out of
/// the way, at a label of its own; `after` follows the commit. `{t}` is a scratch register.
macro_rules! sequence {
    (
        none: $none:literal,
        aside: [$($aside:literal),*],
        sequence: [$($step:literal),* $(,)?],
        after: [$($after:literal),*],
        $self:ident, $($operands:tt)*
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
            "lea {t}, [rip + 3b]",
            "mov {at}, qword ptr [{s} + {offset}]",
            "mov qword ptr fs:[{at} + 8], {t}",
            "4:",
            "mov {at:e}, dword ptr fs:[{at} + 4]",
            "cmp {at:e}, dword ptr [{s} + {cpus}]",
            concat!("jae ", $none),
            "imul {at}, {at}, {size}",
            "add {at}, qword ptr [{s} + {rows}]",
            $($step,)*
            "5:",
            $($after,)*
            s = in(reg) $self,
            offset = const offset_of!(Sequences, offset),
            cpus = const offset_of!(Sequences, cpus),
            rows = const offset_of!(Sequences, rows),
            size = const row::<A>(),
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
                none: "7f",
                aside: [],
                sequence: [
                    // One compare of both would wait for the last store to the first to reach the cache.
                    "cmp dword ptr [{at}], 0",
                    "jne 7f",
                    "cmp dword ptr [{at} + 4], 0",
                    "jne 7f",
                    "mov dword ptr [{at}], 1",
                ],
                after: ["jmp 8f", "7:", "xor {at:e}, {at:e}", "8:"],
                self,
                at = out(reg) place,
                t = out(reg) _,
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
        let pointer: *mut u8;
        // What is stored before the commit is where it looked.
        //
        // SAFETY: `detect` found the thread's area registered. The row exists, as its number is compared with `cpus` first;
        // nobody has it, so its shelf is this CPU's to read and write until the sequence is interrupted. An entry with this
        // key (never 0) has a stack; what lies below its top is read: the last pointer, or null if there is none. Then
        // the top is written.
        unsafe {
            sequence!(
                none: "7b",
                aside: ["7:", "xor {pointer:e}, {pointer:e}", "jmp 9f"],
                sequence: [
                    "cmp qword ptr [{at}], 0",
                    "jne 7b",
                    "lea {entry}, [{at} + {steps} * {step} + {shelf} + {sets}]",
                    "cmp qword ptr [{entry}], {key}",
                    "je 8f",
                    "add {entry}, {next}",
                    "cmp qword ptr [{entry}], {key}",
                    "jne 7b",
                    "8:",
                    "mov qword ptr [{at} + {shelf}], {entry}",
                    "mov {t}, qword ptr [{entry} + {top}]",
                    "mov {pointer}, qword ptr [{t} - 8]",
                    "test {pointer}, {pointer}",
                    "jz 7b",
                    "sub {t}, 8",
                    "mov qword ptr [{entry} + {top}], {t}",
                ],
                after: ["9:"],
                self,
                pointer = out(reg) pointer,
                at = out(reg) _,
                t = out(reg) _,
                entry = out(reg) _,
                key = in(reg) slot.key,
                steps = in(reg) u64::from(slot.steps),
                step = const layout::SET / Slot::STEP as usize,
                shelf = const shelf_of::<A>(),
                sets = const layout::SETS,
                top = const layout::TOP,
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
        // What is stored before the commit lies above the top of the stack.
        //
        // SAFETY: `detect` found the thread's area registered. The row exists, as its number is compared with `cpus` first;
        // nobody has it, so its shelf is this CPU's to read and write until the sequence is interrupted. Its word `last` is
        // always an entry of it, and an entry with this key (never 0) has a stack. At its top is read: its own address if there
        // is no room, else a place for a pointer, which is written, and then the top. In front of the first pointer lies
        // the header.
        unsafe {
            sequence!(
                none: "{none}",
                aside: [],
                sequence: [
                    "cmp qword ptr [{at}], 0",
                    "jne {none}",
                    "mov {t:e}, dword ptr [{beside} + {low}]",
                    "xor {t:e}, dword ptr [{at} + {node}]",
                    "or {t}, {key}",
                    "mov {entry}, qword ptr [{at} + {shelf}]",
                    "cmp qword ptr [{entry}], {t}",
                    "je 8f",
                    "lea {entry}, [{at} + {steps} * {step} + {shelf} + {sets}]",
                    "cmp qword ptr [{entry}], {t}",
                    "je 8f",
                    "add {entry}, {next}",
                    "cmp qword ptr [{entry}], {t}",
                    "jne {none}",
                    "8:",
                    "mov {t}, qword ptr [{entry} + {top}]",
                    "cmp qword ptr [{t}], {t}",
                    "je {none}",
                    "cmp qword ptr [{t} - 8], {pointer}",
                    "je {none}",
                    "mov qword ptr [{t}], {pointer}",
                    "add {t}, 8",
                    "mov qword ptr [{entry} + {top}], {t}",
                ],
                after: [],
                self,
                at = out(reg) _,
                t = out(reg) _,
                entry = out(reg) _,
                beside = in(reg) beside.as_ptr(),
                low = const LOW,
                node = const node_of(),
                pointer = in(reg) pointer.as_ptr(),
                key = in(reg) slot.key,
                steps = in(reg) u64::from(slot.steps),
                step = const layout::SET / Slot::STEP as usize,
                shelf = const shelf_of::<A>(),
                sets = const layout::SETS,
                top = const layout::TOP,
                next = const layout::ENTRY,
                none = label { return false },
            );
        }
        true
    }
}
