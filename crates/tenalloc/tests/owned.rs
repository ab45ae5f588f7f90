//! Values in objects of a group: what they cost, that they are dropped once, and what happens at the end of a group, of a
//! controller, of a limit, and in a panic.

mod heap;

use heap::world;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use tenalloc::{CacheConfig, Error, OWNER_BYTES, Owned};

/// Counts its drops; panics in one, if told so.
struct Counted(Rc<Cell<u32>>, bool);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
        assert!(!self.1, "as asked");
    }
}

#[test]
fn it_is_charged_dropped_once_and_given_back() {
    let (_ctl, group) = world();
    let drops = Rc::new(Cell::new(0));
    let mut value = Owned::new(&group, (7u64, Counted(drops.clone(), false))).unwrap();
    assert_eq!(group.exact(), (size_of::<(u64, Counted)>() as u64) + u64::from(OWNER_BYTES));
    value.0 += 1;
    assert_eq!((value.0, Owned::group(&value)), (8, Some(group.clone())));
    drop(value);
    assert_eq!((drops.get(), group.exact()), (1, 0));

    let value = Owned::new(&group, Counted(drops.clone(), false)).unwrap();
    let inner = Owned::into_inner(value);
    assert_eq!((drops.get(), group.exact()), (1, 0), "moved out, not dropped");
    drop(inner);
    assert_eq!(drops.get(), 2);
}

#[test]
fn it_outlives_its_group_and_the_callers_handles() {
    let (ctl, group) = world();
    let value = Owned::new(&group, [3u32; 100]).unwrap();
    group.remove().unwrap();
    assert_eq!(Owned::group(&value), Some(ctl.root()));
    drop((group, ctl));
    assert_eq!(value[99], 3, "it keeps the controller");
}

#[test]
fn of_a_cache_it_must_fit() {
    let (ctl, group) = world();
    let small = ctl.cache(&CacheConfig::new("small", 16)).unwrap();
    let pair = small.owned(&group, (1u64, 2u64)).unwrap();
    assert_eq!((pair.1, group.exact()), (2, small.charge()));
    assert_eq!(small.owned(&group, [0u64; 3]).map(drop), Err(Error::BadSize { size: 24 }));

    #[repr(align(64))]
    struct Wide(#[expect(dead_code, reason = "it has to be of some size")] u8);
    let narrow = ctl.cache(&CacheConfig::new("narrow", 72)).unwrap();
    let results: Vec<_> = (0..9).map(|_| narrow.owned(&group, Wide(1))).collect();
    let wrong = results.iter().filter(|r| matches!(r, Err(Error::BadAlign { align: 64 }))).count();
    assert!(wrong >= 7, "an object in nine is aligned by chance");
    let kept = (results.len() - wrong) as u64;
    assert_eq!(group.exact(), small.charge() + kept * narrow.charge(), "what did not fit was given back");
}

#[test]
fn a_limit_refuses_it_and_the_value_is_dropped() {
    let (_ctl, group) = world();
    group.set_max(100);
    let drops = Rc::new(Cell::new(0));
    let refused = Owned::new(&group, ([0u8; 500], Counted(drops.clone(), false)));
    assert!(matches!(refused, Err(Error::Limit(_))));
    assert_eq!((drops.get(), group.exact()), (1, 0));
}

#[test]
fn slices_and_strings() {
    let (_ctl, group) = world();
    let numbers = Owned::slice(&group, &[1u64, 2, 3]).unwrap();
    assert_eq!((&numbers[..], group.exact()), (&[1, 2, 3][..], 24 + u64::from(OWNER_BYTES)));
    let mut text = Owned::str(&group, "grüße").unwrap();
    text.make_ascii_uppercase();
    let nothing = Owned::str(&group, "").unwrap();
    assert_eq!(format!("{text}{nothing}"), "GRüßE");
    let one = group.owned(String::from("a value that has a drop")).unwrap();
    drop((numbers, text, nothing, one));
    assert_eq!(group.exact(), 0);
    group.set_max(100);
    assert!(matches!(Owned::slice(&group, &[0u8; 5000]), Err(Error::Limit(_))));
}

#[test]
fn a_panic_in_the_values_drop_gives_its_memory_back() {
    let (_ctl, group) = world();
    let drops = Rc::new(Cell::new(0));
    let value = Owned::new(&group, Counted(drops.clone(), true)).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(value))).is_err());
    assert_eq!((drops.get(), group.exact()), (1, 0));
}

#[test]
fn it_goes_to_another_thread_and_pins() {
    let (ctl, group) = world();
    let value = Owned::new(&group, vec![1, 2, 3]).unwrap();
    std::thread::spawn(move || assert_eq!(value.len(), 3)).join().unwrap();
    assert_eq!(group.exact(), 0);
    let pinned = Owned::pin(&group, std::marker::PhantomPinned).unwrap();
    assert_eq!(group.exact(), 8 + u64::from(OWNER_BYTES), "a value of no bytes takes the smallest object");
    drop(pinned);
    let raw = Owned::into_raw(Owned::new(&group, 5u16).unwrap());
    // SAFETY: taken apart just above.
    let again = unsafe { Owned::from_raw(&ctl, raw) };
    assert_eq!((format!("{again} {again:?}"), group.exact() > 0), ("5 5".into(), true));
    drop(again);
    assert_eq!(group.exact(), 0);
}
