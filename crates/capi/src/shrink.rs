//! The program's ways to give memory back: shrinkers bound to lists, and those that stand for themselves.

use crate::error::{Failure, call};
use crate::handle::{
    self, Out, Transparent, controller, open, ten_controller, ten_group, ten_lru, ten_registration,
};
use core::ffi::{c_int, c_void};
use tenalloc::{Group, ListLru, Scanned, Shrink, Shrinker};

/// What a scan did; C adds to it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ten_scanned {
    /// Objects looked at.
    pub looked_at: u64,
    /// Objects freed by now.
    pub freed: u64,
    /// Objects whose users were asked, and that will follow.
    pub asked: u64,
    /// Nothing more can be had now.
    pub stop: bool,
}

impl From<ten_scanned> for Scanned {
    fn from(s: ten_scanned) -> Self {
        Self { looked_at: s.looked_at, freed: s.freed, asked: s.asked, stop: s.stop }
    }
}

/// Gives objects of lists back. C's, in place as long as the controller.
#[derive(Debug)]
#[repr(C)]
pub struct ten_shrinker {
    /// Looks at objects of a group's list and frees what can be spared.
    pub scan: Option<extern "C" fn(&ten_shrinker, &ten_lru, &ten_group, u32, u64, &mut ten_scanned)>,
    /// Accesses that it takes to make an object again.
    pub seeks: u32,
    /// Objects that one call is asked for at most, 0: 128.
    pub batch: u32,
    /// The program's own.
    pub arg: *mut c_void,
}

// SAFETY: C promises that its callback may be called from any thread.
unsafe impl Sync for ten_shrinker {}

fn batch(batch: u32) -> u64 {
    if batch == 0 { 128 } else { batch.into() }
}

impl Shrinker for ten_shrinker {
    fn scan(&self, lru: &ListLru, group: &Group, node: u8, number: u64) -> Scanned {
        let mut done = ten_scanned::default();
        match self.scan {
            Some(scan) => {
                scan(self, ten_lru::lend(lru), ten_group::lend(group), node.into(), number, &mut done);
            }
            None => done.stop = true,
        }
        done.into()
    }

    fn seeks(&self) -> u32 {
        self.seeks
    }

    fn batch(&self) -> u64 {
        batch(self.batch)
    }
}

/// Gives memory of the program's own caches back. C's, in place until it is taken away.
#[derive(Debug)]
#[repr(C)]
pub struct ten_shrink {
    /// Objects of a group on a node that a scan could look at.
    pub count: Option<extern "C" fn(&ten_shrink, &ten_group, u32) -> u64>,
    /// Looks at that many of them and frees what can be spared.
    pub scan: Option<extern "C" fn(&ten_shrink, &ten_group, u32, u64, &mut ten_scanned)>,
    /// Accesses that it takes to make an object again.
    pub seeks: u32,
    /// Objects that one call is asked for at most, 0: 128.
    pub batch: u32,
    /// The program's own.
    pub arg: *mut c_void,
}

// SAFETY: as above.
unsafe impl Sync for ten_shrink {}

impl Shrink for ten_shrink {
    fn count(&self, group: &Group, node: u8) -> u64 {
        self.count.map_or(0, |count| count(self, ten_group::lend(group), node.into()))
    }

    fn scan(&self, group: &Group, node: u8, number: u64) -> Scanned {
        let mut done = ten_scanned::default();
        match self.scan {
            Some(scan) => scan(self, ten_group::lend(group), node.into(), number, &mut done),
            None => done.stop = true,
        }
        done.into()
    }

    fn seeks(&self) -> u32 {
        self.seeks
    }

    fn batch(&self) -> u64 {
        batch(self.batch)
    }
}

/// Registers a shrinker that stands for itself.
///
/// # Safety
/// It is NULL, or stays in place until its registration was closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_shrink_register(
    ctl: Option<&ten_controller>,
    shrink: *const ten_shrink,
    out: Out<'_, ten_registration>,
) -> c_int {
    call(|| {
        open(out, || {
            // SAFETY: the caller's promise.
            let shrink: &'static ten_shrink = unsafe { shrink.as_ref() }.ok_or(Failure::Null("shrink"))?;
            Ok(controller(ctl)?.add_shrinker(shrink)?)
        })
    })
}

/// Takes it away, and waits for its calls under way.
///
/// # Safety
/// It is NULL or a handle that is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_registration_close(registration: *mut ten_registration) {
    // SAFETY: the caller's promise.
    unsafe { handle::close(registration) }
}
