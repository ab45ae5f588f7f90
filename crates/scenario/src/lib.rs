//! Situations built for real and measured, beside the budget that the design sets for them.
//!
//! Nothing here is computed from sizes: groups, lists and objects are made, and what they cost is read from the
//! controller's own statistics or a clock. Times are those of this machine, in one thread.

pub mod idle;
pub mod mounts;
pub mod removal;

use serde::Serialize;

/// One measured figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What was measured.
    pub what: String,
    /// How much.
    pub value: f64,
    /// `B`, `ns`, `s`, or empty for a count.
    pub unit: &'static str,
    /// What the design allows at most, in the same unit; `None`: no budget.
    pub budget: Option<f64>,
}

impl Figure {
    fn new(what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { what: what.into(), value, unit, budget: None }
    }

    fn within(self, budget: f64) -> Self {
        Self { budget: Some(budget), ..self }
    }

    /// Whether it is within its budget; `None` without one.
    pub fn is_within(&self) -> Option<bool> {
        self.budget.map(|b| self.value <= b)
    }
}

/// A situation and what was measured in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// `tenalloc.scenario`.
    pub schema: &'static str,
    /// Raised when a field changes its meaning.
    pub version: u32,
    /// `mounts`, `idle`, `removal`.
    pub scenario: &'static str,
    /// The situation in one sentence, with its parameters.
    pub situation: String,
    /// What was measured.
    pub figures: Vec<Figure>,
    /// How Linux does in the same situation, from published measurements and formulas. Not measured here.
    pub linux: Vec<String>,
}

impl Outcome {
    fn new(scenario: &'static str, situation: String) -> Self {
        let schema = "tenalloc.scenario";
        Self { schema, version: 1, scenario, situation, figures: Vec::new(), linux: Vec::new() }
    }
}

/// Why a scenario could not be built.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct Error {
    what: String,
    source: tenalloc::Error,
}

/// Says what was being made.
trait While<T> {
    fn during(self, what: &str) -> Result<T, Error>;
}

impl<T> While<T> for tenalloc::Result<T> {
    fn during(self, what: &str) -> Result<T, Error> {
        self.map_err(|source| Error { what: what.into(), source })
    }
}
