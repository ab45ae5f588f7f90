//! Sizes over time: evenly spaced samples, and averages weighted by time.

use crate::report::{Sample, Usage};
use tenalloc_designs::Design;

/// Samples in a report at most.
const SAMPLES: u64 = 400;

/// The design's sizes now; live bytes are the trace's own.
pub(super) fn usage(design: &mut dyn Design, live: u64) -> Usage {
    let u = design.usage();
    Usage { live, slab: u.slab, owners: u.owners, metadata: u.metadata, cached: u.cached }
}

pub(super) struct Sampler {
    length: u64,
    next: u64,
    series: Vec<Sample>,
    last: u64,
    /// ∫ bytes dt.
    live: u128,
    slab: u128,
    max_slab: u64,
}

impl Sampler {
    pub(super) fn new(length: u64) -> Self {
        Self { length, next: 0, series: Vec::new(), last: 0, live: 0, slab: 0, max_slab: 0 }
    }

    fn time_of(&self, index: u64) -> u64 {
        (u128::from(self.length) * u128::from(index) / u128::from(SAMPLES - 1)) as u64
    }

    /// Called before the step at `time`: what held until then.
    #[inline]
    pub(super) fn until(&mut self, time: u64, live: u64, design: &mut dyn Design) {
        if time <= self.last {
            return;
        }
        let slab = design.slab_bytes();
        let span = u128::from(time - self.last);
        self.live += u128::from(live) * span;
        self.slab += u128::from(slab) * span;
        self.last = time;
        while self.next < SAMPLES && self.time_of(self.next) < time {
            self.take(live, design);
        }
    }

    fn take(&mut self, live: u64, design: &mut dyn Design) {
        let t = self.time_of(self.next) as f64 / 1e9;
        // Times at which nothing happened share the sizes; one look is enough for them.
        self.series.push(Sample { t, usage: usage(design, live) });
        self.next += 1;
    }

    #[inline]
    pub(super) fn grown(&mut self, slab: u64) {
        self.max_slab = self.max_slab.max(slab);
    }

    /// The series, the averages over time, the averages' utilisation, the largest slab bytes.
    pub(super) fn finish(mut self, live: u64, design: &mut dyn Design) -> (Vec<Sample>, Usage, f64, u64) {
        self.until(self.length, live, design);
        if self.length == 0 {
            self.next = SAMPLES - 1;
        }
        while self.next < SAMPLES {
            self.take(live, design);
        }
        let n = self.series.len().max(1) as u64;
        let mean = |of: fn(&Usage) -> u64| self.series.iter().map(|s| of(&s.usage)).sum::<u64>() / n;
        let span = u128::from(self.length.max(1));
        let exact =
            |sum: u128, of: fn(&Usage) -> u64| if self.length == 0 { mean(of) } else { (sum / span) as u64 };
        let average = Usage {
            live: exact(self.live, |u| u.live),
            slab: exact(self.slab, |u| u.slab),
            owners: mean(|u| u.owners),
            metadata: mean(|u| u.metadata),
            cached: mean(|u| u.cached),
        };
        let utilisation = average.utilisation();
        (self.series, average, utilisation, self.max_slab)
    }
}
