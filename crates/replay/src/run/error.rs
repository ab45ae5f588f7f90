//! Why a run stopped.

/// A run that could not be finished, or whose sums do not hold.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No design has this name.
    #[error("no design is called {0:?}: there are {known}, or `all`", known = super::DESIGNS.join(", "))]
    UnknownDesign(String),
    /// A design refused a step of the trace.
    #[error("{design} refused step {step} of the trace ({what}): {source}")]
    Design {
        /// Name of the design.
        design: String,
        /// Index of the step.
        step: usize,
        /// What the step was.
        what: String,
        /// Why.
        source: tenalloc_designs::Error,
    },
    /// The list_lrus or the shrinker state of a design refused a step.
    #[error("the lists of {design} refused step {step} of the trace ({what}): {source}")]
    Lists {
        /// Name of the design.
        design: String,
        /// Index of the step.
        step: usize,
        /// What the step was.
        what: &'static str,
        /// Why.
        source: tenalloc_designs::lists::ListError,
    },
    /// The program names a group, cache or object that it did not introduce.
    #[error(
        "step {step} of the trace makes no sense: {what}; this is a fault of the reader, please report it"
    )]
    Program {
        /// Index of the step.
        step: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A design's figures differ from those of the plain model.
    #[error("{design} at step {step}: {what} is {found}, the plain model has {expected}; please report it")]
    Check {
        /// Name of the design.
        design: String,
        /// Index of the step.
        step: usize,
        /// Which figure.
        what: String,
        /// As the design has it.
        found: u64,
        /// As it should be.
        expected: u64,
    },
}

impl Error {
    /// 2 for a wrong name, 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::UnknownDesign(_)) { 2 } else { 1 }
    }
}
