//! A thread that keeps groups at or below their `high` (feature `std`).
//!
//! It sleeps until a charge passes a `high`, and reclaims then, so that charges need not; there is no interval, except
//! while free pages wait for their time ([`Config::decay`](crate::Config::decay)). As long
//! as it keeps up, a charge only leaves word and goes on. One that is so far above `high` that it would be made to wait
//! still reclaims itself first.

use crate::controller::{Controller, Inner};
use crate::group::Group;
use crate::group::tree::Node;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*, fence};
use core::time::Duration;
use std::string::String;
use std::sync::Arc;
use std::thread::{Builder as Thread, JoinHandle};

/// What a slice of no time grows to first.
const SHORTEST: Duration = Duration::from_millis(1);

/// What the thread shares with its handle.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    runs: AtomicU64,
    bytes: AtomicU64,
}

/// A background reclaimer of one controller. Dropping it stops the thread and waits for it; charges then reclaim for
/// themselves again. Any number may run. A controller stays as long as one of them.
pub struct Background {
    ctl: Controller,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// How a [`Background`] is to work; made by [`Background::builder`].
#[derive(Clone, Debug)]
pub struct BackgroundBuilder {
    ctl: Controller,
    name: String,
    margin: u64,
    slice: Duration,
}

impl BackgroundBuilder {
    /// The thread's name, instead of `tenalloc-reclaim`.
    pub fn name(self, name: &str) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Bytes below `high` to which a group is brought once it passed it, so that not every charge near `high` wakes
    /// the thread; 0 by default.
    pub fn margin(self, bytes: u64) -> Self {
        Self { margin: bytes, ..self }
    }

    /// The time that one group has at a time when several are above their `high`; 20 ms by default. While groups give
    /// nothing in theirs, because a shrinker is slow or the thread has no CPU, it doubles from one group to the next.
    pub fn slice(self, time: Duration) -> Self {
        Self { slice: time, ..self }
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// The system gave no thread; nothing is changed then.
    pub fn start(self) -> std::io::Result<Background> {
        let shared = Arc::new(Shared::default());
        let present = Present::new(&self.ctl);
        let (ctl, name) = (self.ctl.clone(), self.name.clone());
        let theirs = shared.clone();
        let thread = Thread::new().name(name).spawn(move || self.run(&theirs, present))?;
        Ok(Background { ctl, shared, thread: Some(thread) })
    }

    fn run(self, shared: &Shared, present: Present) {
        let inner = present.0.inner();
        let mut slice = self.slice;
        loop {
            let seen = inner.signals.bell.count();
            if shared.stop.load(SeqCst) {
                return;
            }
            if !inner.take_passed(|node| self.lower(inner, node, shared, &mut slice)) {
                slice = self.slice;
                inner.signals.bell.wait(seen, inner.chunks.pause());
                inner.chunks.tick();
            }
        }
    }

    /// Brings a group to its `high`, or as far as one slice of time goes. A slice that brings nothing doubles the next:
    /// sometime there is one in which the group gives something, or was asked for all that it has.
    fn lower(&self, inner: &Inner, node: &Node, shared: &Shared, slice: &mut Duration) {
        if shared.stop.load(SeqCst) {
            return;
        }
        inner.tree.hold(node);
        let group = Group::from_held(&self.ctl, NonNull::from(node));
        inner.drain_within(node);
        let over = group.current().saturating_sub(group.high());
        if over == 0 {
            return;
        }
        let wanted = over.saturating_add(self.margin);
        let got = inner.reclaim_within(&group, wanted, Some(*slice));
        inner.drain_within(node);
        shared.bytes.fetch_add(got.bytes, SeqCst);
        shared.runs.fetch_add(1, SeqCst);
        if got.out_of_time && group.current() > group.high() {
            if got.bytes == 0 {
                *slice = slice.saturating_mul(2).max(SHORTEST);
            }
            inner.tell_reclaimers(node); // the others first
        }
    }
}

/// Counts a thread as there for charges to rely on; also when it ends by a panic, no longer.
struct Present(Controller);

impl Present {
    fn new(ctl: &Controller) -> Self {
        ctl.inner().signals.reclaimers.fetch_add(1, SeqCst);
        Self(ctl.clone())
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let inner = self.0.inner();
        if inner.signals.reclaimers.fetch_sub(1, SeqCst) == 1 {
            fence(SeqCst);
            inner.take_passed(|_| {}); // what is queued is held: let go of it
        }
    }
}

impl Background {
    /// A reclaimer for the groups of `ctl`, to be started.
    pub fn builder(ctl: &Controller) -> BackgroundBuilder {
        BackgroundBuilder {
            ctl: ctl.clone(),
            name: "tenalloc-reclaim".into(),
            margin: 0,
            slice: Duration::from_millis(20),
        }
    }

    /// Times that it reclaimed from a group.
    pub fn runs(&self) -> u64 {
        self.shared.runs.load(SeqCst)
    }

    /// Bytes that it reclaimed.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(SeqCst)
    }

    /// Whether its thread has ended although nobody stopped it: a shrinker panicked.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the thread and waits for it: for the slice of time that it is in and a shrinker that it is calling, at most.
    ///
    /// # Errors
    /// A shrinker's panic ended it before.
    pub fn stop(mut self) -> std::thread::Result<()> {
        self.end()
    }

    fn end(&mut self) -> std::thread::Result<()> {
        self.shared.stop.store(true, SeqCst);
        self.ctl.inner().signals.bell.bump();
        match self.thread.take() {
            // A shrinker that drops it: the thread ends after that call.
            Some(thread) if thread.thread().id() == std::thread::current().id() => Ok(()),
            thread => thread.map_or(Ok(()), JoinHandle::join),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // A panic was printed when it happened; there is nobody to hand it to.
        let _ = self.end();
    }
}

impl core::fmt::Debug for Background {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Background").field("runs", &self.runs()).field("bytes", &self.bytes()).finish()
    }
}
