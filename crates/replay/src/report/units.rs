//! Numbers as people read them: bytes with binary units, percent, counts, seconds.
//!
//! One place, so that the table, the page and the failed check never print the same figure differently.

/// Bytes with three significant digits and a binary unit: `512 B`, `1.50 KiB`, `12.3 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    // 1023.5 would print as `1024`: it belongs to the next unit.
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS.get(unit).unwrap_or(&"EiB"))
}

/// A difference in bytes with its sign: `−1.50 KiB`, `+12 B`, `0 B`.
pub fn signed_bytes(n: i128) -> String {
    let size = bytes(u64::try_from(n.unsigned_abs()).unwrap_or(u64::MAX));
    match n {
        0 => size,
        1.. => format!("+{size}"),
        _ => format!("−{size}"),
    }
}

/// Digits in threes: `12,300,288`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A ratio as percent with one decimal: `91.3 %`. Never rounds up to `100.0 %` or down to `0.0 %`, which
/// both claim something exact. `–` when there is no such number.
pub fn percent(ratio: f64) -> String {
    if !ratio.is_finite() {
        return "–".into();
    }
    let value = ratio * 100.0;
    let shown = if value < 100.0 && value > 99.9 {
        99.9
    } else if value > 0.0 && value < 0.1 {
        0.1
    } else {
        value
    };
    format!("{shown:.1} %").replace('-', "−")
}

/// A ratio ≥ 0 as percent in a sentence: `39 %`, `4.2 %`, `0.3 %`.
pub fn round_percent(ratio: f64) -> String {
    if !ratio.is_finite() || ratio < 0.095 || (ratio > 0.985 && ratio < 1.0) {
        return percent(ratio);
    }
    format!("{:.0} %", ratio * 100.0)
}

/// A rate: `1.52 M/s`, `840 k/s`, `12 /s`.
pub fn rate(per_second: f64) -> String {
    if !per_second.is_finite() {
        return "–".into();
    }
    if per_second >= 999_500.0 {
        format!("{} M/s", three_digits(per_second / 1e6))
    } else if per_second >= 1000.0 {
        format!("{} k/s", three_digits(per_second / 1e3))
    } else {
        format!("{per_second:.0} /s")
    }
}

/// A length of time: `15.5 s`, `4 min 3 s`, `2 h 5 min`; below a second in ms.
pub fn seconds(s: f64) -> String {
    if !s.is_finite() || s < 0.0 {
        return "–".into();
    }
    if s > 0.0 && s < 0.9995 {
        return format!("{} ms", three_digits(s * 1000.0));
    }
    if s < 119.5 {
        return format!("{s:.1} s");
    }
    let whole = s.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 { format!("{} h {minutes} min", count(hours)) } else { format!("{minutes} min {rest} s") }
}

/// `1 group`, `2 groups`.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

fn three_digits(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_three_digits_and_change_unit_in_time() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536, "1.50 KiB"),
            (10 * 1024, "10.0 KiB"),
            (1023 * 1024, "1023 KiB"),
            (1024 * 1024 - 1, "1.00 MiB"),
            (12_897_485, "12.3 MiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (n, text) in cases {
            assert_eq!(bytes(n), text, "{n}");
        }
        assert_eq!(signed_bytes(-1536), "−1.50 KiB");
        assert_eq!(signed_bytes(12), "+12 B");
        assert_eq!(signed_bytes(0), "0 B");
    }

    #[test]
    fn percent_claims_nothing_exact_that_is_not() {
        assert_eq!(percent(1.0), "100.0 %");
        assert_eq!(percent(0.99999), "99.9 %");
        assert_eq!(percent(0.00001), "0.1 %");
        assert_eq!(percent(0.0), "0.0 %");
        assert_eq!(percent(-0.123), "−12.3 %");
        assert_eq!(percent(f64::NAN), "–");
        assert_eq!(round_percent(0.391), "39 %");
        assert_eq!(round_percent(0.042), "4.2 %");
        assert_eq!(round_percent(0.999), "99.9 %");
        assert_eq!(round_percent(3.5), "350 %");
    }

    #[test]
    fn counts_rates_and_times() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(12_300_288), "12,300,288");
        assert_eq!(rate(1_520_000.0), "1.52 M/s");
        assert_eq!(rate(840_000.0), "840 k/s");
        assert_eq!(rate(999_600.0), "1.00 M/s");
        assert_eq!(rate(12.0), "12 /s");
        assert_eq!(seconds(0.0), "0.0 s");
        assert_eq!(seconds(0.0125), "12.5 ms");
        assert_eq!(seconds(15.54), "15.5 s");
        assert_eq!(seconds(243.69), "4 min 4 s");
        assert_eq!(seconds(7500.0), "2 h 5 min");
        assert_eq!(seconds(f64::INFINITY), "–");
    }
}
