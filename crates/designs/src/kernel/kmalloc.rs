//! What an allocation of the kernel really takes: size classes, then whole runs of pages.
//!
//! Source: `mm/slab_common.c` (`kmalloc_info`, `kmalloc_large`), `mm/util.c` (`kvmalloc_node`). SLUB has had these classes
//! without a change from 4.0 to 7.1, so that there is one rule for all generations: K(x) is 8, 16, 32, 64, 96, 128, 192,
//! 256, 512 and so on up to two pages, and above that a power of two of pages.

/// The rounding rules of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kmalloc {
    page: u64,
    least: u64,
}

impl Kmalloc {
    /// A machine with pages of 4 KiB, and classes from 8 bytes up.
    pub const X86: Self = Self { page: 4096, least: 8 };

    /// Pages of `page` bytes; `None` unless that is a power of two from 4 KiB to 64 KiB.
    pub const fn with_pages(page: u64) -> Option<Self> {
        match page {
            4096 | 8192 | 16384 | 32768 | 65536 => Some(Self { page, least: 8 }),
            _ => None,
        }
    }

    /// The smallest class is `least` bytes: 128 on arm64 before 6.5, where an object may not share a DMA line
    /// (`ARCH_KMALLOC_MINALIGN`). Anything but 8 to 128 and a power of two is taken for 8.
    #[must_use]
    pub const fn with_least(self, least: u64) -> Self {
        match least {
            16 | 32 | 64 | 128 => Self { least, ..self },
            _ => Self { least: 8, ..self },
        }
    }

    /// Bytes of a page.
    pub const fn page(self) -> u64 {
        self.page
    }

    /// The largest size class: above it whole pages are taken, and `/proc/slabinfo` does not show them.
    pub const fn largest_class(self) -> u64 {
        2 * self.page
    }

    /// What `kmalloc(bytes)` takes, K(x): a size class, or a power of two of pages. 0 for 0.
    pub const fn round(self, bytes: u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let class = match bytes {
            65..=96 if self.least <= 32 => 96,
            129..=192 if self.least <= 64 => 192,
            _ => match bytes.checked_next_power_of_two() {
                Some(power) => power,
                None => u64::MAX,
            },
        };
        if class < self.least { self.least } else { class }
    }

    /// What `kvmalloc(bytes)` takes: as [`round`](Self::round), and above the largest run that the page allocator has
    /// (1,024 pages) whole pages, from `vmalloc`.
    pub const fn kvmalloc(self, bytes: u64) -> u64 {
        if bytes <= 1024 * self.page {
            return self.round(bytes);
        }
        bytes.div_ceil(self.page).saturating_mul(self.page)
    }

    /// [`round`](Self::round), for `count` allocations.
    pub(super) const fn times(self, count: u64, bytes: u64) -> u64 {
        self.round(bytes).saturating_mul(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_to_their_classes() {
        let asked = [0, 1, 8, 9, 64, 65, 96, 97, 128, 129, 192, 193, 4097, 8192, 98304];
        let taken = [0, 8, 8, 16, 64, 96, 96, 128, 128, 192, 192, 256, 8192, 8192, 131072];
        assert_eq!(asked.map(|x| Kmalloc::X86.round(x)), taken);
    }

    /// Against the classes that a recorded machine lists: every size from 1 to 8,192 goes to the smallest that fits.
    #[test]
    fn the_classes_are_those_of_a_recorded_machine() {
        let text = include_str!("../../../../data/small/slabgeom.txt");
        let mut classes: Vec<u64> = text
            .lines()
            .filter_map(|line| line.split_whitespace().find_map(|field| field.strip_prefix("kmalloc-")))
            .filter_map(|size| match size.strip_suffix('k') {
                Some(kilo) => kilo.parse::<u64>().ok().map(|k| k * 1024),
                None => size.parse().ok(),
            })
            .collect();
        classes.sort_unstable();
        classes.dedup();
        assert_eq!(classes.len(), 13, "{classes:?}");
        for bytes in 1..=Kmalloc::X86.largest_class() {
            let class = classes.iter().copied().find(|class| *class >= bytes);
            assert_eq!(Some(Kmalloc::X86.round(bytes)), class, "{bytes}");
        }
    }

    #[test]
    fn pages_of_64_kib_have_larger_classes_and_the_same_sizes() {
        let large = Kmalloc::with_pages(65536).unwrap();
        assert_eq!((large.page(), large.largest_class()), (65536, 131072));
        assert_eq!([520, 98_304, 131_073].map(|x| large.round(x)), [1024, 131_072, 262_144]);
        assert!([0, 1, 4095, 5000, 131_072].iter().all(|page| Kmalloc::with_pages(*page).is_none()));
    }

    #[test]
    fn what_no_run_of_pages_holds_is_mapped_page_by_page() {
        let small = Kmalloc::X86;
        assert_eq!(small.kvmalloc((4 << 20) - 5), 4 << 20);
        assert_eq!(small.kvmalloc((4 << 20) + 5), (4 << 20) + 4096);
        assert_eq!(Kmalloc::with_pages(65536).unwrap().kvmalloc((64 << 20) + 1), (64 << 20) + 65536);
        assert_eq!((small.kvmalloc(u64::MAX), small.round(u64::MAX)), (u64::MAX, u64::MAX));
    }

    #[test]
    fn where_dma_lines_are_wide_small_classes_are_missing() {
        let arm = Kmalloc::X86.with_least(128);
        assert_eq!(
            [1, 32, 96, 128, 129, 192, 193].map(|x| arm.round(x)),
            [128, 128, 128, 128, 256, 256, 256]
        );
        let arm = Kmalloc::X86.with_least(64);
        assert_eq!([1, 65, 96, 129].map(|x| arm.round(x)), [64, 128, 128, 192]);
        assert_eq!(Kmalloc::X86.with_least(7), Kmalloc::X86);
    }
}
