//! Sizes over time: evenly spaced samples, and averages weighted by time.

use crate::report::{Sample, Usage};
use tenalloc_designs::Design;

/// Samples in a report at most.
const SAMPLES: u64 = 400;

/// The design's sizes now; live bytes are the trace's own.
pub(super) fn usage(design: &mut dyn Design, live: u64) -> Usage {
    let u = design.usage();
    let Usage { lists, shrinkers, .. } = Usage::default();
    Usage { live, slab: u.slab, owners: u.owners, metadata: u.metadata, cached: u.cached, lists, shrinkers }
}

/// When the samples of a run of `length` ns are taken.
pub(super) fn times(length: u64) -> Vec<u64> {
    let samples = if length == 0 { 1 } else { SAMPLES };
    let time = |i| (u128::from(length) * u128::from(i) / u128::from(SAMPLES - 1)) as u64;
    (0..samples).map(time).collect()
}

/// What a run's samples came to.
pub(super) struct Sampled {
    pub(super) series: Vec<Sample>,
    /// Live and slab bytes weighted by time, the others over the samples.
    pub(super) average: Usage,
    pub(super) average_utilisation: f64,
    pub(super) max_slab: u64,
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
    /// For a run of `length` ns.
    pub(super) fn new(length: u64) -> Self {
        Self { length, next: 0, series: Vec::new(), last: 0, live: 0, slab: 0, max_slab: 0 }
    }

    fn time_of(&self, index: u64) -> u64 {
        (u128::from(self.length) * u128::from(index) / u128::from(SAMPLES - 1)) as u64
    }

    /// Called before the step at `time`: what held until then.
    #[inline]
    pub(super) fn until(&mut self, time: u64, live: u64, design: &mut dyn Design) {
        // A stamp of the kernel's counters may lie behind the last event: no time of the recording passes until then.
        let time = time.min(self.length);
        if time <= self.last {
            return;
        }
        let slab = design.slab_bytes();
        let span = u128::from(time - self.last);
        self.live += u128::from(live) * span;
        self.slab += u128::from(slab) * span;
        self.last = time;
        if self.next < SAMPLES && self.time_of(self.next) < time {
            // Moments between which nothing happened share their sizes; one look is enough for all.
            let usage = usage(design, live);
            while self.next < SAMPLES && self.time_of(self.next) < time {
                self.take(usage);
            }
        }
    }

    fn take(&mut self, usage: Usage) {
        self.series.push(Sample { t: self.time_of(self.next) as f64 / 1e9, usage });
        self.next += 1;
    }

    #[inline]
    pub(super) fn grown(&mut self, slab: u64) {
        self.max_slab = self.max_slab.max(slab);
    }

    /// Ends the series: its last sample is at the end. A run without length has one sample only.
    pub(super) fn finish(mut self, live: u64, design: &mut dyn Design) -> Sampled {
        self.until(self.length, live, design);
        let end = usage(design, live);
        if self.length == 0 {
            self.next = SAMPLES - 1;
        }
        while self.next < SAMPLES {
            self.take(end);
        }
        let n = self.series.len().max(1) as u64;
        let mean = |of: fn(&Usage) -> u64| self.series.iter().map(|s| of(&s.usage)).sum::<u64>() / n;
        let (mut average, average_utilisation) = if self.length == 0 {
            (end, end.utilisation())
        } else {
            let span = u128::from(self.length);
            let exact = Usage {
                live: (self.live / span) as u64,
                slab: (self.slab / span) as u64,
                ..Usage::default()
            };
            let ratio = if self.slab == 0 { 1.0 } else { self.live as f64 / self.slab as f64 };
            (exact, ratio)
        };
        average.owners = mean(|u| u.owners);
        average.metadata = mean(|u| u.metadata);
        average.cached = mean(|u| u.cached);
        Sampled { series: self.series, average, average_utilisation, max_slab: self.max_slab }
    }
}
