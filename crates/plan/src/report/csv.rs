//! The plan as comma-separated values: a line a design and cause, or a line a design and step of the curve.

use std::io::{self, Write};

use crate::Plan;
use crate::spend::CAUSES;

/// Writes `design,over,step,cause,bytes`. `over` and `step` are empty where no range was given. No field needs quotes:
/// they are names of ours and numbers.
///
/// # Errors
/// Those of `out`.
pub fn write(plan: &Plan, mut out: impl Write) -> io::Result<()> {
    writeln!(out, "design,over,step,cause,bytes")?;
    for row in &plan.designs {
        let Some(bytes) = row.bytes else { continue };
        for (cause, part) in CAUSES.into_iter().zip(bytes.parts()) {
            if cause != "owner vectors" || bytes.vectors.is_some() {
                writeln!(out, "{},,,{cause},{part}", row.design)?;
            }
        }
        writeln!(out, "{},,,total,{}", row.design, bytes.total())?;
    }
    for curve in plan.curve.iter() {
        for line in &curve.lines {
            for (step, total) in curve.steps.iter().zip(&line.totals) {
                if let Some(total) = total {
                    writeln!(out, "{},{},{step},total,{total}", line.design, curve.over)?;
                }
            }
        }
    }
    Ok(())
}
