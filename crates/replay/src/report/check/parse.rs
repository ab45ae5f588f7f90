//! Reads conditions: `[DESIGN:]METRIC OP VALUE`, several separated by commas.

use super::{Condition, Kind, Metric, Op};

/// What is wrong with a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Nothing between commas, or nothing at all.
    #[error("empty condition; write one as in `waste>20%`")]
    Empty,
    /// No comparison.
    #[error("`{0}`: no comparison; write METRIC OP VALUE as in `waste>20%`, OP one of > >= < <= == !=")]
    NoOp(String),
    /// Not a metric.
    #[error("`{text}`: no metric `{name}`; there are: {}", names())]
    NoMetric {
        /// The condition.
        text: String,
        /// What stands for the metric.
        name: String,
    },
    /// No number, or with a unit that the metric does not have.
    #[error("`{text}`: `{value}` is no value for {metric}: write {}", expected(*.kind))]
    Value {
        /// The condition.
        text: String,
        /// What stands for the value.
        value: String,
        /// The metric's name.
        metric: &'static str,
        /// What its values are.
        kind: Kind,
    },
}

fn names() -> String {
    Metric::ALL.map(|e| e.1).join(", ")
}

fn expected(kind: Kind) -> &'static str {
    match kind {
        Kind::Bytes => {
            "bytes, as in `12MiB` (units: B, KiB, MiB, GiB, TiB; kB, MB, GB, TB for powers of 1000)"
        }
        Kind::Ratio => "a percentage as in `20%`, or a ratio as in `0.2`",
        Kind::Count => "a plain number without a unit",
    }
}

/// Reads a `--fail-if` text.
///
/// # Errors
/// [`ParseError`], which names the condition and says what can be written.
pub fn parse(text: &str) -> Result<Vec<Condition>, ParseError> {
    text.split(',').map(|part| condition(part.trim())).collect()
}

fn condition(text: &str) -> Result<Condition, ParseError> {
    if text.is_empty() {
        return Err(ParseError::Empty);
    }
    let no_op = || ParseError::NoOp(text.into());
    let start = text.find(['<', '>', '=', '!']).ok_or_else(no_op)?;
    let (left, right) = text.split_at(start);
    let (sign, op) = Op::ALL.iter().find(|(sign, _)| right.starts_with(sign)).ok_or_else(no_op)?;
    let right = right.strip_prefix(sign).unwrap_or(right).trim();

    let (design, name) = match left.rsplit_once(':') {
        Some((design, name)) => (Some(design.trim().to_string()), name.trim()),
        None => (None, left.trim()),
    };
    let metric =
        Metric::by_name(name).ok_or_else(|| ParseError::NoMetric { text: text.into(), name: name.into() })?;
    let limit = value(right, metric.kind()).ok_or_else(|| ParseError::Value {
        text: text.into(),
        value: right.into(),
        metric: metric.name(),
        kind: metric.kind(),
    })?;
    Ok(Condition { design, metric, op: *op, limit, text: text.into() })
}

/// A finite number with a unit of `kind`.
fn value(text: &str, kind: Kind) -> Option<f64> {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_')))
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number: f64 = digits.replace('_', "").parse().ok()?;
    let factor = match (kind, unit.trim()) {
        (_, "") => 1.0,
        (Kind::Ratio, "%") => 0.01,
        (Kind::Bytes, unit) => bytes_of(unit)?,
        _ => return None,
    };
    // A percentage is divided, not multiplied: 20 % must be the same number as 0.2.
    let value = if factor == 0.01 { number / 100.0 } else { number * factor };
    value.is_finite().then_some(value)
}

