//! How each design grows with groups or mounts: a range, walked in logarithmic steps.

use std::str::FromStr;

use serde::Serialize;

use crate::situation::{Error, Situation};
use crate::spend;

/// One number, or a range of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    from: u64,
    to: u64,
}

impl Range {
    /// Only this number.
    pub const fn one(number: u64) -> Self {
        Self { from: number, to: number }
    }

    /// No range in truth.
    pub const fn is_one(self) -> bool {
        self.from == self.to
    }

    /// The largest number in it.
    pub const fn last(self) -> u64 {
        self.to
    }

    /// Numbers from the first to the last, each about as many times the one before: 1, 1.5, 2, 3, 5, 7 and 10 times powers
    /// of ten, and both ends.
    pub fn steps(self) -> Vec<u64> {
        let mut all = vec![self.from];
        let mut power = 1_u64;
        while power <= self.to {
            for tenths in [10, 15, 20, 30, 50, 70] {
                let step = power.saturating_mul(tenths) / 10;
                if step > self.from && step < self.to && all.last() != Some(&step) {
                    all.push(step);
                }
            }
            let Some(next) = power.checked_mul(10) else { break };
            power = next;
        }
        if !self.is_one() {
            all.push(self.to);
        }
        all
    }
}

/// Reads `10000`, `10_000`, `10,000` or `100..100000`.
impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| -> Result<u64, String> {
            let digits: String = text.trim().chars().filter(|c| !matches!(c, '_' | ',')).collect();
            digits.parse().map_err(|_| "is not a number or a range such as 100..100000".to_owned())
        };
        let (from, to) = match text.split_once("..") {
            Some((from, to)) => (number(from)?, number(to)?),
            None => (number(text)?, number(text)?),
        };
        match (from, to) {
            _ if from > to => Err("begins above its end: write the smaller number first".into()),
            (0, 1..) => Err("begins at 0, which no logarithmic step leaves: begin at 1".into()),
            _ => Ok(Self { from, to }),
        }
    }
}

/// One design's bytes along the way; `null` where it cannot have so many groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// `linux-5.18`.
    pub design: &'static str,
    /// The kernel in question belongs to it.
    pub running: bool,
    /// One for each step.
    pub totals: Vec<Option<u64>>,
}

/// How the designs grow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Curve {
    /// `groups` or `mounts`.
    pub over: &'static str,
    /// Where each design was computed.
    pub steps: Vec<u64>,
    /// One a design.
    pub lines: Vec<Line>,
}

impl Curve {
    /// The curve over whichever of the two is a range; `None`: neither is. Owner vectors do not grow with either and are
    /// left out.
    ///
    /// # Errors
    /// [`Error::Impossible`] at the range's ends.
    pub fn of(at: &Situation, groups: Option<Range>, mounts: Option<Range>) -> Result<Option<Self>, Error> {
        let real = |range: Option<Range>| range.filter(|range| !range.is_one());
        let (over, range) = match (real(groups), real(mounts)) {
            (Some(range), _) => ("groups", range),
            (None, Some(range)) => ("mounts", range),
            (None, None) => return Ok(None),
        };
        let steps = range.steps();
        let mut lines: Vec<Line> = Vec::new();
        for step in &steps {
            let here = match over {
                // A peak that was given beyond the range stays; else it goes along.
                "groups" if at.peak_groups == at.groups => {
                    Situation { groups: *step, peak_groups: *step, slabs: None, ..at.clone() }
                }
                "groups" => Situation { groups: *step, slabs: None, ..at.clone() },
                _ => Situation { mounts: *step, slabs: None, ..at.clone() },
            };
            // Fewer mounts than a group was said to use: it uses all.
            let used_per_group = here.used_per_group.map(|used| used.min(here.mounts as f64));
            let here = Situation { used_per_group, ..here };
            here.check()?;
            for (i, row) in spend::rows(&here).into_iter().enumerate() {
                if lines.len() <= i {
                    lines.push(Line { design: row.design, running: row.running, totals: Vec::new() });
                }
                lines[i].totals.push(row.total);
            }
        }
        Ok(Some(Self { over, steps, lines }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::situation::tests::ten_thousand;

    fn range(text: &str) -> Range {
        text.parse().unwrap()
    }

    #[test]
    fn ranges_are_read_and_refused() {
        assert_eq!(range("10,000"), Range::one(10_000));
        assert_eq!(
            (range("100..100_000").last(), range("5..5").is_one(), range("0").last()),
            (100_000, true, 0)
        );
        for text in
            ["", "x", "1..", "..1", "1...3", "-1", "1..x", "99999999999999999999", "9..3", "0..5", "1.5"]
        {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
    }

    #[test]
    fn steps_rise_and_hold_both_ends() {
        assert_eq!(range("7..7").steps(), [7]);
        assert_eq!(range("100..1000").steps(), [100, 150, 200, 300, 500, 700, 1000]);
        assert_eq!(range("1..12").steps(), [1, 2, 3, 5, 7, 10, 12]);
        for text in ["1..10000000", "3..4", "99..18446744073709551615"] {
            let steps = range(text).steps();
            assert!(steps.windows(2).all(|pair| pair[0] < pair[1]), "{text}: {steps:?}");
            assert!(steps.last() == Some(&range(text).last()) && steps.len() < 130, "{text}");
        }
    }

    #[test]
    fn beyond_the_ids_linux_has_no_point() {
        let at = Situation { groups: 100_000, peak_groups: 100_000, ..ten_thousand("6.12") };
        let curve = Curve::of(&at, Some(range("100..100000")), None).unwrap().unwrap();
        assert_eq!((curve.over, curve.steps.len(), curve.lines.len()), ("groups", 19, 11));
        for line in &curve.lines {
            let totals: Vec<u64> = line.totals.iter().copied().flatten().collect();
            assert!(totals.is_sorted(), "{}", line.design);
            assert_eq!(totals.len(), if line.design == "tenalloc" { 19 } else { 17 }, "{}", line.design);
        }
        assert_eq!(Curve::of(&at, Some(range("5")), None).unwrap(), None);
    }

    #[test]
    fn mounts_can_be_walked_too() {
        let at = Situation { used_per_group: Some(50.0), ..ten_thousand("5.10") };
        let curve = Curve::of(&at, None, Some(range("10..10000"))).unwrap().unwrap();
        assert_eq!(curve.over, "mounts");
        assert!(Curve::of(&at, None, Some(range("1..10000001"))).is_err());
    }
}
