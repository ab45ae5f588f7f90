//! SLUB against a plain model, on random runs: every live object is distinct, lies in a slab of its cache on the node it
//! was asked for, is aligned, and still holds the bytes its user wrote; with the last object go all pages.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// A live object of the model: what its user wrote, and where it must be.
struct Mine {
    object: NonNull<u8>,
    cache: usize,
    node: u8,
    pattern: u8,
}

fn write(mine: &Mine, size: u32) {
    // SAFETY: a live object of `size` bytes.
    unsafe { mine.object.as_ptr().write_bytes(mine.pattern, size as usize) }
}

fn check(mine: &Mine, size: u32) {
    // SAFETY: a live object of `size` bytes, all written before.
    let bytes = unsafe { std::slice::from_raw_parts(mine.object.as_ptr(), size as usize) };
    assert!(bytes.iter().all(|&byte| byte == mine.pattern), "a live object was overwritten");
}

#[derive(Clone, Debug)]
enum Step {
    Alloc { cpu: u16, node: u8, cache: usize, count: usize },
    Free { cpu: u16, pick: usize, count: usize },
    Shrink { cache: usize },
    Deactivate { cache: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..3u16, 0..2u8, 0..SIZES.len(), 1..60usize)
            .prop_map(|(cpu, node, cache, count)| Step::Alloc { cpu, node, cache, count }),
        8 => (0..3u16, any::<usize>(), 1..60usize)
            .prop_map(|(cpu, pick, count)| Step::Free { cpu, pick, count }),
        1 => (0..SIZES.len()).prop_map(|cache| Step::Shrink { cache }),
        1 => (0..SIZES.len()).prop_map(|cache| Step::Deactivate { cache }),
    ];
    proptest::collection::vec(step, 1..80)
}

/// 8: the least; 24: slots that no power of two aligns; 96, 640, 2048: each `cpu_partial`; 4480: seven in a slab.
const SIZES: [u32; 6] = [8, 24, 96, 640, 2048, 4480];

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn against_a_plain_model(steps in steps()) {
        let (mut slub, caches, engine) = slub_of(&SIZES);
        let mut told = Told::default();
        let mut live: Vec<Mine> = Vec::new();
        let mut pattern = 0u8;
        for step in steps {
            match step {
                Step::Alloc { cpu, node, cache, count } => for _ in 0..count {
                    let object = slub.alloc(caches[cache], place(cpu, node), &mut told).unwrap();
                    pattern = pattern.wrapping_add(1);
                    let mine = Mine { object, cache, node, pattern };
                    write(&mine, SIZES[cache]);
                    live.push(mine);
                },
                Step::Free { cpu, pick, count } => for _ in 0..count.min(live.len()) {
                    let mine = live.swap_remove(pick % live.len());
                    check(&mine, SIZES[mine.cache]);
                    let spot = slub.find(mine.object).unwrap();
                    // SAFETY: live, and out of the model now.
                    unsafe { slub.free(cpu, spot, &mut told).unwrap() }
                },
                Step::Shrink { cache } => slub.shrink(caches[cache], &mut told),
                Step::Deactivate { cache } => slub.deactivate(caches[cache], &mut told),
            }
            slub.verify(&told);
        }
        let mut seen = HashMap::new();
        for (index, mine) in live.iter().enumerate() {
            check(mine, SIZES[mine.cache]);
            let addr = mine.object.as_ptr().addr();
            prop_assert!(seen.insert(addr, index).is_none(), "one object twice");
            let size = SIZES[mine.cache];
            prop_assert_eq!(addr % (1 << size.trailing_zeros()), 0);
            let spot = slub.find(mine.object).unwrap();
            let slab = &slub.slabs[spot.slab as usize];
            prop_assert_eq!((slab.cache, slab.node), (caches[mine.cache], mine.node));
            // One byte further is no object.
            prop_assert!(slub.find(NonNull::new(mine.object.as_ptr().wrapping_add(1)).unwrap()).is_err());
        }
        let bytes: u64 = live.iter().map(|mine| u64::from(SIZES[mine.cache])).sum();
        prop_assert_eq!(slub.live_bytes(), bytes);
        for mine in live {
            let spot = slub.find(mine.object).unwrap();
            // SAFETY: live.
            unsafe { slub.free(0, spot, &mut told).unwrap() }
        }
        for cache in caches {
            slub.shrink(cache, &mut told);
            prop_assert!(slub.destroy(cache));
        }
        slub.verify(&told);
        prop_assert_eq!((slub.slab_bytes(), engine.bytes_out()), (0, 0));
    }
}
