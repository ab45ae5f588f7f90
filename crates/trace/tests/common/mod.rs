//! What several tests need: the traces, and a plain model that runs a program.
#![allow(dead_code, unreachable_pub, reason = "each test uses its own part")]

use std::collections::HashMap;
use std::path::PathBuf;
use tenalloc_trace::program::{GroupId, OpKind};
use tenalloc_trace::{Options, Program};

/// The trace that comes with the repository.
pub fn small() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../data/small")
}

/// A shared trace, if the shared folder is there.
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(name);
    if path.join("perf.data").exists() {
        return Some(path);
    }
    println!("skipped: {} is not here", path.display());
    None
}

/// Read a recording, without progress.
pub fn open(path: &std::path::Path) -> Program {
    tenalloc_trace::open(path, &Options::default(), &mut |_| {}).unwrap()
}

/// What the model says at a stamp: per path, bytes of live accounted objects with 8 for their owner (rule 4).
pub type Charges = HashMap<String, u64>;

/// Run a program in a plain model. Panics when a step cannot be: a slot used twice, a group used before it is made
/// or after it is removed, time running backwards, a place that does not exist.
pub fn run(p: &Program) -> Vec<Charges> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        Never,
        Alive,
        Removed,
    }
    let mut live: Vec<Option<(GroupId, u64, u64)>> = vec![None; p.slots as usize];
    let mut state = vec![State::Never; p.groups.len()];
    for fixed in &mut state[..GroupId::FIRST.0 as usize] {
        *fixed = State::Alive;
    }
    let mut charge = vec![0u64; p.groups.len()];
    let (mut bytes, mut peak, mut peak_op, mut time) = (0u64, 0u64, 0, 0);
    let mut stamps = vec![Charges::new(); p.stamps.len()];
    for (i, op) in p.ops.iter().enumerate() {
        if op.kind != OpKind::Stamp && p.counts.out_of_order == 0 {
            assert!(op.time >= time, "step {i} goes back in time");
            time = op.time;
        }
        match op.kind {
            OpKind::Alloc => {
                let cache = &p.caches[usize::from(op.cache.0)];
                assert!(op.node < p.nodes && op.cpu < p.cpus);
                let cost = u64::from(cache.slot_size);
                if op.group != GroupId::NOBODY {
                    assert!(
                        state[op.group.0 as usize] == State::Alive,
                        "step {i}: {:?} is not alive",
                        op.group
                    );
                    charge[op.group.0 as usize] += cost + 8;
                }
                // The kernel's own state is no workload: it makes no peak.
                let counts = if op.own { 0 } else { cost };
                let old = live[op.slot as usize].replace((op.group, cost, counts));
                assert!(old.is_none(), "step {i}: slot {} is in use", op.slot);
                bytes += counts;
                if bytes > peak {
                    (peak, peak_op) = (bytes, i);
                }
            }
            OpKind::Free | OpKind::HiddenFree => {
                let (group, cost, counts) = live[op.slot as usize].take().expect("a free slot is freed");
                bytes -= counts;
                if group != GroupId::NOBODY {
                    charge[group.0 as usize] -= cost + 8;
                }
            }
            OpKind::Create => {
                let group = op.group.0 as usize;
                assert!(state[group] == State::Never, "step {i}: made twice");
                let parent = p.groups[group].parent.expect("a group that is made has a parent");
                assert!(state[parent.0 as usize] == State::Alive, "step {i}: its parent is not alive");
                state[group] = State::Alive;
            }
            OpKind::Remove => {
                assert!(state[op.group.0 as usize] == State::Alive, "step {i}: removed twice");
                state[op.group.0 as usize] = State::Removed;
            }
            OpKind::SuperGone => {}
            OpKind::Mount | OpKind::Unmount | OpKind::Super | OpKind::ListUse => {
                assert!((op.group.0 as usize) < p.groups.len())
            }
            OpKind::Stamp => {
                let sums = &mut stamps[op.slot as usize];
                for (group, bytes) in p.groups.iter().zip(&charge) {
                    *sums.entry(group.path.clone()).or_default() += bytes;
                }
            }
        }
    }
    assert_eq!(p.peak_op, peak_op, "the peak is elsewhere");
    assert!(state.iter().all(|s| *s != State::Never), "a group is never made");
    stamps
}

/// Records of a `perf.data` up to about `most` bytes, as a file of its own: the data is cut at a record's end and
/// all that lies behind it moves up.
pub fn shrink(whole: &[u8], most: usize) -> Vec<u8> {
    let at = |i: usize| u64::from_le_bytes(whole[i..i + 8].try_into().unwrap());
    let (data, len) = (at(40) as usize, at(48) as usize);
    let mut end = data;
    loop {
        let size = u16::from_le_bytes(whole[end + 6..end + 8].try_into().unwrap()) as usize;
        if end + size > data + most.min(len) {
            break;
        }
        end += size;
    }
    let table = data + len;
    let features = (0..4).map(|i| at(72 + 8 * i).count_ones() as usize).sum::<usize>();
    let shift = (table - end) as u64;
    let mut out = whole[..end].to_vec();
    out[48..56].copy_from_slice(&((end - data) as u64).to_le_bytes());
    for i in 0..features {
        out.extend((at(table + 16 * i) - shift).to_le_bytes());
        out.extend(at(table + 16 * i + 8).to_le_bytes());
    }
    out.extend(&whole[table + 16 * features..]);
    out
}
