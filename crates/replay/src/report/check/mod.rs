//! `--fail-if`: conditions on a report that fail a CI job when they hold.
//!
//! [`parse`] reads `waste>20%, tenalloc:orphans>0`; [`run`] looks the figures up and compares. Grammar and
//! metrics are in `docs/report.md`.

use std::fmt;

use super::units::{bytes, count, percent};
use super::{Design, Report};

mod metric;
mod parse;

pub use metric::{Kind, Metric};
pub use parse::{ParseError, parse};

/// How a figure is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `=` or `==`
    Equal,
    /// `!=`
    Unequal,
}

impl Op {
    /// Longest first, so that `>=` is not read as `>`.
    const ALL: [(&'static str, Self); 7] = [
        (">=", Self::AtLeast),
        ("<=", Self::AtMost),
        ("==", Self::Equal),
        ("!=", Self::Unequal),
        (">", Self::Above),
        ("<", Self::Below),
        ("=", Self::Equal),
    ];

    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Above => left > right,
            Self::AtLeast => left >= right,
            Self::Below => left < right,
            Self::AtMost => left <= right,
            Self::Equal => left == right,
            Self::Unequal => left != right,
        }
    }
}

/// One condition of a `--fail-if`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Name of the design meant; `None`: the last.
    pub design: Option<String>,
    /// The figure.
    pub metric: Metric,
    /// The comparison.
    pub op: Op,
    /// Bytes, a ratio (`20%` = 0.2) or a count, as the metric's [`Kind`] tells.
    pub limit: f64,
    /// As the user wrote it.
    pub text: String,
}

/// What came of a [`Condition`].
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The condition.
    pub condition: Condition,
    /// The design that was looked at.
    pub design: String,
    /// Its figure.
    pub value: f64,
    /// Whether the condition holds, which means that the check failed.
    pub failed: bool,
}

impl fmt::Display for Verdict {
    /// `failed: waste>20% (tenalloc: waste is 31.0 %)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Condition { text, metric, .. } = &self.condition;
        let value = match metric.kind() {
            Kind::Bytes => format!("{} ({} bytes)", bytes(self.value as u64), count(self.value as u64)),
            Kind::Ratio => percent(self.value),
            Kind::Count => count(self.value as u64),
        };
        let verdict = if self.failed { "failed" } else { "ok" };
        write!(f, "{verdict}: {text} ({}: {} is {value})", self.design, metric.name())
    }
}

/// Why conditions could not be checked on this report: bad usage, not a failed check.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// The named design was not replayed.
    #[error("`{text}`: no design `{design}` was replayed; there are: {known}")]
    NoDesign {
        /// The condition.
        text: String,
        /// The name in it.
        design: String,
        /// What there is.
        known: String,
    },
    /// The report does not hold this figure.
    #[error("`{text}`: {why}")]
    NoFigure {
        /// The condition.
        text: String,
        /// What is missing, and what to do.
        why: &'static str,
    },
}

/// Looks up and compares every condition, in their order.
///
/// # Errors
/// [`CheckError`] when a design or a figure is not there: a check that cannot fail must not pass.
pub fn run(conditions: &[Condition], report: &Report) -> Result<Vec<Verdict>, CheckError> {
    conditions.iter().map(|condition| verdict(condition, report)).collect()
}

fn verdict(condition: &Condition, report: &Report) -> Result<Verdict, CheckError> {
    let text = || condition.text.clone();
    let found: Option<(usize, &Design)> = match &condition.design {
        None => report.designs.iter().enumerate().next_back(),
        Some(name) => report.designs.iter().enumerate().find(|(_, d)| d.name == *name),
    };
    let Some((index, design)) = found else {
        return Err(match &condition.design {
            None => CheckError::NoFigure { text: text(), why: "no design was replayed" },
            Some(name) => CheckError::NoDesign {
                text: text(),
                design: name.clone(),
                known: report.designs.iter().map(|d| d.name.as_str()).collect::<Vec<_>>().join(", "),
            },
        });
    };
    let value = condition
        .metric
        .of(report, index, design)
        .map_err(|why| CheckError::NoFigure { text: text(), why })?;
    let failed = condition.op.holds(value, condition.limit);
    Ok(Verdict { condition: condition.clone(), design: design.name.clone(), value, failed })
}
