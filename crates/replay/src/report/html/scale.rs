//! Axes: round steps for bytes and seconds, and where a figure lies between zero and the end of its axis.

use serde::Serialize;

use super::super::units;
use super::place;

/// A mark on an axis.
#[derive(Serialize)]
pub(super) struct Tick {
    /// Percent from the left or from the top.
    pub at: String,
    pub text: String,
}

/// Zero to `end`, linear.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    end: f64,
}

impl Scale {
    /// An axis that ends at `end`; anything but a number above zero is taken as 1, so that places stay numbers.
    pub(super) fn new(end: f64) -> Self {
        Self { end: if end.is_finite() && end > 0.0 { end } else { 1.0 } }
    }

    /// 0 to 1.
    pub(super) fn at(self, value: f64) -> f64 {
        let at = value / self.end;
        if at.is_finite() { at.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Multiples of the smallest step of 1, 2 or 5 times a power of ten that gives at most `most` of them, in
    /// units of `unit`.
    fn steps(self, unit: f64, most: usize) -> (f64, Vec<f64>) {
        let rough = self.end / unit / most.max(1) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|f| f * power).into_iter().find(|s| *s >= rough).unwrap_or(power);
        let values =
            (0..=most).map(|i| i as f64 * step).take_while(|v| v * unit <= self.end * (1.0 + 1e-9)).collect();
        (step, values)
    }

    /// Ticks of a vertical byte axis, from the bottom up.
    pub(super) fn bytes(self, most: usize) -> Vec<Tick> {
        const UNITS: [(f64, &str); 5] = [
            (1099511627776.0, "TiB"),
            (1073741824.0, "GiB"),
            (1048576.0, "MiB"),
            (1024.0, "KiB"),
            (1.0, "B"),
        ];
        let (unit, name) = UNITS.into_iter().find(|(u, _)| self.end >= *u).unwrap_or((1.0, "B"));
        self.ticks(
            unit,
            most,
            |at| 1.0 - at,
            |text| if text == "0" { text } else { format!("{text} {name}") },
        )
    }

    /// Ticks of a horizontal time axis.
    pub(super) fn seconds(self, most: usize) -> Vec<Tick> {
        let (unit, name) = match self.end {
            e if e >= 7200.0 => (3600.0, "h"),
            e if e >= 240.0 => (60.0, "min"),
            e if e >= 1.0 => (1.0, "s"),
            _ => (0.001, "ms"),
        };
        self.ticks(unit, most, |at| at, |text| format!("{text} {name}"))
    }

    fn ticks(
        self,
        unit: f64,
        most: usize,
        turn: impl Fn(f64) -> f64,
        text: impl Fn(String) -> String,
    ) -> Vec<Tick> {
        let (step, values) = self.steps(unit, most);
        // As many decimals as the step has.
        let decimals = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
        let tick = |v: f64| {
            let number = if v >= 1000.0 { units::count(v as u64) } else { format!("{v:.decimals$}") };
            let number = if v == 0.0 { "0".into() } else { number };
            Tick { at: place(turn(self.at(v * unit)) * 100.0), text: text(number) }
        };
        values.into_iter().map(tick).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(ticks: Vec<Tick>) -> Vec<String> {
        ticks.into_iter().map(|t| t.text).collect()
    }

    #[test]
    fn steps_are_round_and_few() {
        let mib = 1048576.0;
        assert_eq!(texts(Scale::new(21.0 * mib).bytes(5)), ["0", "5 MiB", "10 MiB", "15 MiB", "20 MiB"]);
        assert_eq!(texts(Scale::new(1.1 * mib).bytes(5)), ["0", "0.5 MiB", "1.0 MiB"]);
        assert_eq!(texts(Scale::new(15.54).seconds(6)), ["0 s", "5 s", "10 s", "15 s"]);
        assert_eq!(texts(Scale::new(243.7).seconds(6)), ["0 min", "1 min", "2 min", "3 min", "4 min"]);
        assert_eq!(texts(Scale::new(0.05).seconds(6)), ["0 ms", "10 ms", "20 ms", "30 ms", "40 ms", "50 ms"]);
    }

    #[test]
    fn no_figure_leaves_the_axis() {
        for end in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, f64::MAX, u64::MAX as f64] {
            let scale = Scale::new(end);
            for value in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
                assert!((0.0..=1.0).contains(&scale.at(value)), "{end} {value}");
            }
            assert!(scale.bytes(5).len() <= 6 && scale.seconds(6).len() <= 7, "{end}");
        }
    }
}
