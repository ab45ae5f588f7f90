//! What a worker does beyond groups and objects: memory out of use, caches that come and go, shrinkers, tasks, faults.

use crate::common::free;
use crate::model::{NODES, World};
use crate::object::Object;
use crate::shelf::Good;
use crate::tasks::Task;
use crate::worker::{Worker, count};
use std::ptr::NonNull;
use std::task::Poll;
use std::time::Duration;
use tenalloc::{CacheConfig, Error, Group, OfflineError, Range, Result};

/// Most of each that a worker, or the world, has at a time.
const TASKS: usize = 8;
const EXTRAS: usize = 6;
const GOODS: usize = 64;
const RAW: usize = 4;

impl Worker {
    /// Takes a chunk or a node out of use, with little time or none; and back.
    pub(crate) fn offline(&mut self, world: &World) {
        let range = match self.objects.is_empty() {
            true => return,
            false if self.random.below(4) == 0 => Range::Node(self.random.below(NODES.into()) as u8),
            false => {
                // Where it is now, or was a moment ago; perhaps nothing is there any more.
                let at = self.random.below(self.objects.len());
                match self.objects[at].pin() {
                    true => {
                        let address = self.objects[at].at().as_ptr() as usize;
                        self.objects[at].unpin();
                        Range::Chunk(address)
                    }
                    false => return,
                }
            }
        };
        let time = Duration::from_micros(self.random.below(3) as u64 * 500);
        let mut pins = 0u64;
        let done = world.ctl.offline(range, time, &mut |pin| {
            assert!(pin.address != 0 && pin.bytes > 0, "{pin:?}");
            pins += 1;
        });
        match done {
            Ok(_) => {
                self.done[12] += 1;
                if let Range::Node(node) = range {
                    (0..20).for_each(|_| self.allocate(world));
                    world.ctl.online_node(node);
                }
            }
            Err(OfflineError::TimedOut { pinned }) => {
                assert!(pinned > 0);
                self.done[13] += u64::from(pins > 0);
            }
            Err(OfflineError::Cancelled) => self.done[14] += 1,
            Err(OfflineError::NotThere) => {}
        }
    }

    /// Makes a cache, or takes one away if it is empty.
    pub(crate) fn extra(&mut self, world: &World) {
        let some = {
            let extras = world.extras.lock().unwrap();
            (!extras.is_empty()).then(|| extras[self.random.below(extras.len())].clone())
        };
        let few = world.extras.lock().unwrap().len() < EXTRAS;
        match some {
            Some(cache) if !few || self.random.below(2) == 0 => {
                let name = cache.name().to_owned();
                match cache.destroy() {
                    Ok(()) => {
                        world.extras.lock().unwrap().retain(|c| c.name() != name);
                        self.done[15] += 1;
                    }
                    Err(Error::CacheBusy { objects }) => assert!(objects > 0),
                    Err(Error::CacheDestroyed) => {} // the other thread
                    Err(e) => panic!("{e}"),
                }
            }
            _ => {
                let name = format!("x{}-{}", self.me, self.random.next());
                let size = 8 + self.random.below(3000);
                match world.ctl.cache(&CacheConfig::new(&name, size)) {
                    Ok(cache) => world.extras.lock().unwrap().push(cache),
                    Err(e) => count(&mut self.done, e),
                }
            }
        }
    }

    /// An object of a cache that may just be going.
    pub(crate) fn allocate_extra(&mut self, world: &World) {
        let extra = {
            let extras = world.extras.lock().unwrap();
            (!extras.is_empty()).then(|| extras[self.random.below(extras.len())].clone())
        };
        let Some(cache) = extra else { return };
        let (group, g) = self.pick(world);
        let made = cache.alloc(&g).map(|at| (at, cache.charge()));
        self.keep(world, group, None, made);
    }

    /// Goods on the shelf, and the shelf as a shrinker, come and go.
    pub(crate) fn shelve(&mut self, world: &World) {
        match self.random.below(8) {
            0 if self.registered.len() < 2 => match world.ctl.add_shrinker(world.shelf) {
                Ok(registration) => self.registered.push(registration),
                Err(e) => count(&mut self.done, e),
            },
            0 | 1 => drop(self.registered.pop()),
            2 => {
                let good = world.shelf.0.lock().unwrap().pop();
                if let Some(good) = good {
                    good.owner.uncharge(good.bytes);
                }
            }
            _ if world.shelf.0.lock().unwrap().len() < GOODS => {
                let (group, g) = self.pick(world);
                let (owner, bytes) = (g.owner(), self.random.below(20_000) as u64);
                match owner.try_charge(bytes) {
                    Ok(()) => world.shelf.0.lock().unwrap().push(Good { owner, group, bytes }),
                    Err(e) => count(&mut self.done, e),
                }
            }
            _ => {}
        }
    }

