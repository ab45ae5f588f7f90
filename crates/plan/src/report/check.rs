//! The published check for people: every measured figure beside the computed one.

use std::io::{self, Write};

use super::table::wrap;
use crate::published::{AT_BOOT, Check, pair_in_use};

/// Prints one line a figure.
///
/// # Errors
/// Those of `out`.
pub fn write(checks: &[Check], mut out: impl Write, width: usize) -> io::Result<()> {
    let out = &mut out;
    let head = "Bytes measured on real kernels (published, see crates/plan/data/published.csv) and computed by the formulas";
    wrap(out, "", head, width)?;
    writeln!(
        out,
        "\n{:<6} {:>5} {:>16}  {:<20} {:>12} {:>12} {:>8}",
        "Linux", "nodes", "groups × mounts", "of a", "measured", "computed", "off"
    )?;
    for check in checks {
        let of = match check.of {
            "pair" => "group × mount",
            "settled mount" => "mount, settled",
            "settled mount in use" => "… without free slots",
            of => of,
        };
        let digits = usize::from(check.of == "pair");
        let mark = if check.by_construction { "  (its own basis)" } else { "" };
        writeln!(
            out,
            "{:<6} {:>5} {:>16}  {of:<20} {:>12.digits$} {:>12.digits$} {:>+7.2} %{mark}",
            check.kernel,
            check.nodes,
            format!("{} × {}", check.groups, check.mounts),
            check.measured,
            check.computed,
            100.0 * check.off(),
        )?;
    }
    let (measured, computed) = pair_in_use();
    let off = 100.0 * (computed as f64 - measured as f64) / measured as f64;
    writeln!(
        out,
        "6.12       2                   a pair in use        {measured:>12} {computed:>12} {off:>+7.2} %"
    )?;
    writeln!(out)?;
    let text = format!(
        "Taken from the measurements: what a mount takes alone, what a group takes for its own (its own basis), and {AT_BOOT} \
         shrinkers at boot. 6.1 frees old arrays in batches after the mounts: settled is our own repetition of the run, \
         read 20 seconds later (docs/plan.md)."
    );
    wrap(out, "", &text, width)
}
