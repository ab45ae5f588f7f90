//! Operator new and delete, in all forms of C++20.
//!
//! A new that fails asks the program's new-handler again and again, and throws when there is none. Both are C++'s and
//! may throw through the frame that called them, which a frame of Rust's must not be: so that frame is assembly, and
//! Rust tells it only what to call.

use crate::c::ALIGN;
use crate::serve::{allocate, free};
use crate::tell;
use core::arch::{asm, naked_asm};
use core::ffi::{CStr, c_void};
use core::mem::transmute;

/// A function of the C++ library's, if the program has one: known to the loader when we came, or looked for now.
macro_rules! of_cxx {
    ($name:literal) => {{
        let at: *mut c_void;
        // SAFETY: reads an entry of the linker's table: an address, or null.
        unsafe {
            asm!(
                concat!(".weak ", $name),
                concat!("mov {at}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                at = out(reg) at,
                options(nostack, pure, readonly, preserves_flags),
            );
        }
        if at.is_null() { find(concat!($name, "\0")) } else { at }
    }};
}

fn find(name: &str) -> *mut c_void {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
    // SAFETY: the name ends with a NUL.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

extern "C" fn take(size: usize, align: usize, caller: usize) -> *mut c_void {
    allocate(size, align.max(ALIGN), false, caller).cast()
}

/// What to call when there is no memory: the program's handler, or null.
extern "C" fn handler() -> *mut c_void {
    let get = of_cxx!("_ZSt15get_new_handlerv");
    if get.is_null() {
        return get;
    }
    // SAFETY: std::get_new_handler: takes nothing, returns a pointer to a function, throws nothing.
    unsafe { transmute::<*mut c_void, extern "C" fn() -> *mut c_void>(get)() }
}

/// What throws std::bad_alloc.
extern "C" fn thrower() -> *mut c_void {
    let throw = of_cxx!("_ZSt17__throw_bad_allocv");
    if throw.is_null() {
        tell::line(format_args!("operator new: no memory, and no C++ library to tell it with"));
        // SAFETY: no preconditions.
        unsafe { libc::abort() }
    }
    throw
}

/// Exports news: `$before` puts the alignment into rsi, `$without` is what follows when there is no memory and no
/// handler.
macro_rules! news {
    ($($name:ident($($arg:ident: $type:ty),*): $before:literal, $without:literal;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`: an operator new.")]
        ///
        /// # Safety
        /// As in C++.
        #[unsafe(naked)]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[allow(non_snake_case, reason = "the names are C++'s")]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> *mut c_void {
            naked_asm!(
                ".cfi_startproc",
                $before,
                "sub rsp, 24",
                ".cfi_adjust_cfa_offset 24",
                "mov qword ptr [rsp], rdi",
                "mov qword ptr [rsp + 8], rsi",
                "2:",
                "mov rdi, qword ptr [rsp]",
                "mov rsi, qword ptr [rsp + 8]",
                "mov rdx, qword ptr [rsp + 24]",
                "call {take}",
                "test rax, rax",
                "je 3f",
                "4:",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "ret",
                ".cfi_adjust_cfa_offset 24",
                "3:",
                "call {handler}",
                "test rax, rax",
                "je 5f",
                "call rax",
                "jmp 2b",
                "5:",
                $without,
                "ud2",
                ".cfi_endproc",
                take = sym take,
                handler = sym handler,
                thrower = sym thrower,
            )
        }
    )*};
}

news! {
    _Znwm(size: usize): "mov esi, 16", "call {thrower}\ncall rax";
    _Znam(size: usize): "mov esi, 16", "call {thrower}\ncall rax";
    _ZnwmSt11align_val_t(size: usize, align: usize): "", "call {thrower}\ncall rax";
    _ZnamSt11align_val_t(size: usize, align: usize): "", "call {thrower}\ncall rax";
    _ZnwmRKSt9nothrow_t(size: usize, _0: *const c_void): "mov esi, 16", "xor eax, eax\njmp 4b\n# {thrower}";
    _ZnamRKSt9nothrow_t(size: usize, _0: *const c_void): "mov esi, 16", "xor eax, eax\njmp 4b\n# {thrower}";
    _ZnwmSt11align_val_tRKSt9nothrow_t(size: usize, align: usize, _0: *const c_void): "",
        "xor eax, eax\njmp 4b\n# {thrower}";
    _ZnamSt11align_val_tRKSt9nothrow_t(size: usize, align: usize, _0: *const c_void): "",
        "xor eax, eax\njmp 4b\n# {thrower}";
}

/// Exports deletes; what they are told besides the object is not needed.
macro_rules! deletes {
    ($($name:ident($($type:ty),*);)*) => {$(
        #[doc = concat!("`", stringify!($name), "`: an operator delete.")]
        ///
        /// # Safety
        /// As in C++.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[allow(non_snake_case, reason = "the names are C++'s")]
        pub(crate) unsafe extern "C" fn $name(object: *mut c_void $(, _: $type)*) {
            free(object.cast());
        }
    )*};
}

deletes! {
    _ZdlPv();
    _ZdaPv();
    _ZdlPvm(usize);
    _ZdaPvm(usize);
    _ZdlPvSt11align_val_t(usize);
    _ZdaPvSt11align_val_t(usize);
    _ZdlPvmSt11align_val_t(usize, usize);
    _ZdaPvmSt11align_val_t(usize, usize);
    _ZdlPvRKSt9nothrow_t(*const c_void);
    _ZdaPvRKSt9nothrow_t(*const c_void);
    _ZdlPvSt11align_val_tRKSt9nothrow_t(usize, *const c_void);
    _ZdaPvSt11align_val_tRKSt9nothrow_t(usize, *const c_void);
}
