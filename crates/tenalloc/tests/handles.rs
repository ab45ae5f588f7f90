//! Handles beside a group: readers of its peak. Numbers in brackets: the tests of reference/linux.md, section 4.

mod common;
use common::{Random, machine};
use tenalloc::{Config, Controller};

/// [8] A new group has used nothing; a reset is private to its reader; readers go in any order.
#[test]
fn a_peak_is_reset_for_its_reader_alone() {
    let ctl = Controller::new(Config::new().exact_charges(true)).unwrap();
    let g = ctl.root().create("g").unwrap();
    let owner = g.owner();
    let first = g.peak_reader().unwrap();
    assert_eq!((g.current(), g.peak(), first.peak()), (0, 0, 0));
    owner.try_charge(1000).unwrap();
    owner.uncharge(900);
    let second = g.peak_reader().unwrap();
    assert_eq!((g.peak(), first.peak(), second.peak()), (1000, 1000, 1000));
    first.reset();
    assert_eq!((g.peak(), first.peak(), second.peak()), (1000, 100, 1000));
    owner.try_charge(400).unwrap();
    owner.uncharge(500);
    second.reset();
    assert_eq!((g.peak(), first.peak(), second.peak()), (1000, 500, 0));
    g.reset_peak();
    assert_eq!((g.peak(), first.peak(), second.peak()), (0, 500, 0));
    let third = g.peak_reader().unwrap();
    drop(second);
    owner.try_charge(50).unwrap();
    first.reset();
    drop(first);
    owner.uncharge(50);
    assert_eq!((g.peak(), third.peak()), (50, 50));
    g.remove().unwrap();
    third.reset();
    assert_eq!((third.peak(), third.group()), (0, &g));
}

/// Against a model that notes every step for every reader.
#[test]
fn peaks_match_a_plain_model() {
    let ctl = Controller::new(Config::new().exact_charges(true)).unwrap();
    let g = ctl.root().create("g").unwrap();
    let owner = g.owner();
    let mut random = Random(8);
    let (mut current, mut own) = (0u64, 0u64);
    let mut readers = Vec::new();
    for _ in 0..20_000 {
        match random.below(10) {
            0..4 => {
                let bytes = 1 + random.below(1000) as u64;
                owner.try_charge(bytes).unwrap();
                current += bytes;
            }
            4..8 => {
                let bytes = random.below(current as usize + 1) as u64;
                owner.uncharge(bytes);
                current -= bytes;
            }
            8 if random.below(4) == 0 && readers.len() < 6 => readers.push((g.peak_reader().unwrap(), own)),
            8 if random.below(4) == 0 && !readers.is_empty() => {
                drop(readers.swap_remove(random.below(readers.len())));
            }
            _ => match random.below(readers.len() + 1) {
                0 => {
                    g.reset_peak();
                    own = current;
                }
                n => {
                    readers[n - 1].0.reset();
                    readers[n - 1].1 = current;
                }
            },
        }
        own = own.max(current);
        assert_eq!(g.peak(), own);
        for (reader, peak) in &mut readers {
            *peak = current.max(*peak);
            assert_eq!(reader.peak(), *peak);
        }
    }
    owner.uncharge(current);
}

/// Readers that come, reset and go beside charges: nobody reads less than what a charge of his own just held.
#[test]
fn readers_and_charges_at_once() {
    let (_, ctl) = machine(1, 2);
    let g = ctl.root().create("g").unwrap();
    std::thread::scope(|s| {
        for t in 1..=3u64 {
            let g = &g;
            s.spawn(move || {
                let owner = g.owner();
                for i in 0..2000 {
                    let reader = g.peak_reader().unwrap();
                    reader.reset();
                    let bytes = t * 50_000 + i;
                    owner.try_charge(bytes).unwrap();
                    assert!(reader.peak() >= bytes && g.peak() >= bytes);
                    owner.uncharge(bytes);
                }
            });
        }
    });
    assert_eq!(g.exact(), 0);
}
