//! Bytes of owner vectors: who owns the objects of a slab that all groups share, since 5.9.
//!
//! Source: `mm/memcontrol.c`, `mm/slub.c` (`alloc_slab_obj_exts`, `alloc_slab_obj_exts_early`). An entry of 8 bytes for each
//! object that the slab could hold. Until 6.19 the vector is an allocation of its own, made with the first owned object
//! and rounded by kmalloc. Since 7.0 it goes where there is room, decided when the slab is made: into what the slab leaves
//! over, else into the padding behind each object, else beside the slab as before.

use super::{Kmalloc, Version};

/// Bytes of an entry: a pointer to an `obj_cgroup`. 16 with `MEM_ALLOC_PROFILING`, which is not modelled.
pub const ENTRY: u64 = 8;

/// Where a generation keeps owner vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vectors {
    /// No vector: a slab belongs to one group (≤ 5.8).
    None,
    /// Beside the slab (5.9 – 6.19).
    Beside,
    /// In the slab's slack where it fits (7.0 on).
    InSlack,
}

/// Where the vector of one slab lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: there is none.
    None,
    /// In what the slab leaves over behind its last object: costs nothing.
    Leftover,
    /// In the padding behind each object: costs nothing.
    Padding,
    /// In an allocation of its own.
    Beside,
}

/// How a slab is cut, as far as vectors ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    /// Bytes of a slab.
    pub bytes: u64,
    /// Objects in it.
    pub objects: u64,
    /// Bytes from one object to the next.
    pub slot: u64,
    /// Bytes of an object that its user may write: the rest of the slot is padding.
    pub object: u64,
}

impl Slab {
    /// Bytes behind the last object.
    pub const fn leftover(self) -> u64 {
        self.bytes.saturating_sub(self.objects.saturating_mul(self.slot))
    }

    /// What its vector is asked to hold: 8 bytes an object.
    pub const fn vector(self) -> u64 {
        self.objects.saturating_mul(ENTRY)
    }
}

impl Vectors {
    /// Where a release keeps them. The generation `linux-6.18` is shown with slack, which 7.0 finished: on a host that
    /// runs 6.18 or 6.19 this is the exact answer.
    pub const fn of(version: Version) -> Self {
        match (version.major, version.minor) {
            (0..=4, _) | (5, 0..=8) => Self::None,
            (5 | 6, _) => Self::Beside,
            _ => Self::InSlack,
        }
    }

    /// Where a slab that holds an owned object has its vector.
    pub const fn place(self, slab: Slab) -> Place {
        match self {
            Self::None => Place::None,
            Self::Beside => Place::Beside,
            Self::InSlack if slab.leftover() >= slab.vector() => Place::Leftover,
            Self::InSlack if slab.slot.saturating_sub(slab.object) >= ENTRY => Place::Padding,
            Self::InSlack => Place::Beside,
        }
    }

    /// What that vector takes outside the slab: K(8·objects), or nothing.
    pub const fn bytes(self, slab: Slab, kmalloc: Kmalloc) -> u64 {
        match self.place(slab) {
            Place::Beside => kmalloc.round(slab.vector()),
            Place::None | Place::Leftover | Place::Padding => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: Kmalloc = Kmalloc::X86;
    const DENTRY: Slab = Slab { bytes: 8192, objects: 42, slot: 192, object: 192 };
    const KMALLOC_64: Slab = Slab { bytes: 4096, objects: 64, slot: 64, object: 64 };
    const EXT4_INODE: Slab = Slab { bytes: 32768, objects: 28, slot: 1136, object: 1136 };

    /// A dentry pays 12.2 bytes, an object of kmalloc-64 8.0, an ext4 inode nothing once vectors use slack.
    #[test]
    fn what_an_owner_costs() {
        let slabs = [DENTRY, KMALLOC_64, EXT4_INODE];
        assert_eq!(slabs.map(|slab| Vectors::Beside.bytes(slab, K)), [512, 512, 256]);
        assert_eq!(slabs.map(|slab| Vectors::InSlack.bytes(slab, K)), [512, 512, 0]);
        assert_eq!(slabs.map(|slab| Vectors::None.bytes(slab, K)), [0; 3]);
        assert_eq!((DENTRY.vector(), 512 * 10 / 42, 512 / 64), (336, 121, 8));
        assert_eq!((EXT4_INODE.leftover(), EXT4_INODE.vector()), (960, 224));
    }

    #[test]
    fn padding_is_the_second_choice() {
        let padded = Slab { object: 184, ..DENTRY };
        assert_eq!((Vectors::InSlack.place(padded), Vectors::InSlack.bytes(padded, K)), (Place::Padding, 0));
        assert_eq!(Vectors::InSlack.place(Slab { object: 185, ..DENTRY }), Place::Beside);
        assert_eq!(Vectors::InSlack.place(EXT4_INODE), Place::Leftover);
        assert_eq!(
            (Vectors::Beside.place(EXT4_INODE), Vectors::None.place(DENTRY)),
            (Place::Beside, Place::None)
        );
    }

    #[test]
    fn releases_place_them_otherwise() {
        let of = |text: &str| Vectors::of(text.parse().unwrap());
        assert_eq!(["4.19", "5.8"].map(of), [Vectors::None; 2]);
        assert_eq!(["5.9", "6.12", "6.19"].map(of), [Vectors::Beside; 3]);
        assert_eq!(["7.0", "8.2"].map(of), [Vectors::InSlack; 2]);
    }

    #[test]
    fn impossible_slabs_do_no_harm() {
        let wide = Slab { bytes: 1, objects: u64::MAX, slot: u64::MAX, object: 0 };
        assert_eq!((wide.leftover(), wide.vector()), (0, u64::MAX));
        assert_eq!(Vectors::Beside.bytes(wide, K), u64::MAX);
    }
}
