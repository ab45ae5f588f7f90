//! A bit for each page of a chunk: runs of free pages, runs of dirty ones.

use super::PAGES;

/// A bit for each page of a chunk.
#[derive(Clone, Copy)]
pub(super) struct Bits(pub(super) [u64; PAGES / 64]);

impl Bits {
    /// First position ≥ `from` whose bit is `value`, or `PAGES`.
    pub(super) fn next(&self, from: usize, value: bool) -> usize {
        let mut word = from / 64;
        let mut mask = u64::MAX << (from % 64);
        while word < self.0.len() {
            let w = if value { self.0[word] } else { !self.0[word] } & mask;
            if w != 0 {
                return word * 64 + w.trailing_zeros() as usize;
            }
            mask = u64::MAX;
            word += 1;
        }
        PAGES
    }

    /// The first run of set bits at or after `from`: (first, length).
    pub(super) fn next_run(&self, from: usize) -> Option<(usize, usize)> {
        let first = self.next(from, true);
        (first < PAGES).then(|| (first, self.next(first, false) - first))
    }

    /// First place for `pages` set bits that begins at a multiple of `step`.
    pub(super) fn find_run(&self, pages: usize, step: usize) -> Option<usize> {
        let mut from = 0;
        while let Some((first, len)) = self.next_run(from) {
            let aligned = first.next_multiple_of(step);
            if aligned + pages <= first + len {
                return Some(aligned);
            }
            from = first + len;
        }
        None
    }

    pub(super) fn longest_run(&self) -> usize {
        let (mut from, mut longest) = (0, 0);
        while let Some((first, len)) = self.next_run(from) {
            longest = longest.max(len);
            from = first + len;
        }
        longest
    }

    /// Bits set in both.
    pub(super) fn and(&self, other: &Self) -> Self {
        Self(core::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    fn masks(first: usize, pages: usize) -> impl Iterator<Item = (usize, u64)> {
        let end = first + pages;
        (first / 64..end.div_ceil(64)).map(move |word| {
            let low = first.saturating_sub(word * 64).min(63);
            let high = (end - word * 64).min(64);
            (word, u64::MAX << low & u64::MAX >> (64 - high))
        })
    }

    pub(super) fn set(&mut self, first: usize, pages: usize, value: bool) {
        for (word, mask) in Self::masks(first, pages) {
            if value { self.0[word] |= mask } else { self.0[word] &= !mask }
        }
    }

    pub(super) fn count(&self, first: usize, pages: usize) -> usize {
        Self::masks(first, pages).map(|(word, mask)| (self.0[word] & mask).count_ones() as usize).sum()
    }
}
