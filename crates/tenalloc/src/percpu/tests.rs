//! Areas and their stacks under threads that the kernel preempts, moves and interrupts: what loom's models, which know no
//! sequence that is begun again, cannot show. Without sequences the same holds, and is tested the same way.

extern crate std;
use super::*;
use crate::meta::Meta;
use crate::page::{PAGE, Source};
use core::alloc::Layout;
use core::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::Mutex;
use std::vec::Vec;

/// What each thread does, so often.
const TIMES: u64 = if cfg!(miri) { 60 } else { 20_000 };
/// The number of one key, and the low part of it on node 0.
const OWNER: u64 = 5;
const ID: u32 = 9 << 3;
const SET: usize = 3;

/// Pages of Rust's heap, of which miri knows where they end.
struct Heap;

impl Heap {
    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, PAGE).unwrap()
    }
}

impl Source for Heap {
    fn map(&self, bytes: usize, align: usize, _: Option<u8>) -> Option<NonNull<u8>> {
        assert!(align <= PAGE);
        // SAFETY: nobody maps nothing.
        NonNull::new(unsafe { std::alloc::alloc_zeroed(Self::layout(bytes)) })
    }

    unsafe fn unmap(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: a whole mapping, the caller says.
        unsafe { std::alloc::dealloc(start.as_ptr(), Self::layout(bytes)) };
    }

    unsafe fn purge(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: inside a mapping whose contents nobody needs, the caller says.
        unsafe { start.write_bytes(0, bytes) };
    }
}

/// Takes a while, so that who ought not to come meanwhile has the time to.
fn dwell(n: u64) {
    (0..n % 64).for_each(|_| core::hint::spin_loop());
}

/// Adds one with a load and a store that lie apart.
fn add_one(held: &mut u64, n: u64) {
    let before = *core::hint::black_box(&mut *held);
    dwell(n);
    *held = before + 1;
}

struct Bed {
    areas: Areas<u64>,
    topology: Topology,
    pretended: AtomicU32,
    meta: Meta,
}

impl Bed {
    fn new() -> Self {
        let topology = if cfg!(miri) { Topology::simulated(1, 2) } else { Topology::detect() };
        let place = Heap.map(Areas::<u64>::bytes(topology.cpus()), PAGE, None).unwrap();
        // SAFETY: a new mapping of that size.
        let areas = unsafe { Areas::new(place, &topology, || 0) };
        Self { areas, topology, pretended: AtomicU32::new(0), meta: Meta::new(&Heap) }
    }

    fn cpu(&self) -> u16 {
        self.topology.here(&self.pretended)
    }

    /// Some threads sleep a little now and then: whoever wakes up preempts who runs, wherever that one is just then.
    fn nap(&self, t: u64, n: u64) {
        if t % 2 == 1 && n.is_multiple_of(16) {
            std::thread::sleep(core::time::Duration::from_micros(20));
        }
    }

    /// More threads than CPUs, so that they are preempted, each with its number.
    fn storm(&self, work: impl Fn(u64) + Sync) {
        let threads = if cfg!(miri) { 3 } else { self.topology.cpus().min(8) as u64 * 2 + 2 };
        std::thread::scope(|s| {
            (0..threads).for_each(|t| {
                drop(s.spawn({
                    let work = &work;
                    move || work(t)
                }))
            })
        });
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let mut all = self.areas.lock_all();
        all.rows().for_each(|(_, _, _, shelf)| shelf.forget(&self.meta));
        drop(all);
        // SAFETY: the mapping made by `new`, whole; nobody uses the areas any more, nor what `meta` gave their shelves.
        unsafe {
            Heap.unmap(self.areas.place(), Areas::<u64>::bytes(self.topology.cpus()));
            self.meta.release();
        }
    }
}

#[test]
fn one_holder_at_a_time() {
    let (bed, added) = (Bed::new(), AtomicU64::new(0));
    bed.storm(|t| {
        let mut mine = 0;
        for n in 0..TIMES {
            bed.nap(t, n);
            match (n + t) % 512 {
                0 => add_one(&mut bed.areas.lock((n % u64::from(bed.areas.cpus)) as u16), n),
                1 => {
                    assert!(
                        bed.areas.lock_all().iter().sum::<u64>() >= mine,
                        "what this thread added is there"
                    );
                    continue;
                }
                2..64 => match bed.areas.try_lock_here(|| bed.cpu()) {
                    Some(mut held) => add_one(&mut held, n),
                    None => continue,
                },
                _ => add_one(&mut bed.areas.lock_here(|| bed.cpu()), n),
            }
            mine += 1;
        }
        added.fetch_add(mine, Relaxed);
    });
    assert_eq!(bed.areas.lock_all().iter().sum::<u64>(), added.into_inner());
}

