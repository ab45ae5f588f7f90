//! A page source for tests: real memory, made-up nodes, failures on demand.

use super::{Os, Source};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Counts what each node gave, and fails when told to.
#[derive(Debug)]
pub struct Simulated {
    mapped: [AtomicU64; 16],
    calls: AtomicU64,
    /// Requests until the next failure; negative: never.
    fail_in: AtomicI64,
    /// After the first failure every request fails.
    sticky: AtomicU64,
    limit: AtomicU64,
}

impl Simulated {
    /// A source without a limit.
    pub const fn new() -> Self {
        Self {
            mapped: [const { AtomicU64::new(0) }; 16],
            calls: AtomicU64::new(0),
            fail_in: AtomicI64::new(-1),
            sticky: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
        }
    }

    /// The `n`-th request from now on (0: the next) fails, once: a mapping, a run of pages, or a block of
    /// metadata.
    pub fn fail_after(&self, n: u32) {
        self.sticky.store(0, Relaxed);
        self.fail_in.store(i64::from(n), Relaxed);
    }

    /// As [`fail_after`](Self::fail_after), and all requests after it fail too.
    pub fn fail_from(&self, n: u32) {
        self.sticky.store(1, Relaxed);
        self.fail_in.store(i64::from(n), Relaxed);
    }

    /// No more failures.
    pub fn heal(&self) {
        self.fail_in.store(-1, Relaxed);
    }

    /// Requests so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// Gives at most `bytes` of address space, all nodes together.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Relaxed);
    }

    /// Bytes of address space now mapped on `node` (mappings without a node count as node 0's).
    pub fn mapped(&self, node: u8) -> u64 {
        self.mapped.get(usize::from(node)).map_or(0, |m| m.load(Relaxed))
    }

    /// Bytes mapped on all nodes.
    pub fn total(&self) -> u64 {
        self.mapped.iter().map(|m| m.load(Relaxed)).sum()
    }

    fn fails(&self) -> bool {
        self.calls.fetch_add(1, Relaxed);
        let sticky = self.sticky.load(Relaxed) != 0;
        // Counts down to 0 = now; stays at 0 when sticky, goes to -1 = never when not.
        self.fail_in
            .fetch_update(Relaxed, Relaxed, |n| (n > 0 || n == 0 && !sticky).then_some(n - 1))
            .unwrap_or_else(|n| n)
            == 0
    }
}

impl Default for Simulated {
    fn default() -> Self {
        Self::new()
    }
}

/// The node is kept in front of each mapping, so that `unmap` knows what to subtract.
const HEAD: usize = super::PAGE;

impl Source for Simulated {
    fn map(&self, bytes: usize, align: usize, node: Option<u8>) -> Option<NonNull<u8>> {
        if self.fails() || self.total().saturating_add(bytes as u64) > self.limit.load(Relaxed) {
            return None;
        }
        let lead = align.max(HEAD);
        let raw = Os.map(bytes.checked_add(lead)?, lead, None)?;
        let node = usize::from(node.unwrap_or(0)).min(self.mapped.len() - 1);
        self.mapped[node].fetch_add(bytes as u64, Relaxed);
        // SAFETY: the mapping begins with `lead` bytes of ours; the two words lie in its last 16.
        unsafe {
            let start = raw.add(lead);
            start.cast::<usize>().sub(1).write(node);
            start.cast::<usize>().sub(2).write(lead);
            Some(start)
        }
    }

    fn admit(&self, _bytes: usize) -> bool {
        !self.fails()
    }

    unsafe fn unmap(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: `start` came from `map` above, so the two words are in front of it.
        unsafe {
            let node = start.cast::<usize>().sub(1).read();
            let lead = start.cast::<usize>().sub(2).read();
            self.mapped[node].fetch_sub(bytes as u64, Relaxed);
            Os.unmap(start.sub(lead), bytes + lead);
        }
    }

    unsafe fn purge(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: passed on as it came.
        unsafe { Os.purge(start, bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fails_when_told_and_counts_by_node() {
        let s = Simulated::new();
        let a = s.map(8192, 4096, Some(2)).unwrap();
        assert_eq!((s.mapped(2), s.total()), (8192, 8192));
        s.fail_after(1);
        let b = s.map(4096, 65536, None).unwrap();
        assert_eq!(b.as_ptr() as usize % 65536, 0);
        assert!(s.map(4096, 4096, None).is_none());
        let c = s.map(4096, 4096, None).unwrap();
        s.fail_from(0);
        assert!(s.map(4096, 4096, None).is_none() && s.map(4096, 4096, None).is_none());
        s.heal();
        s.set_limit(s.total());
        assert!(s.map(4096, 4096, None).is_none());
        // SAFETY: each is a whole mapping, used no more.
        unsafe {
            s.unmap(a, 8192);
            s.unmap(b, 4096);
            s.unmap(c, 4096);
        }
        assert_eq!(s.total(), 0);
    }
}
