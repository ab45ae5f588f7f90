//! Bytes that the kernel's own structures take (64-bit, no debug options), for the `metadata` of the historic designs.
//!
//! Apart from the designs because these are *modelled* bytes: the kernel would allocate them, this crate does not. What
//! the designs hold here in Rust vectors is another matter and is not reported.

/// What `kmalloc(bytes)` takes: its size classes, and above 8 KiB whole pages, a power of two of them.
pub(crate) fn kmalloc(bytes: u64) -> u64 {
    match bytes {
        0 => 0,
        1..=8 => 8,
        65..=96 => 96,
        129..=192 => 192,
        _ => bytes.next_power_of_two(),
    }
}

/// Linux 5.8 `struct memcg_cache_array`: an RCU head and a pointer for each kmem id, one array a root cache.
pub(crate) fn memcg_cache_array(ids: u64) -> u64 {
    kmalloc(16 + 8 * ids)
}

/// Linux 5.8 `struct kmem_cache` (about 448 bytes and a pointer a node), a `kmem_cache_node` of 64 bytes a node, a
/// `kmem_cache_cpu` of 32 bytes a CPU.
pub(crate) fn kmem_cache(nodes: u64, cpus: u64) -> u64 {
    448 + 8 * nodes + 64 * nodes + 32 * cpus
}

/// What a group's clone of a cache takes more than its root cache: a `percpu_ref` of 8 bytes a CPU and a name
/// `dentry(1234:container)`, about 64 bytes.
pub(crate) fn clone_extra(cpus: u64) -> u64 {
    8 * cpus + 64
}

/// The handle of a group since 5.9: `struct obj_cgroup` (56 bytes), its `percpu_ref_data` (56), 8 bytes a CPU.
pub(crate) fn obj_cgroup(cpus: u64) -> u64 {
    kmalloc(56) + kmalloc(56) + 8 * cpus
}

/// `struct slub_percpu_sheaves` of a cache since 6.18, bytes a CPU.
pub(crate) const PERCPU_SHEAVES: u64 = 32;

/// `struct slab_sheaf` for so many objects: a head of 32 bytes and a pointer each.
pub(crate) fn sheaf(objects: u64) -> u64 {
    kmalloc(32 + 8 * objects)
}

/// `struct node_barn` of a cache, bytes a node: a lock, two lists, two counts, on a cache line of its own.
pub(crate) const BARN: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kmalloc_rounds_to_its_classes() {
        let asked = [0, 1, 8, 9, 64, 65, 96, 97, 128, 129, 192, 193, 4097, 8192, 98304];
        let taken = [0, 8, 8, 16, 64, 96, 96, 128, 128, 192, 192, 256, 8192, 8192, 131072];
        assert_eq!(asked.map(kmalloc), taken);
    }

    #[test]
    fn an_array_for_ten_thousand_groups_takes_128_kib() {
        assert_eq!(memcg_cache_array(12286), 128 * 1024);
    }
}