/// A pointer's memory: who has popped it, and how often that happened, counted without an atomic addition.
#[derive(Default)]
struct Token {
    out: AtomicBool,
    times: AtomicU64,
}

#[test]
fn what_is_pushed_is_popped_once() {
    let bed = Bed::new();
    let tokens: Vec<Token> = (0..64).map(|_| Token::default()).collect();
    let popped = AtomicU64::new(0);
    // Where pointers are that no stack has.
    let rest = Mutex::new((0..tokens.len()).collect::<Vec<_>>());
    let pointer = |token: usize| NonNull::from(&tokens[token]).cast::<u8>();
    let token = |at: NonNull<u8>| (at.as_ptr().addr() - tokens.as_ptr().addr()) / size_of::<Token>();
    for (.., shelf) in bed.areas.lock_all().rows() {
        let key = OWNER << 32 | u64::from(ID);
        shelf.add(SET, key, rounded(8), core::ptr::null(), &bed.meta).unwrap();
    }
    let slot = |key| Slot::in_steps(SET as u32 * Slot::STEP, key);
    let low = AtomicU32::new(ID);
    let take = |token: usize| {
        assert!(!tokens[token].out.swap(true, Relaxed), "popped by two");
        let times = &tokens[token].times;
        times.store(times.load(Relaxed) + 1, Relaxed);
        popped.fetch_add(1, Relaxed);
    };
    bed.storm(|t| {
        for n in 0..TIMES {
            bed.nap(t, n);
            let got = bed.areas.pop(slot(OWNER << 32 | u64::from(ID)), || bed.cpu()).map(token);
            let Some(one) = got.or_else(|| rest.lock().unwrap().pop()) else { continue };
            take(one);
            dwell(n);
            tokens[one].out.store(false, Relaxed);
            // Whoever holds the area, from wherever he comes, works on the same stacks.
            if (n + t).is_multiple_of(256) {
                let mut held = bed.areas.lock((n % u64::from(bed.areas.cpus)) as u16);
                let key = OWNER << 32 | u64::from(ID);
                let other = held.shelf().pop(SET, key).map(token);
                drop(held);
                rest.lock().unwrap().extend(other);
            }
            // SAFETY: `low` is such a word.
            let pushed = unsafe {
                bed.areas.push::<0>(slot(OWNER << 32), NonNull::from(&low).cast(), pointer(one), || bed.cpu())
            };
            if !pushed {
                rest.lock().unwrap().push(one);
            }
        }
    });
    let mut left = rest.into_inner().unwrap();
    for (.., shelf) in bed.areas.lock_all().rows() {
        let key = OWNER << 32 | u64::from(ID);
        left.extend(core::iter::from_fn(|| shelf.pop(SET, key)).map(token));
    }
    left.sort();
    assert_eq!(left, (0..tokens.len()).collect::<Vec<_>>(), "none lost, none twice");
    assert_eq!(tokens.iter().map(|t| t.times.load(Relaxed)).sum::<u64>(), popped.into_inner());
}

/// Sequences are used where this processor, the C library and the kernel have them, and only there.
#[cfg(not(miri))]
#[test]
fn sequences_are_found_where_they_are() {
    // SAFETY: a NUL-terminated name; where the symbol is, it is an unsigned int.
    let size = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>().as_ref() };
    let registered = size.is_some_and(|size| *size > 0);
    // SAFETY: asks which commands there are, with two more numbers.
    let commands = unsafe { libc::syscall(libc::SYS_membarrier, 0, 0, 0) };
    let interruptible = commands > 0 && commands & 1 << 7 != 0;
    let processor = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    // SAFETY: no row is ever used.
    let found = unsafe { Sequences::detect(NonNull::dangling(), 0) }.is_some();
    std::println!("sequences: {}", if found { "found" } else { "none" });
    assert_eq!(found, processor && registered && interruptible);
}
