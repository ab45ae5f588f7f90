//! Bytes of the handle by which objects know their group since 5.9: `struct obj_cgroup`.
//!
//! Source: `include/linux/memcontrol.h`, `lib/percpu-refcount.c`. Objects point to the handle, the handle points to the
//! group, and removal redirects the handle alone. What else a group takes, some 14 to 25 KB in cgroups, directories and
//! counters, is the same question in every generation and not asked here.

use super::Kmalloc;

/// `struct obj_cgroup`: counted reference, group, odd bytes, list. 48 to 56 bytes.
pub const OBJ_CGROUP: u64 = 56;
/// `struct percpu_ref_data`: the part of the reference that is rarely touched.
pub const PERCPU_REF_DATA: u64 = 56;
/// Bytes on every possible CPU: the count.
pub const PERCPU_REF: u64 = 8;

/// Bytes of one handle: K(56) + K(56) + 8·P, P possible CPUs.
pub const fn handle(cpus: u64, kmalloc: Kmalloc) -> u64 {
    kmalloc
        .round(OBJ_CGROUP)
        .saturating_add(kmalloc.round(PERCPU_REF_DATA))
        .saturating_add(PERCPU_REF.saturating_mul(cpus))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 128 + 8·P: 1,152 bytes with 128 CPUs, 22 MiB for 10,000 groups on 2 nodes.
    #[test]
    fn a_handle_with_128_cpus() {
        assert_eq!([1, 128].map(|cpus| handle(cpus, Kmalloc::X86)), [136, 1_152]);
        assert_eq!((handle(128, Kmalloc::X86) * 20_000 + (1 << 19)) >> 20, 22);
        assert_eq!(handle(u64::MAX, Kmalloc::X86), u64::MAX);
    }
}
