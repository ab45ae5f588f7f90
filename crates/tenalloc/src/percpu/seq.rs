//! Restartable sequences (P. Turner, A. Hunter, M. Desnoyers; Linux 4.18): a few instructions that the kernel begins
//! again if it preempts, moves or signals the thread in their middle. Three of them: to take an area, and to pop from or
//! push to one of its stacks.
//!
//! glibc (2.35 and later) registers an area of each thread with the kernel, at a fixed distance from the thread
//! pointer; we only use it. The interruption of other CPUs is membarrier's (Linux 5.10).

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri), not(feature = "loom")))]
pub(super) use x86_64::Sequences;

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri), not(feature = "loom"))))]
pub(super) use nowhere::Sequences;

/// Where there are none.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri), not(feature = "loom"))))]
mod nowhere {
    use crate::percpu::Slot;
    use core::ptr::NonNull;

    pub(in crate::percpu) enum Sequences {}

    impl Sequences {
        pub(in crate::percpu) fn detect() -> Option<Self> {
            None
        }

        pub(in crate::percpu) unsafe fn take<A>(&self, _: NonNull<A>, _: u32) -> Option<NonNull<A>> {
            match *self {}
        }

        pub(in crate::percpu) unsafe fn pop<A>(&self, _: NonNull<A>, _: u32, _: Slot) -> Option<NonNull<u8>> {
            match *self {}
        }

        pub(in crate::percpu) unsafe fn push<A>(
            &self,
            _: NonNull<A>,
            _: u32,
            _: Slot,
            _: *const u32,
            _: NonNull<u8>,
        ) -> bool {
            match *self {}
        }

        pub(in crate::percpu) fn interrupt(&self) {
            match *self {}
        }

        #[cfg(not(feature = "loom"))]
        pub(in crate::percpu) fn register_again(&self) {
            match *self {}
        }
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri), not(feature = "loom")))]
mod x86_64 {
    use crate::percpu::shelf::layout;
    use crate::percpu::{Slot, node_of, row, shelf_of};
    use core::arch::asm;
    use core::ptr::NonNull;

    /// membarrier's commands (linux/membarrier.h).
    const EXPEDITED_RSEQ: i32 = 1 << 7;
    const REGISTER_EXPEDITED_RSEQ: i32 = 1 << 8;

    pub(in crate::percpu) struct Sequences {
        /// From the thread pointer to the thread's area.
        offset: isize,
    }

    fn membarrier(command: i32) -> bool {
        // SAFETY: takes two more numbers, no pointer.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    impl Sequences {
        /// `None`: this C library, or this kernel, has none.
        pub(in crate::percpu) fn detect() -> Option<Self> {
            // Weak symbols and not dlsym, which may allocate: this runs before a malloc that is made of this works.
            let (offset, size): (*const isize, *const u32);
            // SAFETY: reads two entries of the linker's table: addresses, or null where the C library has no such symbol.
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
            // SAFETY: the symbols are glibc's: a ptrdiff_t and an unsigned int that never change once the program runs.
            let (offset, size) = unsafe { (offset.as_ref()?, size.as_ref()?) };
            // Size 0: registration was refused or switched off.
            (*size > 0 && membarrier(REGISTER_EXPEDITED_RSEQ) && membarrier(EXPEDITED_RSEQ))
                .then_some(Self { offset: *offset })
        }

        /// Takes the area of this CPU: returns it if both words at its start were zero, of which the first is now 1.
        /// Nothing else is written.
        ///
        /// # Safety
        /// There are `cpus` areas of type `A` in a row; each begins with two 32-bit words.
        #[inline(always)]
        pub(in crate::percpu) unsafe fn take<A>(&self, areas: NonNull<A>, cpus: u32) -> Option<NonNull<A>> {
            let place: *mut A;
            // The sequence is from 4 to 5; the last store in it commits. Interrupted before, the thread goes on at 6,
            // which the kernel accepts because of the signature in front of it, and from there at 2.
            //
            // SAFETY: the area of the thread is registered by the C library; the one store goes to an area that exists,
            // since the CPU's number is compared first.
            unsafe {
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
                    ".popsection",
                    "2:",
                    "lea {place}, [rip + 3b]",
                    "mov qword ptr fs:[{rseq} + 8], {place}",
                    "4:",
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
                    "5:",
                    "jmp 8f",
                    "7:",
                    "xor {place:e}, {place:e}",
                    "8:",
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
        /// There are `cpus` rows in a row, each an area of type `A` and a shelf.
        #[inline(always)]
        pub(in crate::percpu) unsafe fn pop<A>(
            &self,
            areas: NonNull<A>,
            cpus: u32,
            slot: Slot,
        ) -> Option<NonNull<u8>> {
            let pointer: *mut u8;
            // As `take`. What is stored before the commit is where it looked.
            //
            // SAFETY: as in `take`; a stack on a shelf has `len` pointers.
            unsafe {
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
                    "7:",
                    "xor {pointer:e}, {pointer:e}",
                    "jmp 9f",
                    ".popsection",
                    "2:",
                    "lea {pointer}, [rip + 3b]",
                    "mov qword ptr fs:[{rseq} + 8], {pointer}",
                    "4:",
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
                    "5:",
                    "9:",
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
            // As `take`. What is stored before the commit lies above the length of the stack.
            //
            // SAFETY: as in `take`; a stack on a shelf has room for `limit` pointers.
            unsafe {
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
                    "7:",
                    "xor {t:e}, {t:e}",
                    "jmp 9f",
                    ".popsection",
                    "2:",
                    "lea {at}, [rip + 3b]",
                    "mov qword ptr fs:[{rseq} + 8], {at}",
                    "4:",
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
                    "5:",
                    "9:",
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

        /// In the child of a fork: Linux hands the registration down, but nothing says that it must.
        pub(in crate::percpu) fn register_again(&self) {
            membarrier(REGISTER_EXPEDITED_RSEQ);
        }

        /// Afterwards no sequence that began before is under way on any CPU, and all that its threads wrote is seen.
        pub(in crate::percpu) fn interrupt(&self) {
            if !membarrier(EXPEDITED_RSEQ) {
                // It worked when it was tried; a filter for system calls came in between. To go on would be to share
                // what must not be shared.
                const TEXT: &[u8] = b"tenalloc: membarrier is not allowed any more; it must stay allowed\n";
                // SAFETY: a live buffer; `abort` does not return.
                unsafe {
                    libc::write(2, TEXT.as_ptr().cast(), TEXT.len());
                    libc::abort();
                }
            }
        }
    }
}