    /// Begins a task, drops one, or goes on with those that were woken.
    pub(crate) fn task(&mut self, world: &World) {
        match self.random.below(6) {
            0 | 1 if self.tasks.len() < TASKS => {
                let which = self.random.below(world.caches.len() + 1);
                let task = Task::new(self.pick(world), world.caches.get(which));
                self.tasks.push(task);
            }
            2 if !self.tasks.is_empty() => {
                let at = self.random.below(self.tasks.len());
                drop(self.tasks.swap_remove(at));
            }
            _ => {}
        }
        self.poll_woken(world);
    }

    /// Polls the tasks that were woken. False: none was.
    pub(crate) fn poll_woken(&mut self, world: &World) -> bool {
        let mut any = false;
        let mut at = 0;
        while at < self.tasks.len() {
            let task = &mut self.tasks[at];
            any |= task.is_woken();
            let Poll::Ready(brought) = task.poll() else {
                self.done[16] += u64::from(!self.tasks[at].is_woken());
                at += 1;
                continue;
            };
            self.done[17] += 1;
            let Task { group, charge, .. } = self.tasks.swap_remove(at);
            match brought {
                Ok(Some(object)) => self.keep(world, group, None, Ok((object, charge))),
                Ok(None) => {}
                Err(e) => count(&mut self.done, e),
            }
        }
        any
    }

    /// Nothing is in flight: who was not woken has to wait.
    pub(crate) fn check_tasks(&self, world: &World) {
        self.tasks.iter().for_each(|task| task.check(world));
    }

    /// Whole pages, which stand in the way of `offline`.
    pub(crate) fn pages(&mut self, world: &World) {
        if self.raw.len() < RAW && self.random.below(2) == 0 {
            let node = self.random.below(NODES.into()) as u8;
            match world.ctl.pages(1 + self.random.below(3), node) {
                Ok(pages) => self.raw.push(pages.as_ptr() as usize),
                Err(e) => count(&mut self.done, e),
            }
        } else if let Some(pages) = self.raw.pop() {
            give_back(world, pages);
        }
    }

    /// For a while nothing can be had from the source, by anybody.
    pub(crate) fn starve(&mut self, world: &World) {
        world.source.fail_from(self.random.below(20) as u32);
        for _ in 0..20 {
            self.create(world);
            self.allocate(world);
            self.allocate_listed(world);
            self.extra(world);
            self.shelve(world);
            self.task(world);
            self.free_one(world);
        }
        world.source.heal();
    }

    /// Charges past the limits: what `current` may be then is more for the group and all above it.
    pub(crate) fn force(&mut self, world: &World) {
        if self.accounts.is_empty() {
            return;
        }
        let at = self.random.below(self.accounts.len());
        let bytes = self.random.below(5000) as u64;
        let account = &mut self.accounts[at];
        let mut places = world.places.lock().unwrap();
        let mut at = account.group;
        while at != 0 {
            places[at].allowed = places[at].allowed.saturating_add(bytes);
            at = places[at].parent;
        }
        account.owner.charge_forced(bytes);
        account.bytes += bytes;
        self.done[18] += 1;
    }

    /// `high`, which reclaims at once, and slows charges and tasks down until it is raised or the group falls.
    pub(crate) fn high(&mut self, world: &World) {
        let (_, g): (usize, Group) = self.pick(world);
        let bytes = if self.random.below(2) == 0 { u64::MAX } else { self.random.below(300_000) as u64 };
        match g.set_high(bytes) {
            Ok(()) => {
                let _ = g.high_delay(4096);
            }
            Err(e) => count(&mut self.done, e),
        }
    }

    /// Gives everything back but objects and accounts.
    pub(crate) fn end_rest(&mut self, world: &World) {
        self.tasks.clear();
        self.registered.clear();
        self.raw.drain(..).for_each(|pages| give_back(world, pages));
    }

    /// Enters what was made into the books, or the error.
    pub(crate) fn keep(
        &mut self,
        world: &World,
        group: usize,
        family: Option<usize>,
        made: Result<(NonNull<u8>, u64)>,
    ) {
        match made {
            Ok((at, charge)) => match Object::number(&mut self.numbers) {
                Some(id) => {
                    let object = Object { id, group, charge, family };
                    object.begin(at);
                    self.objects.push(object);
                    self.done[3] += 1;
                }
                None => free(&world.ctl, at), // as many as the table can hold
            },
            Err(e) => count(&mut self.done, e),
        }
    }
}

fn give_back(world: &World, pages: usize) {
    let pages = NonNull::new(pages as *mut u8).expect("an address of pages");
    // SAFETY: ours, used no more.
    unsafe { world.ctl.free_pages(pages) }.unwrap();
}
