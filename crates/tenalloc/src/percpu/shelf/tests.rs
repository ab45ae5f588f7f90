//! A shelf against a plain map of vectors, and what the map does not say.

use super::*;
use crate::page::Os;
use crate::percpu::rounded;
extern crate std;
use std::{boxed::Box, collections::HashMap, vec::Vec};

fn empty() -> Box<Shelf> {
    let layout = core::alloc::Layout::new::<Shelf>();
    // SAFETY: the layout is not empty, and zeroed memory is a shelf.
    let mut shelf = unsafe { Box::from_raw(std::alloc::alloc_zeroed(layout).cast::<Shelf>()) };
    shelf.begin();
    shelf
}

fn pointer(n: usize) -> NonNull<u8> {
    NonNull::new(core::ptr::without_provenance_mut(n * 64 + 64)).unwrap()
}

proptest::proptest! {
    #[test]
    fn matches_a_map_of_vectors(steps in proptest::collection::vec((0..9u8, 0..40u64), 0..400)) {
        let (mut shelf, meta) = (empty(), Meta::new(&Os));
        let mut plain: HashMap<u64, Vec<NonNull<u8>>> = HashMap::new();
        let mut loose = 0;
        for (n, (step, key)) in steps.into_iter().enumerate() {
            let (set, key) = (key as usize % 8, key + 1);
            match step {
                0 if shelf.has_room(set) && !plain.contains_key(&key) => {
                    shelf.add(set, key, rounded(1), core::ptr::null(), &meta).unwrap();
                    plain.insert(key, Vec::new());
                }
                1 => {
                    let popped = plain.get_mut(&key).and_then(Vec::pop);
                    proptest::prop_assert_eq!(shelf.pop(set, key), popped);
                }
                2 => {
                    let len = shelf.find(set, key).map(|stack| stack.len());
                    proptest::prop_assert_eq!(len, plain.get(&key).map(|v| v.len() as u32));
                    if plain.remove(&key).is_some() {
                        loose += len.unwrap_or(0);
                        let stack = shelf.loosen(set, key).unwrap();
                        proptest::prop_assert_eq!((stack.key(), Some(stack.len())), (key, len));
                    }
                }
                3 if plain.contains_key(&key) => {
                    let limit = shelf.find(set, key).map_or(0, |stack| stack.limit());
                    proptest::prop_assert!(shelf.resize(set, key, rounded(limit + 1), &meta));
                }
                5 => {
                    let mut two = [null_mut(); 2];
                    let taken = shelf.find(set, key).is_some_and(|mut stack| stack.take_lowest(&mut two));
                    let all = plain.get_mut(&key).filter(|all| all.len() >= 2);
                    let lowest = all.map(|all| all.drain(..2).collect::<Vec<_>>());
                    proptest::prop_assert_eq!(taken.then(|| two.map(|p| NonNull::new(p).unwrap()).to_vec()), lowest);
                }
                4 => shelf.pick_up(3, &meta, |_| true, |_, _| loose -= 1),
                _ => {
                    let room = shelf.find(set, key).is_some_and(|stack| stack.len() < stack.limit());
                    proptest::prop_assert_eq!(shelf.push(set, key, pointer(n)), room);
                    if room {
                        plain.entry(key).or_default().push(pointer(n));
                    }
                }
            }
            let mut keys: Vec<_> = shelf.iter().map(|stack| (stack.key(), stack.len() as usize)).collect();
            let mut want: Vec<_> = plain.iter().map(|(key, v)| (*key, v.len())).collect();
            keys.sort_unstable();
            want.sort_unstable();
            proptest::prop_assert_eq!(keys, want);
            proptest::prop_assert_eq!(shelf.loose.iter().map(|stack| stack.len()).sum::<u32>(), loose);
        }
        shelf.forget(&meta);
        proptest::prop_assert_eq!((shelf.iter().count(), shelf.loose.iter().count()), (0, 0));
        // SAFETY: all blocks are back.
        unsafe { meta.release() };
    }
}

#[test]
fn the_same_pointer_twice_in_a_row_is_refused() {
    let (mut shelf, meta) = (empty(), Meta::new(&Os));
    shelf.add(3, 5, rounded(4), core::ptr::null(), &meta).unwrap();
    assert!(shelf.push(3, 5, pointer(1)) && !shelf.push(3, 5, pointer(1)));
    assert!(shelf.push(3, 5, pointer(2)) && shelf.push(3, 5, pointer(1)));
    shelf.forget(&meta);
    // SAFETY: all blocks are back.
    unsafe { meta.release() };
}

#[test]
fn who_misses_most_leads_and_everybody_has_his_turn() {
    let (mut shelf, meta) = (empty(), Meta::new(&Os));
    assert_eq!([7, 7, 8, 7].map(|key| shelf.vote(1, key)), [1, 2, 0, 2]);
    shelf.end_vote(1);
    assert_eq!(shelf.vote(1, 8), 1);
    assert_eq!(shelf.turn(), None);
    for key in [10, 20, 30] {
        shelf.add(key as usize, key, 4, core::ptr::null(), &meta).unwrap();
    }
    let turns: Vec<_> = (0..6).map(|_| shelf.turn().unwrap()).collect();
    assert_eq!(turns, [10, 20, 30, 10, 20, 30]);
    assert_eq!(shelf.resident(), 4 * PAGE, "a page of sets, one of stacks, one of votes, the last");
    shelf.forget(&meta);
    // SAFETY: all blocks are back.
    unsafe { meta.release() };
}
