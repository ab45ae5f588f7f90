//! Groups come and go and leave 5 % of their objects behind; in the end all have gone.
//!
//! 2,048 groups live at a time; 64 random ones are removed and 64 new ones made, whose objects are allocated in turns, until
//! 19,968 were removed. Then all are, and memory is asked back. Live / resident at each of these moments.

use super::Failure;
use super::stores::{Store, Visit};
use super::tenants::{label, parts, percent, print_parts, room, take};
use crate::machine::resident;
use crate::peers::Peer;
use crate::speed::Random;
use serde_json::{Value, json};

/// Groups that are removed, and made, together.
const TOGETHER: usize = 64;
/// One of how many objects lives on.
const SURVIVOR: usize = 20;

pub(super) struct Churn {
    /// Groups at a time.
    pub(super) live: usize,
    pub(super) objects: usize,
}

impl Churn {
    /// Groups in all, with `live` at a time: ten times as many again, as whole batches.
    pub(super) fn total(live: usize) -> usize {
        live + live * 39 / 4
    }
}

/// Objects with their sizes.
type Objects<S> = Vec<(<S as Peer>::Object, usize)>;

/// Groups alive, each with its objects; and the objects that outlived theirs.
struct World<S: Store> {
    store: S,
    groups: Vec<(usize, Objects<S>)>,
    /// Vectors of groups that went, for those that come: the program's own memory stays as it is.
    spare: Vec<Objects<S>>,
    survivors: Objects<S>,
    made: usize,
}

impl<S: Store> World<S> {
    fn add(&mut self, number: usize, objects: usize) -> Result<(), Failure> {
        let first = self.groups.len();
        for _ in 0..number {
            if !self.store.create(self.made)? {
                return Err(format!("it can have no more than {} groups", self.made).into());
            }
            let Some(room) = self.spare.pop() else {
                return Err("more groups than there is room for".into());
            };
            self.groups.push((self.made, room));
            self.made += 1;
        }
        for i in 0..objects {
            for (group, live) in &mut self.groups[first..] {
                live.push(take(&self.store, *group, i));
            }
        }
        Ok(())
    }

    fn remove(&mut self, at: usize, random: &mut Random) {
        let (group, mut live) = self.groups.swap_remove(at);
        let first = self.survivors.len();
        for (object, size) in live.drain(..) {
            if random.below(SURVIVOR) == 0 {
                self.survivors.push((object, size));
            } else {
                // SAFETY: live, given back once.
                unsafe { self.store.free(object, size) };
            }
        }
        self.store.remove(group, &mut self.survivors[first..]);
        self.spare.push(live);
    }

    fn bytes(&self) -> usize {
        let sum = |objects: &[(S::Object, usize)]| objects.iter().map(|o| o.1).sum::<usize>();
        sum(&self.survivors) + self.groups.iter().map(|g| sum(&g.1)).sum::<usize>()
    }
}

impl Visit for Churn {
    fn visit<S: Store>(self, make: impl FnOnce() -> Result<S, Failure>) -> Result<Value, Failure> {
        let total = Self::total(self.live);
        let spare: Vec<_> = (0..self.live).map(|_| room(self.objects)).collect();
        let survivors = room(total * self.objects / SURVIVOR * 2);
        let groups = room(self.live);
        let before = resident();
        let mut world = World { store: make()?, groups, spare, survivors, made: 0 };
        let mut random = Random(11);
        world.add(self.live, self.objects)?;
        while world.made + TOGETHER <= total {
            for _ in 0..TOGETHER {
                let at = random.below(world.groups.len());
                world.remove(at, &mut random);
            }
            world.add(TOGETHER, self.objects)?;
        }
        let steady = (world.bytes(), resident().saturating_sub(before));
        while !world.groups.is_empty() {
            world.remove(0, &mut random);
        }
        let removed = resident().saturating_sub(before);
        let left = world.bytes();
        world.store.purge(&mut world.survivors);
        let reclaimed = resident().saturating_sub(before);
        Ok(json!({
            "groups_live": self.live, "groups_made": world.made, "objects_each": self.objects,
            "steady_bytes": steady.0, "steady_grown_bytes": steady.1,
            "surviving_bytes": left, "removed_grown_bytes": removed,
            "left_bytes": world.bytes(), "reclaimed_grown_bytes": reclaimed,
            "parts": parts(&world.store),
        }))
    }
}

pub(super) fn head(live: usize, objects: usize) {
    let title = format!("{} groups of {objects} objects came and went, {live} at a time", Churn::total(live));
    println!("{title}; 5 % of the objects live on. live / resident:");
    println!("{:68}{:>10}{:>9}{:>11}", "", "meanwhile", "all gone", "asked back");
}

pub(super) fn print(row: &Value) {
    println!(
        "{:68}{:>9.1}%{:>8.1}%{:>10.1}%",
        label(row),
        percent(row, "steady_bytes", "steady_grown_bytes"),
        percent(row, "surviving_bytes", "removed_grown_bytes"),
        percent(row, "left_bytes", "reclaimed_grown_bytes"),
    );
    print_parts(row, "parts");
}
