//! Collections of allocator-api2 in a group, against plain ones.
#![cfg(feature = "allocator-api2")]

mod heap;

use allocator_api2::alloc::{Allocator, Layout};
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use std::ptr::NonNull;
use tenalloc::{Group, GroupAlloc};

fn world() -> Group {
    heap::world().1
}

proptest::proptest! {
    #[test]
    fn a_vector_is_a_vector(steps in proptest::collection::vec((0u8..5, 0usize..3000), 0..60)) {
        let group = world();
        let (mut ours, mut plain) = (Vec::new_in(GroupAlloc::new(&group)), std::vec::Vec::new());
        for (what, number) in steps {
            match what {
                0 => { ours.push(number); plain.push(number); }
                1 => { ours.resize(number, 9); plain.resize(number, 9); }
                2 => { ours.truncate(number / 2); plain.truncate(number / 2); ours.shrink_to_fit(); }
                3 => { ours.reserve(number); }
                _ => { ours.extend(0..number); plain.extend(0..number); }
            }
            proptest::prop_assert_eq!(&ours[..], &plain[..]);
            proptest::prop_assert!(group.exact() >= (ours.capacity() * 8) as u64);
        }
        drop(ours);
        proptest::prop_assert_eq!(group.exact(), 0);
    }
}

#[test]
fn zeros_alignments_and_nothing() {
    let group = world();
    let alloc = GroupAlloc::new(&group);
    let of = |size, align| Layout::from_size_align(size, align).unwrap();
    let nothing = alloc.allocate(of(0, 64)).unwrap();
    assert!(nothing.cast::<u8>().as_ptr().addr().is_multiple_of(64) && group.exact() == 0);
    // SAFETY: each block is used and given back as its layout says.
    unsafe {
        let first = alloc.grow_zeroed(nothing.cast(), of(0, 64), of(100, 64)).unwrap().cast::<u8>();
        assert!(first.as_ptr().addr().is_multiple_of(64));
        assert!(NonNull::slice_from_raw_parts(first, 100).as_ref().iter().all(|b| *b == 0));
        first.write_bytes(7, 100);
        let more = alloc.grow_zeroed(first, of(100, 64), of(20_000, 4096)).unwrap().cast::<u8>();
        assert!(more.as_ptr().addr().is_multiple_of(4096));
        let bytes = NonNull::slice_from_raw_parts(more, 20_000);
        assert!(bytes.as_ref().iter().enumerate().all(|(i, b)| *b == if i < 100 { 7 } else { 0 }));
        let less = alloc.shrink(more, of(20_000, 4096), of(50, 8)).unwrap().cast::<u8>();
        assert_eq!(*less.add(49).as_ptr(), 7);
        let none = alloc.shrink(less, of(50, 8), of(0, 8)).unwrap();
        alloc.deallocate(none.cast(), of(0, 8));
    }
    assert_eq!(group.exact(), 0);
}

#[test]
fn after_its_group_a_collection_grows_on_for_the_parent() {
    let group = world();
    let root = group.controller().root();
    let mut numbers = Vec::new_in(GroupAlloc::new(&group));
    numbers.extend(0..100u64);
    group.remove().unwrap();
    numbers.extend(100..10_000u64);
    assert!(root.exact() >= 80_000 && numbers.iter().copied().eq(0..10_000));
    assert!(Box::try_new_in(1u8, GroupAlloc::new(&group)).is_err(), "a new one gets nothing");
    drop(numbers);
    assert_eq!(root.exact(), 0);
}
