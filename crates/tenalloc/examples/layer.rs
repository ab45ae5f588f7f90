//! A group for each request of a server, put around the service as a layer, the way tower does it; and the program's
//! allocator is tenalloc, so that whatever a handler allocates (strings, vectors, other crates' memory) is its request's.
//!
//! ```text
//! cargo run -p tenalloc --features std --example layer
//! ```
//!
//! `Service` and `Layer` have tower's shape, written down here so that the example needs no crate: with tower, write the
//! same two `impl`s for its traits.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use tenalloc::{FutureExt, Global, Group, GroupStat};

#[global_allocator]
static A: Global = Global;

/// As `tower::Service`.
trait Service<Request> {
    type Response;
    type Future: Future<Output = Self::Response>;
    fn call(&mut self, request: Request) -> Self::Future;
}

/// As `tower::Layer`.
trait Layer<S> {
    type Service;
    fn layer(&self, inner: S) -> Self::Service;
}

/// Puts each request into a group of its own below that of its tenant.
#[derive(Clone)]
struct GroupLayer {
    tenant: Group,
    /// Bytes that a request may be above before the server helps: its `high`.
    high: u64,
    numbers: Arc<AtomicU64>,
}

impl<S> Layer<S> for GroupLayer {
    type Service = InGroups<S>;
    fn layer(&self, inner: S) -> InGroups<S> {
        InGroups { inner, layer: self.clone() }
    }
}

struct InGroups<S> {
    inner: S,
    layer: GroupLayer,
}

/// A response, and what it cost.
struct Costed<T> {
    response: T,
    peak: u64,
    left: GroupStat,
}

impl<R, S: Service<R>> Service<R> for InGroups<S>
where
    S::Future: 'static,
    S::Response: 'static,
{
    type Response = tenalloc::Result<Costed<S::Response>>;
    type Future = Pin<Box<dyn Future<Output = Self::Response>>>;

    fn call(&mut self, request: R) -> Self::Future {
        let number = self.layer.numbers.fetch_add(1, Relaxed);
        let made = self.layer.tenant.create(&format!("request-{number}")).and_then(|group| {
            group.set_high(self.layer.high)?;
            Ok(group)
        });
        match made {
            Err(e) => Box::pin(async move { Err(e) }),
            Ok(group) => {
                // Also what the call itself allocates before it returns its future.
                let future = group.scope(|| self.inner.call(request)).in_group(&group);
                Box::pin(async move {
                    let response = future.await;
                    let (peak, left) = (group.peak(), group.stat());
                    group.remove()?; // at once; what the response still holds is the tenant's from now on
                    Ok(Costed { response, peak, left })
                })
            }
        }
    }
}

/// The program's own service: it knows nothing of groups.
struct Reverse;

impl Service<String> for Reverse {
    type Response = String;
    type Future = Pin<Box<dyn Future<Output = String>>>;

    fn call(&mut self, request: String) -> Self::Future {
        Box::pin(async move {
            let mut letters: Vec<char> = request.chars().collect();
            others().await;
            letters.reverse();
            letters.into_iter().collect()
        })
    }
}

/// Lets others run once.
async fn others() {
    let mut first = true;
    std::future::poll_fn(|_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }).await;
}

fn main() -> tenalloc::Result<()> {
    let tenant = Global::controller()?.root().create("tenant-7")?;
    let layer = GroupLayer { tenant: tenant.clone(), high: 1 << 20, numbers: Arc::default() };
    let mut service = layer.layer(Reverse);

    // Two requests at a time on one thread: each allocates for itself whenever it is polled.
    let mut running = [10, 10_000].map(|n| service.call("ab".repeat(n)));
    let mut answers = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    while answers.len() < running.len() {
        for request in &mut running[answers.len()..] {
            if let Poll::Ready(answer) = request.as_mut().poll(&mut context) {
                answers.push(answer?);
            }
        }
    }
    for Costed { response, peak, left } in &answers {
        println!("{} letters: peak {peak} bytes, {} left at the end", response.len(), left.exact);
        assert!(left.exact >= response.len() as u64 && *peak >= 4 * response.len() as u64);
    }
    println!("the requests are gone, the tenant pays {} bytes for their answers", tenant.exact());
    drop(answers);
    println!("and {} without them", tenant.exact());
    assert_eq!((tenant.exact(), tenant.children().count()), (0, 0));
    Ok(())
}
