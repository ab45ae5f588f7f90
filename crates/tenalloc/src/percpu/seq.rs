//! Restartable sequences (P. Turner, A. Hunter, M. Desnoyers; Linux 4.18): a few instructions that the kernel begins
//! again if it preempts, moves or signals the thread in their middle.
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
    use core::ptr::NonNull;

    pub(in crate::percpu) enum Sequences {}

    impl Sequences {
        pub(in crate::percpu) fn detect() -> Option<Self> {
            None
        }

        pub(in crate::percpu) unsafe fn take<A>(&self, _: NonNull<A>, _: u32) -> Option<NonNull<A>> {
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
                    size = const size_of::<A>(),
                    options(nostack),
                );
            }
            NonNull::new(place)
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
