//! A stack of our own for what needs a deep one. Signal handlers run on what the program gave them, 8 KiB in every Rust
//! program, and threads may have 16 KiB in all; a report takes more than that.

use core::arch::naked_asm;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::null_mut;

const BYTES: usize = 128 << 10;

/// A mapping of zeros, for a while.
pub(crate) struct Mapped(pub(crate) *mut u8, pub(crate) usize);

impl Mapped {
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        // SAFETY: a new mapping where the kernel likes.
        let at = unsafe {
            libc::mmap(
                null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        (at != libc::MAP_FAILED).then_some(Self(at.cast(), bytes))
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: a whole mapping of ours, used no more.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}

/// Calls `f` on a stack of 128 KiB, with all signals held back: a handler that began meanwhile would take the program's
/// stack for signals for free, where our caller may be. Without memory for it `f` is not called.
pub(crate) fn deep(f: impl FnOnce()) {
    fn call<F: FnOnce()>(stack: &Mapped, f: F) {
        extern "C" fn run<F: FnOnce()>(f: *mut c_void) {
            // SAFETY: the closure below, taken once.
            if let Some(f) = unsafe { (*f.cast::<Option<F>>()).take() } {
                f();
            }
        }
        let mut f = Some(f);
        // SAFETY: the end of a fresh mapping, aligned to a page; `run` fits its argument, and does not unwind.
        unsafe { on(stack.0.add(stack.1), run::<F>, (&raw mut f).cast()) };
    }
    let Some(stack) = Mapped::new(BYTES) else { return };
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are written before they are read.
    unsafe {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    call(&stack, f);
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut()) };
}

/// Calls `f(argument)` on the stack that ends at `top`.
///
/// # Safety
/// `top` is a multiple of 16, and the stack below it large enough and nobody else's; `f` returns.
#[unsafe(naked)]
unsafe extern "C" fn on(top: *mut u8, f: extern "C" fn(*mut c_void), argument: *mut c_void) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rdi",
        "mov rdi, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_elsewhere_deep_enough_and_comes_back() {
        let here = 0u8;
        let mut away = 0;
        deep(|| {
            let used = [1u8; 100 << 10];
            away = (&raw const used).addr().abs_diff((&raw const here).addr());
            assert!(core::hint::black_box(&used).iter().all(|b| *b == 1));
        });
        assert!(away > 100 << 10);
    }
}
