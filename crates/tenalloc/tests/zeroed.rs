//! Zeroed objects: zero whatever was there before, and not written where the system's pages are zero already.

mod common;
use common::{Random, free, lean};
use std::ptr::NonNull;
use tenalloc::{Config, Controller, PAGE};

fn is_zero(object: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the object is live and holds so many bytes.
    unsafe { std::slice::from_raw_parts(object.as_ptr(), bytes) }.iter().all(|b| *b == 0)
}

fn fill(object: NonNull<u8>, bytes: usize) {
    // SAFETY: as above, and ours.
    unsafe { object.write_bytes(0xa5, bytes) };
}

/// Pages of an object that are in memory.
fn resident(object: NonNull<u8>, bytes: usize) -> usize {
    let mut pages = vec![0u8; bytes / PAGE];
    // SAFETY: whole pages of a live object; the vector has a byte for each.
    let told = unsafe { libc::mincore(object.as_ptr().cast(), bytes, pages.as_mut_ptr()) };
    assert_eq!(told, 0);
    pages.iter().filter(|p| **p & 1 == 1).count()
}

#[test]
fn fresh_pages_are_not_touched() {
    // Where the system gives huge pages unasked, the page of a chunk's header brings the whole chunk with it: not here.
    // SAFETY: says something about this process's mappings to come; a kernel that knows none refuses.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
    let ctl = Controller::new(Config::new()).unwrap();
    let g = ctl.root().create("g").unwrap();
    // In a chunk, and in a mapping of its own.
    for bytes in [64 * PAGE, 2000 * PAGE] {
        let object = ctl.malloc_zeroed(&g, bytes, 8).unwrap();
        assert_eq!(resident(object, bytes), 0, "{bytes} bytes");
        assert!(is_zero(object, bytes));
        free(&ctl, object);
    }
}

/// Pages that were used, used and given to the system, used in part, and fresh: zero all of them.
#[test]
fn what_was_used_is_zero_again() {
    let (_, ctl) = lean(1, 1);
    let g = ctl.root().create("g").unwrap();
    let mut random = Random(9);
    let mut live: Vec<(NonNull<u8>, usize)> = Vec::new();
    for step in 0..4000 {
        if live.len() > 20 {
            let (object, _) = live.swap_remove(random.below(live.len()));
            free(&ctl, object);
        }
        let size = match random.below(10) {
            0..5 => 1 + random.below(8192),
            5..9 => 8193 + random.below(200_000),
            _ => 1_000_000 + random.below(1_000_000),
        };
        let object = ctl.malloc_zeroed(&g, size, 8).unwrap();
        let usable = ctl.usable_size(object).unwrap();
        assert!(is_zero(object, usable), "step {step}: {size} bytes");
        fill(object, usable);
        live.push((object, usable));
        if step % 100 == 0 {
            ctl.trim();
        }
    }
    live.into_iter().for_each(|(o, _)| free(&ctl, o));
    assert_eq!(g.exact(), 0);
}
