//! The paths, each run often enough that what happens only now and then (a stack that is empty, a page that is full) has
//! its share. Groups are two levels below the root, as in the tables of times.

use crate::rseq::is_entered_by;
use crate::valgrind::{count, write_down};
use std::arch::asm;
use std::error::Error;
use std::ffi::CString;
use std::hint::black_box;
use std::ptr::NonNull;
use std::time::Duration;
use tenalloc::{Cache, CacheConfig, Config, Controller, Group, ListLru, Topology};

type Done = Result<(), Box<dyn Error>>;

/// Bytes of an object.
const SIZE: usize = 64;
/// Of a path that is short.
const TIMES: usize = 10_000;
/// Of one that needs a group each time.
const GROUPS: usize = 1_000;
/// Objects that are live at once, where they come in batches: more than a CPU keeps at hand.
const BATCH: usize = 1_000;

/// Counts what `once` passes to [`count`], for each of `times`, after a tenth of it that is not written down.
fn path(name: &str, times: usize, once: impl FnMut(usize) -> Done) -> Done {
    batches(name, times, 1, once)
}

/// The same where `once` does `each` of them.
fn batches(name: &str, times: usize, each: usize, mut once: impl FnMut(usize) -> Done) -> Done {
    (0..times / 10).try_for_each(&mut once)?;
    write_down(c"warm-up");
    (0..times).try_for_each(&mut once)?;
    write_down(&CString::new(format!("{} {name}", times * each))?);
    Ok(())
}

/// Where objects come from.
struct Place {
    ctl: Controller,
    cache: Cache,
    service: Group,
    group: Group,
}

impl Place {
    /// The clock is kept out of it: free pages are not given back.
    fn new(config: Config) -> tenalloc::Result<Self> {
        let ctl = Controller::new(config.decay(Duration::MAX))?;
        let cache = ctl.cache(&CacheConfig::new("object", SIZE))?;
        let service = ctl.root().create("service")?;
        let group = service.create("tenant")?;
        Ok(Self { ctl, cache, service, group })
    }

    /// An object and its end, both counted.
    fn pair(&self, name: &str) -> Done {
        path(name, TIMES, |_| {
            let object = count(|| self.cache.alloc(&self.group))?;
            // SAFETY: just taken, and nobody uses it.
            Ok(count(|| unsafe { self.cache.free(object) })?)
        })
    }
}

/// The brackets, and a known number of instructions to see that they count.
fn measure() -> Done {
    path("nothing", TIMES, |_| {
        count(|| ());
        Ok(())
    })?;
    path("100 instructions that do nothing", TIMES, |_| {
        // SAFETY: does nothing.
        count(|| unsafe { asm!(".rept 100", "nop", ".endr", options(nomem, nostack, preserves_flags)) });
        Ok(())
    })
}

/// What a CPU has at hand.
fn at_hand(place: &Place) -> Done {
    let Place { ctl, cache, group, .. } = place;
    let entered = is_entered_by(|| {
        if let Ok(object) = cache.alloc(group) {
            // SAFETY: just taken, and nobody uses it.
            let _ = unsafe { cache.free(object) };
        }
    });
    if !entered {
        return Err("tenalloc does without restartable sequences here (is membarrier allowed?)".into());
    }
    // SAFETY, of all frees: the object was just taken, and nobody uses it.
    path("cache.alloc, 64 B at hand", TIMES, |_| {
        let object = count(|| cache.alloc(group))?;
        // SAFETY: see above.
        Ok(unsafe { cache.free(object) }?)
    })?;
    path("cache.free, 64 B to hand", TIMES, |_| {
        let object = cache.alloc(group)?;
        // SAFETY: see above.
        Ok(count(|| unsafe { cache.free(object) })?)
    })?;
    path("ctl.malloc, 64 B at hand", TIMES, |_| {
        let object = count(|| ctl.malloc(group, SIZE, 8))?;
        // SAFETY: see above.
        Ok(unsafe { ctl.free(object) }?)
    })?;
    path("ctl.free, 64 B to hand", TIMES, |_| {
        let object = ctl.malloc(group, SIZE, 8)?;
        // SAFETY: see above.
        Ok(count(|| unsafe { ctl.free(object) })?)
    })?;
    let object = ctl.malloc(group, SIZE, 8)?;
    path("ctl.realloc, where it is", TIMES, |i| {
        // SAFETY: a live object of ours.
        let same = count(|| unsafe { ctl.realloc(object, SIZE - i % 8, 8) })?;
        if same == object { Ok(()) } else { Err("it was moved".into()) }
    })?;
    // SAFETY: live until now.
    Ok(unsafe { ctl.free(object) }?)
}

