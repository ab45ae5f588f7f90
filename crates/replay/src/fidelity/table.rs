//! The comparison on a terminal: the ten caches that changed most, at each moment.

use std::io::{self, Write};

use super::{Fidelity, Row};

/// Caches of a moment.
pub const ROWS: usize = 10;

/// A change further off than this needs an explanation.
pub const AIM: f64 = 0.10;

/// Writes the table.
///
/// # Errors
/// Those of `out`.
pub fn write(fidelity: &Fidelity, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{} against {}: change in slabs since before the recording",
        fidelity.kernel, fidelity.design
    )?;
    for moment in &fidelity.moments {
        writeln!(out, "\n{} at {:.1} s", moment.label, moment.t)?;
        writeln!(
            out,
            "  {:<22}{:>6}{:>8}{:>7}{:>9}{:>9}{:>7}{:>9}{:>7}",
            "cache", "KiB", "before", "free", "kernel", "replay", "off", "seeded", "off"
        )?;
        for row in moment.rows.iter().take(ROWS) {
            let Row { cache, slab_bytes, before, free_before, kernel, replay, seeded } = row;
            let name: String = cache.chars().take(21).collect();
            writeln!(
                out,
                "  {name:<22}{:>6}{before:>8}{free_before:>7}{kernel:>+9}{replay:>+9}{:>7}{seeded:>+9}{:>7}",
                slab_bytes / 1024,
                off(row, *replay),
                off(row, *seeded),
            )?;
        }
        let within = |change: fn(&Row) -> i64| {
            let rows = moment.rows.iter().take(ROWS);
            rows.filter(|r| r.off(change(r)).is_some_and(|off| off.abs() <= AIM)).count()
        };
        let shown = moment.rows.len().min(ROWS);
        writeln!(
            out,
            "  within 10 %: {} of {shown}, seeded {} of {shown}",
            within(|r| r.replay),
            within(|r| r.seeded)
        )?;
        let sum = |of: fn(&Row) -> i64| {
            let bytes: i128 = moment.rows.iter().map(|r| i128::from(of(r)) * i128::from(r.slab_bytes)).sum();
            bytes as f64 / f64::from(1 << 20)
        };
        writeln!(
            out,
            "  all {} caches: kernel {:+.1} MiB, replay {:+.1} MiB, seeded {:+.1} MiB",
            moment.rows.len(),
            sum(|r| r.kernel),
            sum(|r| r.replay),
            sum(|r| r.seeded)
        )?;
    }
    writeln!(
        out,
        "\n  before, free: slabs then, and their free places. seeded: the replay begins with those. See docs/fidelity.md."
    )
}

fn off(row: &Row, change: i64) -> String {
    row.off(change).map_or("–".into(), |off| format!("{:+.0} %", 100.0 * off))
}
