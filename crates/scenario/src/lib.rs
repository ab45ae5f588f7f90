//! Situations built for real and measured, beside the budget that the design sets for them, or what was published.
//!
//! Groups, lists and objects are made, and what they cost is read from what was made, or a clock. What is computed or
//! published stands beside it under that name. Times are those of this machine, in one thread.
//!
//! ```text
//! mounts idle removal     tenalloc alone, against its budgets
//! muchun bharata          the historic designs, against the published experiments
//!    └ memory             how much of this machine they may take, and how much of them fits
//! roman                 two historic designs on recorded allocations, against the published measurements
//! table                   rows and bars that an outcome holds
//! ```

pub mod bharata;
pub mod idle;
pub mod memory;
pub mod mounts;
pub mod muchun;
pub mod removal;
pub mod roman;
pub mod table;

use table::{Chart, Table};
use tenalloc_designs::Machine;
use tenalloc_designs::kernel::generation::Lists;
use tenalloc_designs::lists::{ListDesign, ListError, by_name, compose};

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
    /// `mounts`, `idle`, `removal`, `muchun`, `bharata`, `roman`.
    pub scenario: &'static str,
    /// The situation in one sentence, with its parameters.
    pub situation: String,
    /// What was measured.
    pub figures: Vec<Figure>,
    /// How Linux does in the same situation, from published measurements and formulas. Not measured here.
    pub linux: Vec<String>,
    /// What was measured, where it is more than a list.
    pub tables: Vec<Table>,
    /// The same to look at.
    pub charts: Vec<Chart>,
    /// What a reader must know to judge it.
    pub notes: Vec<String>,
}

impl Outcome {
    fn new(scenario: &'static str, situation: String) -> Self {
        let schema = "tenalloc.scenario";
        Self {
            schema,
            version: 1,
            scenario,
            situation,
            figures: Vec::new(),
            linux: Vec::new(),
            tables: Vec::new(),
            charts: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// Why a scenario could not be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// tenalloc refused.
    #[error("{what}: {source}")]
    Core {
        /// What was being made.
        what: String,
        /// Why not.
        source: tenalloc::Error,
    },
    /// A design refused.
    #[error("{what}: {source}")]
    Lists {
        /// What was being made.
        what: String,
        /// Why not.
        source: ListError,
    },
    /// A design of slabs refused.
    #[error("{what}: {source}")]
    Design {
        /// What was being run.
        what: String,
        /// Why not.
        source: tenalloc_designs::Error,
    },
    /// It was not begun: what was asked for cannot be had. Says what to do.
    #[error("{0}")]
    Refused(String),
}

/// A list_lru without shrinker state, called `name`; `None`: tenalloc's.
fn list_design(
    name: &'static str,
    lists: Option<Lists>,
    machine: &Machine,
) -> Result<Box<dyn ListDesign>, Error> {
    match lists {
        Some(lists) => compose(name, lists, None, machine),
        None => by_name("tenalloc", machine)
            .unwrap_or(Err(ListError::Design(tenalloc_designs::Error::Machine("no tenalloc".into())))),
    }
    .during(name)
}

/// Says what was being made.
trait While<T> {
    fn during(self, what: &str) -> Result<T, Error>;
}

impl<T> While<T> for tenalloc::Result<T> {
    fn during(self, what: &str) -> Result<T, Error> {
        self.map_err(|source| Error::Core { what: what.into(), source })
    }
}

impl<T> While<T> for Result<T, ListError> {
    fn during(self, what: &str) -> Result<T, Error> {
        self.map_err(|source| Error::Lists { what: what.into(), source })
    }
}
