//! Bytes of D0, a set of caches for each group (≤ 5.8): what every clone of a cache takes beside its slabs.
//!
//! Source: `mm/slab_common.c`, `include/linux/slub_def.h`, `mm/memcontrol.c` of 5.8. The slabs themselves are the larger part
//! and follow from no formula: they are run, in `linux_5_8`.

use super::Kmalloc;
use super::list_lru::{POINTER, RCU};

/// `struct memcg_cache_array`: an RCU head and a pointer for each kmem id, one array a root cache. 0 before the first id.
pub const fn memcg_cache_array(ids: u64, kmalloc: Kmalloc) -> u64 {
    if ids == 0 {
        return 0;
    }
    kmalloc.round(RCU.saturating_add(POINTER.saturating_mul(ids)))
}

/// `struct kmem_cache` (about 448 bytes and a pointer a node), a `kmem_cache_node` of 64 bytes a node, a
/// `kmem_cache_cpu` of 32 bytes a CPU.
pub const fn kmem_cache(nodes: u64, cpus: u64) -> u64 {
    448_u64.saturating_add(nodes.saturating_mul(8 + 64)).saturating_add(cpus.saturating_mul(32))
}

/// What a group's clone of a cache takes more than its root cache: a `percpu_ref` of 8 bytes a CPU and a name
/// `dentry(1234:container)`, about 64 bytes.
pub const fn clone_extra(cpus: u64) -> u64 {
    cpus.saturating_mul(8).saturating_add(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_for_ten_thousand_groups_takes_128_kib() {
        assert_eq!([0, 4, 12_286].map(|ids| memcg_cache_array(ids, Kmalloc::X86)), [0, 64, 128 * 1024]);
    }

    /// S_kc + 64·N + 40·P + 64 for a clone, S_kc about 448 + 8·N.
    #[test]
    fn a_clone_on_two_nodes_and_four_cpus() {
        assert_eq!(kmem_cache(2, 4) + clone_extra(4), 448 + 16 + 128 + 160 + 64);
        assert_eq!(kmem_cache(u64::MAX, 1), u64::MAX);
    }
}
