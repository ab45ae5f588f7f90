//! A measured figure: the middle of several rounds, and how far they lay apart.

use serde_json::{Value, json};

/// Of several rounds.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Figure {
    /// Of the values measured; not-a-number if there is none.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |i: usize| values.get(i).copied().unwrap_or(f64::NAN);
        Self { median: at(values.len() / 2), least: at(0), most: at(values.len().saturating_sub(1)) }
    }

    /// Half of the distance between the rounds, in percent of the middle.
    pub(crate) fn spread(&self) -> f64 {
        50.0 * (self.most - self.least) / self.median
    }

    pub(crate) fn json(&self) -> Value {
        let round = |x: f64| (x * 1000.0).round() / 1000.0;
        json!({ "median": round(self.median), "min": round(self.least), "max": round(self.most) })
    }
}