/// Batches, and groups in turn: through the stacks, the depot and the stocks.
fn many(place: &Place) -> Done {
    let Place { cache, service, group, .. } = place;
    let mut live: Vec<NonNull<u8>> = Vec::with_capacity(BATCH);
    batches("alloc + free, 1,000 live, last one freed first", 10 * TIMES / BATCH, BATCH, |_| {
        for _ in 0..BATCH {
            live.push(count(|| cache.alloc(group))?);
        }
        while let Some(object) = live.pop() {
            // SAFETY: live until now.
            count(|| unsafe { cache.free(object) })?;
        }
        Ok(())
    })?;

    let groups: Vec<_> = (0..64).map(|i| service.create(&format!("turn{i}"))).collect::<Result<_, _>>()?;
    path("alloc + free, 64 groups in turn", TIMES, |i| {
        let object = count(|| cache.alloc(&groups[i % 64]))?;
        // SAFETY: just taken, and nobody uses it.
        Ok(count(|| unsafe { cache.free(object) })?)
    })?;
    groups.iter().try_for_each(|group| Ok(group.remove()?))
}

/// Groups come, take a first object, and go.
fn groups(place: &Place) -> Done {
    let Place { cache, service, .. } = place;
    path("alloc + free, a group's first object", GROUPS, |_| {
        let group = service.create("first")?;
        let object = count(|| cache.alloc(&group))?;
        // SAFETY: just taken, and nobody uses it.
        count(|| unsafe { cache.free(object) })?;
        Ok(group.remove()?)
    })?;
    let mut made = Vec::with_capacity(2 * GROUPS);
    path("group.create", GROUPS, |i| {
        let name = format!("g{}-{i}", made.len());
        made.push(count(|| service.create(&name))?);
        Ok(())
    })?;
    made.drain(..).try_for_each(|group| group.remove())?;
    path("group.remove, without objects", GROUPS, |_| {
        let group = service.create("empty")?;
        Ok(count(|| group.remove())?)
    })?;
    let mut live = Vec::with_capacity(BATCH);
    path("group.remove, 1,000 live objects", GROUPS / 10, |_| {
        let group = service.create("full")?;
        for _ in 0..BATCH {
            live.push(cache.alloc(&group)?);
        }
        count(|| group.remove())?;
        for object in live.drain(..) {
            // SAFETY: live until now.
            unsafe { cache.free(object)? };
        }
        Ok(())
    })
}

/// Charges without objects, and objects on lists.
fn charges_and_lists(place: &Place) -> Done {
    let Place { ctl, cache, group, .. } = place;
    let owner = group.owner();
    path("try_charge + uncharge, 64 B", TIMES, |_| {
        count(|| owner.try_charge(SIZE as u64))?;
        count(|| owner.uncharge(SIZE as u64));
        Ok(())
    })?;
    let lru = ListLru::new(ctl, 0)?;
    path("alloc_lru + free", TIMES, |_| {
        let object = count(|| cache.alloc_lru(group, &lru))?;
        // SAFETY: just taken, on no list, and nobody uses it.
        Ok(count(|| unsafe { cache.free(object) })?)
    })?;
    let object = cache.alloc_lru(group, &lru)?;
    path("list add + del", TIMES, |_| {
        // SAFETY: live, with its item, and ours alone.
        let both = unsafe { count(|| lru.add(object)) && count(|| lru.del(object)) };
        if both { Ok(()) } else { Err("the list lost it".into()) }
    })?;
    // SAFETY: live until now, on no list.
    Ok(unsafe { cache.free(object) }?)
}

/// The C library's, for scale.
fn glibc() -> Done {
    path("glibc: malloc + free, 64 B", TIMES, |_| {
        // SAFETY: `free` takes what `malloc` gave, or null.
        unsafe {
            let object = black_box(count(|| libc::malloc(SIZE)));
            count(|| libc::free(object));
        }
        Ok(())
    })
}

/// All of them.
pub(crate) fn all() -> Done {
    measure()?;
    let place = Place::new(Config::new().hardened(false))?;
    at_hand(&place)?;
    many(&place)?;
    groups(&place)?;
    charges_and_lists(&place)?;
    Place::new(Config::new().hardened(true))?.pair("alloc + free, hardened")?;
    Place::new(Config::new().hardened(false).debug(true))?.pair("alloc + free, red zones")?;
    Place::new(Config::new().hardened(false).topology(Topology::simulated(1, 1)))?
        .pair("alloc + free, without sequences")?;
    glibc()
}
