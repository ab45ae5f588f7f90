//! Restartable sequences (P. Turner, A. Hunter, M. Desnoyers; Linux 4.18): a few instructions that the kernel begins
//! again if it preempts, moves or signals the thread in their middle. Three of them: to take an area, and to pop from or
//! push to one of its stacks.
//!
//! glibc (2.35 and later) registers an area of each thread with the kernel, at a fixed distance from the thread
//! pointer; we only use it. The interruption of other CPUs is membarrier's (Linux 5.10).
//!
//! Here is what is the same on every processor. The instructions are in a file for each; `nowhere` stands in for all
//! others.

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri), not(feature = "loom")))]
#[path = "x86_64.rs"]
mod processor;

#[cfg(all(target_arch = "aarch64", target_os = "linux", not(miri), not(feature = "loom")))]
#[path = "aarch64.rs"]
mod processor;

#[cfg(any(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    not(target_os = "linux"),
    miri,
    feature = "loom"
))]
#[path = "nowhere.rs"]
mod processor;

use core::ptr::NonNull;

/// membarrier's commands (linux/membarrier.h).
const EXPEDITED_RSEQ: i32 = 1 << 7;
const REGISTER_EXPEDITED_RSEQ: i32 = 1 << 8;

/// What the sequences need to know, in one place that one register leads to.
#[repr(C)]
#[allow(dead_code, reason = "nobody's where there are no sequences")]
pub(super) struct Sequences {
    /// From the thread pointer to the thread's area, in which the kernel and the thread tell each other what they do.
    offset: isize,
    /// The first of `cpus` rows, each an area and a shelf.
    rows: NonNull<u8>,
    cpus: u32,
    /// A proof that this processor has them.
    here: processor::Here,
}

fn membarrier(command: i32) -> bool {
    // SAFETY: takes two more numbers, no pointer.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

impl Sequences {
    /// `None`: this processor, this C library or this kernel has none.
    ///
    /// # Safety
    /// There are `cpus` rows from `rows` on, for as long as this is used. Each begins with two 32-bit words, on an address
    /// of 8.
    pub(super) unsafe fn detect(rows: NonNull<u8>, cpus: u32) -> Option<Self> {
        let (here, offset, size) = processor::symbols()?;
        // SAFETY: each is null or the address of glibc's variable of that name, a ptrdiff_t and an unsigned int that never
        // change once the program runs.
        let (offset, size) = unsafe { (offset.as_ref()?, size.as_ref()?) };
        // Size 0: registration was refused or switched off.
        (*size > 0 && membarrier(REGISTER_EXPEDITED_RSEQ) && membarrier(EXPEDITED_RSEQ)).then_some(Self {
            offset: *offset,
            rows,
            cpus,
            here,
        })
    }

    /// In the child of a fork: Linux hands the registration down, but nothing says that it must.
    #[cfg(not(feature = "loom"))]
    pub(super) fn register_again(&self) {
        membarrier(REGISTER_EXPEDITED_RSEQ);
    }

    /// Afterwards no sequence that began before is under way on any CPU, and all that its threads wrote is seen.
    pub(super) fn interrupt(&self) {
        if !membarrier(EXPEDITED_RSEQ) {
            // It worked when it was tried; a filter for system calls came in between. To go on would be to share
            // what must not be shared.
            const TEXT: &[u8] = b"tenalloc: membarrier is not allowed any more; it must stay allowed\n";
            // SAFETY: a live buffer of that length; `abort` takes nothing and does not return.
            unsafe {
                libc::write(2, TEXT.as_ptr().cast(), TEXT.len());
                libc::abort();
            }
        }
    }
}
