//! What the tests of the controller share.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use std::ptr::NonNull;
use tenalloc::page::Simulated;
use tenalloc::{Config, Controller, Topology};

/// A controller on a made-up machine whose pages can be made to fail.
pub fn machine(nodes: u8, cpus: u16) -> (&'static Simulated, Controller) {
    let source: &'static Simulated = Box::leak(Box::new(Simulated::new()));
    let config = Config::new().source(source).topology(Topology::simulated(nodes, cpus));
    (source, Controller::new(config).unwrap())
}

/// As `machine`, without the vectors that a debug build makes at once.
pub fn lean(nodes: u8, cpus: u16) -> (&'static Simulated, Controller) {
    let source: &'static Simulated = Box::leak(Box::new(Simulated::new()));
    let config = Config::new().source(source).topology(Topology::simulated(nodes, cpus)).hardened(false);
    (source, Controller::new(config).unwrap())
}

/// Frees an object that the test owns.
pub fn free(ctl: &Controller, object: NonNull<u8>) {
    // SAFETY: tests free each object once and do not use it again.
    unsafe { ctl.free(object) }.unwrap();
}

/// Does something at its end, also where a check failed: other threads may be waiting for this one.
pub struct Finally<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Splitmix64: the same numbers in every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}
