//! Objects with a mapping of their own: they are resized without being copied, and are zero when they are new.

use std::ptr::NonNull;
use tenalloc::page::{Os, Source};
use tenalloc::{Config, Controller, Error, OWNER_BYTES, PAGE};

const MIB: usize = 1 << 20;

fn fill(object: NonNull<u8>, from: usize, to: usize) {
    for at in (from..to).step_by(PAGE) {
        // SAFETY: inside a live object of the test's.
        unsafe { object.add(at).cast::<u64>().write(at as u64 ^ 0x5555) };
    }
}

fn is_filled(object: NonNull<u8>, to: usize) -> bool {
    // SAFETY: as above.
    (0..to).step_by(PAGE).all(|at| unsafe { object.add(at).cast::<u64>().read() } == at as u64 ^ 0x5555)
}

fn charge(size: usize) -> u64 {
    (size.next_multiple_of(PAGE) + OWNER_BYTES as usize) as u64
}

#[test]
fn contents_charge_and_statistics_follow_every_size() {
    let ctl = Controller::new(Config::new()).unwrap();
    let group = ctl.root().create("a").unwrap();
    let mut object = ctl.malloc(&group, 2 * MIB, 16).unwrap();
    fill(object, 0, 2 * MIB);
    let mut had = 2 * MIB;
    // Up in steps, with others' mappings in the way, down again, to a run of a chunk and back.
    let mut others = Vec::new();
    for size in [3, 4, 7, 8, 20, 21, 64, 50, 49, 5, 2, 1, 2, 40].map(|n| n * MIB + 100) {
        // SAFETY: live and ours; the old address is not used again.
        object = unsafe { ctl.realloc(object, size, 16) }.unwrap();
        assert!(is_filled(object, had.min(size)), "{had} to {size}");
        fill(object, had.min(size) / PAGE * PAGE, size);
        had = size;
        assert_eq!(ctl.usable_size(object), Ok(size.next_multiple_of(PAGE)));
        others.push(ctl.malloc(&ctl.root(), 2 * MIB, 16).unwrap());
        assert_eq!(group.exact(), charge(size));
        assert_eq!(
            ctl.stat().large_bytes,
            group.exact() + ctl.root().stat().own - (1 + others.len() as u64) * u64::from(OWNER_BYTES)
        );
        assert_eq!(ctl.group_of_object(object).unwrap(), Some(group.clone()));
    }
    for object in others.into_iter().chain([object]) {
        // SAFETY: live, and not used again.
        unsafe { ctl.free(object) }.unwrap();
    }
    let stat = ctl.stat();
    assert_eq!((ctl.root().exact(), stat.large_bytes, stat.objects), (0, 0, 0));
}

#[test]
fn what_it_grows_by_is_zero() {
    let ctl = Controller::new(Config::new()).unwrap();
    let root = ctl.root();
    let is_zero = |object: NonNull<u8>, from: usize, to: usize| {
        // SAFETY: inside a live object.
        unsafe { std::slice::from_raw_parts(object.as_ptr().add(from), to - from) }.iter().all(|b| *b == 0)
    };
    let mut object = ctl.malloc_zeroed(&root, 2 * MIB, 16).unwrap();
    assert!(is_zero(object, 0, 2 * MIB));
    let mut size = 2 * MIB;
    for to in [4 * MIB, 3 * MIB + 77, 9 * MIB, 2 * MIB + 5, 6 * MIB] {
        // SAFETY: live and ours.
        unsafe {
            object.write_bytes(7, size);
            object = ctl.realloc_zeroed(object, to, 16).unwrap();
        }
        let usable = ctl.usable_size(object).unwrap();
        assert!(is_zero(object, size.min(to), usable), "{size} to {to}");
        size = to;
    }
    // SAFETY: live, and not used again.
    unsafe { ctl.free(object) }.unwrap();
}

#[test]
fn above_a_limit_it_stays_as_it_was() {
    let ctl = Controller::new(Config::new()).unwrap();
    let group = ctl.root().create("a").unwrap();
    group.set_max(10 * MIB as u64);
    let object = ctl.malloc(&group, 6 * MIB, 16).unwrap();
    fill(object, 0, 6 * MIB);
    // SAFETY: live and ours; it fails, so the address stays good.
    assert!(matches!(unsafe { ctl.realloc(object, 11 * MIB, 16) }, Err(Error::Limit(_))));
    assert!(is_filled(object, 6 * MIB) && group.exact() == charge(6 * MIB));
    // It fits once, if not twice: nothing is copied.
    // SAFETY: live and ours.
    let object = unsafe { ctl.realloc(object, 9 * MIB, 16) }.unwrap();
    assert!(is_filled(object, 6 * MIB) && group.exact() == charge(9 * MIB));
    // SAFETY: live, and not used again.
    unsafe { ctl.free(object) }.unwrap();
    assert_eq!(group.exact(), 0);
}

/// The owner of a removed group pays through its parent: what is freed is what was charged.
#[test]
fn objects_of_removed_groups_are_resized_too() {
    let ctl = Controller::new(Config::new()).unwrap();
    let group = ctl.root().create("a").unwrap();
    let object = ctl.malloc(&group, 2 * MIB, 16).unwrap();
    group.remove().unwrap();
    // SAFETY: live and ours.
    let object = unsafe { ctl.realloc(object, 8 * MIB, 16) }.unwrap();
    assert_eq!(ctl.root().exact(), charge(8 * MIB));
    // SAFETY: as above.
    let object = unsafe { ctl.realloc(object, 3 * MIB, 16) }.unwrap();
    assert_eq!(ctl.root().exact(), charge(3 * MIB));
    // SAFETY: live, and not used again.
    unsafe { ctl.free(object) }.unwrap();
    drop(group);
    assert_eq!((ctl.root().exact(), ctl.stat().orphans), (0, 0));
}

#[test]
fn alignment_holds() {
    let ctl = Controller::new(Config::new()).unwrap();
    for align in [64, PAGE, 1 << 16, MIB, 2 * MIB, 8 * MIB] {
        let mut object = ctl.malloc(&ctl.root(), 2 * MIB, align).unwrap();
        fill(object, 0, 2 * MIB);
        for size in [5 * MIB, 17 * MIB, 3 * MIB] {
            // SAFETY: live and ours.
            object = unsafe { ctl.realloc(object, size, align) }.unwrap();
            assert!(
                (object.as_ptr() as usize).is_multiple_of(align) && is_filled(object, 2 * MIB),
                "{align}"
            );
        }
        // SAFETY: live, and not used again.
        unsafe { ctl.free(object) }.unwrap();
    }
}

/// What the system does: grow where it is, grow by moving, shrink.
#[test]
fn the_system_remaps() {
    // What lies behind the first 4 MiB is in the way. (Not a mapping put there later: another thread may be faster.)
    let (start, align) = (Os.map(6 * MIB, 2 * MIB, None).unwrap(), 2 * MIB);
    fill(start, 0, 4 * MIB);
    // SAFETY: mappings of the test's own; the system lets a part of one go like a whole one.
    unsafe {
        let moved = Os.remap(start, 4 * MIB, 32 * MIB, align).unwrap();
        assert!(
            moved != start && (moved.as_ptr() as usize).is_multiple_of(align) && is_filled(moved, 4 * MIB)
        );
        let smaller = Os.remap(moved, 32 * MIB, 3 * MIB, align).unwrap();
        assert!(smaller == moved && is_filled(smaller, 3 * MIB));
        Os.unmap(smaller, 3 * MIB);
        Os.unmap(start.add(4 * MIB), 2 * MIB);
    }
}
