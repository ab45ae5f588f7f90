//! Which slabs the objects of a group share, seen by what comes back when it goes.
//!
//! A group's pages come back when nobody else has objects in them. *Together*: all groups allocate in turns, an object each.
//! *One after the other*: a group allocates all its objects, and goes when so many others have come, or at random; ten times as many
//! come as live at a time. Then sheaves and free pages are given back, an eighth of the groups goes (all their objects are freed),
//! later a half in all, and seven eighths; the slabs that came back until then are compared with what these groups' objects took.
//! *Apart*: what a group alone takes, and gives back. *Groups a page*: how many have objects that begin there.

use super::Failure;
use super::tenants::SIZES;
use crate::speed::Random;
use serde_json::{Value, json};
use std::collections::{BTreeSet, VecDeque};
use std::ptr::NonNull;
use tenalloc::{Cache, CacheConfig, Config, Controller, Group};

/// Groups at a time.
const LIVE: usize = 256;
/// Objects of each.
const OBJECTS: usize = 100;
const PAGE: usize = 4096;
/// Eighths of the groups that are gone when it is looked what came back.
const GONE: [usize; 3] = [1, 4, 7];

/// In what order groups come, allocate and go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Apart,
    Together,
    OldestGoes,
    AnyGoes,
}

const ORDERS: [(&str, Order); 4] = [
    ("apart", Order::Apart),
    ("together", Order::Together),
    ("one after the other, the oldest goes", Order::OldestGoes),
    ("one after the other, any goes", Order::AnyGoes),
];

/// The sizes of a group's objects, over and over.
const MIXES: [(&str, &[usize]); 2] = [("64 bytes", &[64]), ("7 sizes", &SIZES)];

/// Every table that [`measure`] knows: order, with or without ready objects, sizes.
pub(super) fn cases() -> impl Iterator<Item = String> {
    ORDERS.iter().flat_map(|(order, how)| {
        // Alone it makes no difference.
        [true, false].into_iter().filter(|ready| *ready || *how != Order::Apart).flat_map(move |ready| {
            let how = if ready { "" } else { ", none ready" };
            MIXES.iter().map(move |(mix, _)| format!("{order}{how}: {mix}"))
        })
    })
}

struct Tenant {
    group: Group,
    objects: Vec<NonNull<u8>>,
}

struct World {
    ctl: Controller,
    caches: Vec<(usize, Cache)>,
    mix: &'static [usize],
    live: VecDeque<Tenant>,
    made: usize,
}

impl World {
    fn come(&mut self, number: usize) -> Result<(), Failure> {
        let first = self.live.len();
        for _ in 0..number {
            let group = self.ctl.root().create(&format!("tenant-{}", self.made))?;
            self.live.push_back(Tenant { group, objects: Vec::with_capacity(OBJECTS) });
            self.made += 1;
        }
        for size in self.mix.iter().cycle().take(OBJECTS) {
            let cache = self.caches.iter().find(|(of, _)| of == size).ok_or("a cache a size")?;
            for tenant in self.live.range_mut(first..) {
                tenant.objects.push(cache.1.alloc(&tenant.group)?);
            }
        }
        Ok(())
    }

    /// Bytes that its objects took, slots without owners.
    fn go(&mut self, at: usize) -> Result<u64, Failure> {
        let tenant = self.live.remove(at).ok_or("a group that lives")?;
        for object in tenant.objects {
            // SAFETY: live, given back once.
            unsafe { self.ctl.free(object)? };
        }
        tenant.group.remove()?;
        Ok(self.bytes_each())
    }

    fn bytes_each(&self) -> u64 {
        let slot = |size| self.caches.iter().find(|(of, _)| of == size).map_or(0, |c| c.1.stat().slot_size);
        self.mix.iter().cycle().take(OBJECTS).map(|size| u64::from(slot(size))).sum()
    }

    /// Groups that have objects in a page, on average.
    fn groups_a_page(&self) -> f64 {
        let pages = self.live.iter().enumerate().flat_map(|(group, tenant)| {
            tenant.objects.iter().map(move |object| (object.as_ptr() as usize / PAGE, group))
        });
        let shared: BTreeSet<_> = pages.collect();
        let pages: BTreeSet<_> = shared.iter().map(|(page, _)| page).collect();
        shared.len() as f64 / pages.len() as f64
    }

    fn settled(&self) -> u64 {
        self.ctl.trim();
        self.ctl.slab_bytes()
    }
}

/// One case of [`cases`].
pub(super) fn measure(case: &str) -> Result<Value, Failure> {
    let (order, mix) = case.split_once(": ").ok_or("a case has two parts")?;
    let (order, exact) = order.strip_suffix(", none ready").map_or((order, false), |order| (order, true));
    let order = ORDERS.iter().find(|(name, _)| *name == order).ok_or("no such order")?.1;
    let mix = MIXES.iter().find(|(name, _)| *name == mix).ok_or("no such sizes")?.1;
    let ctl = Controller::new(Config::new().exact_charges(exact))?;
    let mut caches: Vec<(usize, Cache)> = Vec::new();
    for &size in mix {
        if caches.iter().all(|(known, _)| *known != size) {
            caches.push((size, ctl.cache(&CacheConfig::new(&format!("object-{size}"), size))?));
        }
    }
    let mut world = World { ctl, caches, mix, live: VecDeque::new(), made: 0 };
    let mut random = Random(5);
    match order {
        Order::Apart => world.come(1)?,
        Order::Together => world.come(LIVE)?,
        Order::OldestGoes | Order::AnyGoes => {
            while world.made < 11 * LIVE {
                if world.live.len() == LIVE {
                    let at = if order == Order::AnyGoes { random.below(LIVE) } else { 0 };
                    world.go(at)?;
                }
                world.come(1)?;
            }
        }
    }
    let (before, shared) = (world.settled(), world.groups_a_page());
    let live = world.bytes_each() * world.live.len() as u64;
    let (mut gone, mut went, groups) = (0, 0, world.live.len());
    let mut back = Vec::new();
    for eighths in GONE {
        while went < (groups * eighths).div_ceil(8) {
            let at = if order == Order::OldestGoes { 0 } else { random.below(world.live.len()) };
            gone += world.go(at)?;
            went += 1;
        }
        back.push(json!({ "groups": went, "gone_bytes": gone, "back_bytes": before - world.settled() }));
    }
    Ok(json!({
        "case": case, "groups": groups, "groups_a_page": shared, "live_bytes": live, "slab_bytes": before,
        "back": back,
    }))
}

pub(super) fn head() {
    let title = format!("slabs that come back when groups of {OBJECTS} objects go, {LIVE} at a time");
    println!(
        "\n{title:68}{:>12}{:>14}{:>12}{:>9}{:>9}",
        "live / slabs", "groups a page", "1/8 gone", "1/2", "7/8"
    );
}

pub(super) fn print(row: &Value) {
    let name = row["case"].as_str().unwrap_or("?");
    let shared = row["groups_a_page"].as_f64().unwrap_or(f64::NAN);
    print!(
        "  {name:66}{:>11.1}%{shared:>14.1}{:3}",
        super::tenants::percent(row, "live_bytes", "slab_bytes"),
        ""
    );
    for back in row["back"].as_array().into_iter().flatten() {
        print!("{:>8.1}%", super::tenants::percent(back, "back_bytes", "gone_bytes"));
    }
    println!();
}
