//! One of the two threads: what it may do in a step, and what it has.

use crate::common::{Random, free};
use crate::model::{Account, CPUS, FAMILIES, NODES, Place, World};
use crate::object::{Object, claim};
use crate::tasks::Task;
use std::sync::atomic::Ordering::Relaxed;
use tenalloc::{Error, Group, LruStatus, OWNER_BYTES, Registration};

/// What is counted, to be sure that it happens.
pub(crate) const KINDS: usize = 20;
pub(crate) const NAMES: [&str; KINDS] = [
    "groups made",
    "groups removed",
    "removals refused for a child just made",
    "objects made",
    "objects freed",
    "objects freed by the other thread",
    "objects that reclaim or a walk freed",
    "adds",
    "dels",
    "allocations refused by a limit",
    "allocations refused for want of memory",
    "allocations refused by a removed or frozen group",
    "chunks and nodes taken out of use",
    "those given up, with pins told",
    "those cancelled",
    "caches destroyed",
    "polls that wait",
    "tasks done",
    "charges past all limits",
    "allocations refused by a cache that goes",
];

/// Kinds that few lives see.
pub(crate) const RARE: [usize; 2] = [2, 19];

pub(crate) struct Worker {
    pub(crate) me: usize,
    pub(crate) random: Random,
    pub(crate) objects: Vec<Object>,
    pub(crate) accounts: Vec<Account>,
    pub(crate) numbers: Vec<u32>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) registered: Vec<Registration>,
    /// Addresses of whole pages.
    pub(crate) raw: Vec<usize>,
    pub(crate) done: [u64; KINDS],
}

/// Errors that random life may bring.
pub(crate) fn count(done: &mut [u64; KINDS], error: Error) {
    let kind = match error {
        Error::Limit(_) => 9,
        Error::NoMemory { .. } | Error::Full { .. } => 10,
        Error::GroupRemoved | Error::Frozen => 11,
        Error::CacheDestroyed => 19,
        e => panic!("{e}"),
    };
    done[kind] += 1;
}

impl Worker {
    pub(crate) fn new(me: usize, seed: u64) -> Self {
        let random = Random(seed.wrapping_mul(2).wrapping_add(me as u64));
        let (objects, accounts, numbers) = (Vec::new(), Vec::new(), Object::numbers(me));
        let (tasks, registered, raw) = Default::default();
        Self { me, random, objects, accounts, numbers, tasks, registered, raw, done: [0; KINDS] }
    }

    /// A living group, as far as is known; mostly one of the newest, so that both threads are at the same one.
    pub(crate) fn pick(&mut self, world: &World) -> (usize, Group) {
        let places = world.places.lock().unwrap();
        loop {
            let newest = if self.random.below(4) > 0 { places.len().min(4) } else { places.len() };
            let at = places.len() - 1 - self.random.below(newest);
            if !places[at].removed {
                return (at, places[at].group.clone());
            }
        }
    }

    pub(crate) fn step(&mut self, world: &World) {
        if self.random.below(4) == 0 {
            world.ctl.set_cpu(self.random.below(CPUS.into()) as u16);
        }
        match self.random.below(1000) {
            0..40 => self.create(world),
            40..75 => self.remove(world),
            75..250 => self.allocate(world),
            250..360 => self.allocate_listed(world),
            360..510 => self.toggle(world),
            510..700 => self.free_one(world),
            700..760 => self.send(world),
            760..790 => self.receive(world),
            790..810 => self.walk(world),
            810..835 => self.limit(world),
            835..850 => {
                let bytes = self.random.below(20_000) as u64;
                let (_, g) = self.pick(world);
                if let Ok(got) = g.reclaim(bytes) {
                    assert!(got.bytes >= bytes);
                }
            }
            850..855 => drop(world.ctl.trim()),
            855..895 => self.account(world),
            895..899 => self.force(world),
            899..904 => world.source.fail_after(self.random.below(40) as u32),
            904..905 => self.starve(world),
            905..908 => self.freeze(world),
            908..916 => self.offline(world),
            916..918 => world.ctl.cancel_offline(),
            918..926 => self.extra(world),
            926..936 => self.allocate_extra(world),
            936..950 => self.shelve(world),
            950..970 => self.task(world),
            970..976 => self.pages(world),
            976..980 => self.high(world),
            _ => self.read(world),
        }
    }

