//! A server of tasks: each request allocates for its tenant without naming it, and waits, without blocking a thread,
//! while the tenant is above its `high`.
//!
//! ```text
//! cargo run -p tenalloc --features std --example requests
//! ```
//!
//! The executor is the smallest that does: a queue of tasks and one thread. Any other will do as well.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use tenalloc::{Config, Controller, FutureExt, Group};

/// Buffers of a request, its tenant's.
struct Buffers<'a>(&'a Controller, Vec<NonNull<u8>>);

impl<'a> Buffers<'a> {
    /// For the group of the task that calls.
    fn new(ctl: &'a Controller, number: usize) -> tenalloc::Result<Self> {
        let mut buffers = Self(ctl, Vec::new());
        for _ in 0..number {
            buffers.1.push(ctl.malloc_here(4096, 8)?);
        }
        Ok(buffers)
    }
}

impl Drop for Buffers<'_> {
    fn drop(&mut self) {
        for object in self.1.drain(..) {
            // SAFETY: live, and nobody uses it any more.
            unsafe { self.0.free(object) }.expect("it came from this controller");
        }
    }
}

/// Lets others run once.
async fn others() {
    let mut first = true;
    std::future::poll_fn(|cx| {
        if std::mem::take(&mut first) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

async fn request(ctl: &Controller, tenant: Group, waited: &AtomicU32) -> tenalloc::Result<()> {
    let mut room = pin!(tenant.below_high());
    let mut polls = 0;
    std::future::poll_fn(|cx| {
        polls += 1;
        room.as_mut().poll(cx)
    })
    .await;
    waited.fetch_add(u32::from(polls > 1), Relaxed);
    let _buffers = Buffers::new(ctl, 8)?;
    others().await; // the request works, and holds its buffers
    Ok(())
}

/// Wakes a task by queueing its number.
struct Queue(Mutex<VecDeque<usize>>);

impl Queue {
    fn next(&self) -> Option<usize> {
        self.0.lock().expect("nobody panics with it").pop_front()
    }
}

struct Task(usize, Arc<Queue>);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.1.0.lock().expect("nobody panics with it").push_back(self.0);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ctl = Controller::new(Config::new().sleep(false))?;
    let tenants: Vec<Group> =
        ["busy", "idle"].map(|name| ctl.root().create(name)).into_iter().collect::<Result<_, _>>()?;
    tenants[0].set_high(100 << 10)?;
    let waited = AtomicU32::new(0);

    type Running<'a> = Pin<Box<dyn Future<Output = tenalloc::Result<()>> + 'a>>;
    let mut tasks: Vec<Option<Running<'_>>> = (0..100)
        .map(|i| {
            let tenant = &tenants[usize::from(i % 10 == 0)];
            Some(Box::pin(request(&ctl, tenant.clone(), &waited).in_group(tenant)) as Running<'_>)
        })
        .collect();

    let queue = Arc::new(Queue(Mutex::new((0..tasks.len()).collect())));
    let mut done = 0;
    while let Some(number) = queue.next() {
        let waker = Waker::from(Arc::new(Task(number, queue.clone())));
        if let Some(task) = &mut tasks[number]
            && let Poll::Ready(result) = task.as_mut().poll(&mut Context::from_waker(&waker))
        {
            result?;
            tasks[number] = None;
            done += 1;
        }
    }
    println!("{done} of 100 requests done, {} of them waited for room", waited.load(Relaxed));
    println!("busy held {} KiB at most, idle {} KiB", tenants[0].peak() >> 10, tenants[1].peak() >> 10);
    println!("events of busy:\n{}", tenants[0].events());
    assert_eq!((done, ctl.root().exact()), (100, 0));
    Ok(())
}
