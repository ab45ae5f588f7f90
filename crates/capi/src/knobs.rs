//! A group's counters and limits, with cgroup v2's names.

use crate::error::{call, figure};
use crate::handle::{self, Out, fill, given, open, ten_group, ten_peak};
use core::ffi::c_int;
use tenalloc::{Events, Group};

/// A figure of a group; 0 if there is no group.
#[inline(always)]
fn of(group: Option<&ten_group>, look: impl FnOnce(&Group) -> u64) -> u64 {
    figure(0, || Ok(look(&given(group, "group")?.0)))
}

/// Bytes charged, with what CPUs hold in advance.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_current(group: Option<&ten_group>) -> u64 {
    of(group, Group::current)
}

/// Bytes charged without that.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_exact(group: Option<&ten_group>) -> u64 {
    of(group, Group::exact)
}

/// The largest `current`.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_peak(group: Option<&ten_group>) -> u64 {
    of(group, Group::peak)
}

/// Begins a new peak.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_reset_peak(group: Option<&ten_group>) -> c_int {
    call(|| {
        given(group, "group")?.0.reset_peak();
        Ok(())
    })
}

/// What `current` may reach.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_max(group: Option<&ten_group>) -> u64 {
    of(group, Group::max)
}

/// Sets that.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_set_max(group: Option<&ten_group>, bytes: u64) -> c_int {
    call(|| {
        given(group, "group")?.0.set_max(bytes);
        Ok(())
    })
}

/// Above which charges are slowed down.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_high(group: Option<&ten_group>) -> u64 {
    of(group, Group::high)
}

/// Sets that, and reclaims what is above it.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_set_high(group: Option<&ten_group>, bytes: u64) -> c_int {
    call(|| Ok(given(group, "group")?.0.set_high(bytes)?))
}

/// What reclaim leaves to it while anything else can be had.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_low(group: Option<&ten_group>) -> u64 {
    of(group, Group::low)
}

/// Sets that.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_set_low(group: Option<&ten_group>, bytes: u64) -> c_int {
    call(|| Ok(given(group, "group")?.0.set_low(bytes)?))
}

/// What reclaim leaves to it whatever happens.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_min(group: Option<&ten_group>) -> u64 {
    of(group, Group::min)
}

/// Sets that.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_set_min(group: Option<&ten_group>, bytes: u64) -> c_int {
    call(|| Ok(given(group, "group")?.0.set_min(bytes)?))
}

/// Stops the growth of a group, or allows it again.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_freeze(group: Option<&ten_group>, on: bool) -> c_int {
    call(|| {
        given(group, "group")?.0.freeze(on);
        Ok(())
    })
}

/// Whether it or an ancestor is frozen.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_is_frozen(group: Option<&ten_group>) -> bool {
    figure(false, || Ok(given(group, "group")?.0.is_frozen()))
}

/// Counts since the first knob was set.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ten_events {
    /// Reclaimed although below `low`.
    pub low: u64,
    /// Charges above `high`.
    pub high: u64,
    /// Charges that `max` stopped.
    pub max: u64,
    /// The out-of-memory policy was asked.
    pub oom: u64,
    /// The policy chose this group.
    pub oom_victim: u64,
}

impl From<Events> for ten_events {
    fn from(e: Events) -> Self {
        Self { low: e.low, high: e.high, max: e.max, oom: e.oom, oom_victim: e.oom_victim }
    }
}

/// Events of a group and its descendants.
///
/// # Safety
/// `out` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_group_events(
    group: Option<&ten_group>,
    out: *mut ten_events,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe { fill(out, size, given(group, "group")?.0.events().into()) })
}

/// Events of its own.
///
/// # Safety
/// `out` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_group_events_local(
    group: Option<&ten_group>,
    out: *mut ten_events,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe { fill(out, size, given(group, "group")?.0.events_local().into()) })
}

/// Counts it as the victim of an out-of-memory policy.
#[unsafe(no_mangle)]
pub extern "C" fn ten_group_count_oom_victim(group: Option<&ten_group>) -> c_int {
    call(|| {
        given(group, "group")?.0.count_oom_victim();
        Ok(())
    })
}

/// A reader of the peak with resets of its own.
#[unsafe(no_mangle)]
pub extern "C" fn ten_peak_open(group: Option<&ten_group>, out: Out<'_, ten_peak>) -> c_int {
    call(|| open(out, || Ok(given(group, "group")?.0.peak_reader()?)))
}

/// The largest `current` since this reader's last reset.
#[unsafe(no_mangle)]
pub extern "C" fn ten_peak_read(peak: Option<&ten_peak>) -> u64 {
    figure(0, || Ok(given(peak, "peak")?.0.peak()))
}

/// Begins a new peak for this reader.
#[unsafe(no_mangle)]
pub extern "C" fn ten_peak_reset(peak: Option<&ten_peak>) -> c_int {
    call(|| {
        given(peak, "peak")?.0.reset();
        Ok(())
    })
}

/// Ends a reader.
///
/// # Safety
/// It is NULL or a handle that is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_peak_close(peak: *mut ten_peak) {
    // SAFETY: the caller's promise.
    unsafe { handle::close(peak) }
}
