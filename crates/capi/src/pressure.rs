//! Reclaim by hand, waiting for a group to fall to its `high`, and a thread that reclaims.

use crate::error::{Failure, call, figure};
use crate::handle::{self, Out, controller, given, open, string, ten_background, ten_controller, ten_group};
use core::ffi::{c_char, c_int};
use core::future::Future;
use core::mem::MaybeUninit;
use core::pin::pin;
use core::task::{Context, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::task::Wake;
use std::thread::Thread;
use std::time::Instant;
use tenalloc::{Background, Reclaimed};

/// What reclaim got.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ten_reclaimed {
    /// Bytes by which the group's exact charge fell.
    pub bytes: u64,
    /// Objects that shrinkers freed.
    pub freed: u64,
    /// Objects that shrinkers asked for.
    pub asked: u64,
    /// Groups passed over because they are protected.
    pub protected_groups: u64,
    /// The time given was over first.
    pub out_of_time: bool,
}

impl From<Reclaimed> for ten_reclaimed {
    fn from(r: Reclaimed) -> Self {
        Self {
            bytes: r.bytes,
            freed: r.freed,
            asked: r.asked,
            protected_groups: r.protected,
            out_of_time: r.out_of_time,
        }
    }
}

/// `u64::MAX` nanoseconds: no end.
fn time(ns: u64) -> Option<Duration> {
    (ns != u64::MAX).then(|| Duration::from_nanos(ns))
}

/// Reclaims bytes from a group and its descendants.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_reclaim(
    group: Option<&ten_group>,
    bytes: u64,
    timeout_ns: u64,
    out: Option<&mut MaybeUninit<ten_reclaimed>>,
) -> c_int {
    call(|| {
        let group = &given(group, "group")?.0;
        let got = match time(timeout_ns) {
            Some(time) => group.reclaim_within(bytes, time),
            None => group.reclaim(bytes),
        };
        let (Ok(reclaimed) | Err(reclaimed)) = got;
        if let Some(out) = out {
            out.write(reclaimed.into());
        }
        got.map(drop).map_err(|less| Failure::Less(less.bytes))
    })
}

/// How long a charge would be made to wait now, ns.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_high_delay(group: Option<&ten_group>, bytes: u64) -> u64 {
    figure(0, || {
        let delay = given(group, "group")?.0.high_delay(bytes);
        Ok(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX))
    })
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits until a group and its ancestors are at or below their `high`.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_wait_below_high(group: Option<&ten_group>, timeout_ns: u64) -> c_int {
    call(|| {
        let end = time(timeout_ns).and_then(|time| Instant::now().checked_add(time));
        let mut below = pin!(given(group, "group")?.0.below_high());
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        while below.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            match end.map(|end| end.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return Err(Failure::TimedOut),
                Some(left) => std::thread::park_timeout(left),
                None => std::thread::park(),
            }
        }
        Ok(())
    })
}

/// Starts a thread that keeps groups at or below their `high`.
///
/// # Safety
/// `name` is NULL or ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_background_start(
    ctl: Option<&ten_controller>,
    name: *const c_char,
    margin: u64,
    slice_ns: u64,
    out: Out<'_, ten_background>,
) -> c_int {
    call(|| {
        open(out, || {
            let mut builder = Background::builder(controller(ctl)?).margin(margin);
            if !name.is_null() {
                // SAFETY: the caller's promise.
                builder = builder.name(unsafe { string(name, "name") }?);
            }
            if slice_ns > 0 {
                builder = builder.slice(Duration::from_nanos(slice_ns));
            }
            builder.start().map_err(|_| Failure::NoThread)
        })
    })
}

/// Times that it reclaimed from a group.
#[unsafe(no_mangle)]
pub extern "C" fn ten_background_runs(background: Option<&ten_background>) -> u64 {
    figure(0, || Ok(given(background, "background")?.0.runs()))
}

/// Bytes that it reclaimed.
#[unsafe(no_mangle)]
pub extern "C" fn ten_background_bytes(background: Option<&ten_background>) -> u64 {
    figure(0, || Ok(given(background, "background")?.0.bytes()))
}

/// Stops the thread, waits for it, and ends the handle.
///
/// # Safety
/// It is NULL or a handle that is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_background_stop(background: *mut ten_background) {
    // SAFETY: the caller's promise.
    unsafe { handle::close(background) }
}
