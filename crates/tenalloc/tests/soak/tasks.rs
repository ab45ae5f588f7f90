//! Tasks of a worker: futures that wait for a group to fall to its `high`, polled only when they were woken.

use crate::model::World;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::task::{Context, Poll, Wake, Waker};
use tenalloc::{Group, Result};

/// What a task brings: an object, or nothing but the end of its waiting.
type Brings = Result<Option<NonNull<u8>>>;

/// Says that a task was woken.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// A future with its group.
pub(crate) struct Task {
    pub(crate) group: usize,
    /// Bytes that its object is charged.
    pub(crate) charge: u64,
    waits_for: Group,
    woken: Arc<Woken>,
    future: Pin<Box<dyn Future<Output = Brings> + Send>>,
}

impl Task {
    /// A task that waits, and then has an object of the cache if one is given. Not yet polled.
    pub(crate) fn new((group, g): (usize, Group), cache: Option<&tenalloc::Cache>) -> Self {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let (charge, waits_for, g) = (cache.map_or(0, tenalloc::Cache::charge), g.clone(), g);
        let future: Pin<Box<dyn Future<Output = Brings> + Send>> = match cache.cloned() {
            Some(cache) => Box::pin(async move { cache.alloc_async(&g).await.map(Some) }),
            None => Box::pin(async move {
                g.below_high().await;
                Ok(None)
            }),
        };
        Self { group, charge, waits_for, woken, future }
    }

    /// Polls it if it was woken.
    pub(crate) fn poll(&mut self) -> Poll<Brings> {
        if !self.woken.0.swap(false, SeqCst) {
            return Poll::Pending;
        }
        let waker = Waker::from(self.woken.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.woken.0.load(SeqCst)
    }

    /// Nothing is in flight and nobody woke it: then it still has to wait, and not for bytes that are only kept near CPUs.
    pub(crate) fn check(&self, world: &World) {
        let mut at = Some(self.waits_for.clone());
        let mut above = false;
        while let Some(g) = at {
            above |= g.exact() > g.high();
            at = g.parent();
        }
        let (g, high) = (&self.waits_for, self.waits_for.high());
        assert!(!g.is_removed() && above, "a wake-up was lost: {g:?} high {high}, {:?}", world.ctl.root());
    }
}
