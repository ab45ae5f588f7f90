//! Any program: no check fails under any design, and all of them charge what the plainest of models does.

use super::build::{Build, NOBODY, ROOT};
use crate::run::drive::Settings;
use crate::run::{DESIGNS, replay};
use proptest::prelude::*;
use tenalloc_trace::Program;
use tenalloc_trace::program::{GroupId, OpKind};

const SIZES: [u32; 5] = [8, 64, 192, 1000, 8448];

/// What to do next; the numbers choose among what is there.
#[derive(Clone, Debug)]
enum Act {
    Alloc { cache: usize, group: usize, cpu: u16, node: u8 },
    Free { which: usize, cpu: u16 },
    Create { parent: usize },
    Remove { which: usize },
    Pass { ns: u64 },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (0..SIZES.len(), any::<usize>(), 0..2u16, 0..2u8)
            .prop_map(|(cache, group, cpu, node)| Act::Alloc { cache, group, cpu, node }),
        5 => (any::<usize>(), 0..2u16).prop_map(|(which, cpu)| Act::Free { which, cpu }),
        1 => any::<usize>().prop_map(|parent| Act::Create { parent }),
        1 => any::<usize>().prop_map(|which| Act::Remove { which }),
        1 => (0..1_000u64).prop_map(|ns| Act::Pass { ns }),
    ]
}

/// A group of the model; children of removed groups are removed.
struct Member {
    parent: usize,
    path: String,
    id: GroupId,
    alive: bool,
}

/// The program, the charge of every path at its end, and its live bytes then.
fn build(acts: &[Act]) -> (Program, Vec<(String, u64)>, u64) {
    let mut b = Build::new(&SIZES);
    let mut groups = vec![Member { parent: 0, path: String::new(), id: ROOT, alive: true }];
    // Slot → size and the place of its group in `groups`, or none.
    let mut live: Vec<(u32, u64, Option<usize>)> = Vec::new();
    let mut spare: Vec<u32> = Vec::new();
    let (mut next, mut time) = (0, 0);
    for act in acts {
        match *act {
            Act::Alloc { cache, group, cpu, node } => {
                let slot = spare.pop().unwrap_or_else(|| {
                    next += 1;
                    next - 1
                });
                // Any group that ever was, or one of the rows that no group stands for.
                let rows = [NOBODY, GroupId::UNKNOWN, GroupId::INTERRUPT, GroupId::EXITED];
                let of = group % (groups.len() + rows.len());
                let id = groups.get(of).map_or_else(|| rows[of - groups.len()], |g| g.id);
                b.on(cpu, node).alloc(slot, cache as u16, id);
                live.push((slot, u64::from(SIZES[cache]), (of < groups.len()).then_some(of)));
            }
            Act::Free { which, cpu } if !live.is_empty() => {
                let object = live.swap_remove(which % live.len());
                b.on(cpu, 0).free(object.0);
                spare.push(object.0);
            }
            Act::Create { parent } => {
                let alive: Vec<usize> = (0..groups.len()).filter(|g| groups[*g].alive).collect();
                let parent = alive[parent % alive.len()];
                // Names are used again once their group is gone.
                let path = (0..)
                    .map(|n| format!("{}/{n}", groups[parent].path))
                    .find(|path| !groups.iter().any(|g| g.alive && g.path == *path));
                let Some(path) = path else { continue };
                let id = b.made(groups[parent].id, &path);
                groups.push(Member { parent, path, id, alive: true });
            }
            Act::Remove { which } if groups.len() > 1 => {
                let first = 1 + which % (groups.len() - 1);
                if groups[first].alive {
                    b.remove(groups[first].id);
                    groups[first].alive = false;
                    // Parents come before their children.
                    for i in first + 1..groups.len() {
                        groups[i].alive &= groups[groups[i].parent].alive;
                    }
                }
            }
            Act::Pass { ns } => {
                time += ns;
                b.at(time);
            }
            Act::Free { .. } | Act::Remove { .. } => {}
        }
    }
    let mut charges: Vec<(String, u64)> = Vec::new();
    for (i, group) in groups.iter().enumerate().skip(1).filter(|(_, g)| g.alive) {
        let below = |mut at: usize| {
            while at != i && at != 0 {
                at = groups[at].parent;
            }
            at == i
        };
        let mine = live.iter().filter(|o| o.2.is_some_and(below));
        charges.push((group.path.clone(), mine.map(|o| o.1 + 8).sum()));
    }
    let stamp: Vec<(&str, u64)> = charges.iter().map(|(path, bytes)| (path.as_str(), *bytes)).collect();
    b.stamp("end", &stamp);
    (b.end(time + 1), charges, live.iter().map(|o| o.1).sum())
}

proptest! {
    #[test]
    fn any_program_runs_and_charges_as_the_model_does(acts in proptest::collection::vec(act(), 0..250)) {
        let (program, charges, live) = build(&acts);
        let settings = Settings { check_every: Some(1), recorded_nodes: false };
        let report = replay(&program, DESIGNS, &settings, ("x", 0), &mut |_| {})
            .map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(report.truth.len(), usize::from(!charges.is_empty()));
        for truth in &report.truth {
            prop_assert_eq!(truth.equal, charges.len() as u64);
            for (row, (path, bytes)) in truth.rows.iter().zip(&charges) {
                prop_assert_eq!((&row.path, &row.designs), (path, &vec![*bytes; DESIGNS.len()]));
            }
        }
        let allocs = program.ops.iter().filter(|op| op.kind == OpKind::Alloc).count();
        for design in &report.designs {
            prop_assert_eq!(design.at_end.usage.live, live);
            let peak = design.at_peak.usage;
            prop_assert_eq!(peak.live, report.designs[0].at_peak.usage.live);
            prop_assert!(peak.slab >= peak.live && design.max_slab >= peak.slab);
            prop_assert_eq!(design.caches.iter().map(|c| c.live).sum::<u64>(), peak.live);
            prop_assert_eq!(design.caches.iter().map(|c| c.slab).sum::<u64>(), peak.slab);
            prop_assert_eq!(design.caches.iter().map(|c| c.slabs).sum::<u64>(), design.sharing.slabs());
            let objects: u64 = design.caches.iter().map(|c| c.objects).sum();
            prop_assert_eq!(design.groups.iter().map(|g| g.objects).sum::<u64>(), objects);
            prop_assert_eq!(objects > 0, allocs > 0);
        }
        // The idea of 5.8: a slab serves one group, and a group pays for whole slabs.
        let old = &report.designs[0];
        prop_assert_eq!((old.name.as_str(), old.sharing.shared()), ("linux-5.8", 0));
        prop_assert!(old.groups.iter().all(|g| g.charged % 4096 == 0));
    }
}