    pub(crate) fn create(&mut self, world: &World) {
        if world.places.lock().unwrap().iter().filter(|p| !p.removed).count() > 50 {
            return;
        }
        let (parent, g) = self.pick(world);
        let name = format!("{}-{}", self.me, self.random.next());
        // Made and entered at once: a child must come after its parent in the model.
        match g.create(&name) {
            Ok(group) => {
                let place = Place { group, parent, removed: false, allowed: u64::MAX };
                world.places.lock().unwrap().push(place);
                self.done[0] += 1;
            }
            Err(e) => count(&mut self.done, e),
        }
    }

    fn remove(&mut self, world: &World) {
        let (at, g) = self.pick(world);
        let mut places = world.places.lock().unwrap();
        if at == 0 || places[at].removed || places.iter().any(|p| !p.removed && p.parent == at) {
            return;
        }
        places[at].removed = true; // nobody picks it any more; who has picked it already races with us
        drop(places);
        match g.remove() {
            Ok(()) => self.done[1] += 1,
            Err(Error::GroupBusy { .. }) => {
                world.places.lock().unwrap()[at].removed = false;
                self.done[2] += 1;
            }
            Err(e) => panic!("{e}"),
        }
    }

    pub(crate) fn allocate(&mut self, world: &World) {
        let (group, g) = self.pick(world);
        let which = self.random.below(world.caches.len() + 1);
        let made = match world.caches.get(which) {
            Some(cache) if self.random.below(4) > 0 => cache.alloc(&g).map(|o| (o, cache.charge())),
            Some(cache) => {
                cache.alloc_on(&g, self.random.below(NODES.into()) as u8).map(|o| (o, cache.charge()))
            }
            None => {
                let bits = if self.random.below(200) == 0 { 21 } else { self.random.below(16) };
                let size = 8 + self.random.below(1 << bits);
                world.ctl.malloc(&g, size, 8).map(|o| {
                    let usable = world.ctl.usable_size(o).unwrap();
                    (o, (usable + OWNER_BYTES as usize) as u64)
                })
            }
        };
        self.keep(world, group, None, made);
    }

    pub(crate) fn allocate_listed(&mut self, world: &World) {
        let (group, g) = self.pick(world);
        let family = self.random.below(FAMILIES);
        let (cache, lru) = &world.pools[family];
        let before = self.objects.len();
        self.keep(world, group, Some(family), cache.alloc_lru(&g, lru).map(|at| (at, cache.charge())));
        if self.objects.len() > before && self.random.below(4) > 0 {
            self.toggle_at(world, before);
        }
    }

    fn toggle(&mut self, world: &World) {
        if !self.objects.is_empty() {
            // Mostly a new one, whose group may just be going.
            let newest =
                if self.random.below(4) > 0 { self.objects.len().min(8) } else { self.objects.len() };
            let at = self.objects.len() - 1 - self.random.below(newest);
            self.toggle_at(world, at);
        }
    }

    fn toggle_at(&mut self, world: &World, at: usize) {
        let o = &self.objects[at];
        let Some(family) = o.family else { return };
        if !o.pin() {
            return;
        }
        let lru = &world.pools[family].1;
        let listed = o.listed().load(Relaxed);
        // SAFETY: live and pinned: nobody else adds, deletes or frees it.
        let (added, deleted) =
            unsafe { if listed { (0, u64::from(lru.del(o.at()))) } else { (u64::from(lru.add(o.at())), 0) } };
        assert_eq!(added + deleted, 1, "it was on a list: {listed}");
        if self.random.below(3) == 0 {
            o.item().reference();
        }
        o.listed().store(!listed, Relaxed);
        o.unpin();
        self.done[7] += added;
        self.done[8] += deleted;
    }

    /// Frees a pinned object.
    fn free_pinned(&mut self, o: Object, world: &World) {
        if let Some(family) = o.family {
            // SAFETY: live and pinned.
            let deleted = unsafe { world.pools[family].1.del(o.at()) };
            assert_eq!(deleted, o.listed().load(Relaxed));
        }
        assert!(o.is_intact(), "object {} was overwritten", o.id);
        free(&world.ctl, o.at());
        o.forget(&mut self.numbers);
    }

    pub(crate) fn free_one(&mut self, world: &World) {
        if self.objects.is_empty() {
            return;
        }
        let o = self.objects.swap_remove(self.random.below(self.objects.len()));
        if o.pin() {
            self.free_pinned(o, world);
            self.done[4] += 1;
        } else {
            o.forget(&mut self.numbers);
            self.done[6] += 1;
        }
    }

    fn send(&mut self, world: &World) {
        if self.objects.is_empty() {
            return;
        }
        let o = self.objects.swap_remove(self.random.below(self.objects.len()));
        if o.pin() {
            world.mail[1 - self.me].lock().unwrap().push(o);
        } else {
            o.forget(&mut self.numbers);
            self.done[6] += 1;
        }
    }