fn bytes_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "B" => 1.0,
        "KiB" | "K" => 1024.0,
        "MiB" | "M" => 1048576.0,
        "GiB" | "G" => 1073741824.0,
        "TiB" | "T" => 1099511627776.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::check::{CheckError, run};
    use crate::report::{Design, Report, Sample, Truth, TruthRow, Usage};

    fn one(text: &str) -> Condition {
        parse(text).expect(text).pop().expect("one condition")
    }

    #[test]
    fn every_operator_and_unit() {
        for (sign, op) in Op::ALL {
            let c = one(&format!(" total {sign} 12.5 MiB "));
            assert_eq!((c.op, c.limit, c.metric), (op, 12.5 * 1048576.0, Metric::Total));
        }
        for (text, limit) in [
            ("waste>20%", 0.2),
            ("waste>0.2", 0.2),
            ("saved<-5%", -0.05),
            ("slab>1_000", 1000.0),
            ("slab>2kB", 2000.0),
            ("slab>2KiB", 2048.0),
            ("orphans!=0", 0.0),
        ] {
            assert_eq!(one(text).limit, limit, "{text}");
        }
        let c = one("+transposed:utilisation<=80%");
        assert_eq!((c.design.as_deref(), c.metric), (Some("+transposed"), Metric::Utilisation));
        assert_eq!(parse("waste>20%, truth>0,slab>1GiB").expect("three").len(), 3);
    }

    #[test]
    fn errors_say_what_can_be_written() {
        for (text, part) in [
            ("", "empty"),
            ("waste>1,", "empty"),
            ("waste", "no comparison"),
            ("waste!20%", "no comparison"),
            ("wast>20%", "average_utilisation"),
            (">20%", "no metric ``"),
            ("waste>", "20%"),
            ("waste>20MiB", "percentage"),
            ("slab>20%", "MiB"),
            ("slab>1e3", "units"),
            ("slab>nan", "units"),
            ("slab>1.2.3", "units"),
            ("orphans>1KiB", "plain number"),
            ("waste>>20%", "percentage"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn figures_of_the_design_meant() {
        let design = |name: &str, slab| {
            let usage = Usage { live: 60, slab, owners: 10, ..Usage::default() };
            Design { name: name.into(), at_peak: Sample { t: 0.0, usage }, ..Design::default() }
        };
        let row = |kernel, designs: [u64; 2]| TruthRow {
            path: "/a".into(),
            kernel,
            designs: designs.into(),
            older: kernel >= 100,
        };
        let rows = vec![row(5, [5, 5]), row(6, [6, 7]), row(100, [1, 1]), row(7, [7, 8])];
        let report = Report {
            designs: vec![design("old", 190), design("new", 90)],
            truth: vec![Truth { rows, ..Truth::default() }],
            ..Report::default()
        };
        let told = |text: &str| -> Vec<String> {
            run(&parse(text).expect(text), &report).expect(text).iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            told("waste>20%, old:slab>1KiB, total>=100, truth>0, old:truth>0, saved<60%"),
            [
                "failed: waste>20% (new: waste is 33.3 %)",
                "ok: old:slab>1KiB (old: slab is 190 B (190 bytes))",
                "failed: total>=100 (new: total is 100 B (100 bytes))",
                "failed: truth>0 (new: truth is 2)",
                "ok: old:truth>0 (old: truth is 0)",
                "failed: saved<60% (new: saved is 50.0 %)",
            ]
        );
        let no_design = run(&parse("x:waste>1%").expect("parses"), &report).expect_err("no x");
        assert_eq!(no_design.to_string(), "`x:waste>1%`: no design `x` was replayed; there are: old, new");
        let older = vec![Truth { rows: vec![row(100, [1, 1])], ..Truth::default() }];
        let older = Report { designs: vec![design("new", 90)], truth: older, ..Report::default() };
        let error = run(&parse("truth>0").expect("parses"), &older).expect_err("nothing to compare");
        assert!(error.to_string().contains("older than the recording"), "{error}");
        for text in ["truth>0", "saved<1%"] {
            let alone = Report { designs: vec![design("new", 90)], ..Report::default() };
            let error = run(&parse(text).expect(text), &alone).expect_err(text);
            assert!(matches!(error, CheckError::NoFigure { .. }), "{error}");
        }
    }
}
