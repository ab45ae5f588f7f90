//! What is asked of callgrind, under which this program runs: valgrind's client requests, instructions that do nothing
//! on a processor and are seen by valgrind. The numbers are those of valgrind.h and callgrind.h.

use std::arch::asm;
use std::ffi::CStr;

const RUNNING_ON_VALGRIND: usize = 0x1001;
const CALLGRIND: usize = (b'C' as usize) << 24 | (b'T' as usize) << 16;
const ZERO_STATS: usize = CALLGRIND + 1;
const TOGGLE_COLLECT: usize = CALLGRIND + 2;
const DUMP_STATS_AT: usize = CALLGRIND + 3;

/// A request's number and its five arguments.
type Request = [usize; 6];

#[inline(always)]
fn ask(request: &Request) -> usize {
    let answer;
    // SAFETY: `rdi` is turned by 128 bits in all, and `rbx` exchanged with itself. Valgrind reads the request, and what
    // it points to, and writes only the answer.
    unsafe {
        asm!(
            // Callgrind counts block by block, and asks at the end of one whether it counts: so this begins a new one.
            "jmp 2f",
            "2:",
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") request,
            inout("rdx") 0usize => answer,
            options(nostack),
        );
    }
    answer
}

/// Whether valgrind runs this.
pub(crate) fn is_here() -> bool {
    ask(&[RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0]) != 0
}

/// Counts one operation; the brackets themselves add a few instructions, the same ones everywhere.
#[inline(always)]
pub(crate) fn count<T>(operation: impl FnOnce() -> T) -> T {
    static TOGGLE: Request = [TOGGLE_COLLECT, 0, 0, 0, 0, 0];
    ask(&TOGGLE);
    let made = operation();
    ask(&TOGGLE);
    made
}

/// Writes down what was counted since the last time, under a name.
pub(crate) fn write_down(name: &CStr) {
    ask(&[DUMP_STATS_AT, name.as_ptr().expose_provenance(), 0, 0, 0, 0]);
    ask(&[ZERO_STATS, 0, 0, 0, 0, 0]);
}