    fn receive(&mut self, world: &World) {
        let mail = std::mem::take(&mut *world.mail[self.me].lock().unwrap());
        for o in mail {
            self.free_pinned(o, world);
            self.done[5] += 1;
        }
    }

    fn walk(&mut self, world: &World) {
        let (_, g) = self.pick(world);
        let lru = &world.pools[self.random.below(FAMILIES)].1;
        let node = self.random.below(NODES.into()) as u8;
        let mut budget = self.random.below(60) as u64;
        let random = &mut self.random;
        let isolate = |o| match random.below(8) {
            0 => LruStatus::Skip,
            1 => LruStatus::Retry,
            2 if random.below(8) == 0 => LruStatus::Stop,
            3 if claim(o) == LruStatus::Removed => LruStatus::RemovedRetry,
            4 => claim(o),
            _ => LruStatus::Rotate,
        };
        lru.walk(&g, node, &mut budget, isolate, |o| free(&world.ctl, o));
    }

    fn limit(&mut self, world: &World) {
        // One thread at a time, so that the model knows what `current` was.
        let mut places = world.places.lock().unwrap();
        let at = self.random.below(places.len());
        let bytes = self.random.below(400_000) as u64;
        let place = &mut places[at];
        if at == 0 || place.removed {
            return;
        }
        match self.random.below(6) {
            0 | 1 => place.allowed = bytes.max(place.group.set_max(bytes)),
            2 | 3 => {
                place.group.set_max(u64::MAX);
                place.allowed = u64::MAX;
            }
            4 => drop(place.group.set_low(bytes / 4)),
            _ => drop(place.group.set_min(bytes / 16)),
        }
    }

    fn account(&mut self, world: &World) {
        if self.accounts.len() < 20 && self.random.below(3) == 0 {
            let (group, g) = self.pick(world);
            // A handle of a group that is removed by now speaks for the nearest ancestor that lives.
            self.accounts.push(Account { owner: g.owner(), group, bytes: 0 });
            return;
        }
        if self.accounts.is_empty() {
            return;
        }
        let at = self.random.below(self.accounts.len());
        let bits = self.random.below(17);
        let bytes = self.random.below(1 << bits) as u64;
        let a = &mut self.accounts[at];
        if self.random.below(2) == 0 {
            match a.owner.try_charge(bytes) {
                Ok(()) => a.bytes += bytes,
                Err(e) => count(&mut self.done, e),
            }
        } else {
            let bytes = bytes.min(a.bytes);
            a.owner.uncharge(bytes);
            a.bytes -= bytes;
            if a.bytes == 0 && self.random.below(2) == 0 {
                self.accounts.swap_remove(at);
            }
        }
    }

    fn freeze(&mut self, world: &World) {
        let (_, g) = self.pick(world);
        g.freeze(true);
        for _ in 0..5 {
            self.allocate(world);
            self.free_one(world);
        }
        g.freeze(false);
    }

    fn read(&mut self, world: &World) {
        let (_, g) = self.pick(world);
        assert!(g.exact() <= world.ctl.root().peak());
        let path = g.path().to_string();
        if let Ok(found) = world.ctl.root().lookup(&path) {
            assert_eq!(found, g);
        }
        for child in g.children() {
            assert_eq!(child.parent().as_ref(), Some(&g));
        }
        let _ = (g.events(), g.events_local());
        if self.random.below(10) == 0 {
            world.ctl.orphans(&mut |o| assert!(o.objects > 0));
            if let Ok(reader) = g.peak_reader() {
                reader.reset();
            }
            let stat = world.ctl.stat();
            assert!(stat.stock_bytes <= stat.stock_bound_bytes && stat.corrupted == 0);
        }
    }

    /// At a quiet point: what was sent is freed, what reclaim freed is forgotten.
    pub(crate) fn collect(&mut self, mail: &mut Vec<Object>, world: &World) {
        for o in mail.drain(..) {
            self.free_pinned(o, world);
            self.done[5] += 1;
        }
        let mut at = 0;
        while at < self.objects.len() {
            if self.objects[at].is_gone() {
                self.objects.swap_remove(at).forget(&mut self.numbers);
                self.done[6] += 1;
            } else {
                at += 1;
            }
        }
    }

    /// Frees all that it has.
    pub(crate) fn end(mut self, world: &World) {
        while let Some(o) = self.objects.pop() {
            assert!(o.pin());
            self.free_pinned(o, world);
        }
        for a in self.accounts.drain(..) {
            a.owner.uncharge(a.bytes);
        }
        self.end_rest(world);
    }
}
